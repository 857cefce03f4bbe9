"""The alarms that every fleet has."""

from __future__ import annotations

from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters._template import Resources
from cdk_gpu_clusters.compute.launch_stop import LaunchStop
from cdk_gpu_clusters.compute.node_alarms import BILLED, NodeAlarms, node_alarms
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings, check_alarms


class FleetAlarms(NodeAlarms):
    """Alarms of a fleet: a node that is not well, Xids, failed boots, idle GPUs, and a launch loop, which it stops.

    `GpuFleet` makes one; they notify the topics that you add.

    Example:
        >>> from aws_cdk import aws_sns as sns
        >>> trainers = GpuFleet(
        ...     stack, "Alarmed", vpc=vpc, instance_type="p5.48xlarge", node_count=2,
        ...     alarms=AlarmSettings(idle_minutes=30),
        ... )
        >>> trainers.alarms.add_topic(sns.Topic(stack, "Operators"))
        >>> sorted(trainers.alarms.names)
        ['BootFailure', 'Idle', 'LaunchLoop', 'UnhealthyNode', 'Xid']

    Attributes:
        names: Names of the alarms.
    """


def fleet_alarms(
    plan: FleetPlan,
    settings: AlarmSettings,
    *,
    fleet: str,
    group_name: str,
    group_arn: str,
    log_group_arn: str,
    partition: str,
) -> Resources:
    """The alarms of a fleet and what stops its launches, by path below the fleet.

    Args:
        plan: What was decided about the fleet.
        settings: When it raises alarms.
        fleet: Its path.
        group_name: Name of its group.
        group_arn: ARN of its group.
        log_group_arn: Where the state machine logs.
        partition: Partition of the stack.
    """
    accelerator = plan.instance_type.accelerator
    window = settings.window_minutes(ready_timeout_seconds=plan.ready_timeout_seconds)
    stop = LaunchStop(
        fleet=fleet,
        group_name=group_name,
        group_arn=group_arn,
        log_group_arn=log_group_arn,
        partition=partition,
        launches_per_node=settings.abandoned_launches_per_node,
        window_minutes=window,
        description=_launch_loop(settings, window, group_name),
        suspends=settings.suspends_launching,
    )
    alarms = node_alarms(fleet, settings, has_gpus=accelerator is not None and accelerator.kind == "gpu")
    return {**alarms, **stop.resources()}


def _launch_loop(settings: AlarmSettings, window_minutes: int, group_name: str) -> str:
    told = (
        f"{settings.abandoned_launches_per_node} launches or more for each missing node were abandoned within "
        f"{window_minutes} minutes; the fleet's log group shows why."
    )
    if not settings.suspends_launching:
        return f"{told} Launching goes on. {BILLED}"
    return (
        f"{told} Launching is suspended. Nodes that still fail are kept for {settings.inspection_minutes} minutes: aws "
        "ssm start-session --target INSTANCE. When the cause is gone: aws autoscaling resume-processes "
        f"--scaling-processes Launch --auto-scaling-group-name {group_name} . {BILLED}"
    )


def inspection_seconds(scope: Construct, plan: FleetPlan, settings: AlarmSettings | None) -> int:
    """How long nodes that fail are kept once launching is suspended.

    Args:
        scope: The fleet.
        plan: What was decided about it.
        settings: When it raises alarms.

    Raises:
        ConfigError: GPU-ALM-001.
    """
    if settings is None:
        return 0
    report(scope, check_alarms(settings, ready_timeout_seconds=plan.ready_timeout_seconds))
    return 60 * settings.inspection_minutes if settings.suspends_launching else 0
