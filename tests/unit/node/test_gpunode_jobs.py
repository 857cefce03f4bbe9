"""The folder in which `gpunode run` tells of the jobs that the end of a node asks to end."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import jobs

Start = Callable[[str], "subprocess.Popen[bytes]"]
SLEEPS = "import time; print(1, flush=True); time.sleep(600)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    return jobs.make_folder()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program of Python, and gives it once it has said a first word."""
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        started.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def pids() -> list[int]:
    return [job.pid for job in jobs.running()]


def test_everyone_may_tell_of_jobs_but_not_take_away_those_of_others(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert jobs.make_folder() == folder


def test_job_that_runs_is_listed_and_one_that_ended_is_forgotten(folder: Path, start: Start) -> None:
    child = start(SLEEPS)
    assert jobs.register(child.pid)
    assert pids() == [child.pid]
    child.kill()
    child.wait()
    assert pids() == []
    jobs.remove_ended()
    assert list(folder.iterdir()) == []


def test_program_tells_of_itself(folder: Path) -> None:
    assert jobs.register()
    assert pids() == [os.getpid()]


def test_pid_that_was_given_out_again_is_not_the_job(folder: Path, start: Start) -> None:
    (folder / str(start(SLEEPS).pid)).write_text("1")
    assert pids() == []


def owned_by(file: Path, user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a file to a user: really, as root; otherwise as `fstat` answers."""
    if os.geteuid() == 0:
        os.chown(file, user, user)
        return
    follow = os.fstat
    monkeypatch.setattr(os, "fstat", lambda at: os.stat_result((*follow(at)[:4], user, *follow(at)[5:10])))


def test_user_cannot_have_a_process_of_another_user_ended(
    folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start(SLEEPS)
    jobs.register(child.pid)
    owned_by(folder / str(child.pid), 12345, monkeypatch)
    assert pids() == []


@pytest.mark.parametrize("kind", ["fifo", "folder", "huge", "endless", "hard link", "socket"])
def test_no_file_of_a_user_blocks_the_node_or_fills_its_memory(
    folder: Path, start: Start, kind: str, tmp_path: Path
) -> None:
    child, other = start(SLEEPS), start(SLEEPS)
    jobs.register(child.pid)
    jobs.register(other.pid)
    mine = folder / str(child.pid)
    text = mine.read_text()
    mine.unlink()
    if kind == "fifo":
        os.mkfifo(mine)
    elif kind == "folder":
        mine.mkdir()
    elif kind == "huge":
        with mine.open("w") as stream:
            stream.write(text)
            stream.truncate(10 * 1024**3)
    elif kind == "endless":
        mine.symlink_to("/dev/zero")
    elif kind == "hard link":
        (tmp_path / "other").write_text(text)
        os.link(tmp_path / "other", mine)
    else:
        os.mknod(mine, stat.S_IFSOCK | 0o600)
    begin = time.monotonic()
    assert pids() == [other.pid]
    assert time.monotonic() - begin < 5


def test_many_files_neither_slow_the_node_down_nor_hide_a_job(folder: Path, start: Start) -> None:
    for number in range(20_000):
        (folder / str(10**9 + number)).touch()
    child = start(SLEEPS)
    jobs.register(child.pid)
    begin = time.monotonic()
    for _ in range(10):
        assert pids() == [child.pid]
    # Reading 20,000 files ten times takes longer.
    assert time.monotonic() - begin < 2
    before = len(list(folder.iterdir()))
    jobs.remove_ended()
    # A thousand are looked at, in the order of the file system: the job that runs may be one of them.
    assert before - len(list(folder.iterdir())) in (999, 1_000)
    assert pids() == [child.pid]


def test_registration_does_not_write_through_a_link_of_another_user(folder: Path, tmp_path: Path, start: Start) -> None:
    child = start(SLEEPS)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / str(child.pid)).symlink_to(precious)
    assert jobs.register(child.pid)
    assert precious.read_text() == "mine"
    assert not (folder / str(child.pid)).is_symlink()


@pytest.mark.parametrize("name", ["readme", "1.new", "-5", "999999999"])
def test_what_is_no_job_is_not_taken_for_one(folder: Path, name: str) -> None:
    (folder / name).write_text("17")
    assert pids() == []


def test_link_to_somewhere_else_is_not_followed(folder: Path, start: Start, tmp_path: Path) -> None:
    child = start(SLEEPS)
    jobs.register(child.pid)
    mine = folder / str(child.pid)
    mine.rename(tmp_path / "elsewhere")
    mine.symlink_to(tmp_path / "elsewhere")
    assert pids() == []


def test_node_without_the_folder_has_no_jobs_and_runs_them_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    assert not jobs.register()
    assert jobs.running() == []


def test_jobs_are_asked_to_end_and_those_that_do_not_are_named(folder: Path, start: Start) -> None:
    good, bad = start(SLEEPS), start(IGNORES)
    for child in (good, bad):
        jobs.register(child.pid)
    [left] = jobs.end(jobs.running(), 0.3)
    assert left.pid == bad.pid
    assert good.wait(60) == -15
