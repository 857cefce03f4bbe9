"""What `nvidia-smi` says. Its exit status says little: a lost GPU keeps its row, and the status stays 0."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .command import Outcome, run

_TIMEOUT_SECONDS = 60
# Cells of a GPU that no longer answers, seen with nvidia-smi 535 on NVIDIA's mock library.
_LOST = re.compile(r"is lost|unable to determine|unknown error", re.IGNORECASE)
_ABSENT = re.compile(r"\[?(N/A|Not Supported|Requested functionality .*)\]?", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """The rows of a query.

    Attributes:
        rows: One for each GPU that answers, field to cell.
        lost: Rows of GPUs that no longer answer, as they stand.
        outcome: What the program did.
    """

    rows: list[dict[str, str]]
    lost: list[str]
    outcome: Outcome


def query(fields: Sequence[str], *, what: str = "gpu", timeout_seconds: float = _TIMEOUT_SECONDS) -> Answer:
    """Ask about every GPU.

    Args:
        fields: Fields as `nvidia-smi --help-query-gpu` lists them; `index` is always among the answer's.
        what: What is asked about: `gpu`, or another `--query-...` of the program.
        timeout_seconds: Deadline.
    """
    names = ["index", *(field for field in fields if field != "index")]
    outcome = run(
        "nvidia-smi",
        f"--query-{what}={','.join(names)}",
        "--format=csv,noheader,nounits",
        timeout_seconds=timeout_seconds,
    )
    rows: list[dict[str, str]] = []
    lost: list[str] = []
    for line in outcome.output.splitlines():
        cells = [cell.strip() for cell in next(csv.reader([line]), [])]
        if _LOST.search(line):
            lost.append(line.strip())
        elif len(cells) == len(names) and cells[0].isdigit():
            rows.append(dict(zip(names, cells)))
    return Answer(rows, lost, outcome)


def number(cell: str) -> float | None:
    """A cell as a number; None where the GPU has no such thing."""
    try:
        return float(cell)
    except ValueError:
        return None


def is_absent(cell: str) -> bool:
    """Whether a cell says that the GPU has no such thing."""
    return bool(_ABSENT.fullmatch(cell.strip()))


def mig_device_count() -> int:
    """MIG devices that `nvidia-smi -L` lists."""
    listing = run("nvidia-smi", "-L", timeout_seconds=_TIMEOUT_SECONDS).output
    return len(re.findall(r"^\s+MIG ", listing, re.MULTILINE))
