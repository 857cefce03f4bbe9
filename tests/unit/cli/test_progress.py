"""What is shown while something takes long: on a terminal alone, on standard error alone, and gone at the end."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.terminal import can_be_redrawn

REPOSITORY = Path(__file__).resolve().parents[3]
GOOD = REPOSITORY / "examples" / "g5-single-gpu.yaml"
#: Select Graphic Rendition, which is what colours are (ECMA-48, 8.3.117).
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PROGRAM = """
import sys
from cdk_gpu_clusters_stacks.terminal import progress, steps
with progress("asking us-east-1") as on_done:
    for done in range(4):
        on_done(done, 4)
with steps("building") as on_steps:
    on_steps(["stack [red]a[/red]", "stack b"])
    print("result")
"""


@dataclass(frozen=True)
class Shown:
    """What a program wrote: on its terminal, and on standard output where that is a pipe."""

    terminal: str
    output: str
    status: int


def on_a_terminal(command: list[str], environment: Mapping[str, str] = {}, *, also_output: bool = False) -> Shown:
    """Run a program whose standard error is a terminal."""
    ours, theirs = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS")}
    read: list[bytes] = []

    def collect() -> None:
        # Linux ends the reading of a terminal that nobody has open any more with an error (EIO).
        while True:
            try:
                read.append(os.read(ours, 65536))
            except OSError:
                return

    thread = threading.Thread(target=collect)
    thread.start()
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=theirs if also_output else subprocess.PIPE,
        stderr=theirs,
        env={**clean, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    thread.join()
    os.close(ours)
    return Shown(b"".join(read).decode(), (done.stdout or b"").decode(), done.returncode)


def program(environment: Mapping[str, str] = {}, *, also_output: bool = False) -> Shown:
    return on_a_terminal([sys.executable, "-c", PROGRAM], environment, also_output=also_output)


def test_a_terminal_shows_what_is_done_in_colours() -> None:
    shown = program()
    assert "asking us-east-1" in shown.terminal
    assert "building" in shown.terminal
    assert COLOUR.search(shown.terminal)
    assert shown.output == "result\n"


def test_lines_of_steps_stay_as_they_are() -> None:
    lines = COLOUR.sub("", program().terminal).split("\r\n")
    assert any(line.endswith("stack [red]a[/red]") for line in lines)
    assert "stack b" in lines


def test_the_end_leaves_the_cursor_as_it_was() -> None:
    shown = program().terminal
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 2
    # The line of the bar is erased.
    assert shown.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize(("value", "has_colours"), [("1", False), ("0", False), ("", True)])
def test_no_color_takes_the_colours_alone(value: str, has_colours: bool) -> None:
    """https://no-color.org: when present and not an empty string, regardless of its value."""
    shown = program({"NO_COLOR": value})
    assert "asking us-east-1" in shown.terminal
    assert bool(COLOUR.search(shown.terminal)) is has_colours


@pytest.mark.parametrize(
    "environment", [{"CI": "true"}, {"CI": "1"}, {"TERM": "dumb"}, {"CI": "true", "FORCE_COLOR": "1"}], ids=str
)
def test_nothing_is_shown_without_a_person_or_a_cursor(environment: dict[str, str]) -> None:
    shown = program(environment)
    assert (shown.terminal, shown.output, shown.status) == ("", "result\n", 0)


def test_an_empty_ci_is_none() -> None:
    assert "asking us-east-1" in program({"CI": ""}).terminal


def test_output_to_the_same_terminal_is_above_the_progress() -> None:
    lines = COLOUR.sub("", program(also_output=True).terminal).split("\r\n")
    assert any(line.endswith("result") for line in lines)


@pytest.mark.parametrize("force", ["", "1"])
def test_a_pipe_gets_nothing(force: str) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": force, "CI": ""}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("result\n", "")


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_safe(closed: str) -> None:
    words = f'{sys.executable} -c "$PROGRAM" {closed}'
    quiet = PROGRAM.replace('    print("result")\n', "")
    done = subprocess.run(["sh", "-c", words], env={**os.environ, "PROGRAM": quiet}, check=False, capture_output=True)
    assert done.returncode == 0


def test_a_stream_that_was_closed_is_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stream = (tmp_path / "closed").open("w")
    stream.close()
    monkeypatch.setattr("sys.stderr", stream)
    assert not can_be_redrawn()
    monkeypatch.setattr("sys.stderr", None)
    assert not can_be_redrawn()


def test_json_is_pure_while_progress_is_shown(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("Resources:\n  Bucket: { Type: AWS::S3::Bucket, Properties: { NoSuchProperty: 1 } }\n")
    command = [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main", "check", "--json", str(template)]
    shown = on_a_terminal(command)
    assert "cfn-lint" in shown.terminal
    assert {one["id"] for one in json.loads(shown.output)["findings"]} == {"cfn-lint E3002"}
    assert shown.status == 1


@pytest.mark.parametrize("ci", ["", "true"])
def test_synthesis_shows_each_stack(tmp_path: Path, ci: str) -> None:
    cluster = REPOSITORY / "examples" / "p4d-new-reservation.yaml"
    environment = {
        "CDK_CONTEXT_JSON": json.dumps({"cluster": str(cluster)}),
        "CDK_OUTDIR": str(tmp_path),
        "CI": ci,
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
    }
    shown = on_a_terminal([sys.executable, "-m", "cdk_gpu_clusters_stacks"], environment)
    assert shown.status == 0
    assert shown.output == ""
    stacks = {file.name.partition(".")[0] for file in tmp_path.glob("*.template.json")}
    lines = {line.rpartition("\x1b[2K")[2] for line in COLOUR.sub("", shown.terminal).split("\r\n")}
    named = {line.removeprefix("stack ") for line in lines if line.startswith("stack ")}
    assert stacks
    assert named == (set() if ci else stacks)
    assert ("writing and validating the templates" in shown.terminal) is (not ci)


WATCHED = """
from cdk_gpu_clusters_stacks.cli.jobs import _Shown
from cdk_gpu_clusters_stacks.jobs.client import Line
from cdk_gpu_clusters_stacks.jobs.follow import NodeState, View
shown = _Shown("20261123-120000-a1b2")
with shown:
    shown.view(View(wanted=1, nodes=[NodeState(name="ip-10-0-0-1", instance_id="i-1", state="in service")]))
    shown.line("ip-10-0-0-1", Line(id="e1", address="10.0.0.1", milliseconds=0, text="step 1"))
"""


def test_lines_of_a_job_go_into_a_file_while_its_nodes_are_shown() -> None:
    """`gpu-clusters run trainers -- train > train.log` on a terminal."""
    shown = on_a_terminal([sys.executable, "-c", WATCHED])
    assert shown.output == "ip-10-0-0-1 | step 1\n"
    assert "0 of 1 node is ready" in shown.terminal
    assert "step 1" not in shown.terminal


def test_lines_of_a_job_go_above_its_nodes_on_one_terminal() -> None:
    shown = on_a_terminal([sys.executable, "-c", WATCHED], also_output=True)
    assert "0 of 1 node is ready" in shown.terminal
    assert "ip-10-0-0-1 | step 1" in COLOUR.sub("", shown.terminal)


def test_without_a_cursor_the_nodes_of_a_job_are_plain_lines() -> None:
    shown = on_a_terminal([sys.executable, "-c", WATCHED], {"CI": "true"})
    assert shown.terminal == "20261123-120000-a1b2: 0 of 1 node is ready\r\n"
    assert shown.output == "ip-10-0-0-1 | step 1\n"
