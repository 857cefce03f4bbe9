"""What checks ask of every GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import nvidia_smi
from .check import Result, Severity, Untold


def gpu_rows(fields: Sequence[str], *, what: str = "gpu") -> list[dict[str, str]]:
    """One row for each GPU that answers; the check of GPUs tells of the others.

    Args:
        fields: Fields of `nvidia-smi --query-...`.
        what: Which query.

    Raises:
        Untold: If none answers.
    """
    answer = nvidia_smi.query(fields, what=what)
    if not answer.rows:
        raise Untold(f"nvidia-smi: {'; '.join(answer.lost) or answer.outcome.words or 'lists no GPU'}")
    return answer.rows


def or_well(check: str, findings: Iterable[Result], found: str) -> list[Result]:
    """The findings of a check, or that all is well.

    Args:
        check: Name of the check.
        findings: What is wrong.
        found: What is there, for people.
    """
    return list(findings) or [Result(check, Severity.OK, found)]


def list_indexes(indexes: Sequence[str]) -> str:
    """GPUs by their indexes in one word, such as `0-3,5`."""
    numbers = sorted(int(index) for index in indexes)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
