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
