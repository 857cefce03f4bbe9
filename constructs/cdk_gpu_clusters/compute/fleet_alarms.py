"""The alarms that every fleet has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import SILENT_ALARM, named_resource
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    arn_of,
    define_resources,
    partition_of,
    path_of,
    report,
    stack_of,
)
from cdk_gpu_clusters.compute.fleet_plan import FleetPlan
from cdk_gpu_clusters.compute.launch_stop import ALARM, STOPPING, LaunchStop
from cdk_gpu_clusters.node.gpunode.metrics.names import (
    BOOT_FAILURES,
    FLEET,
    IDLE_SECONDS,
    NAMESPACE,
    UNHEALTHY_NODES,
    XIDS,
    Metric,
)
from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings, check_alarms

if TYPE_CHECKING:  # each takes long to load
    from aws_cdk import aws_cloudwatch as cloudwatch
    from aws_cdk import aws_sns as sns

_PERIOD_SECONDS = 300
_COST = "CloudWatch bills each alarm."


class FleetAlarms:
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
        alarms = {name: alarm.resource(fleet) for name, alarm in _alarms(settings, has_gpus=has_gpus).items()}
        self.names: tuple[str, ...] = (*alarms, ALARM)
        self._resources = define_resources(scope, construct_id, {**alarms, **stop.resources()})
        accepted = SILENT_ALARM.with_details()
        if settings.suspends_launching:
            accepted += STOPPING.with_details("Resource::*", named_resource(scope, group_arn))
        accepted.at(self._resources)

    def cfn_alarm(self, name: str) -> cloudwatch.CfnAlarm:
        """An alarm, as an escape hatch.

        Args:
            name: One of `names`.
        """
        return self._resources.get_resource(name)  # type: ignore[return-value]  # jsii gives it its own type

    def add_topic(self, topic: sns.ITopic) -> None:
        """Let all alarms tell a topic when they are raised. A topic with a key of its own must let CloudWatch use it.

        Args:
            topic: The topic.
        """
        for name in self.names:
            alarm = self.cfn_alarm(name)
            alarm.alarm_actions = [*(alarm.alarm_actions or []), topic.topic_arn]


class _Alarm(NamedTuple):
    """An alarm on a metric of the nodes, over all of them."""

    metric: Metric
    statistic: str
    threshold: int
    words: str

    def resource(self, fleet: str) -> dict[str, Any]:
        """The alarm, as a template has it."""
        return {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmDescription": f"{self.words} {_COST}",
                "Namespace": NAMESPACE,
                "MetricName": self.metric.name,
                "Dimensions": [{"Name": FLEET, "Value": fleet}],
                "Statistic": self.statistic,
                "Period": _PERIOD_SECONDS,
                "EvaluationPeriods": 1,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "Threshold": self.threshold,
                "TreatMissingData": "notBreaching",
            },
        }


_UNHEALTHY = (
    "The watchdog of a node asks for a GPU reset, a reboot or another node, or is silent; the fleet's log group says "
    "why."
)
_BOOT = "A node failed its boot; the fleet's log group says at which stage, why, and what to do."
_XID = (
    "The driver told of an Xid that asks for a reset of a GPU, a reboot or another node; the fleet's log group "
    "says of which."
)


def _alarms(settings: AlarmSettings, *, has_gpus: bool) -> dict[str, _Alarm]:
    found = {
        "UnhealthyNode": _Alarm(UNHEALTHY_NODES, "Maximum", 1, _UNHEALTHY),
        "BootFailure": _Alarm(BOOT_FAILURES, "Sum", 1, _BOOT),
    }
    if has_gpus:
        found["Xid"] = _Alarm(XIDS, "Sum", 1, _XID)
    if has_gpus and settings.idle_minutes is not None:
        words = (
            f"All GPUs of the fleet stood idle for {settings.idle_minutes} minutes, at the full price of its nodes: "
            "scale it in, or raise idle_minutes."
        )
        found["Idle"] = _Alarm(IDLE_SECONDS, "Minimum", 60 * settings.idle_minutes, words)
    return found


def _launch_loop(settings: AlarmSettings, window_minutes: int, group_name: str) -> str:
    told = (
        f"{settings.abandoned_launches_per_node} launches or more for each missing node were abandoned within "
        f"{window_minutes} minutes; the fleet's log group says why."
    )
    if not settings.suspends_launching:
        return f"{told} Launching goes on. {_COST}"
    return (
        f"{told} Launching is suspended. Nodes that still fail are kept for {settings.inspection_minutes} minutes: aws "
        "ssm start-session --target INSTANCE. When the cause is gone: aws autoscaling resume-processes "
        f"--scaling-processes Launch --auto-scaling-group-name {group_name} . {_COST}"
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
