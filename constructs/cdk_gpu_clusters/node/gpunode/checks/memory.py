"""Checks of GPU memory: errors that ECC could not correct, and faulty rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .. import nvidia_smi
from ..command import run
from ..node import Node
from .check import Result, Severity, Undetermined, gpu_rows, or_well

# Errors since the driver was loaded require a GPU reset (awslabs/awsome-distributed-ai @ 95b939c,
# 2.gpu-cluster-healthcheck). NVIDIA's GPU Memory Error Management guide keeps GPUs with error containment running. It
# asks for a reset or a replacement by remapped rows and the SRAM threshold. Errors in the GPU's lifetime do not show
# its present state.

_VOLATILE = "ecc.errors.uncorrected.volatile.total"
_AGGREGATE = "ecc.errors.uncorrected.aggregate.total"
_TIMEOUT_SECONDS = 60


def check_ecc(_: Node) -> list[Result]:
    """Check the counters of uncorrected errors of every GPU."""
    rows = gpu_rows(["ecc.mode.current", _VOLATILE, _AGGREGATE])
    counting = [row for row in rows if nvidia_smi.number(row[_AGGREGATE]) is not None]
    if not counting:
        raise Undetermined(f"the GPUs count no ECC errors: ECC is {rows[0]['ecc.mode.current']}")
    findings = [finding for row in counting for finding in _ecc_of(row)]
    return or_well("ecc", findings, f"{len(counting)} GPUs without uncorrected errors")


def check_sram(_: Node) -> list[Result]:
    """Check whether a GPU's SRAM exceeds its error threshold. No result for GPUs before Ampere, which do not report it.

    NVIDIA takes back a GPU above the threshold (GPU Memory Error Management, RMA policy).
    """
    outcome = run("nvidia-smi", "-q", "-d", "ECC", timeout_seconds=_TIMEOUT_SECONDS)
    flags = re.findall(r"^\s*SRAM Threshold Exceeded\s*: (\S+)", outcome.output, re.MULTILINE)
    over, below = flags.count("Yes"), flags.count("No")
    if over:
        found = f"{over} GPUs over the error threshold of SRAM"
        return [Result("sram", Severity.REPLACE, found, "none", "replace the node")]
    if not below and not outcome.ok:
        raise Undetermined(f"nvidia-smi: {outcome.words}")
    return [Result("sram", Severity.OK, f"{below} GPUs below the error threshold of SRAM")] if below else []


def _ecc_of(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU {row['index']}"
    now, ever = nvidia_smi.number(row[_VOLATILE]), nvidia_smi.number(row[_AGGREGATE])
    if now:
        found = f"{gpu}: {now:.0f} uncorrected errors since the driver was loaded"
        yield Result("ecc", Severity.RESET, found, "none", "drain the node and reset the GPU")
    elif ever:
        # With MIG devices the driver does not count those since it was loaded.
        since = "" if now is None else ", none since the driver was loaded"
        found = f"{gpu}: {ever:.0f} uncorrected errors in its life{since}"
        yield Result("ecc", Severity.MONITOR, found, "none", "watch whether there are more")


# NVIDIA GPU Memory Error Management: a pending remapping takes effect at the next GPU reset, and a failed remapping
# is the criterion for returning the GPU. GPUs before Ampere retire pages instead, and pending ones wait for a reboot
# (awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck). With MIG devices the driver reports neither
# (NVML, nvmlDeviceGetRemappedRows), and the check has no result.

_PENDING, _FAILURE = "remapped_rows.pending", "remapped_rows.failure"
_RETIRED = "retired_pages.pending"
# nvidia-smi 535 and 550 print 0 and 1 here, and Yes and No elsewhere.
_YES, _NO = ("1", "yes"), ("0", "no")


def check_row_remapping(_: Node) -> list[Result]:
    """Check the remapped rows of every GPU, or its retired pages."""
    rows = nvidia_smi.query([_PENDING, _FAILURE], what="remapped-rows").rows
    known = [row for row in rows if row[_FAILURE].lower() in (*_YES, *_NO)]
    if known:
        findings = [finding for row in known for finding in _rows_of(row)]
        return or_well("row-remapping", findings, f"{len(known)} GPUs without pending or failed remappings")
    return _retired_pages()


def _rows_of(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU at {row['gpu_bus_id']}"
    if row[_FAILURE].lower() in _YES:
        found, fix = f"{gpu}: a row could not be remapped", "replace the node"
        yield Result("row-remapping", Severity.REPLACE, found, "none", fix)
    if row[_PENDING].lower() in _YES:
        found, fix = f"{gpu}: a row waits to be remapped", "drain the node and reset the GPU"
        yield Result("row-remapping", Severity.RESET, found, "none", fix)


def _retired_pages() -> list[Result]:
    rows = [row for row in gpu_rows([_RETIRED]) if row[_RETIRED].lower() in (*_YES, *_NO)]
    if not rows:
        return []
    waiting = [f"GPU {row['index']}: pages wait to be retired" for row in rows if row[_RETIRED].lower() in _YES]
    findings = [Result("row-remapping", Severity.REBOOT, found, "none", "reboot the node") for found in waiting]
    return or_well("row-remapping", findings, f"{len(rows)} GPUs without pages that wait to be retired")
