"""The batch scripts on pages are scripts without faults, whose options are those of sbatch. They run on no Slurm here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pages import Block, run_by

BLOCKS = run_by(__file__)
#: Of sbatch(1), Slurm 24.11; with a value or without.
WITH_VALUE = {"partition", "nodes", "ntasks-per-node", "gpus-per-node", "output", "open-mode", "signal", "gres", "time"}
ALONE = {"exclusive", "requeue"}


def test_there_are_batch_scripts() -> None:
    assert {block.page for block in BLOCKS} >= {"docs/pcs.md", "docs/slurm-nodes.md"}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_batch_script_has_no_faults(block: Block) -> None:
    # SC2155: the status of a command in an export is lost, which batch scripts on pages accept.
    shellcheck = [str(Path(sys.executable).with_name("shellcheck")), "--exclude=SC2155", "-"]
    done = subprocess.run(shellcheck, input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    lines = [line.removeprefix("#SBATCH ") for line in block.text.splitlines() if line.startswith("#SBATCH ")]
    options = [word.removeprefix("--").partition("=") for line in lines for word in line.split()]
    assert options
    assert [name for name, _, value in options if name not in (WITH_VALUE if value else ALONE)] == []
