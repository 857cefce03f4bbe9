"""The alarms on what nodes tell of themselves, whoever launches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from constructs import Construct

from cdk_gpu_clusters._accepted import SILENT_ALARM, Acceptance
from cdk_gpu_clusters._cdk import define_resources
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

    `EksGpuNodeGroup` makes one; whom they tell is the user's word.

    Attributes:
        names: Names of the alarms.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet: str,
        has_gpus: bool,
        settings: AlarmSettings,
    ) -> None:
        """Define the alarms.

        Args:
            scope: The group.
            construct_id: Id in the scope, of what holds the alarms.
            fleet: Name of the group in the metrics of its nodes.
            has_gpus: Whether the nodes have GPUs of NVIDIA, which Xids and idle time are told of.
            settings: When they are raised.
        """
        self.names: tuple[str, ...] = ()
        self._define(scope, construct_id, node_alarms(fleet, settings, has_gpus=has_gpus), {}, None)

    def _define(
        self,
        scope: Construct,
        construct_id: str,
        alarms: dict[str, dict[str, Any]],
        further: dict[str, dict[str, Any]],
        accepted: Acceptance | None,
    ) -> None:
        """Define alarms, and other resources with them: for one message all together."""
        self.names = tuple(alarms)
        self._resources = define_resources(scope, construct_id, {**alarms, **further})
        silent = SILENT_ALARM.with_details()
        (silent if accepted is None else silent + accepted).at(self._resources)

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
    "The watchdog of a node asks for a GPU reset, a reboot or another node, or is silent; the fleet's log group says "
    "why."
)
_BOOT = "A node failed its boot; the fleet's log group says at which stage, why, and what to do."
_XID = (
    "The driver told of an Xid that asks for a reset of a GPU, a reboot or another node; the fleet's log group "
    "says of which."
)


def node_alarms(fleet: str, settings: AlarmSettings, *, has_gpus: bool) -> dict[str, dict[str, Any]]:
    """The alarms, as a template has them.

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
            f"All GPUs of the fleet stood idle for {settings.idle_minutes} minutes, at the full price of its nodes: "
            "scale it in, or raise idle_minutes."
        )
        found["Idle"] = _Alarm(IDLE_SECONDS, "Minimum", 60 * settings.idle_minutes, words)
    return {name: alarm.resource(fleet) for name, alarm in found.items()}
