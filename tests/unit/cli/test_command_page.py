"""What `docs/command-line.md` shows of the command is what it prints, from the examples of this repository.

A block of the page starts with `$ gpu-clusters …`; a line `...` in it stands for lines that are left out.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.group import COMMANDS
from cdk_gpu_clusters_stacks.cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "command-line.md"
BLOCKS = re.findall(r"```console\n\$ gpu-clusters ([^\n]+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_block_of_the_page_is_what_the_command_prints(
    command: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    main(shlex.split(command))
    printed = capsys.readouterr().out
    for part in filter(None, re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)):
        assert part in printed
        printed = printed.partition(part)[2]
    assert printed == "" or shown.endswith("...\n")


def test_the_page_names_every_sub_command_and_shows_some() -> None:
    text = PAGE.read_text("utf-8")
    assert [name for name in COMMANDS if f"| `{name}` |" not in text] == []
    assert len(BLOCKS) >= 2
