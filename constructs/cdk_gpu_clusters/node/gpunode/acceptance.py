"""Tests that a node must pass before it gets work, since counters do not show what they find.

They run programs of the image: DCGM's diagnostics, and `all_reduce_perf` of nccl-tests. A program that is missing, or
that cannot run here, does not judge the node.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import nvidia_smi
from .boot.stage import Stage, Verdict
from .command import NOT_FOUND, run
from .node import Node
from .topology.nccl_test import find_program, library_path, on_one_node, read_rows, size_words
from .watch.mode import Mode, mode_of

# Settings, and their values if they are left out. Levels of DCGM: 1 takes seconds, 2 about two minutes (NVIDIA DCGM
#: user guide, "DCGM Diagnostics", run levels).
_DCGM_LEVEL, _DCGM_DEFAULT = "dcgm_level", 1
_ALL_REDUCE_PERCENT = "all_reduce_percent"

_DCGM_SECONDS = {1: 300, 2: 600}
_MARGIN_SECONDS = 30
# DCGM 3, and 4.
_REPORTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
# dcgm_errors.h, dcgmErrorSeverity_t. A GPU works despite a fault of its configuration, such as persistence mode that is
# off. A warning can be a fault: an exceeded threshold of memory errors is one that isolates the GPU.
_CONFIGURATION, _ISOLATE, _RESET = 5, 2, 6


def acceptance_stages(node: Node) -> list[Stage]:
    """The stages of a node that is otherwise ready. None for GPUs that are split: neither program supports them."""
    settings, stages = node.settings, []
    if settings.text("accelerator") != "gpu" or settings.number("mig_count"):
        return []
    if settings.number(_DCGM_LEVEL, _DCGM_DEFAULT) in _DCGM_SECONDS:
        stages.append(Stage("dcgm", probe_dcgm))
    if settings.number(_ALL_REDUCE_PERCENT) and settings.number("accelerator_count") > 1:
        stages.append(Stage("all-reduce", probe_all_reduce))
    return stages


def probe_dcgm(node: Node) -> Verdict:
    """Whether DCGM's diagnostics of the level in the settings pass. Warnings are only reported."""
    level = node.settings.number(_DCGM_LEVEL, _DCGM_DEFAULT)
    busy = _users() if level > 1 else ""
    if busy:
        return Verdict.ok(f"not judged: {busy}")
    seconds = _DCGM_SECONDS[level]
    # It ends itself before the deadline. By default the protocol of DCGM waits for hours.
    own = ("--timeout", str(seconds - _MARGIN_SECONDS))
    outcome = run("dcgmi", "diag", "-r", str(level), "-j", *own, timeout_seconds=seconds)
    if outcome.status == NOT_FOUND:
        return Verdict.ok("dcgmi is not installed")
    if outcome.hung:
        # It still runs on the GPUs (NVIDIA/DCGM issue 247).
        return _not_passed(node, f"DCGM: {outcome.words}", "replace the node, or set dcgm_level to 0")
    results = list(_results(outcome.output))
    if not results:
        return Verdict.ok(f"not judged: dcgmi: {outcome.words or 'no report'}")
    faults = [words for words, is_fault in results if is_fault]
    notes = [words for words, is_fault in results if words and not is_fault]
    if faults:
        return _not_passed(node, f"DCGM: {'; '.join(faults)}", f"dcgmi diag -r {level}; replace the node")
    return Verdict.ok("; ".join([f"DCGM's diagnostics of level {level} pass", *notes]))


def _results(text: str) -> Iterator[tuple[str, bool]]:
    """Every result of a report that is no skip: words unless it passed, and whether it is a fault of the node."""
    try:
        report = json.loads(text[text.index("{") :])
        categories = next(report[name]["test_categories"] for name in _REPORTS if name in report)
        rows = [
            (str(test["name"]), row) for category in categories for test in category["tests"] for row in _rows(test)
        ]
    except (ValueError, KeyError, TypeError, StopIteration):
        return
    for name, row in rows:
        status = str(row.get("status", "")).lower()
        if status == "pass":
            yield "", False
        elif status in ("fail", "warn"):
            yield _words(name, row), _is_fault(row, failed=status == "fail")


def _rows(test: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of a test. DCGM 4 has errors of no GPU only in its summary."""
    rows = [row for row in test.get("results", []) if isinstance(row, dict)]
    summary = test.get("test_summary")
    has_reasons = any(_warnings(row) for row in rows)
    return [summary] if isinstance(summary, dict) and _warnings(summary) and not has_reasons else rows


def _warnings(row: Mapping[str, Any]) -> list[Any]:
    found = row.get("warnings", [])
    return found if isinstance(found, list) else [found]


def _is_fault(row: Mapping[str, Any], *, failed: bool) -> bool:
    """Whether a GPU is not fit for work. A failure without severities, as before DCGM 3.3, shows that it is not."""
    severities = {one.get("error_severity") if isinstance(one, dict) else None for one in _warnings(row)}
    return severities != {_CONFIGURATION} if failed else bool(severities & {_ISOLATE, _RESET})


def _words(name: str, row: Mapping[str, Any]) -> str:
    place = row.get("entity_id", row.get("gpu_id", row.get("gpu_ids", "")))
    texts = [_warning(one) for one in _warnings(row)]
    gpu = f" of GPU {place}" if str(place) else ""
    return f"{name}{gpu}: {' '.join(' '.join(texts).split())[:200] or row.get('status')}"


def _warning(one: object) -> str:
    """The text of a warning; DCGM 3.3 has it under another name at level 1."""
    return str(one.get("warning", one.get("warnings", ""))) if isinstance(one, dict) else str(one)


# The largest message that fits into every GPU with NVSwitch, in seconds.
_MESSAGE, _ALL_REDUCE_SECONDS = "4G", 300


def probe_all_reduce(node: Node) -> Verdict:
    """Whether an all-reduce over the GPUs of this node has right results, and reaches a part of the NVLink bandwidth.

    The bus bandwidth does not depend on the number of GPUs, and compares with the bandwidth of a GPU's links in one
    direction (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
    """
    percent, gpus = node.settings.number(_ALL_REDUCE_PERCENT), node.settings.number("accelerator_count")
    one_way = node.settings.number("nvlink") / 2
    program = find_program()
    reason = _users() if program else "no all_reduce_perf"
    if reason:
        return Verdict.ok(f"not judged: {reason}")
    outcome = run(
        *on_one_node(program, gpus, _MESSAGE),
        timeout_seconds=_ALL_REDUCE_SECONDS,
        environment={"LD_LIBRARY_PATH": library_path(program, os.environ)},
        client="all_reduce_perf",
    )
    rows = read_rows(outcome.output)
    if not outcome.ok or not rows:
        end = " ".join(outcome.text.split())[-300:]
        return _not_passed(node, f"all_reduce_perf failed: {end}", "gpunode nccl-test; replace the node")
    wrong = sum(row.wrong for row in rows)
    if wrong:
        return _not_passed(node, f"all_reduce_perf: {wrong} values are wrong", "replace the node")
    found = rows[-1].gbytes_per_s
    words = f"{found:g} GB/s at {size_words(rows[-1].size_bytes)}"
    if one_way and found < one_way * percent / 100:
        words += f", less than {percent} % of {one_way:g} GB/s"
        return _not_passed(node, f"all-reduce too slow: {words}", "gpunode nccl-test; replace the node")
    return Verdict.ok(f"all-reduce: {words}")


def _users() -> str:
    """The processes that use the GPUs; empty if there are none."""
    found = nvidia_smi.call("--query-compute-apps=pid", "--format=csv,noheader").output.split()
    pids = [word for word in found if word.isdecimal()]
    return f"GPUs are in use by {' '.join(pids[:8])}" if pids else ""


def _not_passed(node: Node, words: str, fix: str) -> Verdict:
    """The node fails, unless the watchdog of its fleet only reports."""
    return Verdict.failed(words, fix) if mode_of(node) is Mode.ON else Verdict.ok(f"{words} (only reported)")
