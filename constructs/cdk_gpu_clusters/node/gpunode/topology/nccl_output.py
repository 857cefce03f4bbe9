"""What `all_reduce_perf` of nccl-tests prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

_GIB = 1024**3
# size count type redop [root], then twice: time algbw busbw #wrong. Out of place first, then in place.
_ROW = re.compile(r"^ *\d+ +\d+ +[a-z]\w* +\w+( +-?\d+)?(?: +[\d.e+-]+ +[\d.]+ +[\d.]+ +\S+){2} *$")


@dataclass(frozen=True)
class Row:
    """One size.

    Attributes:
        size_bytes: Size of the message.
        gbytes_per_s: Bus bandwidth, the better of out of place and in place.
        wrong: Values that came out wrong.
    """

    size_bytes: int
    gbytes_per_s: float
    wrong: int


def read_rows(text: str) -> list[Row]:
    """The rows of a run, in their order; ranks may print other lines between them."""
    return [_row(line.split()) for line in text.splitlines() if _ROW.match(line)]


def size_words(size_bytes: int) -> str:
    """A size for people.

    Example:
        >>> size_words(16 * 1024**3), size_words(8)
        ('16 GiB', '8 B')
    """
    for unit, factor in (("GiB", _GIB), ("MiB", 1024**2), ("KiB", 1024)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}"
    return f"{size_bytes} B"


def read_size(text: str) -> int:
    """A size as nccl-tests take it, such as `16G`.

    Raises:
        ValueError: If it is none.
    """
    found = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if found is None:
        raise ValueError(f"{text} is not a size, such as 16G")
    return int(found[1]) * {"": 1, "K": 1024, "M": 1024**2, "G": _GIB}[found[2]]


def _row(words: list[str]) -> Row:
    # Without a check of the values, their number is N/A.
    wrong = sum(int(word) for word in (words[-5], words[-1]) if word.isdecimal())
    return Row(int(words[0]), max(float(words[-6]), float(words[-2])), wrong)
