"""The alarms that every fleet has."""

from __future__ import annotations

from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import named_resource
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    arn_of,
    partition_of,
    path_of,
    report,
    stack_of,
)
from cdk_gpu_clusters.compute.launch_stop import ALARM, STOPPING, LaunchStop
from cdk_gpu_clusters.compute.node_alarms import BILLED, NodeAlarms, node_alarms
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings, check_alarms


class FleetAlarms(NodeAlarms):
    """Alarms of a fleet: a node that is not well, Xids, failed boots, idle GPUs, and a launch loop, which it stops.

    `GpuFleet` makes one; whom they tell is the user's word.

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

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet: str,
        group_name: str,
        log_group: logs.ILogGroup,
        has_gpus: bool,
        ready_timeout_seconds: int,
        settings: AlarmSettings,
    ) -> None:
        """Define the alarms.

        Args:
            scope: The fleet.
            construct_id: Id in the scope, of what holds the alarms.
            fleet: Name of the fleet in the metrics of its nodes.
            group_name: Name of the Auto Scaling group.
            log_group: Where the state machine logs.
            has_gpus: Whether the nodes have GPUs of NVIDIA, which Xids and idle time are told of.
            ready_timeout_seconds: How long a boot may take.
            settings: When they are raised.
        """
        group_arn = arn_of(scope, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{group_name}")
        window = settings.window_minutes(ready_timeout_seconds=ready_timeout_seconds)
        stop = LaunchStop(
            fleet=fleet,
            group_name=group_name,
            group_arn=group_arn,
            log_group_arn=log_group.log_group_arn,
            partition=partition_of(stack_of(scope)),
            launches_per_node=settings.abandoned_launches_per_node,
            window_minutes=window,
            description=_launch_loop(settings, window, group_name),
            suspends=settings.suspends_launching,
        )
        accepted = None
        if settings.suspends_launching:
            accepted = STOPPING.with_details("Resource::*", named_resource(scope, group_arn))
        alarms = node_alarms(fleet, settings, has_gpus=has_gpus)
        self._define(scope, construct_id, alarms, stop.resources(), accepted)
        self.names: tuple[str, ...] = (*alarms, ALARM)


def _launch_loop(settings: AlarmSettings, window_minutes: int, group_name: str) -> str:
    told = (
        f"{settings.abandoned_launches_per_node} launches or more for each missing node were abandoned within "
        f"{window_minutes} minutes; the fleet's log group says why."
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


def raise_alarms(
    fleet: ClusterConstruct,
    plan: FleetPlan,
    settings: AlarmSettings | None,
    *,
    group_name: str,
    log_group: logs.ILogGroup,
) -> FleetAlarms | None:
    """Give a fleet its alarms, if it has any.

    Args:
        fleet: The fleet.
        plan: What was decided about it.
        settings: When it raises alarms.
        group_name: Name of its Auto Scaling group.
        log_group: Its log group.
    """
    if settings is None:
        return None
    accelerator = plan.instance_type.accelerator
    return FleetAlarms(
        fleet,
        "Alarms",
        fleet=path_of(fleet),
        group_name=group_name,
        log_group=log_group,
        has_gpus=accelerator is not None and accelerator.kind == "gpu",
        ready_timeout_seconds=plan.ready_timeout_seconds,
        settings=settings,
    )
