"""Faulty memory rows: replaced by spare ones at the next reset, or past repair.

NVIDIA GPU Memory Error Management: a pending remapping takes effect at the next GPU reset; a remapping that failed is
the criterion for returning the GPU. GPUs before Ampere retire pages instead: pending ones wait for a reboot
(awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck). With MIG devices the driver says neither
(NVML, nvmlDeviceGetRemappedRows), and the check tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .. import nvidia_smi
from ..node import Node
from .check import Result, Severity
from .gpu_rows import gpu_rows, or_well

_NAME = "row-remapping"
_PENDING, _FAILURE = "remapped_rows.pending", "remapped_rows.failure"
_RETIRED = "retired_pages.pending"
# Seen as 0 and 1 with nvidia-smi 535 and 550; other places of the same program say Yes and No.
_YES, _NO = ("1", "yes"), ("0", "no")


def check_row_remapping(_: Node) -> list[Result]:
    """Look at the remapped rows of every GPU, or at its retired pages."""
    rows = nvidia_smi.query([_PENDING, _FAILURE], what="remapped-rows").rows
    told = [row for row in rows if row[_FAILURE].lower() in (*_YES, *_NO)]
    if told:
        findings = [finding for row in told for finding in _of_gpu(row)]
        return or_well(_NAME, findings, f"{len(told)} GPUs without pending or failed remappings")
    return _retired_pages()


def _of_gpu(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU at {row['gpu_bus_id']}"
    if row[_FAILURE].lower() in _YES:
        yield Result(
            _NAME, Severity.REPLACE, f"{gpu}: a row could not be remapped", "none", "replace the node"
        )
    if row[_PENDING].lower() in _YES:
        fix = "drain the node and reset the GPU"
        yield Result(_NAME, Severity.RESET, f"{gpu}: a row waits to be remapped", "none", fix)


def _retired_pages() -> list[Result]:
    rows = [row for row in gpu_rows([_RETIRED]) if row[_RETIRED].lower() in (*_YES, *_NO)]
    if not rows:
        return []
    findings = [
        Result(
            _NAME, Severity.REBOOT, f"GPU {row['index']}: pages wait to be retired", "none", "reboot the node"
        )
        for row in rows
        if row[_RETIRED].lower() in _YES
    ]
    return or_well(_NAME, findings, f"{len(rows)} GPUs without pages that wait to be retired")
