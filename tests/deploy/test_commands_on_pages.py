"""The commands on pages run, in a folder with a cluster file, and print what the pages show.

A comment above a block states what is left out (tests/support/pages.py). In a block of `console`, what follows `$ ` is
run, and what follows it is compared; a line `...` marks lines that are left out. `cdk` deploys to the emulator.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters import GpuFleet
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks.cli.main import main
from page_commands import Command, commands_of, script_of
from pages import README, REPOSITORY, Block, blocks, run_by
from stack_fixtures import Site

BLOCKS = run_by(__file__)
CONSOLES = [one for one in BLOCKS if one.language == "console"]
SCRIPTS = [one for one in BLOCKS if one.language == "sh"]
STORE = (
    "data:\n  corpus: {{ lustre: {{ storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: {efa} }} }}\n"
)
#: Page, and number of a console on it -> the change of its cluster file that the page describes: pattern, new text.
EDITS: dict[tuple[str, int], tuple[tuple[str, str], ...]] = {
    ("README.md", 0): ((r"( +)nodes: 16\n", r"\g<0>\1placement: cluster\n"),),
    ("docs/cluster-file.md", 1): ((r"p5\.48xlarge", "p5.48xlage"), (r" +ends_at: .*\n", "")),
    ("docs/cluster-file.md", 2): ((r"(?=training:)", STORE.format(efa="false")),),
}


@pytest.fixture(scope="module")
def account(new_account_of_file: Emulator) -> Emulator:
    return new_account_of_file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the commands run in, with what a reader has: cluster files, examples, a saved answer, jobs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    for name in ("cluster.yaml", "deployed.yaml"):
        (tmp_path / name).write_text(blocks(README, "yaml")[0], encoding="utf-8")
    (activities,) = (one.text for one in BLOCKS if one.language == "json")
    (tmp_path / "activities.json").write_text(activities, encoding="utf-8")
    (accounting,) = (one.text for one in BLOCKS if one.language == "text")
    (tmp_path / "sacct.txt").write_text(accounting, encoding="utf-8")
    return tmp_path


def run(command: Command, account: Emulator) -> tuple[int, str]:
    """Run a command; its exit status and what it prints."""
    printed = StringIO()
    match command.words:
        case ["gpu-clusters", *arguments]:
            with redirect_stdout(printed), redirect_stderr(printed):
                status = main(arguments)
            if command.output:
                Path(command.output).write_text(printed.getvalue(), encoding="utf-8")
            return status, printed.getvalue()
        case ["cd", into]:
            os.chdir(into)
            return 0, ""
    environment = {
        **os.environ,
        **account.environment,
        "CDK_REQUIRE_APPROVAL": "never",
        "CI": "true",
        "PATH": os.pathsep.join([str(REPOSITORY / ".tools/bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.source],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode, done.stdout


def is_left_out(command: Command, block: Block) -> bool:
    """Whether the comment above the block names it."""
    return any(" ".join(command.words).startswith(first) for first in block.left_out)


@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_a_script_of_a_page_runs(block: Block, folder: Path, account: Emulator, app_factory: Any) -> None:
    if {"cdk.out", "template.yaml"} & set(block.text.split()):
        template_of_a_fleet(app_factory(outdir=str(folder / "cdk.out")))
    commands = [command for command in commands_of(script_of(block)) if not is_left_out(command, block)]
    assert commands, "nothing is left to run: write `not run`"
    for number, command in enumerate(commands):
        if command.words[:2] == ("gpu-clusters", "init"):  # each begins something of its own
            Path(f"begun-{number}").mkdir()
            os.chdir(f"begun-{number}")
        status, printed = run(command, account)
        assert status == 0, f"{command.source}\n{printed}"


@pytest.mark.parametrize("block", CONSOLES, ids=str)
def test_a_console_of_a_page_shows_what_is_printed(block: Block, folder: Path, account: Emulator) -> None:
    file = folder / "cluster.yaml"
    if block.page == "docs/cluster-file.md":
        file.write_text(blocks(REPOSITORY / block.page, "yaml")[0], encoding="utf-8")
    for pattern, new in EDITS.get((block.page, [one for one in CONSOLES if one.page == block.page].index(block)), ()):
        text, found = re.subn(pattern, new, file.read_text(encoding="utf-8"), count=1)
        assert found
        file.write_text(text, encoding="utf-8")
    (folder / "deployed.yaml").write_text(file.read_text("utf-8").replace("efa: false", "efa: true"), encoding="utf-8")
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)[1:]
    for line, shown in zip(parts[::2], parts[1::2], strict=True):
        (command,) = commands_of(line)
        if is_left_out(command, block):
            continue
        status, printed = run(command, account)
        assert status == (1 if ": error GPU-" in shown or "\n    cause: " in shown else 0)
        assert_shown(shown, printed)


def assert_shown(shown: str, printed: str) -> None:
    """Every line that a page shows is printed, in order, and nothing else but where it has a line `...`."""
    rest = printed
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    assert rest.startswith(parts[0])
    for part in parts:
        assert part in rest
        rest = rest.partition(part)[2] if part else rest
    assert rest == "" or shown.endswith("...\n")


def template_of_a_fleet(app: Any) -> None:
    """Write `cdk.out` and `template.yaml`, without a fault."""
    site = Site(app, None)
    GpuFleet(
        site.stack,
        "Trainers",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="g6.xlarge",
        node_count=2,
    )
    (template,) = Path(app.synth().directory).glob("*.template.json")
    Path("template.yaml").write_text(template.read_text(encoding="utf-8"), encoding="utf-8")


def test_output_that_differs_is_found() -> None:
    assert_shown("a\n...\nc\n", "a\nb\nc\n")
    for shown in ("b\n", "a\nc\n", "a\nb\n", "a\n...\nd\n", "a\n...\nb\n"):
        with pytest.raises(AssertionError):
            assert_shown(shown, "a\nb\nc\n")
