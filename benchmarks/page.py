"""The page that benchmarks write their tables into, and what they say of the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def write_block(name: str, lines: list[str]) -> None:
    """Replace what stands between the marks of a block of the page."""
    start, end = f"<!-- {name}: start -->\n", f"<!-- {name}: end -->"
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        sys.exit(f"benchmarks: {PAGE.name} has no block {name}")
    PAGE.write_text(before + start + "\n".join([*lines, ""]) + end + after, encoding="utf-8")


def cores_and_memory() -> str:
    """The size of this machine, in words."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory_gib:.0f} GiB"
