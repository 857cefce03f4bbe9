"""The alarms on what nodes tell of themselves, whoever launches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from constructs import Construct

from cdk_gpu_clusters._accepted import SILENT_ALARM
from cdk_gpu_clusters._cdk import DefinedResources, define
from cdk_gpu_clusters._template import Resource, Resources
from cdk_gpu_clusters.node.gpunode.metrics.names import (
    BOOT_FAILURES,
    FLEET,
    IDLE_SECONDS,
    NAMESPACE,
    UNHEALTHY_NODES,
    XIDS,
    Metric,
)
from cdk_gpu_clusters.rules.fleet_alarms import AlarmSettings

if TYPE_CHECKING:  # each takes long to load
    from aws_cdk import aws_cloudwatch as cloudwatch
    from aws_cdk import aws_sns as sns

_PERIOD_SECONDS = 300
BILLED = "CloudWatch bills each alarm."


class NodeAlarms:
    """Alarms of a group of nodes: a node that is not well, Xids, failed boots, idle GPUs.

    `EksGpuNodeGroup` makes one; they notify the topics that you add.

    Attributes:
        names: Names of the alarms.
    """

    def __init__(self, names: Sequence[str], resources: Callable[[], DefinedResources]) -> None:
        """Give access to alarms.

        Args:
            names: Names of the alarms.
            resources: Where they were defined.
        """
        self.names: tuple[str, ...] = tuple(names)
        self._resources = resources

    def cfn_alarm(self, name: str) -> cloudwatch.CfnAlarm:
        """An alarm, as an escape hatch.

        Args:
            name: One of `names`.
        """
        alarm: cloudwatch.CfnAlarm = self._resources().resource(alarm_path(name))
        return alarm

    def add_topic(self, topic: sns.ITopic) -> None:
        """Let all alarms notify a topic when they are raised. A topic with a key of its own must let CloudWatch use it.

        Args:
            topic: The topic.
        """
        for name in self.names:
            alarm = self.cfn_alarm(name)
            alarm.alarm_actions = [*(alarm.alarm_actions or []), topic.topic_arn]


def define_alarms(scope: Construct, alarms: Resources) -> NodeAlarms:
    """Define the alarms of a group of nodes that has no other resources to define with them.

    Args:
        scope: The group.
        alarms: The alarms, from `node_alarms`.
    """
    defined = define(scope, alarms)
    SILENT_ALARM.at(defined.scope)
    return NodeAlarms(alarm_names(alarms), lambda: defined)


def alarm_path(name: str) -> str:
    """The path of an alarm below its fleet or group."""
    return f"Alarms/{name}"


def alarm_names(resources: Resources) -> list[str]:
    """The names of the alarms among resources.

    Args:
        resources: By path.
    """
    return [
        path.rpartition("/")[2] for path, one in resources.items() if one["Type"] == "AWS::CloudWatch::Alarm"
    ]


class _Alarm(NamedTuple):
    """An alarm on a metric of the nodes, over all of them."""

    metric: Metric
    statistic: str
    threshold: int
    words: str

    def resource(self, fleet: str) -> Resource:
        """The alarm, as a template has it."""
        return {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmDescription": f"{self.words} {BILLED}",
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
    "The watchdog of a node asks for a GPU reset, a reboot or another node, or is silent; the fleet's log group shows "
    "why."
)
_BOOT = "A node failed its boot; the fleet's log group shows at which stage, why, and what to do."
_XID = (
    "The driver reported an Xid that asks for a reset of a GPU, a reboot or another node; the fleet's log group "
    "names which one."
)


def node_alarms(fleet: str, settings: AlarmSettings, *, has_gpus: bool) -> Resources:
    """The alarms by path.

    Args:
        fleet: Name of the group in the metrics of its nodes.
        settings: When they are raised.
        has_gpus: Whether the nodes have GPUs of NVIDIA.
    """
    found = {
        "UnhealthyNode": _Alarm(UNHEALTHY_NODES, "Maximum", 1, _UNHEALTHY),
        "BootFailure": _Alarm(BOOT_FAILURES, "Sum", 1, _BOOT),
    }
    if has_gpus:
        found["Xid"] = _Alarm(XIDS, "Sum", 1, _XID)
    if has_gpus and settings.idle_minutes is not None:
        words = (
            f"All GPUs of the fleet were idle for {settings.idle_minutes} minutes, at the full price of its nodes: "
            "scale it in, or raise idle_minutes."
        )
        found["Idle"] = _Alarm(IDLE_SECONDS, "Minimum", 60 * settings.idle_minutes, words)
    return {alarm_path(name): alarm.resource(fleet) for name, alarm in found.items()}
