"""Stops a group that launches nodes, sees them fail and launches others, at full price and for ever.

* A rule counts the launches of the group that got an instance and lost it before it was in service. EC2 Auto Scaling
  sends "EC2 Instance Launch Unsuccessful" then, as it does when EC2 has no capacity: that names no instance, and is
  tried again by itself.
* An alarm compares their number with the nodes that the group was short of: three for one node, three hundred for a
  hundred.
* A state machine suspends the process `Launch` when the alarm is raised, and at every further one while it lasts, so
  that resuming launches before the fault is gone does not start the loop again.

Sources: EC2 Auto Scaling user guide, "Amazon EC2 Auto Scaling event reference" and "Suspend and resume processes";
EventBridge user guide, "Monitoring Amazon EventBridge": TriggeredRules, delivered at best effort. That an abandoned
launch sends this event is seen in fortinet/fortigate-autoscale-aws issue 9; AWS's page shows it with an instance id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters._template import Resources, att, ref

_ALARM_NAME = "LaunchLoop"
_ALARM, _RULE, _ALARM_RULE = "Alarms/LaunchLoop", "Alarms/AbandonedLaunch", "Alarms/LaunchLoopRaised"
_MACHINE, _ROLE, _POLICY, _START_POLICY = (
    "Alarms/StopLaunches",
    "Alarms/StopLaunchesRole",
    "Alarms/StopLaunchesPolicy",
    "Alarms/StopLaunchesStartPolicy",
)
# What CDK 2.275 allows state machines that log and are traced.
_LOG_DELIVERY = (
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
)
_TRACES = (
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
)
# Of the 255 characters of an alarm's name, beside the 128 of a stack's.
_LONGEST_NAME = 100
# The policy that allows the calls may come a little later than the first event.
_RETRY = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 30, "MaxAttempts": 10, "BackoffRate": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStop:
    """What is stopped, and when.

    Attributes:
        fleet: Path of the fleet.
        group_name: Name of the group; a token.
        group_arn: Its ARN.
        log_group_arn: Where the state machine logs.
        partition: Partition of the stack.
        launches_per_node: Abandoned launches for each node that the group is short of.
        window_minutes: Within which time.
        description: Description of the alarm.
        suspends: Whether launching is suspended, or only the alarm is raised.
    """

    fleet: str
    group_name: str
    group_arn: str
    log_group_arn: str
    partition: str
    launches_per_node: int
    window_minutes: int
    description: str
    suspends: bool

    def resources(self) -> Resources:
        """The resources by path below the fleet."""
        counting = {_RULE: self._rule(), _ALARM: self._alarm()}
        if not self.suspends:
            return counting
        return {
            **counting,
            _ALARM_RULE: self._alarm_rule(),
            _MACHINE: self._machine(),
            _ROLE: _role(),
            # Two: the machine is not made before it may log, and who starts it must know it.
            _POLICY: _policy(*self._permissions()),
            _START_POLICY: _policy(
                _allow(att(_ALARM, "Arn"), "cloudwatch:DescribeAlarms"),
                _allow(att(_MACHINE, "Arn"), "states:StartExecution"),
            ),
        }

    @property
    def _alarm_name(self) -> dict[str, Any]:
        """Explicit: the alarm counts the rule, the rule starts the machine, and the machine names the alarm."""
        words = self.fleet.replace("/", "-")[-_LONGEST_NAME:]
        return {"Fn::Join": ["-", [{"Ref": "AWS::StackName"}, f"{words}-{_ALARM_NAME}"]]}

    def _rule(self) -> dict[str, Any]:
        pattern = {
            "source": ["aws.autoscaling"],
            "detail-type": ["EC2 Instance Launch Unsuccessful"],
            "detail": {"AutoScalingGroupName": [self.group_name], "EC2InstanceId": [{"prefix": "i-"}]},
        }
        return _event_rule("Launches that got an instance and lost it", pattern, self._targets("look"))

    def _alarm_rule(self) -> dict[str, Any]:
        pattern = {
            "source": ["aws.cloudwatch"],
            "detail-type": ["CloudWatch Alarm State Change"],
            "resources": [att(_ALARM, "Arn")],
            "detail": {"state": {"value": ["ALARM"]}},
        }
        return _event_rule("The launches of the group fail again and again", pattern, self._targets("stop"))

    def _targets(self, action: str) -> list[dict[str, Any]]:
        if not self.suspends:
            return []
        sent = json.dumps({"action": action, "group": self.group_name}, separators=(",", ":"))
        arns = {name: att(made, "Arn") for name, made in (("Arn", _MACHINE), ("RoleArn", _ROLE))}
        return [{"Id": "Stop", "Input": sent, **arns}]

    def _alarm(self) -> dict[str, Any]:
        group = {"AutoScalingGroupName": self.group_name}
        # Every node that the group was short of at some time had a slot of its own, whose launches count.
        short = "IF(desired - ready > 1, failed / (desired - ready), failed)"
        return {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": self._alarm_name,
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

    def _machine(self) -> dict[str, Any]:
        sdk = f"arn:{self.partition}:states:::aws-sdk"
        definition = {
            "Comment": "Suspends launching while the alarm is raised",
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
        properties = {
            "DefinitionString": json.dumps(definition, separators=(",", ":")),
            "DefinitionSubstitutions": {"Alarm": self._alarm_name},
            "RoleArn": att(_ROLE, "Arn"),
            "LoggingConfiguration": {
                "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": self.log_group_arn}}],
                "IncludeExecutionData": True,
                "Level": "ALL",
            },
            "TracingConfiguration": {"Enabled": True},
        }
        return {
            "Type": "AWS::StepFunctions::StateMachine",
            "DependsOn": [_POLICY],
            "Properties": properties,
        }

    def _permissions(self) -> list[dict[str, Any]]:
        return [
            _allow(self.group_arn, "autoscaling:SuspendProcesses"),
            # Neither has a resource level (Step Functions developer guide, "Logging" and "AWS X-Ray").
            _allow("*", *_LOG_DELIVERY, *_TRACES),
        ]


def _event_rule(description: str, pattern: Mapping[str, Any], targets: list[dict[str, Any]]) -> dict[str, Any]:
    properties = {"Description": description, "EventPattern": pattern, "State": "ENABLED"}
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {**properties, "Targets": targets} if targets else properties,
    }


def _role() -> dict[str, Any]:
    services = {"Service": ["events.amazonaws.com", "states.amazonaws.com"]}
    statement = {"Effect": "Allow", "Principal": services, "Action": "sts:AssumeRole"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": document}}


def _allow(resource: Any, *actions: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}


def _policy(*statements: dict[str, Any]) -> dict[str, Any]:
    # A managed policy: the packs of NIST, HIPAA and PCI accept no inline ones.
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    properties = {"PolicyDocument": document, "Roles": [ref(_ROLE)]}
    return {"Type": "AWS::IAM::ManagedPolicy", "Properties": properties}
