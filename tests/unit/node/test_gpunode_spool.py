"""Spools: bounded, in order, and never in the way of the node's work."""

from __future__ import annotations

import errno
import fcntl
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths, spool


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    return tmp_path


def messages(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(json.loads(line)["message"]) for line in lines]


def numbers(lines: list[str]) -> list[int]:
    return [message["n"] for message in messages(lines) if "n" in message]


def fill(count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        spool.keep("events", {"n": number})


def test_what_was_not_carried_comes_before_what_came_since() -> None:
    fill(3)
    taken = spool.take("events")
    fill(2, 3)
    spool.give_back("events", taken[1:])
    assert numbers(spool.take("events")) == [1, 2, 3, 4]


def test_what_was_carried_is_gone() -> None:
    fill(2)
    spool.take("events")
    spool.give_back("events", [])
    assert spool.take("events") == []


def test_a_program_that_died_leaves_what_it_took() -> None:
    fill(2)
    spool.take("events")
    fill(1, 2)
    assert numbers(spool.take("events")) == [0, 1]
    spool.give_back("events", [])
    assert numbers(spool.take("events")) == [2]


def test_the_oldest_go_first_and_are_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "LIMIT_BYTES", 2_000)
    fill(500)
    lines = spool.take("events")
    assert sum(len(line) + 1 for line in lines) <= 2_000
    told, *kept = messages(lines)
    assert told["state"] == "dropped"
    assert numbers(lines) == list(range(told["records"], 500))
    assert len(kept) + told["records"] == 500


def test_given_back_records_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "LIMIT_BYTES", 2_000)
    for first in range(0, 200, 20):
        lines = spool.take("events")
        fill(20, first)
        spool.give_back("events", lines)
    lines = spool.take("events")
    assert sum(len(line) + 1 for line in lines) <= 2_000
    assert numbers(lines)[-1] == 199
    assert messages(lines)[0]["records"] + len(numbers(lines)) == 200


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_takes_nothing_leaves_it_to_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(1)
    opened = Path.open

    def open_here(file: Path, *arguments: Any, **more: Any) -> Any:
        if "var/lib" in str(file) and file.suffix == ".jsonl":
            full()
        return opened(file, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_here)
        fill(1, 1)
    assert (root / "run/gpu-cluster/spool/events.jsonl").exists()
    assert numbers(spool.take("events")) == [0, 1]


def test_what_no_disk_takes_back_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fill(2)
    taken = spool.take("events")
    with monkeypatch.context() as patch:
        patch.setattr(paths, "write_atomically", full)
        spool.give_back("events", taken[1:])
    assert numbers(spool.take("events")) == [0, 1]


def test_no_disk_at_all_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "state_folder", full)
    monkeypatch.setattr(paths, "run_folder", full)
    spool.keep("events", {"n": 1})
    assert "the spool events cannot be written" in capsys.readouterr().err
    assert spool.take("events") == []


def test_many_writers_and_a_reader_lose_nothing() -> None:
    writers = [threading.Thread(target=fill, args=(50, 50 * index)) for index in range(4)]
    for writer in writers:
        writer.start()
    found: list[int] = []
    while any(writer.is_alive() for writer in writers):
        found += numbers(spool.take("events"))
        spool.give_back("events", [])
    found += numbers(spool.take("events"))
    assert sorted(found) == list(range(200))


def test_a_frozen_holder_of_the_lock_holds_nobody_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_LOCK_SECONDS", 0.05)
    fill(1)
    with (root / "var/lib/gpu-cluster/spool/events.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fill(1, 1)
        assert numbers(spool.take("events")) == [0, 1]


def test_a_lock_is_held_by_one(root: Path) -> None:
    with spool.locked(root / "lock", 0) as first, spool.locked(root / "lock", 0) as second:
        assert (first, second) == (True, False)
    with spool.locked(root / "lock", 0) as again:
        assert again
