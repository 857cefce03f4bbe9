"""Merge two changes of one text, line by line: those of a person and ours."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher


def merge(base: str, edited: str, ours: str) -> str | None:
    r"""Bring two changes of a text together.

    Args:
        base: The text that both began with.
        edited: The text as a person changed it.
        ours: The text as we write it now.

    Returns:
        The text with both changes; None if both changed the same or neighbouring lines in different ways.

    Example:
        >>> merge("a: 1\nb: 1\nc: 1\n", "a: 2\nb: 1\nc: 1\n", "a: 1\nb: 1\nc: 3\n")
        'a: 2\nb: 1\nc: 3\n'
    """
    if edited in (base, ours):
        return ours
    if ours == base:
        return edited
    lines, left, right = (text.splitlines(keepends=True) for text in (base, edited, ours))
    kept_left, kept_right = _places(lines, left), _places(lines, right)
    merged: list[str] = []
    at, at_left, at_right = 0, 0, 0
    # Lines that both kept divide the texts into parts; between them, only one of the two may have changed anything.
    for line in [*sorted(kept_left.keys() & kept_right.keys()), len(lines)]:
        end_left, end_right = kept_left.get(line, len(left)), kept_right.get(line, len(right))
        part = _one_of(lines[at:line], left[at_left:end_left], right[at_right:end_right])
        if part is None:
            return None
        merged += [*part, *lines[line : line + 1]]
        at, at_left, at_right = line + 1, end_left + 1, end_right + 1
    return "".join(merged)


def _one_of(base: Sequence[str], edited: Sequence[str], ours: Sequence[str]) -> Sequence[str] | None:
    if edited in (base, ours):
        return ours
    return edited if ours == base else None


def _places(base: Sequence[str], changed: Sequence[str]) -> dict[int, int]:
    """Where the lines of a text are in a changed one: those that were kept, by their number."""
    blocks = SequenceMatcher(None, base, changed, autojunk=False).get_matching_blocks()
    return {block.a + n: block.b + n for block in blocks for n in range(block.size)}
