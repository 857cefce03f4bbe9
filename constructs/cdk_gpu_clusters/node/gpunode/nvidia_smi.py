"""Queries of `nvidia-smi`. Its exit status proves little: a lost GPU keeps its row, and the status stays 0."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import nvml
from .command import Outcome, run

_TIMEOUT_SECONDS = 60
# Cells of a GPU that no longer answers, seen with nvidia-smi 535 on NVIDIA's mock library. NVML's texts for
# NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED.
_LOST = re.compile(r"is lost|unable to determine", re.IGNORECASE)
_NEEDS_RESET = re.compile(r"requires reset|reset required", re.IGNORECASE)
# nvidia-smi(1), "RETURN VALUE": all rows are printed, and one of the GPUs has a corrupted infoROM, or is lost.
_COMPLETE = (0, 14, 15)
_WARNING = re.compile(r"^\s*WARNING:", re.IGNORECASE)
# An index, or a PCI address such as 00000000:1B:00.0.
_KEY = re.compile(r"[0-9]+|[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f.]+")
# Seen with nvidia-smi 535 and 550, with exit status 2.
_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')


def call(*arguments: str, timeout_seconds: float = _TIMEOUT_SECONDS) -> Outcome:
    """The answer to a command line of `nvidia-smi`: by NVML if enabled, otherwise by the program."""
    answer = nvml.ask(arguments, timeout_seconds)
    return answer or run("nvidia-smi", *arguments, timeout_seconds=timeout_seconds)


@dataclass(frozen=True)
class QueryResult:
    """The rows of a query.

    Attributes:
        rows: One for each GPU that answers, field to cell.
        lost: Rows of GPUs that no longer answer, unchanged.
        outcome: The outcome of the program.
        need_reset: Rows of GPUs that answer only after a reset, unchanged.
        warnings: Other lines beside the rows, such as that of a corrupted infoROM.
    """

    rows: list[dict[str, str]]
    lost: list[str]
    outcome: Outcome
    need_reset: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the program came to its end, so that a missing row is a missing GPU."""
        return self.outcome.status in _COMPLETE

    @property
    def without_row(self) -> list[str]:
        """The GPUs that are listed but give no values."""
        return [*self.lost, *self.need_reset]


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
        outcome = call(
            f"--query-{what}={','.join(asked)}",
            "--format=csv,noheader,nounits",
            timeout_seconds=timeout_seconds,
        )
        refused = _REFUSED.search(f"{outcome.output}\n{outcome.errors}")
        if refused is None or refused[1] not in asked[1:]:
            return _read(outcome, asked, fields)
        asked = [asked[0], *(field for field in asked[1:] if _section(field) != _section(refused[1]))]


def _section(field: str) -> str:
    return field.rpartition(".")[0] or field


def _read(outcome: Outcome, asked: Sequence[str], fields: Sequence[str]) -> QueryResult:
    absent = {field: "[N/A]" for field in fields if field not in asked}
    answer = QueryResult([], [], outcome)
    for line in outcome.output.splitlines():
        # Not the csv module: nvidia-smi quotes nothing, and that module stops at a NUL in broken output.
        cells = [cell.strip() for cell in line.split(",")]
        if _LOST.search(line):
            answer.lost.append(line.strip())
        elif _NEEDS_RESET.search(line):
            answer.need_reset.append(line.strip())
        elif len(cells) == len(asked) and _KEY.fullmatch(cells[0]):
            answer.rows.append({**absent, **dict(zip(asked, cells))})
    # One row for each GPU. With more, nobody knows which of them is true.
    if len({row[asked[0]] for row in answer.rows}) < len(answer.rows):
        answer.rows.clear()
    lines = [*outcome.output.splitlines(), *outcome.errors.splitlines()]
    answer.warnings.extend(line.strip() for line in lines if _WARNING.match(line))
    return answer


def number(cell: str) -> float | None:
    """A cell as a number; None if the GPU does not have it."""
    try:
        return float(cell)
    except ValueError:
        return None


@dataclass(frozen=True)
class Details:
    """What `nvidia-smi -q` prints about every GPU.

    Attributes:
        gpus: PCI address to values by their names, such as `GPU Recovery Action`; of equal names the first.
        outcome: The outcome of the program.
    """

    gpus: dict[str, dict[str, str]]
    outcome: Outcome


_DETAILS_OF = re.compile(r"^GPU ([0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f.]+)")
_DETAIL = re.compile(r"^\s+(\S.*?)\s*: (.*?)\s*$")


def details(display: str = "") -> Details:
    """Read what only `nvidia-smi -q` prints, and no query has a field for.

    Args:
        display: One of the sections that `-d` accepts, such as `ECC`; all if empty.
    """
    outcome = call("-q", *(["-d", display] if display else []), timeout_seconds=_TIMEOUT_SECONDS)
    gpus: dict[str, dict[str, str]] = {}
    values: dict[str, str] = {}
    for line in outcome.output.splitlines():
        head, detail = _DETAILS_OF.match(line), _DETAIL.match(line)
        if head:
            values = gpus.setdefault(head[1], {})
        elif detail:
            values.setdefault(detail[1], detail[2])
    return Details(gpus, outcome)


_MIG_DEVICE = re.compile(r"^\s+MIG (\S+)", re.MULTILINE)


def mig_profiles() -> dict[str, int] | None:
    """How many MIG devices of each profile `nvidia-smi -L` lists; None if it lists no GPU."""
    outcome = call("-L", timeout_seconds=_TIMEOUT_SECONDS)
    if not outcome.ok or not re.search(r"^GPU [0-9]+: .*\(UUID: ", outcome.output, re.MULTILINE):
        return None
    return dict(Counter(_MIG_DEVICE.findall(outcome.output)))


def mig_device_count() -> int | None:
    """MIG devices that `nvidia-smi -L` lists; None if it lists no GPU."""
    found = mig_profiles()
    return None if found is None else sum(found.values())
