"""Programs that end, fail, hang, and cannot be killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import command
from cdk_gpu_clusters.node.gpunode.command import NOT_EXECUTABLE, NOT_FOUND, STUCK, TIMED_OUT, run


@pytest.fixture
def unkillable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No signal reaches a child, as in uninterruptible sleep."""
    monkeypatch.setattr(command, "_TERMINATE_SECONDS", 0.05)
    monkeypatch.setattr(command, "_KILL_SECONDS", 0.05)
    kill, children = os.killpg, list[int]()

    def spare(group: int, _: int) -> None:
        children.append(group)

    monkeypatch.setattr(os, "killpg", spare)
    yield
    for child in set(children):
        with suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def wait_for_end(child: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the child did not end")


def test_output_and_status_come_back() -> None:
    outcome = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (outcome.status, outcome.ok, outcome.hung) == (3, False, False)
    assert (outcome.output, outcome.errors, outcome.words) == ("out\n", "err\n", "err out")
    assert run("sh", "-c", "echo $COLOR", environment={"COLOR": "red"}).words == "red"


def test_program_that_is_not_there_or_cannot_run_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    assert run(str(tmp_path / "none")).status == NOT_FOUND
    assert run(str(tmp_path / "text")).status == NOT_EXECUTABLE


def test_program_that_hangs_is_ended_at_its_deadline_and_says_what_it_had_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "_TERMINATE_SECONDS", 0.05)
    outcome = run("sh", "-c", "trap '' TERM; echo begun; while :; do sleep 0.05; done", timeout_seconds=1)
    assert (outcome.status, outcome.hung) == (TIMED_OUT, True)
    assert (outcome.output, outcome.errors) == ("begun\n", "sh did not end within 1 s\n")


def test_grandchild_that_keeps_the_output_open_does_not_hold_the_reader() -> None:
    outcome = run("sh", "-c", "sleep 30 & echo done", timeout_seconds=20)
    assert (outcome.ok, outcome.words) == (True, "done")


def test_garbage_in_the_output_is_read_as_it_is() -> None:
    assert run("printf", "\\377\\376 a").output == "\ufffd\ufffd a"


def test_programs_do_not_translate_what_they_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert run("sh", "-c", "echo $LC_ALL").words == "C"
    assert run("sh", "-c", "echo $LC_ALL", environment={"LC_ALL": "C.UTF-8"}).words == "C.UTF-8"


def test_endless_output_is_cut_and_its_program_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "_LONGEST_BYTES", 64 * 1024)
    truncate, limits = os.ftruncate, list[int]()

    def watched(file: int, size: int) -> None:
        limits.append(size)
        truncate(file, size)

    monkeypatch.setattr(os, "ftruncate", watched)
    script = f"echo head; for i in 1 2 3; do head -c 9000000 /dev/zero; sleep 0.2; done; touch {tmp_path}/done"
    outcome = run("sh", "-c", script, timeout_seconds=60)
    assert outcome.ok
    assert (tmp_path / "done").exists()
    assert outcome.output.startswith("head\n")
    assert len(outcome.output) == 64 * 1024
    assert set(limits) == {64 * 1024}


def test_argument_that_no_program_can_have_is_no_crash() -> None:
    assert run("echo", "a\0b").status == NOT_EXECUTABLE


def test_disk_that_takes_nothing_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    assert run("echo", "well").words == "well"


@pytest.mark.usefixtures("unkillable")
def test_child_that_cannot_be_killed_is_left_alone_and_its_command_is_not_run_again(tmp_path: Path) -> None:
    started = tmp_path / "started"
    line = ("sh", "-c", f"echo $$ >>{started}; exec sleep 60")
    outcome = run(*line, timeout_seconds=2)
    assert (outcome.status, outcome.hung) == (STUCK, True)
    assert outcome.words == "sh is stuck in the kernel and cannot be killed"
    for _ in range(5):
        assert run(*line, timeout_seconds=30).words == "sh is still stuck in the kernel"
    assert run("sh", "-c", "echo other").words == "other"

    [child] = map(int, started.read_text().split())
    os.kill(child, signal.SIGKILL)
    wait_for_end(child)
    assert run(*line, timeout_seconds=2).words == "sh is stuck in the kernel and cannot be killed"
    assert len(started.read_text().split()) == 2
