"""docs/tutorial.md, run from the page: a clean Debian, the emulator, and nodes that boot.

The tests are the sections of the page, in its order; each goes on where the one before has ended.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pages import run_by
from tutorial.page import PAGE, Section, sections
from tutorial.run import Tutorial

SECTIONS = sections(PAGE.read_text(encoding="utf-8"))


def test_every_block_is_part_of_a_section() -> None:
    assert [one.text for one in run_by(__file__)] == [block.text for section in SECTIONS for block in section.blocks]


@pytest.mark.parametrize("section", SECTIONS, ids=[one.title for one in SECTIONS])
def test_section(
    section: Section,
    tutorial: Tutorial,
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    known = len(tutorial.differences)
    tutorial.run(section)
    seconds, total = tutorial.times[section.title], sum(tutorial.times.values())
    record_property("tutorial", f"{seconds:5.0f} s, {total:5.0f} s since the start: {section.title}")
    differences = tutorial.differences[known:]
    if not request.config.getoption("--update"):
        assert not differences, "\n\n".join(differences)
