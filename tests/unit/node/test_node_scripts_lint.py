"""Every script passes shellcheck and shfmt."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cdk_gpu_clusters.node

FOLDER = Path(cdk_gpu_clusters.node.__file__).parent
SCRIPTS = sorted((FOLDER / "scripts").glob("*.sh"))
SOURCED = {"lib.sh", "storage.sh"}
TOOLS = Path(sys.executable).parent


def test_there_are_scripts() -> None:
    assert {script.name for script in SCRIPTS} >= SOURCED | {
        "fetch-software.sh",
        "mount-lustre.sh",
        "scratch-raid.sh",
        "gpunode.sh",
        "gpu-peers.sh",
        "pinned-python.sh",
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
    "script", [script for script in SCRIPTS if script.name not in SOURCED], ids=lambda path: path.name
)
def test_scripts_stop_at_the_first_error(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines


@pytest.mark.parametrize("unit", sorted((FOLDER / "files").glob("*.service")), ids=lambda path: path.name)
def test_units_are_understood_by_systemd(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    assert {"[Unit]", "[Service]"} <= set(text.splitlines())
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    copy = tmp_path / unit.name.replace("@", "@1")  # the node's programs are not installed here
    copy.write_text(re.sub(r"(?m)^(Exec\w+)=.*$", r"\1=/bin/true", text))
    done = subprocess.run(
        [analyze, "verify", "--recursive-errors=no", str(copy)], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
