"""Growing a group when its Capacity Block is delivered, and draining it before the block ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, stack_of
from cdk_gpu_clusters.rules.capacity import BlockWindow, CapacityTerms, block_window

_Lifecycle = TypeVar("_Lifecycle", bound="BlockFollower")
# The guide and the event reference spell the names differently; EC2 may send either.
_DELIVERED = ["Capacity Block Reservation Delivered", "Capacity Block Delivered"]
_EXPIRES = ["Capacity Block Reservation Expiration Warning", "Capacity Block Expiration Warning"]
_NOW = "$$.State.EnteredTime"
_EARLY = timedelta(minutes=5)
_LATE = timedelta(days=1)
# The policy that allows the calls is attached after the group, a little later than the first call may come.
_RETRY = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 30, "MaxAttempts": 20, "BackoffRate": 1.0}

_STATE_MACHINE = AcceptedFinding(
    cause="`CapacityBlockLifecycle`, `EksBlockLifecycle`: what CDK adds to the roles of the state machine and of its "
    "rules",
    reason="Log delivery and tracing have no resource level; CDK attaches what each role needs to the role itself.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCalls:
    """How a service reports and sets the size of a group.

    Attributes:
        look: Task that reads the size: resource, parameters, and a selector of `desired`.
        resize: Task that sets the size: resource and parameters.
        drains: Whether the group goes to zero before the block ends; False where the service sees to that.
        starts_empty: Whether a new group has no nodes; False where the service does not say how many it starts with.
    """

    look: dict[str, Any]
    resize: Callable[[int], dict[str, Any]]
    drains: bool
    starts_empty: bool


class BlockFollower(ClusterConstruct):
    """A state machine without code of its own, and the rules that start it.

    Attributes:
        state_machine: The state machine.
        window: When the group may have nodes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: cdk.CfnResource,
        window: BlockWindow,
        reservation_id: str | None,
        node_count: int,
        log_group: logs.ILogGroup,
        calls: GroupCalls,
    ) -> None:
        """Define the state machine and its rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            group: The group, which the service knows by its `Ref`; its template carries no desired size.
            window: When the group may have nodes.
            reservation_id: `cr-…` of the block, to follow its events; None to go by the clock alone.
            node_count: Size during the block.
            log_group: Where the state machine logs.
            calls: How the group's service is asked.
        """
        super().__init__(scope, construct_id)
        self.window: BlockWindow = window
        definition = _definition(window, node_count, calls)
        self.state_machine: sfn.StateMachine = sfn.StateMachine(
            self,
            "StateMachine",
            definition_body=sfn.DefinitionBody.from_string(stack_of(self).to_json_string(definition)),
            tracing_enabled=True,
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL),
            timeout=cdk.Duration.hours(1),
        )
        _STATE_MACHINE.at(self.state_machine, "Resource::*")
        self._start_on_creation(group, "start" if calls.starts_empty else "created")
        self._start_on_events(group, reservation_id, drains=calls.drains)
        self._start_on_schedules(group, drains=calls.drains)

    def _allow(self, statements: Sequence[iam.PolicyStatement]) -> iam.ManagedPolicy:
        """Let the state machine call the service.

        A policy of its own: the group waits for the creation rule, so the state machine must not wait for the group. A
        managed one: the packs of NIST, HIPAA and PCI accept no inline ones.
        """
        return iam.ManagedPolicy(
            self, "ResizePermissions", roles=[self.state_machine.role], statements=list(statements)
        )

    def _start_on_creation(self, group: cdk.CfnResource, action: str) -> None:
        rule = events.Rule(
            self,
            "GroupCreated",
            description="Grow the group if its Capacity Block is already running when it is created",
            event_pattern=events.EventPattern(
                source=["aws.cloudformation"],
                detail_type=["CloudFormation Resource Status Change"],
                detail={
                    "stack-id": [cdk.Aws.STACK_ID],
                    "logical-resource-id": [group.logical_id],
                    "status-details": {"status": ["CREATE_COMPLETE"]},
                },
            ),
        )
        name = events.EventField.from_path("$.detail.physical-resource-id")
        rule.add_target(self._target(action, name))
        group.node.add_dependency(rule)

    def _start_on_events(self, group: cdk.CfnResource, reservation_id: str | None, *, drains: bool) -> None:
        if reservation_id is None:
            return
        told = [("Delivered", "delivered", _DELIVERED), *([("Expires", "drain", _EXPIRES)] if drains else [])]
        for construct_id, action, names in told:
            rule = events.Rule(
                self,
                construct_id,
                event_pattern=events.EventPattern(
                    source=["aws.ec2"],
                    detail_type=names,
                    detail={"capacity-reservation-id": [reservation_id]},
                ),
            )
            rule.add_target(self._target(action, group.ref))

    def _start_on_schedules(self, group: cdk.CfnResource, *, drains: bool) -> None:
        moments = {
            "StartSchedule": ("start", self.window.starts_at),
            "DrainSchedule": ("drain", self.window.drain_at if drains else None),
        }
        for construct_id, (action, moment) in moments.items():
            if moment is not None:
                rule = events.Rule(self, construct_id, schedule=_yearly(moment))
                rule.add_target(self._target(action, group.ref))

    def _target(self, action: str, group_name: str) -> targets.SfnStateMachine:
        return targets.SfnStateMachine(
            self.state_machine,
            input=events.RuleTargetInput.from_object({"action": action, "group": group_name}),
        )


def _yearly(moment: datetime) -> events.Schedule:
    return events.Schedule.cron(
        minute=str(moment.minute), hour=str(moment.hour), day=str(moment.day), month=str(moment.month)
    )


def _definition(window: BlockWindow, node_count: int, calls: GroupCalls) -> dict[str, Any]:
    """The state machine in Amazon States Language."""
    states: dict[str, Any] = {
        "InWindow": {"Type": "Choice", "Choices": _choices(window, calls), "Default": "OutsideWindow"},
        "LookAtGroup": {
            "Type": "Task",
            **calls.look,
            "ResultPath": "$.now",
            "Retry": [_RETRY],
            "Next": "IsEmpty",
        },
        "IsEmpty": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.now.desired", "NumericEquals": 0, "Next": "Grow"}],
            "Default": "HasNodes",
        },
        "Grow": _resize(calls, node_count),
    }
    if calls.drains or not calls.starts_empty:
        states["Drain" if calls.drains else "Empty"] = _resize(calls, 0)
    states["HasNodes"] = {"Type": "Succeed", "Comment": "A group with nodes is never resized"}
    states["OutsideWindow"] = {"Type": "Succeed", "Comment": "Before the block's start, or after its end"}
    return {
        "Comment": "Sizes the group to its Capacity Block; does nothing outside the block's window",
        "StartAt": "InWindow",
        "States": states,
    }


def _choices(window: BlockWindow, calls: GroupCalls) -> list[dict[str, Any]]:
    before_drain = _time("TimestampLessThan", window.drain_at)
    started = [_time("TimestampGreaterThanEquals", window.starts_at)] if window.starts_at else []
    found = [
        {"And": [_action("delivered"), before_drain], "Next": "LookAtGroup"},
        {"And": [_action("start"), *started, before_drain], "Next": "LookAtGroup"},
    ]
    if not calls.starts_empty:
        found += [
            {"And": [_action("created"), *started, before_drain], "Next": "Grow"},
            {**_action("created"), "Next": "Empty"},
        ]
    if calls.drains:
        draining = [
            _time("TimestampGreaterThanEquals", window.drain_at - _EARLY),
            _time("TimestampLessThan", window.ends_at + _LATE),
        ]
        found.append({"And": [_action("drain"), *draining], "Next": "Drain"})
    return found


def _resize(calls: GroupCalls, desired: int) -> dict[str, Any]:
    return {"Type": "Task", **calls.resize(desired), "Retry": [_RETRY], "End": True}


def sdk_call(service: str, action: str) -> str:
    """The resource of a task that calls an action of a service.

    Args:
        service: Such as `autoscaling`.
        action: Such as `setDesiredCapacity`.
    """
    return f"arn:{cdk.Aws.PARTITION}:states:::aws-sdk:{service}:{action}"


def _action(name: str) -> dict[str, str]:
    return {"Variable": "$.action", "StringEquals": name}


def _time(operator: str, moment: datetime) -> dict[str, str]:
    return {"Variable": _NOW, operator: f"{moment:%Y-%m-%dT%H:%M:%SZ}"}


_RESIZING = AcceptedFinding(
    cause="`CapacityBlockLifecycle`: policy that lets the state machine size its group",
    reason="DescribeAutoScalingGroups has no resource level, and the ARN of the group holds an id that only EC2 knows.",
    aws_solutions=("IAM5",),
)


class CapacityBlockLifecycle(BlockFollower):
    """Sets a group's size at the start and before the end of a Capacity Block; deployments never do.

    Makes a Step Functions state machine without code of its own, and rules that start it:

    * EC2 reports that the block is delivered: the group grows, if it is empty;
    * EC2 warns that the block expires: the group goes to zero;
    * backup schedules at the start and at the drain time. They name month, day and hour, since a one-time schedule in
      the past could not be deployed; the state machine checks the year, and does nothing outside the block's window;
    * the group was created while its block runs: it grows at once, since no delivery event comes any more.

    A group that already has nodes is never resized, so that events that come twice, and an operator's own size, do no
    harm.

    Source: AWS EC2 user guide, "Monitor Capacity Blocks using EventBridge" (event names differ between its editions:
    both are matched); EC2 Auto Scaling guide, "Use Capacity Blocks" (scale to zero more than 30 minutes before).

    Example:
        >>> from cdk_gpu_clusters.rules.capacity import CapacityTerms, block_window
        >>> block = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")
        >>> lifecycle = CapacityBlockLifecycle(
        ...     stack,
        ...     "Block",
        ...     group=cfn_group,
        ...     window=block_window(block.terms),
        ...     reservation_id="cr-0123456789abcdef0",
        ...     node_count=16,
        ...     log_group=log_group,
        ... )
        >>> lifecycle.window.drain_at.isoformat()
        '2026-12-15T10:50:00+00:00'

    Attributes:
        state_machine: The state machine.
        window: When the group may have nodes.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: autoscaling.CfnAutoScalingGroup,
        window: BlockWindow,
        reservation_id: str | None,
        node_count: int,
        log_group: logs.ILogGroup,
    ) -> None:
        """Define the state machine and its rules.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            group: The group; its template carries no `DesiredCapacity`.
            window: When the group may have nodes.
            reservation_id: `cr-…` of the block, to follow its events; None to go by the clock alone.
            node_count: Size during the block.
            log_group: Where the state machine logs.
        """
        calls = GroupCalls(look=_look(), resize=_resize_group, drains=True, starts_empty=True)
        super().__init__(
            scope,
            construct_id,
            group=group,
            window=window,
            reservation_id=reservation_id,
            node_count=node_count,
            log_group=log_group,
            calls=calls,
        )
        group_arn = stack_of(self).format_arn(
            service="autoscaling",
            resource=f"autoScalingGroup:*:autoScalingGroupName/{group.ref}",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        policy = self._allow(
            [
                iam.PolicyStatement(actions=["autoscaling:SetDesiredCapacity"], resources=[group_arn]),
                iam.PolicyStatement(actions=["autoscaling:DescribeAutoScalingGroups"], resources=["*"]),
            ]
        )
        _RESIZING.at(policy, "Resource::*", named_resource(policy, group_arn))


def _look() -> dict[str, Any]:
    return {
        "Resource": sdk_call("autoscaling", "describeAutoScalingGroups"),
        "Parameters": {"AutoScalingGroupNames.$": "States.Array($.group)"},
        "ResultSelector": {"desired.$": "$.AutoScalingGroups[0].DesiredCapacity"},
    }


def _resize_group(desired: int) -> dict[str, Any]:
    return {
        "Resource": sdk_call("autoscaling", "setDesiredCapacity"),
        "Parameters": {
            "AutoScalingGroupName.$": "$.group",
            "DesiredCapacity": desired,
            "HonorCooldown": False,
        },
    }


def follow_block(
    kind: Callable[..., _Lifecycle],
    scope: Construct,
    terms: CapacityTerms,
    *,
    node_count: int,
    group: cdk.CfnResource,
    log_group: logs.ILogGroup,
) -> _Lifecycle | None:
    """Let a fleet or a node group follow its Capacity Block, if it has one.

    Args:
        kind: The lifecycle of its service.
        scope: The fleet.
        terms: How its nodes are bought; its ids may be tokens.
        node_count: Most nodes.
        group: Its group.
        log_group: Where the state machine logs.
    """
    window = block_window(terms)
    if window is None:
        return None
    return kind(
        scope,
        "Block",
        group=group,
        window=window,
        reservation_id=terms.reservation_id,
        node_count=node_count,
        log_group=log_group,
    )
