"""The NVLink fabric of a node: whether its GPUs have joined it, and the fabric manager that configures its switches.

A GPU takes no CUDA work before it has joined: cudaErrorSystemNotReady, 802 (NVIDIA Fabric Manager user guide). Hopper
and later report whether they have. The state of the GPUs decides, not the service: EKS's images start the fabric
manager on every type, and it fails with `NV_WARN_NOTHING_TO_DO` without NVSwitches of its own, as on p3dn and on GB200,
whose switches are elsewhere (awslabs/amazon-eks-ami issue 2727).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from . import nvidia_smi, paths
from .command import run
from .node import Node
from .systemd import has_processes, properties_of

FABRIC_MANAGER = "nvidia-fabricmanager"
# NVML API reference, nvmlGpuFabricState and healthSummary of nvmlGpuFabricInfo_v3.
_JOINED, _JOINING = "completed", ("in progress", "not started")
_FIELDS = ("fabric.state", "fabric.status", "fabric.health.summary")


class Membership(Enum):
    """Whether a GPU has joined the fabric."""

    #: There is no fabric, or the driver does not report it.
    NONE = "none"
    JOINED = "joined"
    #: It joined, and the fabric gives it less than it should.
    LIMITED = "limited"
    #: Not yet.
    JOINING = "joining"
    #: It cannot join without a reset.
    FAILED = "failed"
    #: The driver printed something else.
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Gpu:
    """A GPU of the fabric.

    Attributes:
        words: Its index, state and status.
    """

    membership: Membership
    words: str


def gpus_of_fabric() -> list[Gpu] | None:
    """The GPUs that answer; None if none does."""
    rows = nvidia_smi.query(_FIELDS).rows
    return [_gpu(row) for row in rows] or None


def _gpu(row: Mapping[str, str]) -> Gpu:
    state, status, health = (_value(row[field]) for field in _FIELDS)
    words = f"GPU {row['index']}: {', '.join(value for value in (state, status, health) if value)}"
    return Gpu(_membership(state.lower(), status.lower(), health.lower()), words)


def _membership(state: str, status: str, health: str) -> Membership:
    if not state:
        return Membership.NONE
    if state in _JOINING:
        return Membership.JOINING
    if state != _JOINED or not status:
        return Membership.UNREADABLE
    if status != "success" or health == "unhealthy":
        return Membership.FAILED
    return Membership.LIMITED if health == "limited capacity" else Membership.JOINED


def _value(cell: str) -> str:
    """The value in a cell such as `state  Completed`, as nvidia-smi 535 and 550 print it; empty if there is none."""
    word = re.sub(r"^(state|status)\s+", "", cell.strip())
    return "" if word.strip("[]") in ("", "N/A", "Not Supported") else word


class Manager(Enum):
    """The state of the fabric manager."""

    #: The image starts none, or not on this type.
    ABSENT = "absent"
    RUNS = "runs"
    STARTS = "starts"
    FAILED = "failed"


def manager_state() -> Manager:
    """The state of the service. One that is not enabled, or whose condition does not hold, is not needed."""
    if has_processes(FABRIC_MANAGER):
        return Manager.RUNS
    shown = properties_of(FABRIC_MANAGER)
    state = shown.get("ActiveState", "")
    if shown.get("LoadState") != "loaded" or shown.get("UnitFileState") not in ("enabled", "enabled-runtime"):
        return Manager.ABSENT
    if state == "active":
        return Manager.RUNS
    if shown.get("ConditionResult") == "no" and state == "inactive":
        return Manager.ABSENT
    return Manager.FAILED if state == "failed" else Manager.STARTS


def manager_words() -> str:
    """The last error that the fabric manager printed in this boot; empty if there is none."""
    outcome = run("journalctl", "-b", "-u", FABRIC_MANAGER, "-n", "50", "-o", "cat", "--no-pager")
    errors = [line.strip() for line in outcome.output.splitlines() if _ERROR.search(line)]
    return errors[0][:200] if errors else ""


_ERROR = re.compile(r"error|fail|NV_WARN", re.IGNORECASE)


def has_switches() -> bool:
    """Whether the node has NVSwitches of its own: PCI bridges of NVIDIA, as on p4d and p5.

    PCI class 0680, "bridge" (PCI Code and ID Assignment Specification); vendor 10de.
    """
    devices = paths.below("/sys/bus/pci/devices").glob("*")
    return any(_id(device, "vendor") == "0x10de" and _id(device, "class").startswith("0x0680") for device in devices)


def joins_elsewhere(node: Node) -> bool:
    """Whether the switches of its GPUs are outside the node, as with GB200 and GB300: then all of them join a fabric.

    leptonai/gpud pull requests 1106 and 1108 have a joined node, and one whose GPUs report no fabric.
    """
    return node.settings.text("model").startswith("GB") and node.settings.number("accelerator_count") > 1


def _id(device: Path, name: str) -> str:
    return paths.read_text(device / name).strip()
