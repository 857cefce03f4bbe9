"""The NVSwitch fabric: its manager runs, and every GPU has joined it.

Without the manager CUDA fails on systems with NVSwitch, so that the node needs a reset of it (severity RESET in
awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck). A GPU has joined when its state is `Completed` and
its status `Success` (NVIDIA Fabric Manager user guide); only Hopper and later say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..boot.services import look_at_fabric_manager
from ..boot.stage import State
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import gpu_rows, or_well

_NAME = "fabric"


def check_fabric(node: Node) -> list[Result]:
    """Look at the fabric manager, and at the fabric state of every GPU."""
    manager = look_at_fabric_manager(node)
    if manager.state is not State.OK:
        fix = f"systemctl restart nvidia-fabricmanager; {manager.fix}"
        return [Result(_NAME, Severity.RESET, manager.reason, "nvidia-fabricmanager runs", fix)]
    rows = gpu_rows(["fabric.state", "fabric.status"])
    told = [row for row in rows if _word(row["fabric.state"])]
    if not told and manager.reason.endswith("runs"):
        return [Result(_NAME, Severity.OK, f"{manager.reason}; the GPUs do not say whether they joined")]
    if not told:
        raise Untold(f"fabric manager: {manager.reason}; the GPUs do not say whether they joined a fabric")
    findings = [finding for row in told for finding in _of_gpu(row)]
    return or_well(_NAME, findings, f"{manager.reason}; {len(told)} GPUs have joined the fabric")


def _of_gpu(row: Mapping[str, str]) -> Iterator[Result]:
    state, status = _word(row["fabric.state"]), _word(row["fabric.status"])
    found, expected = f"GPU {row['index']}: {state}, {status or 'no status'}", "Completed, Success"
    if state != "Completed":
        fix = "wait; then look at journalctl -u nvidia-fabricmanager"
        yield Result(_NAME, Severity.MONITOR, found, expected, fix)
    elif status != "Success":
        fix = "drain the node; restart nvidia-fabricmanager; reset the GPU"
        yield Result(_NAME, Severity.RESET, found, expected, fix)


def _word(cell: str) -> str:
    """The state of a cell such as `state  Completed`, as nvidia-smi 535 and 550 print it; empty for none."""
    word = re.sub(r"^(state|status)\s+", "", cell.strip())
    return "" if word.strip("[]") in ("N/A", "Not Supported") else word
