"""`gpunode watch` and `gpunode drain` as the programs that systemd starts."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import cli
from cdk_gpu_clusters.node.gpunode.watch import service
from watch_program import OFF_THE_BUS, WatchProgram, wait_until
from watched_node import INSTANCE, WatchedNode


@pytest.fixture
def program(tmp_path: Path, imds_server: str, imds: dict[str, str]) -> Iterator[WatchProgram]:
    program = WatchProgram(tmp_path, imds_server)
    yield program
    program.close()


def test_watchdog_is_ready_lives_hears_the_kernel_acts_and_ends(program: WatchProgram) -> None:
    running = program.start()
    try:
        assert program.systemd.recv(100) == b"READY=1\nSTATUS=watching"
        assert program.systemd.recv(100) == b"WATCHDOG=1"
        os.write(program.kernel, OFF_THE_BUS)
        wait_until(lambda: program.asked("set-instance-health"))
        wait_until(lambda: "action" in (program.root / "var/lib/gpu-cluster/spool/events.jsonl").read_text())
    finally:
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    events = [json.loads(line) for line in output.splitlines()]
    assert [(event["stage"], event["state"]) for event in events] == [
        ("watch", "seen"),
        ("repair", "begin"),
        ("repair", "take-out"),
        ("repair", "ok"),
        ("action", "ok"),
    ]
    [call] = program.asked("set-instance-health")
    assert f"--instance-id {INSTANCE} --health-status Unhealthy --no-should-respect-grace-period" in call
    [copy] = program.asked("s3 cp")
    assert f"s3://evidence/trainers/{INSTANCE}/" in copy


def test_killed_watchdog_that_is_started_again_does_not_act_again(program: WatchProgram) -> None:
    for _ in range(2):
        running = program.start()
        try:
            assert program.systemd.recv(100).startswith(b"READY=1")
            os.write(program.kernel, OFF_THE_BUS)
            wait_until(lambda: program.asked("set-instance-health"))
            wait_until(program.has_nothing_open)
            for _ in range(3):
                program.systemd.recv(100)
        finally:
            running.kill()
            running.communicate(timeout=60)
    assert len(program.asked("set-instance-health")) == 1


def test_frozen_watchdog_falls_silent_and_one_that_goes_on_speaks_again(program: WatchProgram) -> None:
    """Silence is what systemd restarts a service for; tests/node shows that it does."""
    running = program.start()
    try:
        assert program.systemd.recv(100).startswith(b"READY=1")
        assert program.systemd.recv(100) == b"WATCHDOG=1"
        running.send_signal(signal.SIGSTOP)
        # What it said before it froze is read first; then nothing, where a poll lies every second.
        while program.hears_something(0.5):
            program.systemd.recv(100)
        assert not program.hears_something(4)
        running.send_signal(signal.SIGCONT)
        assert program.systemd.recv(100) == b"WATCHDOG=1"
    finally:
        running.kill()
        running.communicate(timeout=60)


def test_dry_run_tells_and_changes_nothing(program: WatchProgram) -> None:
    running = program.start("--dry-run")
    try:
        assert program.systemd.recv(100).startswith(b"READY=1")
        os.write(program.kernel, OFF_THE_BUS)
        spool = program.root / "var/lib/gpu-cluster/spool/events.jsonl"
        wait_until(lambda: spool.exists() and '\\"dry-run\\"' in spool.read_text())
    finally:
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate(timeout=60)
    assert [json.loads(line)["state"] for line in output.splitlines()] == ["seen", "dry-run"]
    assert not program.asked("set-instance-health")
    assert not program.asked("s3 cp")
    # What a dry run would have done is still to be done by the one that acts.
    assert not (program.root / "run/gpu-cluster/watch.json").exists()


def test_watchdog_that_is_off_is_ready_and_ends_well(program: WatchProgram) -> None:
    program.set(watch="off")
    running = program.start()
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert program.systemd.recv(100) == b"READY=1\nSTATUS=off"
    assert [json.loads(line)["reason"] for line in output.splitlines()] == ["GPU_WATCH=off"]


@pytest.mark.parametrize(
    ("wanted", "usec", "seconds"),
    [("", "", 10), ("5", "60000000", 5), ("300", "60000000", 30), ("0", "", 1), ("300", "soon", 300)],
)
def test_pace_is_one_that_systemd_can_live_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, usec: str, seconds: float
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    assert service.interval_seconds(WatchedNode(tmp_path).node(watch_interval=wanted)) == seconds


def test_node_that_does_not_know_who_it_is_tries_again_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("GPU_CLUSTER_IMDS", "http://127.0.0.1:9")
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert cli.main(["watch"]) == 75
    assert "does not return the id of this instance" in capsys.readouterr().err


def test_drain_marks_the_node_for_its_orchestrator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, imds_server: str, imds: dict[str, str]
) -> None:
    imds["autoscaling/target-lifecycle-state"] = "Terminated"
    (tmp_path / "tools").mkdir()
    said = tmp_path / "said"
    for name, script in (
        ("sinfo", "echo 'gpu-1|gpu-1|10.0.0.1|train*|idle|Unknown|none'"),
        ("scontrol", f'echo "$*" >>{said}'),
    ):
        (tmp_path / "tools" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "tools" / name).chmod(0o755)
    settings = tmp_path / "etc/gpu-cluster/node.env"
    settings.parent.mkdir(parents=True)
    settings.write_text("GPU_ORCHESTRATOR=pcs\nGPU_NODE_NAME=gpu-1\n")
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("GPU_CLUSTER_IMDS", imds_server)
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    assert cli.main(["drain"]) == 0
    assert said.read_text() == "update NodeName=gpu-1 State=DRAIN Reason=gpunode: autoscaling-termination\n"
