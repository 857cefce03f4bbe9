"""The PCIe link of every GPU: as wide and as fast as it can be here.

`nvidia-smi --help-query-gpu` (535 and 550): width and generation may be lower while the GPU is not in use, and the
maximum is that of GPU and system together. What a narrow link asks for, no source says: it is watched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .. import nvidia_smi
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import gpu_rows, or_well

_NAME = "pcie"
_WIDTH, _WIDEST = "pcie.link.width.current", "pcie.link.width.max"
_GENERATION, _LATEST = "pcie.link.gen.current", "pcie.link.gen.max"
_IDLE = "clocks_event_reasons.gpu_idle"
_FIX = "look again under load; a link that stays so is the host's"


def check_pcie(_: Node) -> list[Result]:
    """Compare width and generation of every link with their maximum."""
    rows = gpu_rows([_WIDTH, _WIDEST, _GENERATION, _LATEST, _IDLE])
    told = [row for row in rows if nvidia_smi.number(row[_WIDTH]) and nvidia_smi.number(row[_WIDEST])]
    if not told:
        raise Untold("the GPUs do not tell their PCIe links")
    findings = [finding for row in told for finding in _of_gpu(row)]
    kinds = sorted({f"generation {row[_GENERATION]} of {row[_LATEST]}, x{row[_WIDTH]}" for row in told})
    return or_well(_NAME, findings, f"{len(told)} GPUs: {'; '.join(kinds)}")


def _of_gpu(row: Mapping[str, str]) -> Iterator[Result]:
    gpu = f"GPU {row['index']}"
    if _lower(row, _WIDTH, _WIDEST):
        yield Result(_NAME, Severity.MONITOR, f"{gpu}: x{row[_WIDTH]}", f"x{row[_WIDEST]}", _FIX)
    if _lower(row, _GENERATION, _LATEST) and row[_IDLE] == "Not Active":
        found = f"{gpu}: generation {row[_GENERATION]}, in use"
        yield Result(_NAME, Severity.MONITOR, found, f"generation {row[_LATEST]}", _FIX)


def _lower(row: Mapping[str, str], current: str, maximum: str) -> bool:
    now, most = nvidia_smi.number(row[current]), nvidia_smi.number(row[maximum])
    return now is not None and most is not None and now < most
