"""Keeps paid capacity filled, and empties a group before its capacity ends.

A Step Functions state machine without code compares the group with the windows of its capacity, every five minutes and
on each event that may change the answer. A run that finds nothing to do costs two transitions. Each run decides from
what it sees, so an event that comes twice, late or never does no harm, and no run takes back what another one did.

Outside the windows the group has no nodes. Inside:

* `Launch` is resumed if it is suspended and the alarm on failing launches is not raised;
* the size is set to what is paid for, in a group that keeps its size, and the least size in one that scales;
* nothing is changed in a group with the tag `gpu-clusters:size` = `manual`, whose nodes still drain at the end.

Where one of several blocks ends while another one runs, the nodes of the first are terminated by their reservation,
and the group does not grow until EC2 takes no more launches into the first.

Sources: Step Functions developer guide, "Transforming data with JSONata" and "Handling errors"; EC2 Auto Scaling user
guide, "Use Capacity Blocks" (scale to zero before the end) and "Suspend and resume processes"; EC2 user guide, "Monitor
Capacity Blocks using EventBridge" (the names of the events differ between editions, both are matched).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cdk_gpu_clusters._template import Resource, Resources, allow, ref
from cdk_gpu_clusters.compute.state_machine import StateMachine, task_state, when
from cdk_gpu_clusters.node.gpunode.metrics.names import NAMESPACE
from cdk_gpu_clusters.rules.capacity import CapacityTerms, CapacityWindow
from cdk_gpu_clusters.rules.fleet import BLOCK_DRAIN

#: How often a group is looked at.
PERIOD_MINUTES = 5
#: The tag with which an operator keeps a size of his own.
SIZE_TAG, MANUAL = "gpu-clusters:size", "manual"
#: By these a deployed state machine is recognized: its comment, and what precedes the least size that it sets.
COMMENT, BELOW_FLOOR = "Sizes the group to its capacity", "$seen.least < "

_MACHINE, DEPLOYED = "Reconcile/Machine", "Reconcile/Deployed"
POLICY, _START_POLICY = "Reconcile/MachinePolicy", "Reconcile/MachineStartPolicy"
#: What must be there when the group is made, and as long as it has nodes.
BEFORE_GROUP = (POLICY, _START_POLICY, DEPLOYED)
# What runs tell of a group whose service does not count nodes.
_MISSING, _GROUP_DIMENSION = "MissingNodes", "NodeGroup"
_PERIODIC, _CAPACITY, _CALM = "Reconcile/Periodic", "Reconcile/Capacity", "Reconcile/Calm"
_BLOCK_EVENTS = [
    "Capacity Block Reservation Delivered",
    "Capacity Block Delivered",
    "Capacity Block Reservation Expiration Warning",
    "Capacity Block Expiration Warning",
]
# Less than the period, with the longest waits of the retries, so that runs do not pile up.
_TIMEOUT_SECONDS = 240
# Of AWS SDK integrations: the service, and the class of the error (Step Functions developer guide, "Handling errors").
_REFUSED = ["AutoScaling.AutoScalingException", "AutoScaling.ValidationException"]
# A node in standby keeps its slot, and no longer counts in the desired capacity (EC2 Auto Scaling guide, "Temporarily
# remove instances from your Auto Scaling group").
_IN_SERVICE = "$max([0, $wanted - $seen.standby])"
_FOR_EVER = "9999-12-31T23:59:59"
_ALWAYS = "1970-01-01T00:00:00"

Task = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCalls:
    """How a service reports and sets the size of a group, in JSONata.

    Attributes:
        look: The task that reads the group: resource and arguments.
        seen: What it found, as an object: `desired`, `manual`, `suspended`, `busy`; `standby`, how many nodes an
            operator took out of service; `serving`, the ids of the instances that are not leaving; `least` where
            `floor` is given, `short` where issues are reported.
        resize: The task that sets a size, an expression.
        drain: The task that sets the size to 0, whatever the least size is.
        floor: The task that sets the least size, and so raises a smaller group; None where no group scales.
        resume: The task that resumes `Launch`; None where the service has no such process.
        reports_issues: Whether the service reports that nodes are missing; a run fails then.
        count: The task that describes the nodes, of a service without a metric of them; None where there is one.
        ready: How many nodes it found in service.
        allowed: What the state machine may call, as statements of a policy.
        conflict: The error of a change while another one is under way; None where the service has no such error.
        under_way: The tasks that look for that change, by what they look at, each with an expression that is true if it
            ends by itself: then a later run changes the group. A run fails if there is no such change.
    """

    look: Task
    seen: str
    resize: Callable[[str], Task]
    drain: Task
    floor: Callable[[int], Task] | None
    resume: Task | None
    reports_issues: bool
    allowed: Sequence[Mapping[str, Any]]
    count: Task | None = None
    ready: str = "0"
    conflict: str | None = None
    under_way: Mapping[str, tuple[Task, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGroup:
    """The resource group into which a fleet with several blocks launches.

    Attributes:
        arn: ARN of the group; may be a token.
        reservations: ARN of a reservation without `/` and its id; may hold tokens.
    """

    arn: str
    reservations: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile:
    """What is kept filled, and when.

    Attributes:
        calls: How the group's service is asked.
        group: Name of the group, as the calls take it; a token.
        group_id: Logical id of the group; a token.
        windows: When the group has nodes.
        keeps_size: Whether it has all its nodes then; otherwise others scale it between its bounds.
        is_paid: Whether the capacity is paid for, used or not: launching goes on then.
        fewest: Least nodes of a group that others scale.
        block_group: The resource group of several blocks, and the beginning of their ARNs up to the id; else None.
        reservation_ids: Blocks whose events are followed; may be tokens.
        launch_alarm: Name of the alarm on failing launches; None without one that suspends them.
        partition: Partition of the stack.
        account: Account of the stack.
        region: Region of the stack.
        after_stack: Whether a deployment starts a run when the entire stack is deployed, and not when the group is: a
            service may refuse what names a group that a run changes.
    """

    calls: GroupCalls
    group: str
    group_id: str
    windows: Sequence[CapacityWindow]
    keeps_size: bool
    is_paid: bool
    fewest: int
    block_group: BlockGroup | None
    reservation_ids: Sequence[str]
    launch_alarm: Any | None
    partition: str
    account: str
    region: str
    after_stack: bool = False

    def resources(self) -> Resources:
        """The resources by path below the fleet, whose group depends on those of `BEFORE_GROUP`."""
        machine = StateMachine(
            path=_MACHINE,
            definition=self.definition(),
            substitutions=self._substitutions(),
            permissions=self._permissions(),
            account=self.account,
        )
        return {**machine.resources(), **self._rules(machine)}

    def definition(self) -> dict[str, Any]:
        """The state machine in Amazon States Language; `${Alarm}`, `${Blocks}` and `${Reservations}` are filled in."""
        return {
            "Comment": COMMENT,
            "QueryLanguage": "JSONata",
            "StartAt": "Look",
            "TimeoutSeconds": _TIMEOUT_SECONDS,
            "States": {
                "Look": {
                    **task_state(self.calls.look, next_state="Decide"),
                    "Assign": {
                        "group": "{% $states.input.group %}",
                        "seen": f"{{% {self.calls.seen} %}}",
                        "wanted": f"{{% {_wanted(self.windows)} %}}",
                        "ending": f"{{% {_ending(self.windows)} %}}",
                        **self._of_several(),
                    },
                },
                "Decide": self._decide(),
                **self._inside(),
                "Drain": self._changing(task_state(self.calls.drain)),
                **self._conflict_states(),
                "Done": {"Type": "Succeed"},
            },
        }

    def _of_several(self) -> dict[str, Any]:
        """What a run knows where the group has several windows."""
        periodic = {"periodic": "{% $states.input.periodic = true %}"} if len(self.windows) > 1 else {}
        return {**periodic, **self._grouped()}

    def _grouped(self) -> dict[str, Any]:
        return {"running": f"{{% {_running(self.windows)} %}}", "refused": False} if self.block_group else {}

    def _decide(self) -> dict[str, Any]:
        rules = [
            when("$seen.busy", "Done"),
            when("$wanted = 0 and $seen.desired > 0", "Drain"),
            when("$wanted = 0", "Done"),
        ]
        if len(self.windows) > 1:
            # Two runs at once could end the same node, and lower the size twice; periodic ones never overlap.
            rules.append(when("$count($ending) > 0 and $periodic", "EndEach"))
            rules.append(when("$count($ending) > 0", "Done"))
        if self.calls.count is not None:
            return {"Type": "Choice", "Choices": rules, "Default": "Count"}
        if not self.block_group:
            return {"Type": "Choice", "Choices": [*rules, *self._filling()], "Default": "IsSized"}
        # Whoever sets the size: what is not in the group is not launched into.
        rules.append(when("$count($seen.serving) < $wanted", "GroupBlocks"))
        return {"Type": "Choice", "Choices": rules, "Default": "Fill"}

    def _filling(self) -> list[dict[str, str]]:
        rules = [when("$seen.manual", self._end)]
        if self._resumes:
            rules.append(when("$seen.suspended", "LookAtAlarm" if self.launch_alarm else "Resume"))
        return rules

    @property
    def _end(self) -> str:
        """Where a run ends inside a window."""
        return "AreGrouped" if self.block_group else "Done"

    @property
    def _resumes(self) -> bool:
        return self.is_paid and self.calls.resume is not None

    def _inside(self) -> dict[str, Any]:
        """The states inside a window."""
        differs, size = f"$seen.desired != {_IN_SERVICE}", self.calls.resize(_IN_SERVICE)
        if not self.keeps_size and self.calls.floor is not None:
            differs, size = f"{BELOW_FLOOR}{self.fewest}", self.calls.floor(self.fewest)
        choices = [when(differs, "Size")]
        states: dict[str, Any] = {
            "IsSized": {"Type": "Choice", "Choices": choices, "Default": self._end},
            "Size": self._changing(task_state(size, next_state=self._end if self.block_group else None)),
        }
        if self.calls.reports_issues:
            choices.append(when("$seen.short", "Short"))
            states["Short"] = {"Type": "Fail", "Error": "NodesMissing", "Cause": "The health of the group has issues"}
        if self._resumes:
            states["Resume"] = task_state(self.calls.resume or {}, next_state="IsSized")
        if self._resumes and self.launch_alarm:
            states |= self._alarm_states()
        if len(self.windows) > 1:
            states |= self._handover_states()
        if self.block_group:
            states |= self._grouping_states()
        if self.calls.count is not None:
            states |= self._counting_states(self.calls.count)
        if self.block_group or self.calls.count is not None:
            states["Fill"] = {"Type": "Choice", "Choices": self._filling(), "Default": "IsSized"}
        return states

    def _changing(self, task: dict[str, Any]) -> dict[str, Any]:
        """A task that changes the group; after its retries, a conflict is looked into."""
        if self.calls.conflict is None:
            return task
        first = f"LookAt{next(iter(self.calls.under_way))}"
        return {**task, "Catch": [{"ErrorEquals": [self.calls.conflict], "Output": {}, "Next": first}]}

    def _conflict_states(self) -> dict[str, Any]:
        """A change that the service refuses while another one is under way is left to the next run."""
        states: dict[str, Any] = {}
        names = [*self.calls.under_way]
        for name, following in zip(names, [*names, ""][1:], strict=True):
            task, is_under_way = self.calls.under_way[name]
            look = {**task_state(task, next_state=f"Is{name}Changing"), "Assign": {"waits": f"{{% {is_under_way} %}}"}}
            otherwise = f"LookAt{following}" if following else "Refused"
            states |= {
                f"LookAt{name}": look,
                f"Is{name}Changing": {"Type": "Choice", "Choices": [when("$waits", "Done")], "Default": otherwise},
            }
        cause = "The service refuses the change, and no other one is under way"
        return {**states, "Refused": {"Type": "Fail", "Error": "Refused", "Cause": cause}} if states else {}

    def _alarm_states(self) -> dict[str, Any]:
        look = {
            "Resource": sdk_call(self.partition, "cloudwatch", "describeAlarms"),
            "Arguments": {"AlarmNames": ["${Alarm}"]},
        }
        return {
            "LookAtAlarm": {
                **task_state(look, next_state="IsCalm"),
                "Assign": {"raised": "{% 'ALARM' in $states.result.MetricAlarms.StateValue %}"},
            },
            "IsCalm": {"Type": "Choice", "Choices": [when("$raised", "IsSized")], "Default": "Resume"},
        }

    def _grouping_states(self) -> dict[str, Any]:
        """Blocks that run are put into the group before it grows: EC2 takes active reservations only."""
        join = {
            "Resource": sdk_call(self.partition, "resourcegroups", "groupResources"),
            "Arguments": {"Group": "${Blocks}", "ResourceArns": "{% $running %}"},
        }
        return {
            "GroupBlocks": {
                **task_state(join, next_state="Fill"),
                "Assign": {"refused": "{% $count($states.result.Failed) > 0 %}"},
            },
            "AreGrouped": {"Type": "Choice", "Choices": [when("$refused", "NotGrouped")], "Default": "Done"},
            "NotGrouped": {"Type": "Fail", "Error": "NotGrouped", "Cause": "The resource group did not take a block"},
        }

    def _counting_states(self, count: Task) -> dict[str, Any]:
        """How many paid nodes are missing, as a metric whoever sets the size."""
        missing = {
            "MetricName": _MISSING,
            "Dimensions": [{"Name": _GROUP_DIMENSION, "Value": "{% $group %}"}],
            "Value": "{% $missing %}",
            "Unit": "Count",
        }
        tell = {
            "Resource": sdk_call(self.partition, "cloudwatch", "putMetricData"),
            "Arguments": {"Namespace": NAMESPACE, "MetricData": [missing]},
        }
        return {
            "Count": {
                **task_state(count, next_state="Tell"),
                "Assign": {"missing": f"{{% $max([0, $wanted - {self.calls.ready}]) %}}"},
            },
            "Tell": task_state(tell, next_state="Fill"),
        }

    def _handover_states(self) -> dict[str, Any]:
        """One of several blocks ends: its nodes drain, and those of the others stay."""
        find = {
            "Resource": sdk_call(self.partition, "ec2", "describeInstances"),
            # One at a time: ten instances with 32 interfaces have more text than a state may return, 256 KiB.
            "Arguments": {
                "Filters": [
                    {"Name": "instance-id", "Values": "{% [$states.input] %}"},
                    {"Name": "capacity-reservation-id", "Values": "{% $ending %}"},
                ]
            },
        }
        end = {
            "Resource": sdk_call(self.partition, "autoscaling", "terminateInstanceInAutoScalingGroup"),
            "Arguments": {"InstanceId": "{% $instance %}", "ShouldDecrementDesiredCapacity": True},
        }
        found = {"instance": "{% $states.input %}", "leaves": "{% $count($states.result.Reservations) > 0 %}"}
        # Another run may have come first: then the instance is leaving, and the call is refused. Its error has the
        # name of every error that the API model does not list, so that only its words tell one without permission.
        caught = [{"ErrorEquals": _REFUSED, "Output": "{% $states.errorOutput %}", "Next": "IsDenied"}]
        return {
            "EndEach": {
                "Type": "Map",
                "Items": "{% $seen.serving %}",
                "MaxConcurrency": 16,
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": "FindOne",
                    "States": {
                        "FindOne": {**task_state(find, next_state="IsOfBlock", attempts=1), "Assign": found},
                        "IsOfBlock": {"Type": "Choice", "Choices": [when("$leaves", "EndOne")], "Default": "Left"},
                        "EndOne": {**task_state(end, attempts=1), "Catch": caught},
                        "IsDenied": {
                            "Type": "Choice",
                            "Choices": [when("$contains($states.input.Cause, 'not authorized')", "Denied")],
                            "Default": "Left",
                        },
                        "Denied": {"Type": "Fail", "Error": "Denied", "Cause": "{% $states.input.Cause %}"},
                        "Left": {"Type": "Succeed"},
                    },
                },
                "Output": {},
                "End": True,
            },
        }

    def _substitutions(self) -> dict[str, Any]:
        named: dict[str, Any] = {"Alarm": self.launch_alarm} if self._resumes and self.launch_alarm else {}
        if self.block_group:
            named |= {"Blocks": self.block_group.arn, "Reservations": self.block_group.reservations}
        return named

    def _permissions(self) -> list[dict[str, Any]]:
        found = [dict(one) for one in self.calls.allowed]
        if self.calls.count is not None:
            own = {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}
            found.append({**allow("*", "cloudwatch:PutMetricData"), "Condition": own})
        if self._resumes and self.launch_alarm:
            alarms = f"arn:{self.partition}:cloudwatch:{self.region}:{self.account}:alarm:*"
            found.append(allow(alarms, "cloudwatch:DescribeAlarms"))
        if len(self.windows) > 1:
            found.append(allow("*", "ec2:DescribeInstances"))
        if self.block_group:
            found.append(allow(self.block_group.arn, "resource-groups:GroupResources"))
        return found

    def _rules(self, machine: StateMachine) -> Resources:
        """What starts a run."""
        named = json.dumps({"group": self.group}, separators=(",", ":"))
        periodic = json.dumps({"group": self.group, "periodic": True}, separators=(",", ":"))
        every = f"rate({PERIOD_MINUTES} minutes)"
        rules = {
            DEPLOYED: self._deployed(machine, named),
            _PERIODIC: machine.rule("Compares the group with its capacity", every, Input=periodic),
        }
        if self.reservation_ids:
            detail = {"capacity-reservation-id": list(self.reservation_ids)}
            block = {"source": ["aws.ec2"], "detail-type": _BLOCK_EVENTS, "detail": detail}
            rules[_CAPACITY] = machine.rule("A Capacity Block starts or ends", block, Input=named)
        if self._resumes and self.launch_alarm:
            calm = {
                "source": ["aws.cloudwatch"],
                "detail-type": ["CloudWatch Alarm State Change"],
                "detail": {"alarmName": [self.launch_alarm], "state": {"value": ["OK"]}},
            }
            rules[_CALM] = machine.rule("Launches no longer fail", calm, Input=named)
        return rules

    def _deployed(self, machine: StateMachine, named: str) -> Resource:
        """What a deployment starts a run by. That of a group must be there when it is made, and does not name it."""
        pattern = {"source": ["aws.cloudformation"], "detail-type": ["CloudFormation Resource Status Change"]}
        done, stack = ["CREATE_COMPLETE", "UPDATE_COMPLETE"], {"stack-id": [{"Ref": "AWS::StackId"}]}
        if self.after_stack:
            pattern["detail-type"] = ["CloudFormation Stack Status Change"]
            detail = {**stack, "status-details": {"status": [*done, "UPDATE_ROLLBACK_COMPLETE"]}}
            return machine.rule("The stack was deployed", {**pattern, "detail": detail}, Input=named)
        detail = {**stack, "logical-resource-id": [self.group_id], "status-details": {"status": done}}
        transformed = {
            "InputPathsMap": {"group": "$.detail.physical-resource-id"},
            "InputTemplate": '{"group":<group>}',
        }
        made = "The group was made or changed"
        return machine.rule(made, {**pattern, "detail": detail}, InputTransformer=transformed)


def followed_ids(terms: CapacityTerms) -> list[str]:
    """The blocks whose events tell that something starts or ends.

    Args:
        terms: How the nodes are bought; ids may be tokens.
    """
    if terms.blocks:
        return [block.reservation_id for block in terms.blocks]
    return [terms.reservation_id] if terms.kind.is_block and terms.reservation_id is not None else []


def sdk_call(partition: str, service: str, action: str) -> str:
    """The resource of a task that calls an action of a service.

    Args:
        partition: Partition of the stack.
        service: Such as `autoscaling`.
        action: Such as `setDesiredCapacity`.
    """
    return f"arn:{partition}:states:::aws-sdk:{service}:{action}"


def auto_scaling_calls(partition: str, group_arn: str, *, ends_instances: bool) -> GroupCalls:
    """The calls of EC2 Auto Scaling.

    Args:
        partition: Partition of the stack.
        group_arn: The group, by a pattern that names no resource.
        ends_instances: Whether single instances are terminated: the group has several blocks.
    """

    def call(action: str, **arguments: Any) -> Task:
        named = {"AutoScalingGroupName": "{% $group %}", **arguments}
        return {"Resource": sdk_call(partition, "autoscaling", action), "Arguments": named}

    changes = ["autoscaling:SetDesiredCapacity", "autoscaling:UpdateAutoScalingGroup", "autoscaling:ResumeProcesses"]
    if ends_instances:
        changes.append("autoscaling:TerminateInstanceInAutoScalingGroup")
    look = {"AutoScalingGroupNames": "{% [$states.input.group] %}"}
    return GroupCalls(
        look={"Resource": sdk_call(partition, "autoscaling", "describeAutoScalingGroups"), "Arguments": look},
        seen=(
            "( $group := $states.result.AutoScalingGroups[0]; {"
            "'desired': $group.DesiredCapacity, 'least': $group.MinSize, "
            # CloudFormation sets the most size to 0 before it deletes a group, and an event may come late.
            "'busy': $group.MaxSize = 0 or $exists($group.Status), "
            f"'manual': '{MANUAL}' in $group.Tags[Key = '{SIZE_TAG}'].Value, "
            "'suspended': 'Launch' in $group.SuspendedProcesses.ProcessName, "
            "'standby': $count($group.Instances[$contains(LifecycleState, 'Standby')]), "
            "'serving': [$group.Instances[$not($contains(LifecycleState, 'Terminat'))].InstanceId] } )"
        ),
        resize=lambda size: call("setDesiredCapacity", DesiredCapacity=f"{{% {size} %}}", HonorCooldown=False),
        drain=call("updateAutoScalingGroup", MinSize=0, DesiredCapacity=0),
        # A least size above the present one raises it (EC2 Auto Scaling API reference, UpdateAutoScalingGroup).
        floor=lambda least: call("updateAutoScalingGroup", MinSize=least),
        resume=call("resumeProcesses", ScalingProcesses=["Launch"]),
        reports_issues=False,
        # Describing has no resource level.
        allowed=[allow(group_arn, *changes), allow("*", "autoscaling:DescribeAutoScalingGroups")],
    )


# The context object has times in UTC; without the fraction and the zone they compare as text.
_NOW = "$now := $substring($states.context.State.EnteredTime, 0, 19)"
_INSIDE = "from <= $now and $now < until"


def _wanted(windows: Sequence[CapacityWindow]) -> str:
    """How many nodes are paid for now."""
    listed = [
        {"from": _text(one.starts_at, _ALWAYS), "until": _text(one.drain_at, _FOR_EVER), "nodes": one.node_count}
        for one in windows
    ]
    # By a variable: a filter of an array that is written in place takes the array for one item.
    return f"( {_NOW}; $windows := {json.dumps(listed)}; $sum($append(0, $windows[{_INSIDE}].nodes)) )"


def _ending(windows: Sequence[CapacityWindow]) -> str:
    """The ids of the blocks that drain now, and still take launches."""
    listed = [
        {"id": one.reservation_id, "from": _text(one.drain_at), "until": _text(one.drain_at + BLOCK_DRAIN)}
        for one in windows
        if one.reservation_id is not None and one.drain_at is not None
    ]
    return f"( {_NOW}; $blocks := {json.dumps(listed)}; [$blocks[{_INSIDE}].id] )" if listed else "[]"


def _running(windows: Sequence[CapacityWindow]) -> str:
    """The ARNs of the blocks that run now."""
    listed = [
        {
            "arn": f"${{Reservations}}/{one.reservation_id}",
            "from": _text(one.starts_at, _ALWAYS),
            "until": _text(one.drain_at),
        }
        for one in windows
    ]
    return f"( {_NOW}; $blocks := {json.dumps(listed)}; [$blocks[{_INSIDE}].arn] )"


def _text(moment: datetime | None, default: str = _FOR_EVER) -> str:
    return default if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}"


# A node may take its time-out to boot; and an alarm looks for 10 minutes, so that one run may fail.
_PATIENCE_MINUTES = 10
# Two runs may fail, and the metric of one may come late.
_WITHOUT_RUN_MINUTES = 3 * PERIOD_MINUTES


def reconcile_alarms() -> Resources:
    """The alarm on runs that fail or never come, by path."""
    runs = no_run_alarm(
        f"For {_WITHOUT_RUN_MINUTES} minutes no run compared the group with its capacity: nodes may be missing, or "
        "outlive what is paid for.",
        machine=_MACHINE,
        minutes=_WITHOUT_RUN_MINUTES,
        warm_up_minutes=2 * _PATIENCE_MINUTES,
    )
    # Which names the group, so that a group that takes long to be made raises no alarm.
    runs["DependsOn"] = [_PERIODIC]
    return {"Alarms/NotReconciled": runs}


def no_run_alarm(words: str, *, machine: str, minutes: int, warm_up_minutes: int) -> Resource:
    """The alarm on a state machine without a run that succeeded.

    A metric without data keeps its last value for several periods (CloudWatch user guide, "Configuring how CloudWatch
    alarms treat missing data"), so that FILL gives each period one; without any data at all it is raised as well.

    Args:
        words: What it means, as a sentence.
        machine: Path of the state machine.
        minutes: For how long none succeeded.
        warm_up_minutes: How long a new alarm is silent.
    """
    succeeded = _metric("AWS/States", "ExecutionsSucceeded", {"StateMachineArn": ref(machine)})
    runs = _alarm(
        words,
        {"Id": "runs", "Expression": "FILL(succeeded, 0)", "Label": "Runs"},
        [_query("succeeded", succeeded, "Sum", minutes=minutes)],
    )
    below = {"ComparisonOperator": "LessThanThreshold", "TreatMissingData": "breaching"}
    first = {"WarmUpConfiguration": {"WarmUpPeriodDurationInMinutes": warm_up_minutes}}
    runs["Properties"] |= {**below, **first}
    return runs


def missing_nodes_alarm(group: str, *, ready_timeout_seconds: int) -> Resources:
    """The alarm on nodes that are paid for and not in service, by path, where runs count them.

    Args:
        group: The group as the calls take it; a token.
        ready_timeout_seconds: How long a boot may take.
    """
    runs = -(-(ready_timeout_seconds // 60 + _PATIENCE_MINUTES) // PERIOD_MINUTES)
    metric = _metric(NAMESPACE, _MISSING, {_GROUP_DIMENSION: group})
    words = f"For {runs * PERIOD_MINUTES} minutes fewer nodes are in service than are paid for."
    computed = {"Id": "short", "Expression": "missing", "Label": "Missing nodes"}
    queries = [_query("missing", metric, "Minimum", minutes=PERIOD_MINUTES)]
    return {"Alarms/MissingNodes": _alarm(words, computed, queries, periods=runs)}


def shortage_alarms(group: str, windows: Sequence[CapacityWindow], *, ready_timeout_seconds: int) -> Resources:
    """The alarms on capacity that is paid for and not used, by path.

    Their expressions know the windows: outside nothing is short. The first one counts nodes that boot as used; the
    second one counts nodes in service, after the time that a boot may take. They look at every minute, in which a node
    boots or is in service: in a longer period the node that became ready would count twice.

    Source: CloudWatch user guide, "Using math expressions with CloudWatch metrics" (EPOCH, IF, AND); EC2 Auto Scaling
    user guide, "Amazon CloudWatch metrics for Amazon EC2 Auto Scaling" (one sample a minute).

    Args:
        group: Name of the group; a token.
        windows: When which number of nodes is paid for.
        ready_timeout_seconds: How long a boot may take.
    """
    booting = -(-ready_timeout_seconds // 60) + _PATIENCE_MINUTES
    ready, pending = "GroupInServiceInstances", "GroupPendingInstances"
    return {
        "Alarms/UnusedCapacity": _shortage(
            f"For {_PATIENCE_MINUTES} minutes fewer nodes run or boot than are paid for.",
            group,
            windows,
            _PATIENCE_MINUTES,
            {"ready": ready, "booting": pending},
        ),
        "Alarms/MissingNodes": _shortage(
            f"For {booting} minutes fewer nodes are in service than are paid for.",
            group,
            windows,
            booting,
            {"ready": ready},
        ),
    }


def _shortage(
    words: str, group: str, windows: Sequence[CapacityWindow], minutes: int, counted: Mapping[str, str]
) -> dict[str, Any]:
    paid = " + ".join(_paid(one) for one in windows)
    dimensions = {"AutoScalingGroupName": group}
    short = {"Id": "short", "Expression": f"{paid} - {' - '.join(counted)}", "Label": "Missing nodes"}
    queries = [
        _query(name, _metric("AWS/AutoScaling", metric, dimensions), "Maximum", minutes=1)
        for name, metric in counted.items()
    ]
    return _alarm(words, short, queries, periods=minutes)


def _paid(window: CapacityWindow) -> str:
    """The nodes of a window in a minute that lies in it from its beginning, which EPOCH gives, to its end."""
    bounds = []
    if window.starts_at is not None:
        bounds.append(f"EPOCH(ready) >= {int(window.starts_at.timestamp())}")
    if window.drain_at is not None:
        bounds.append(f"EPOCH(ready) <= {int(window.drain_at.timestamp()) - 60}")
    return f"IF({' AND '.join(bounds)}, {window.node_count}, 0)" if bounds else str(window.node_count)


def _metric(namespace: str, name: str, dimensions: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    return {"Namespace": namespace, "MetricName": name, "Dimensions": listed}


def _query(name: str, metric: Mapping[str, Any], statistic: str, *, minutes: int) -> dict[str, Any]:
    stat = {"Metric": metric, "Period": 60 * minutes, "Stat": statistic}
    return {"Id": name, "MetricStat": stat, "ReturnData": False}


def _alarm(
    words: str, computed: Mapping[str, Any], queries: Sequence[Mapping[str, Any]], *, periods: int = 1
) -> dict[str, Any]:
    """An alarm on an expression that is one or more in every period, where missing data counts as none."""
    properties = {
        "AlarmDescription": f"{words} CloudWatch bills each alarm.",
        "Metrics": [computed, *queries],
        "EvaluationPeriods": periods,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Threshold": 1,
        "TreatMissingData": "notBreaching",
    }
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}
