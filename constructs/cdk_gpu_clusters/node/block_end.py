"""When a node drains itself before its Capacity Block ends."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.capacity import BlockWindow

#: The setting that `gpunode drain` reads.
DRAIN_AT = "GPU_DRAIN_AT"

BLOCK_END = define_rule(
    "GPU-UD-010",
    "Nodes that no fleet scales in know when their Capacity Block ends",
    source="AWS EC2 user guide, Capacity Blocks: EC2 terminates the instances from 30 minutes before the end; it tells "
    "EventBridge, not the instance",
)

# What `NodeUserData` writes, and no fleet.
_FOREIGN = re.compile(r"\bGPU_ORCHESTRATOR='?(?:eks|pcs)\b")


def instant(moment: datetime) -> str:
    """A moment as the node reads it.

    Example:
        >>> instant(datetime(2026, 12, 15, 10, 50, tzinfo=UTC))
        '2026-12-15T10:50:00Z'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def check_block_end(text: str, window: BlockWindow | None) -> list[Finding]:
    """Find user data that say another end of the block than the launch template, or none.

    Args:
        text: User data; any that `NodeUserData` did not write are not looked at.
        window: When the nodes may run, None for capacity without an end.
    """
    if not _FOREIGN.search(text):
        return []
    said = re.search(rf"\b{DRAIN_AT}='?([^\s']+)", text)
    got, wanted = said[1] if said else "nothing", "nothing" if window is None else instant(window.drain_at)
    if got == wanted:
        return []
    return [
        BLOCK_END.finding(
            cause="the nodes would be drained at another time than their capacity asks for"
            if said
            else "nobody tells the nodes that their Capacity Block ends, and EC2 terminates them with their work",
            got=f"{DRAIN_AT} {got}",
            allowed=wanted,
            fix="pass the same capacity to NodeUserData and to GpuLaunchTemplate",
            path="user_data",
            severity=Severity.ERROR if said else Severity.WARNING,
        )
    ]
