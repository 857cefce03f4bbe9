"""What is worth an alarm about nodes, decided once for Amazon CloudWatch and for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdk_gpu_clusters._version import REPOSITORY_URL
from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.node.gpunode.metrics import names
from cdk_gpu_clusters.node.gpunode.metrics.names import Metric
from cdk_gpu_clusters.rules.fleet import AlarmSettings, check_alarms

#: Page of this library's documentation that has a runbook for each alert. It is the same for all versions, so that a
#: newer one changes no rule.
RUNBOOK_URL: Final = f"{REPOSITORY_URL}/blob/main/docs/alerts.md"
_BOOT_SECONDS = 1800  # any: no other setting than idle_minutes is given


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAlert:
    """An alert about the nodes of a fleet. It is raised at its threshold and above.

    Attributes:
        name: Its name.
        metric: What it watches.
        statistic: Of CloudWatch, over all nodes of the fleet and 5 minutes.
        threshold: From which value it is raised, in the unit of the metric.
        meaning: What it means, and where to look, in one sentence.
    """

    name: str
    metric: Metric
    statistic: str
    threshold: int
    meaning: str


_UNHEALTHY = NodeAlert(
    name="UnhealthyNode",
    metric=names.UNHEALTHY_NODES,
    statistic="Maximum",
    threshold=1,
    meaning="The watchdog of a node asks for a GPU reset, a reboot or another node, or is silent; the fleet's log "
    "group shows why.",
)
_BOOT = NodeAlert(
    name="BootFailure",
    metric=names.BOOT_FAILURES,
    statistic="Sum",
    threshold=1,
    meaning="A node failed its boot; the fleet's log group shows at which stage, why, and what to do.",
)
_XID = NodeAlert(
    name="Xid",
    metric=names.XIDS,
    statistic="Sum",
    threshold=1,
    meaning="The driver reported an Xid that asks for a reset of a GPU, a reboot or another node; the fleet's log "
    "group names which one.",
)


def node_alerts(settings: AlarmSettings, *, has_gpus: bool) -> list[NodeAlert]:
    """The alerts about a group of nodes.

    Args:
        settings: When they are raised.
        has_gpus: Whether the nodes have GPUs of NVIDIA.

    Example:
        >>> [alert.name for alert in node_alerts(AlarmSettings(), has_gpus=True)]
        ['UnhealthyNode', 'BootFailure', 'Xid', 'Idle']
    """
    found = [_UNHEALTHY, _BOOT]
    if has_gpus:
        found.append(_XID)
    if has_gpus and settings.idle_minutes is not None:
        found.append(
            NodeAlert(
                name="Idle",
                metric=names.IDLE_SECONDS,
                statistic="Minimum",
                threshold=60 * settings.idle_minutes,
                meaning=f"All GPUs of the fleet were idle for {settings.idle_minutes} minutes, at the full price of "
                "its nodes: scale it in, or raise idle_minutes.",
            )
        )
    return found


def prometheus_alerts(idle_minutes: int | None) -> list[NodeAlert]:
    """The alerts about nodes of which Prometheus has the metrics.

    Raises:
        ConfigError: GPU-ALM-001.
    """
    settings = AlarmSettings(idle_minutes=idle_minutes)
    raise_for(check_alarms(settings, ready_timeout_seconds=_BOOT_SECONDS))
    return [alert for alert in node_alerts(settings, has_gpus=True) if alert.metric is not names.BOOT_FAILURES]


def runbook_of(name: str, page_url: str) -> str:
    """Where the runbook of an alert is: the section of a page that has its name."""
    return f"{page_url}#{name.lower()}"
