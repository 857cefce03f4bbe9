"""The pages of the documentation, and the code on them."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
COOKBOOK = REPOSITORY / "docs" / "cookbook.md"
PAGES = (README, *sorted((REPOSITORY / "docs").rglob("*.md")))


def name_of(page: Path) -> str:
    """A page's path in the repository, as the name of a test."""
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in that language, in order."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def without_code(page: Path) -> str:
    """The text of a page, its blocks and its code in the line left out."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def named_tests(page: Path) -> set[str]:
    """The tests that a page names, as `folder/test_file.py::test_name` below the folder of tests."""
    return set(re.findall(r"`([\w/]+\.py::\w+)`", page.read_text(encoding="utf-8")))


def named_test_files(page: Path) -> set[str]:
    """The files and folders of tests that a page names, as `tests/...`."""
    return set(re.findall(r"`(tests/[\w/.-]+)`", page.read_text(encoding="utf-8")))
