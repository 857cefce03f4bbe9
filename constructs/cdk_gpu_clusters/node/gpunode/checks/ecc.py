"""Memory errors that ECC could not correct.

Errors since the driver was loaded ask for a GPU reset (awslabs/awsome-distributed-ai @ 95b939c,
2.gpu-cluster-healthcheck). NVIDIA's GPU Memory Error Management guide leaves GPUs with error containment running;
what it wants reset or replaced, it says by remapped rows and the SRAM threshold. Errors of the GPU's whole life say
nothing of today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .. import nvidia_smi
from ..command import run
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import gpu_rows, or_well

_NAME = "ecc"
_VOLATILE = "ecc.errors.uncorrected.volatile.total"
_AGGREGATE = "ecc.errors.uncorrected.aggregate.total"
_TIMEOUT_SECONDS = 60


def check_ecc(_: Node) -> list[Result]:
    """Look at the counters of uncorrected errors of every GPU."""
    rows = gpu_rows(["ecc.mode.current", _VOLATILE, _AGGREGATE])
    counting = [row for row in rows if nvidia_smi.number(row[_AGGREGATE]) is not None]
    if not counting:
        raise Untold(f"the GPUs count no ECC errors: ECC is {rows[0]['ecc.mode.current']}")
    findings = [finding for row in counting for finding in _of_gpu(row)]
    return or_well(_NAME, findings, f"{len(counting)} GPUs without uncorrected errors")


def check_sram(_: Node) -> list[Result]:
    """Look whether a GPU's SRAM has had too many errors; tells nothing of GPUs before Ampere, which do not say.

    NVIDIA takes back a GPU over the threshold (GPU Memory Error Management, RMA policy).
    """
    outcome = run("nvidia-smi", "-q", "-d", "ECC", timeout_seconds=_TIMEOUT_SECONDS)
    said = re.findall(r"^\s*SRAM Threshold Exceeded\s*: (\S+)", outcome.output, re.MULTILINE)
    over, below = said.count("Yes"), said.count("No")
    if over:
        found = f"{over} GPUs over the error threshold of SRAM"
        return [Result("sram", Severity.REPLACE, found, "none", "replace the node")]
    if not below and not outcome.ok:
        raise Untold(f"nvidia-smi: {outcome.words}")
    return [Result("sram", Severity.OK, f"{below} GPUs below the error threshold of SRAM")] if below else []


def _of_gpu(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU {row['index']}"
    now, ever = nvidia_smi.number(row[_VOLATILE]), nvidia_smi.number(row[_AGGREGATE])
    if now:
        found = f"{gpu}: {now:.0f} uncorrected errors since the driver was loaded"
        yield Result(_NAME, Severity.RESET, found, "none", "drain the node and reset the GPU")
    elif ever:
        # With MIG devices the driver does not tell those since it was loaded.
        since = "" if now is None else ", none since the driver was loaded"
        found = f"{gpu}: {ever:.0f} uncorrected errors in its life{since}"
        yield Result(_NAME, Severity.MONITOR, found, "none", "watch whether there are more")
