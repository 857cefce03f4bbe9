"""What the watchdog of a node, `gpunode watch`, may do, and how the end of a node is prepared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.errors import Finding, define_rule

WATCH = define_rule(
    "GPU-UD-008",
    "The settings of the watchdog are ones that it and systemd can work with",
    source="systemd.service(5), WatchdogSec: gpu-node-watch reports with every poll and has 60 s to; "
    "systemd.unit(5), names of units",
)
#: Lowest and highest value: a Spot notice comes two minutes ahead.
_RANGES = (("actions_per_hour", 1, 1_000), ("interval_seconds", 1, 30), ("job_seconds", 1, 120))
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+")


class WatchMode(str, Enum):
    """Whether the watchdog acts."""

    ON = "on"
    #: It only says what it would do.
    DRY_RUN = "dry-run"
    OFF = "off"


class FaultSeverity(str, Enum):
    """What a fault asks for, the least first."""

    RESET = "reset"
    REBOOT = "reboot"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWatch:
    """How a node is watched, and how its end is prepared.

    Attributes:
        mode: Whether the watchdog acts, only says what it would do, or is off.
        acts_from: The least severe fault that takes the node out of service.
        actions_per_hour: How many nodes of the fleet may be out of service for their health within an hour; more
            keep their work, and say so.
        interval_seconds: From one poll to the next, 1 to 30.
        drain_on_rebalance: Whether a rebalance recommendation drains a Spot node, which may stay all the same (AWS EC2
            user guide, "EC2 instance rebalance recommendations").
        job_units: systemd units of jobs, stopped when the node ends.
        job_seconds: How long jobs have from SIGTERM to the node's end.

    Example:
        >>> NodeWatch(mode=WatchMode.DRY_RUN).environment()
        {'GPU_WATCH': 'dry-run'}
    """

    mode: WatchMode = WatchMode.ON
    acts_from: FaultSeverity = FaultSeverity.REBOOT
    actions_per_hour: int = 2
    interval_seconds: int = 10
    drain_on_rebalance: bool = False
    job_units: tuple[str, ...] = ()
    job_seconds: int = 15

    def environment(self) -> dict[str, str]:
        """What differs from the defaults, as node settings."""
        usual = _values(NodeWatch())
        return {name: value for name, value in _values(self).items() if value != usual[name]}


def check_watch(watch: NodeWatch) -> list[Finding]:
    """Find numbers with which the watchdog cannot work, and units that are none."""
    findings = [
        WATCH.finding(
            cause=f"{name} is out of range", got=str(value), allowed=f"{low} to {high}", path=f"watch.{name}"
        )
        for name, low, high in _RANGES
        for value in [getattr(watch, name)]
        if not (isinstance(value, int) and low <= value <= high)
    ]
    return findings + [
        WATCH.finding(
            cause="not the name of a systemd unit",
            got=repr(unit),
            allowed="such as training.service",
            path=f"watch.job_units[{index}]",
        )
        for index, unit in enumerate(watch.job_units)
        if not _UNIT.fullmatch(unit)
    ]


def _values(watch: NodeWatch) -> dict[str, str]:
    return {
        "GPU_WATCH": watch.mode.value,
        "GPU_WATCH_ACTS_FROM": watch.acts_from.value,
        "GPU_WATCH_ACTIONS_PER_HOUR": str(watch.actions_per_hour),
        "GPU_WATCH_INTERVAL": str(watch.interval_seconds),
        "GPU_REBALANCE": "drain" if watch.drain_on_rebalance else "",
        "GPU_JOB_UNITS": " ".join(watch.job_units),
        "GPU_JOB_SECONDS": str(watch.job_seconds),
    }
