"""What `nvidia-smi` says. Its exit status says little: a lost GPU keeps its row, and the status stays 0."""

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

    A driver that does not know a field refuses the whole query. Such a field is left out with its section (what
    stands before its last dot), and its cells say so, as for a GPU that has no such thing.

    Args:
        fields: Fields as `nvidia-smi --help-query-...` lists them.
        what: What is asked about: `gpu`, or another `--query-...` with a row for each GPU, such as `remapped-rows`.
        timeout_seconds: Deadline of each of at most as many tries as there are sections.
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


def _read(outcome: Outcome, asked: Sequence[str], fields: Sequence[str]) -> Answer:
    absent = {field: "[N/A]" for field in fields if field not in asked}
    rows: list[dict[str, str]] = []
    lost: list[str] = []
    for line in outcome.output.splitlines():
        # Not the csv module: nvidia-smi quotes nothing, and that module ends at a NUL of a broken output.
        cells = [cell.strip() for cell in line.split(",")]
        if _LOST.search(line):
            lost.append(line.strip())
        elif len(cells) == len(asked) and _KEY.fullmatch(cells[0]):
            rows.append({**absent, **dict(zip(asked, cells))})
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
