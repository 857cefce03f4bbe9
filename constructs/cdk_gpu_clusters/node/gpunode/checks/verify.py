"""All checks of a node beside each other, under a deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence

from ..node import Node
from .check import Check, Result, Severity, Untold
from .clocks import check_clocks
from .driver import check_driver
from .ecc import check_ecc, check_sram
from .efa import check_efa
from .fabric import check_fabric
from .gpus import check_gpus
from .lustre import check_lustre
from .mig import check_mig
from .nccl import check_nccl_plugin
from .neuron import check_neuron, check_neuron_memory
from .numa import check_numa
from .nvlink import check_nvlink
from .pcie import check_pcie
from .recovery import check_recovery
from .row_remapping import check_row_remapping

# Above the deadline of one program that a check runs (60 s), so that a check can still say which one hangs.
_DEADLINE_SECONDS = 90

_GPU_CHECKS: Mapping[str, Check] = {
    "gpus": check_gpus,
    "driver": check_driver,
    "recovery": check_recovery,
    "ecc": check_ecc,
    "sram": check_sram,
    "row-remapping": check_row_remapping,
    "pcie": check_pcie,
    "clocks": check_clocks,
}


def checks_of(node: Node) -> dict[str, Check]:
    """The checks that its settings ask of this node, by their names, in the order in which they are told."""
    settings = node.settings
    kind = settings.text("accelerator")
    checks: dict[str, Check] = {}
    if kind == "gpu":
        checks.update(_GPU_CHECKS)
    if kind == "gpu" and settings.number("nvlink"):
        checks.update({"nvlink": check_nvlink, "fabric": check_fabric})
    if settings.number("mig_count"):
        checks["mig"] = check_mig
    if kind == "neuron":
        checks.update({"neuron": check_neuron, "neuron-memory": check_neuron_memory})
    if settings.number("efa_count"):
        checks["efa"] = check_efa
    if settings.number("efa_count") and kind == "gpu":
        checks["nccl-plugin"] = check_nccl_plugin
    if kind:
        checks["numa"] = check_numa
    if settings.number("mounts"):
        checks["lustre"] = check_lustre
    return checks


def verify(
    node: Node, checks: Mapping[str, Check], *, deadline_seconds: float = _DEADLINE_SECONDS
) -> list[Result]:
    """Run checks beside each other.

    One that breaks, or that is not done in time, tells nothing and holds nobody back.

    Args:
        node: This node.
        checks: Checks by name.
        deadline_seconds: How long all of them together may take.

    Returns:
        Their results, in the order of the checks; none without checks.
    """
    answers: dict[str, queue.Queue[list[Result]]] = {name: queue.Queue(1) for name in checks}
    for name, check in checks.items():
        # A daemon: one that hangs in the kernel must not keep the program from ending.
        threading.Thread(target=_answer, args=(node, name, check, answers[name]), daemon=True).start()
    end = time.monotonic() + deadline_seconds
    return [result for name, answer in answers.items() for result in _results(name, answer, end)]


def _results(name: str, answer: queue.Queue[list[Result]], end: float) -> list[Result]:
    try:
        return answer.get(timeout=max(0.0, end - time.monotonic()))
    except queue.Empty:
        return [Result(name, Severity.UNKNOWN, "not done in time")]


def _answer(node: Node, name: str, check: Check, answer: queue.Queue[list[Result]]) -> None:
    try:
        answer.put(list(check(node)))
    except Untold as reason:
        answer.put([Result(name, Severity.UNKNOWN, str(reason))])
    except Exception as fault:  # noqa: BLE001 - a broken check tells nothing about the node
        answer.put(
            [Result(name, Severity.UNKNOWN, f"the check itself failed: {type(fault).__name__}: {fault}")]
        )


def worst(results: Sequence[Result]) -> Severity:
    """The highest severity; UNKNOWN where nothing was checked, since nothing was found to be well."""
    return max((result.severity for result in results), default=Severity.UNKNOWN)
