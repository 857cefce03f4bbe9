"""Checks of GPU memory: errors that ECC could not correct, and faulty rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .. import nvidia_smi
from ..node import Node
from .check import Result, Severity, Undetermined, gpu_rows, of_all_gpus, query_gpus

# Errors since the driver was loaded require a GPU reset (awslabs/awsome-distributed-ai @ 95b939c,
# 2.gpu-cluster-healthcheck). NVIDIA's GPU Memory Error Management guide keeps GPUs with error containment running. It
# asks for a reset or a replacement by remapped rows and the SRAM threshold. Errors in the GPU's lifetime do not show
# its present state.

_VOLATILE = "ecc.errors.uncorrected.volatile.total"
_AGGREGATE = "ecc.errors.uncorrected.aggregate.total"


def check_ecc(node: Node) -> list[Result]:
    """Check the counters of uncorrected errors of every GPU."""
    rows = gpu_rows(["ecc.mode.current", _VOLATILE, _AGGREGATE])
    counting = [row for row in rows if _counts(row)]
    if not counting:
        raise Undetermined(f"the GPUs count no ECC errors: ECC is {rows[0]['ecc.mode.current']}")
    findings = [finding for row in counting for finding in _ecc_of(row)]
    found = f"{len(counting)} GPUs without uncorrected errors"
    return of_all_gpus("ecc", node, findings, found, known=len(counting))


def _counts(row: Mapping[str, str]) -> bool:
    """Whether a GPU counts errors. A split one does not count those since the driver was loaded."""
    now = row[_VOLATILE]
    return nvidia_smi.number(row[_AGGREGATE]) is not None and (nvidia_smi.number(now) is not None or _is_absent(now))


# What a GPU of driver 590 or later reports beside its SRAM (NVML API reference, nvmlDeviceGetRepairStatus and
# nvmlDeviceGetUnrepairableMemoryFlag): pending repairs are made by a reset. Also with MIG devices, where the driver
# reports no remapped rows.
_SRAM = "SRAM Threshold Exceeded"
_REPAIRS: Mapping[str, tuple[Severity, str]] = {
    _SRAM: (Severity.REPLACE, "replace the node"),
    "Unrepairable Memory": (Severity.REPLACE, "replace the node"),
    "Channel Repair Pending": (Severity.RESET, "drain the node and reset the GPU"),
    "TPC Repair Pending": (Severity.RESET, "drain the node and reset the GPU"),
}


def check_sram(node: Node) -> list[Result]:
    """Check whether a GPU's SRAM exceeds its error threshold, and whether the GPU waits for a repair.

    NVIDIA takes back a GPU above the threshold (GPU Memory Error Management, RMA policy). No result for GPUs before
    Ampere, which report none of it.
    """
    answer = nvidia_smi.details("ECC")
    if not answer.gpus:
        raise Undetermined(f"nvidia-smi: {answer.outcome.words or 'lists no GPU'}")
    flags = {gpu: {name: values.get(name, "N/A") for name in _REPAIRS} for gpu, values in answer.gpus.items()}
    known = {gpu: values for gpu, values in flags.items() if {"Yes", "No"} & set(values.values())}
    findings = [
        Result("sram", severity, f"GPU {gpu}: {name}", "none", fix)
        for gpu, values in known.items()
        for name, (severity, fix) in _REPAIRS.items()
        if values[name] == "Yes"
    ]
    if not known and all(set(values.values()) <= {"N/A", "[N/A]"} for values in flags.values()):
        return []
    found = f"{len(known)} GPUs below the error threshold of SRAM, none waits for a repair"
    return of_all_gpus("sram", node, findings, found, known=len(known))


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
_RETIRED_COUNTS = ("retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count")
# NVIDIA Dynamic Page Retirement, "RMA": a GPU with this number of retired pages is replaced.
_MOST_RETIRED = 60
# nvidia-smi 535 and 550 print 0 and 1 here, and Yes and No elsewhere.
_YES, _NO = ("1", "yes"), ("0", "no")


def check_row_remapping(node: Node) -> list[Result]:
    """Check the remapped rows of every GPU, or its retired pages."""
    rows = query_gpus([_PENDING, _FAILURE], what="remapped-rows").rows
    known = [row for row in rows if {row[_PENDING].lower(), row[_FAILURE].lower()} <= {*_YES, *_NO}]
    if not known:
        return _retired_pages(node)
    findings = [finding for row in known for finding in _rows_of(row)]
    # Some GPUs of the node may be split, others not.
    split = [row for row in rows if _is_absent(row[_PENDING]) and _is_absent(row[_FAILURE])]
    found = f"{len(known)} GPUs without pending or failed remappings"
    return of_all_gpus("row-remapping", node, findings, found, known=len(known) + len(split))


def _is_absent(cell: str) -> bool:
    return cell.strip("[]") in ("N/A", "Not Supported")


def _rows_of(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU at {row['gpu_bus_id']}"
    if row[_FAILURE].lower() in _YES:
        found, fix = f"{gpu}: a row could not be remapped", "replace the node"
        yield Result("row-remapping", Severity.REPLACE, found, "none", fix)
    if row[_PENDING].lower() in _YES:
        found, fix = f"{gpu}: a row waits to be remapped", "drain the node and reset the GPU"
        yield Result("row-remapping", Severity.RESET, found, "none", fix)


def _retired_pages(node: Node) -> list[Result]:
    every = gpu_rows([_RETIRED, *_RETIRED_COUNTS])
    rows = [row for row in every if row[_RETIRED].lower() in (*_YES, *_NO)]
    if not rows and all(_is_absent(row[_RETIRED]) for row in every):
        return []
    findings = [finding for row in rows for finding in _retired_of(row)]
    found = f"{len(rows)} GPUs without pages that wait to be retired"
    return of_all_gpus("row-remapping", node, findings, found, known=len(rows))


def _retired_of(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU {row['index']}"
    retired = sum(nvidia_smi.number(row[name]) or 0 for name in _RETIRED_COUNTS)
    if retired >= _MOST_RETIRED:
        found = f"{gpu}: {retired:.0f} retired pages"
        yield Result("row-remapping", Severity.REPLACE, found, f"less than {_MOST_RETIRED}", "replace the node")
    if row[_RETIRED].lower() in _YES:
        found = f"{gpu}: pages wait to be retired"
        yield Result("row-remapping", Severity.REBOOT, found, "none", "reboot the node")
