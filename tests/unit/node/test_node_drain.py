"""The drain watch, run for real against a fake account."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest


def on_drain(node: Any, script: str) -> Path:
    command: Path = node.write("etc/gpu-cluster/on-drain", f"#!/bin/bash\n{script}\n")
    command.chmod(0o755)
    return command


def events(output: str) -> list[tuple[str, str]]:
    return [(event["stage"], event["state"]) for event in map(json.loads, output.splitlines())]


def test_termination_runs_the_users_command_and_then_completes_the_hook(
    gpu_node: Any, gpu_settings: Any, imds: dict[str, str]
) -> None:
    imds["autoscaling/target-lifecycle-state"] = "Terminated"
    gpu_node.install(**gpu_settings)
    gpu_node.account.lifecycle = "Terminating:Wait"
    on_drain(gpu_node, f'echo "$@" >>{gpu_node.root}/drained')
    done = gpu_node.gpunode("drain")
    assert (done.returncode, done.stderr) == (0, "")
    assert events(done.stdout) == [("drain", "started"), ("drain", "ok"), ("hook", "ok")]
    assert (gpu_node.root / "drained").read_text() == "autoscaling-termination\n"
    [action] = gpu_node.account.made("complete-lifecycle-action")
    assert (action["--lifecycle-hook-name"], action["--lifecycle-action-result"]) == (
        ["drained"],
        ["CONTINUE"],
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exec /bin/sleep 30", "still running after 1 s"), ("exit 3", "exited with 3")],
    ids=["late", "failing"],
)
def test_late_or_failing_command_does_not_hold_the_instance_back(
    gpu_node: Any, gpu_settings: Any, imds: dict[str, str], script: str, reason: str
) -> None:
    imds["autoscaling/target-lifecycle-state"] = "Terminated"
    gpu_node.install(**gpu_settings, drain_deadline_seconds=1)
    gpu_node.account.lifecycle = "Terminating:Wait"
    on_drain(gpu_node, script)
    done = gpu_node.gpunode("drain")
    assert events(done.stdout) == [("drain", "started"), ("drain", "failed"), ("hook", "ok")]
    assert reason in done.stdout


def test_node_without_command_and_hook_just_lets_go(node: Any, imds: dict[str, str]) -> None:
    imds["autoscaling/target-lifecycle-state"] = "Terminated"
    node.install()
    assert events(node.gpunode("drain").stdout) == [("drain", "skipped")]
    assert node.account.calls == []


def test_spot_notice_drains_once_and_the_hook_follows_the_groups_termination(
    gpu_node: Any, gpu_settings: Any, imds: dict[str, str]
) -> None:
    imds["autoscaling/target-lifecycle-state"] = "InService"
    gpu_node.install(**gpu_settings)
    gpu_node.account.lifecycle = "Terminating:Wait"
    on_drain(gpu_node, f'echo "$@" >>{gpu_node.root}/drained')
    watch = subprocess.Popen(
        ["bash", str(gpu_node.root / "usr/local/bin/gpunode"), "drain"],
        env=gpu_node.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        time.sleep(0.3)
        assert not (gpu_node.root / "drained").exists()
        imds["spot/instance-action"] = '{"action": "terminate", "time": "2026-12-01T11:00:00Z"}'
        deadline = time.monotonic() + 5
        while not gpu_node.account.logged and time.monotonic() < deadline:
            time.sleep(0.05)
        assert gpu_node.account.made("complete-lifecycle-action") == []
        imds["autoscaling/target-lifecycle-state"] = "Terminated"
        output, _ = watch.communicate(timeout=10)
    finally:
        watch.kill()
    assert events(output) == [("drain", "started"), ("drain", "ok"), ("hook", "ok")]
    reason = "spot-interruption 2026-12-01T11:00:00Z\n"
    assert (gpu_node.root / "drained").read_text() == reason, "once"
    assert (gpu_node.root / "run/gpu-cluster/ending").read_text() == reason, "for a boot that still goes on"
