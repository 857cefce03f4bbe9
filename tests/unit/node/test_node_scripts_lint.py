"""Every script passes shellcheck and shfmt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cdk_gpu_clusters.node

FOLDER = Path(cdk_gpu_clusters.node.__file__).parent
SCRIPTS = sorted((FOLDER / "scripts").glob("*.sh"))
TOOLS = Path(sys.executable).parent


def test_there_are_scripts() -> None:
    assert {script.name for script in SCRIPTS} >= {
        "lib.sh",
        "node-boot.sh",
        "node-drain.sh",
        "gpu-peers.sh",
        "mig-apply.sh",
    }


@pytest.mark.parametrize(
    "command",
    [("shellcheck", "-x", "-P", "SCRIPTDIR"), ("shfmt", "-i", "2", "-d")],
    ids=lambda command: command[0],
)
def test_scripts_are_clean(command: tuple[str, ...]) -> None:
    tool, *options = command
    done = subprocess.run(
        [str(TOOLS / tool), *options, *map(str, SCRIPTS)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script.name != "lib.sh"], ids=lambda path: path.name
)
def test_scripts_stop_at_the_first_error(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
