"""`docs/command-line.md` names every sub-command; tests/deploy/test_commands_on_pages.py runs what it shows."""

from __future__ import annotations

from cdk_gpu_clusters_stacks.cli.group import COMMANDS
from pages import REPOSITORY, blocks

PAGE = REPOSITORY / "docs" / "command-line.md"


def test_the_page_names_every_sub_command_and_shows_some() -> None:
    text = PAGE.read_text("utf-8")
    assert [name for name in COMMANDS if f"| `{name}` |" not in text] == []
    assert len(blocks(PAGE, "console")) >= 5
