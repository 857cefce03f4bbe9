"""Queries of `nvidia-smi`. Its exit status proves little: a lost GPU keeps its row, and the status stays 0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .command import Outcome, run

_TIMEOUT_SECONDS = 60
# Cells of a GPU that no longer answers, seen with nvidia-smi 535 on NVIDIA's mock library.
_LOST = re.compile(r"is lost|unable to determine|unknown error", re.IGNORECASE)
# An index, or a PCI address such as 00000000:1B:00.0.
_KEY = re.compile(r"[0-9]+|[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f.]+")
# Seen with nvidia-smi 535 and 550, with exit status 2.
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')


@dataclass(frozen=True)
class QueryResult:
    """The rows of a query.

    Attributes:
        rows: One for each GPU that answers, field to cell.
        lost: Rows of GPUs that no longer answer, unchanged.
    """

    rows: list[dict[str, str]]
    lost: list[str]
    outcome: Outcome


def query(fields: Sequence[str], *, what: str = "gpu", timeout_seconds: float = _TIMEOUT_SECONDS) -> QueryResult:
    """Query every GPU.

    A driver that does not know a field refuses the entire query. Such a field is left out with its section (the part
    before its last dot), and its cells are `[N/A]`, as for a GPU without it.

    Args:
        fields: Fields as `nvidia-smi --help-query-...` lists them.
        what: The subject: `gpu`, or another `--query-...` with a row for each GPU, such as `remapped-rows`.
        timeout_seconds: Deadline of each query; there are at most as many as sections.
    """
    key = "index" if what == "gpu" else "gpu_bus_id"
    asked = [key, *(field for field in fields if field != key)]
    while True:
        outcome = run(
            "nvidia-smi",
            f"--query-{what}={','.join(asked)}",
            "--format=csv,noheader,nounits",
            timeout_seconds=timeout_seconds,
        )
        refused = _REFUSED.search(outcome.output)
        if refused is None or refused[1] not in asked[1:]:
            return _read(outcome, asked, fields)
        asked = [asked[0], *(field for field in asked[1:] if _section(field) != _section(refused[1]))]


def _section(field: str) -> str:
    return field.rpartition(".")[0] or field


def _read(outcome: Outcome, asked: Sequence[str], fields: Sequence[str]) -> QueryResult:
    absent = {field: "[N/A]" for field in fields if field not in asked}
    rows: list[dict[str, str]] = []
    lost: list[str] = []
    for line in outcome.output.splitlines():
        # Not the csv module: nvidia-smi quotes nothing, and that module stops at a NUL in broken output.
        cells = [cell.strip() for cell in line.split(",")]
        if _LOST.search(line):
            lost.append(line.strip())
        elif len(cells) == len(asked) and _KEY.fullmatch(cells[0]):
            rows.append({**absent, **dict(zip(asked, cells))})
    return QueryResult(rows, lost, outcome)


def number(cell: str) -> float | None:
    """A cell as a number; None if the GPU does not have it."""
    try:
        return float(cell)
    except ValueError:
        return None


def mig_device_count() -> int:
    """MIG devices that `nvidia-smi -L` lists."""
    listing = run("nvidia-smi", "-L", timeout_seconds=_TIMEOUT_SECONDS).output
    return len(re.findall(r"^\s+MIG ", listing, re.MULTILINE))
