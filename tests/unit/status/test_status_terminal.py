"""`gpu-clusters status` on a terminal of its own: drawn again until Ctrl-C, in colours unless NO_COLOR is set."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parents[1] / "support"
PROGRAM = """
import sys
from test_status_reading import EXAMPLE, alarm, aws
from cdk_gpu_clusters_stacks import preflight
from cdk_gpu_clusters_stacks.cli import status
from cdk_gpu_clusters_stacks.cli.main import main

# Every reading starts anew, and the alarm is raised from the second one on.
readings = iter(range(1000))
def clients(*_, **__):
    return aws(cloudwatch__describe_alarms=alarm("ALARM" if next(readings) else "OK")).clients

preflight.boto3_clients = clients
status.time.sleep = lambda _seconds, wait=status.time.sleep: wait(0.2)
sys.exit(main(["status", str(EXAMPLE), *sys.argv[1:]]))
"""
BOLD = "\x1b[1;36m"


def on_a_terminal(*arguments: str, environment: Mapping[str, str], until: str = "") -> tuple[str, int]:
    """What a terminal of 60 columns gets, and the exit status; Ctrl-C when it shows a text."""
    ours, theirs = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "FORCE_COLOR")}
    paths = os.pathsep.join([str(HERE), str(SUPPORT)])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**base, "TERM": "xterm", "COLUMNS": "60", "LINES": "50", "PYTHONPATH": paths, **environment},
        start_new_session=True,
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60
    with suppress(OSError):  # Linux: the terminal is gone when the process has ended
        while time.monotonic() < deadline and (part := os.read(ours, 65536)):
            shown += part
            if until and until.encode() in shown:
                process.send_signal(signal.SIGINT)
                until = ""
    os.close(ours)
    if time.monotonic() >= deadline:
        process.kill()
    return shown.decode(), process.wait()


def test_it_is_drawn_again_with_new_answers_until_ctrl_c() -> None:
    shown, status = on_a_terminal("--watch", "5", environment={}, until="1 alarm raised")
    assert status == 0
    assert shown.index("could be read") < shown.index("1 alarm raised")
    assert BOLD in shown


@pytest.mark.parametrize(("environment", "has_colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_once(environment: Mapping[str, str], has_colours: bool) -> None:
    shown, status = on_a_terminal(environment=environment)
    assert status == 0
    assert (BOLD in shown) is has_colours
    assert ("\x1b[" in shown.partition("llama-train in")[2]) is has_colours


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"CI": "true"}])
def test_it_is_printed_once_where_nothing_can_be_drawn_again(environment: Mapping[str, str]) -> None:
    shown, status = on_a_terminal("--watch", "5", environment=environment)
    assert (shown.count("llama-train in us-east-1"), status) == (1, 0)
