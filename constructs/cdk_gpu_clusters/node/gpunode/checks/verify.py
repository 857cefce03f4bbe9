"""All checks of a node, in parallel and with a deadline, and the report of their results."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ..node import Node
from .accelerators import (
    check_clocks,
    check_driver,
    check_gpus,
    check_mig,
    check_neuron,
    check_neuron_memory,
    check_recovery,
)
from .check import Check, Result, Severity, Undetermined
from .links import check_fabric, check_numa, check_nvlink, check_pcie
from .memory import check_ecc, check_row_remapping, check_sram
from .network import check_efa, check_efa_provider, check_lustre, check_nccl_plugin, check_nfs

# Above the deadline of one program that a check runs (60 s), so that a check can still name the one that hangs.
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
    """The checks that its settings require of this node, by name, in the order of the report."""
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
        checks.update({"efa": check_efa, "efa-provider": check_efa_provider})
    if settings.number("efa_count") and kind == "gpu":
        checks["nccl-plugin"] = check_nccl_plugin
    if kind:
        checks["numa"] = check_numa
    if settings.number("mounts"):
        checks["lustre"] = check_lustre
    if settings.number("nfs_mounts"):
        checks["nfs"] = check_nfs
    return checks


def verify(node: Node, checks: Mapping[str, Check], *, deadline_seconds: float = _DEADLINE_SECONDS) -> list[Result]:
    """Run checks in parallel.

    A check that fails or is not done in time is UNKNOWN and does not delay the others.

    Args:
        deadline_seconds: How long all of them together may take.

    Returns:
        Their results, in the order of the checks; none without checks.
    """
    answers: dict[str, queue.Queue[list[Result]]] = {name: queue.Queue(1) for name in checks}
    for name, check in checks.items():
        # A daemon: a check that hangs in the kernel must not keep the program from ending.
        threading.Thread(target=_run_check, args=(node, name, check, answers[name]), daemon=True).start()
    end = time.monotonic() + deadline_seconds
    return [result for name, answer in answers.items() for result in _results(name, answer, end)]


def _results(name: str, answer: queue.Queue[list[Result]], end: float) -> list[Result]:
    try:
        return answer.get(timeout=max(0.0, end - time.monotonic()))
    except queue.Empty:
        return [Result(name, Severity.UNKNOWN, "not done in time")]


def _run_check(node: Node, name: str, check: Check, answer: queue.Queue[list[Result]]) -> None:
    try:
        answer.put(list(check(node)))
    except Undetermined as reason:
        answer.put([Result(name, Severity.UNKNOWN, str(reason))])
    except Exception as fault:  # noqa: BLE001 - a broken check proves nothing about the node
        answer.put([Result(name, Severity.UNKNOWN, f"the check itself failed: {type(fault).__name__}: {fault}")])


def worst(results: Sequence[Result]) -> Severity:
    """The highest severity; UNKNOWN if nothing was checked."""
    return max((result.severity for result in results), default=Severity.UNKNOWN)


def as_table(results: Sequence[Result]) -> str:
    """Plain text in columns: severity, check and finding; below a finding, the expected state and what to do."""
    check_width = max((len(result.check) for result in results), default=0)
    word_width = max(len(severity.name) for severity in Severity)
    lines = []
    for result in results:
        head = f"{result.severity.name.lower():<{word_width}}  {result.check:<{check_width}}  "
        lines.append(head + result.found)
        if result.severity is not Severity.OK:
            blank = " " * len(head)
            lines += [f"{blank}expected: {result.expected}"] if result.expected else []
            lines += [f"{blank}to do: {result.fix}"] if result.fix else []
    return "\n".join(lines)


def as_json(results: Sequence[Result], severity: Severity, instance_id: str) -> str:
    """One JSON object, with times in UTC."""
    return json.dumps(
        {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "instance_id": instance_id,
            "severity": severity.name.lower(),
            "results": [{**asdict(result), "severity": result.severity.name.lower()} for result in results],
        }
    )
