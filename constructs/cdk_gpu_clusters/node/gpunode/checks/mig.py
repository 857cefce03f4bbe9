"""MIG: as many devices as the layout has. `gpu-mig` makes them again at every boot, so that a reboot is the repair."""

from __future__ import annotations

from .. import nvidia_smi
from ..node import Node
from .check import Result, Severity

_NAME = "mig"


def check_mig(node: Node) -> list[Result]:
    """Count the MIG devices."""
    wanted, seen = node.settings.number("mig_count"), nvidia_smi.mig_device_count()
    found, expected = f"{seen} MIG devices", f"{wanted} MIG devices"
    if seen == wanted:
        return [Result(_NAME, Severity.OK, found, expected)]
    return [Result(_NAME, Severity.REBOOT, found, expected, "reboot the node; see journalctl -u gpu-mig")]
