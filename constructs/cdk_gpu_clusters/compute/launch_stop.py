"""Stops a group that launches nodes, sees them fail and launches others, at full price and forever.

* A rule counts the launches of the group that got an instance and lost it before it was in service. EC2 Auto Scaling
  sends "EC2 Instance Launch Unsuccessful" then, as it does when EC2 has no capacity: that names no instance, and is
  tried again by itself.
* An alarm compares their number with the nodes that the group was short of: three for one node, three hundred for a
  hundred.
* A state machine suspends the process `Launch` when the alarm is raised, and at every further one while it lasts, so
  that resuming launches before the fault is gone does not start the loop again.

Sources: EC2 Auto Scaling user guide, "Amazon EC2 Auto Scaling event reference" and "Suspend and resume processes";
CloudWatch user guide, "Configuring how CloudWatch alarms treat missing data" and "Metric math functions" (FILL);
EventBridge user guide, "Monitoring Amazon EventBridge": TriggeredRules, delivered at best effort. That an abandoned
launch sends this event is seen in fortinet/fortigate-autoscale-aws issue 9; AWS's page shows it with an instance id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters._template import Resources, allow, att, ref
from cdk_gpu_clusters.compute.state_machine import StateMachine, event_rule

_ALARM_NAME = "LaunchLoop"
_ALARM, _RULE, _ALARM_RULE = "Alarms/LaunchLoop", "Alarms/AbandonedLaunch", "Alarms/LaunchLoopRaised"
# Of the 255 characters of an alarm's name, beside the 128 of a stack's.
_LONGEST_NAME = 100
# The policy that allows the calls may come a little later than the first event: two tasks wait five minutes each.
_TIMEOUT_SECONDS = 900
_RETRY = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 30, "MaxAttempts": 10, "BackoffRate": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStop:
    """What is stopped, and when.

    Attributes:
        fleet: Path of the fleet.
        group_name: Name of the group; a token.
        group_arn: Its ARN.
        alarms_arn: All alarms of the account and the Region.
        partition: Partition of the stack.
        launches_per_node: Abandoned launches for each node that the group is short of.
        window_minutes: Within which time.
        description: Description of the alarm.
        suspends: Whether launching is suspended, or only the alarm is raised.
    """

    fleet: str
    group_name: str
    group_arn: str
    alarms_arn: str
    partition: str
    launches_per_node: int
    window_minutes: int
    description: str
    suspends: bool

    def resources(self) -> Resources:
        """The resources by path below the fleet."""
        counted = "Launches that got an instance and lost it", self._pattern()
        if not self.suspends:
            return {_RULE: event_rule(counted[0], EventPattern=counted[1]), _ALARM: self._alarm()}
        machine = StateMachine(
            path="Alarms/StopLaunches",
            definition=self._definition(),
            substitutions={"Alarm": launch_alarm_name(self.fleet)},
            permissions=[
                allow(self.group_arn, "autoscaling:SuspendProcesses"),
                # It lists the alarms of the account: on one alarm it is denied (service authorization reference).
                allow(self.alarms_arn, "cloudwatch:DescribeAlarms"),
            ],
            account={"Ref": "AWS::AccountId"},
        )
        raised = {
            "source": ["aws.cloudwatch"],
            "detail-type": ["CloudWatch Alarm State Change"],
            "resources": [att(_ALARM, "Arn")],
            "detail": {"state": {"value": ["ALARM"]}},
        }
        return {
            _RULE: machine.rule(*counted, Input=self._input("look")),
            _ALARM: self._alarm(),
            _ALARM_RULE: machine.rule(
                "The launches of the group fail again and again", raised, Input=self._input("stop")
            ),
            **machine.resources(),
        }

    def _pattern(self) -> dict[str, Any]:
        return {
            "source": ["aws.autoscaling"],
            "detail-type": ["EC2 Instance Launch Unsuccessful"],
            "detail": {"AutoScalingGroupName": [self.group_name], "EC2InstanceId": [{"prefix": "i-"}]},
        }

    def _input(self, action: str) -> str:
        return json.dumps({"action": action, "group": self.group_name}, separators=(",", ":"))

    def _alarm(self) -> dict[str, Any]:
        group = {"AutoScalingGroupName": self.group_name}
        # Every node that the group was short of at some time had a slot of its own, whose launches count.
        # A period without an abandoned launch has no data: CloudWatch would take the one before, and the alarm stay on.
        short = "IF(desired - ready > 1, FILL(failed, 0) / (desired - ready), FILL(failed, 0))"
        return {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": launch_alarm_name(self.fleet),
                "AlarmDescription": self.description,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "Threshold": self.launches_per_node,
                "EvaluationPeriods": 1,
                "TreatMissingData": "notBreaching",
                "Metrics": [
                    {"Id": "short", "Expression": short, "Label": "Abandoned launches for each missing node"},
                    self._query("failed", "AWS/Events", "TriggeredRules", "Sum", {"RuleName": ref(_RULE)}),
                    self._query("desired", "AWS/AutoScaling", "GroupDesiredCapacity", "Maximum", group),
                    self._query("ready", "AWS/AutoScaling", "GroupInServiceInstances", "Minimum", group),
                ],
            },
        }

    def _query(
        self, query_id: str, namespace: str, name: str, statistic: str, dimensions: Mapping[str, Any]
    ) -> dict[str, Any]:
        metric = {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        }
        stat = {"Metric": metric, "Period": 60 * self.window_minutes, "Stat": statistic}
        return {"Id": query_id, "MetricStat": stat, "ReturnData": False}

    def _definition(self) -> dict[str, Any]:
        sdk = f"arn:{self.partition}:states:::aws-sdk"
        return {
            "Comment": "Suspends launching while the alarm is raised",
            "TimeoutSeconds": _TIMEOUT_SECONDS,
            "StartAt": "Which",
            "States": {
                "Which": {
                    "Type": "Choice",
                    "Choices": [{"Variable": "$.action", "StringEquals": "stop", "Next": "Suspend"}],
                    "Default": "LookAtAlarm",
                },
                "LookAtAlarm": {
                    "Type": "Task",
                    "Resource": f"{sdk}:cloudwatch:describeAlarms",
                    "Parameters": {"AlarmNames": ["${Alarm}"]},
                    "ResultSelector": {"state.$": "$.MetricAlarms[0].StateValue"},
                    "ResultPath": "$.alarm",
                    "Retry": [_RETRY],
                    "Next": "IsRaised",
                },
                "IsRaised": {
                    "Type": "Choice",
                    "Choices": [{"Variable": "$.alarm.state", "StringEquals": "ALARM", "Next": "Suspend"}],
                    "Default": "GoOn",
                },
                "Suspend": {
                    "Type": "Task",
                    "Resource": f"{sdk}:autoscaling:suspendProcesses",
                    "Parameters": {"AutoScalingGroupName.$": "$.group", "ScalingProcesses": ["Launch"]},
                    "Retry": [_RETRY],
                    "End": True,
                },
                "GoOn": {"Type": "Succeed"},
            },
        }


def launch_alarm_name(fleet: str) -> dict[str, Any]:
    """Name of the alarm. Explicit: it counts the rule, the rule starts the machine, and the machine names the alarm.

    Args:
        fleet: Path of the fleet.
    """
    words = fleet.replace("/", "-")[-_LONGEST_NAME:]
    return {"Fn::Join": ["-", [{"Ref": "AWS::StackName"}, f"{words}-{_ALARM_NAME}"]]}
