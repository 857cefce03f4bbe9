"""What the user may say of the watchdog, and what the node is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.health import PORT
from cdk_gpu_clusters.node.gpunode.watch.mode import Mode
from cdk_gpu_clusters.node.settings import FaultSeverity, NodeSettings, NodeWatch, WatchMode, check_settings
from cdk_gpu_clusters.node.user_data import node_environment


def settings(watch: NodeWatch) -> NodeSettings:
    return NodeSettings(fleet_name="trainers", watch=watch)


def test_a_node_is_told_only_what_differs_from_what_its_software_does_anyway() -> None:
    assert not [name for name in node_environment(settings(NodeWatch())) if name.startswith("GPU_WATCH")]
    told = NodeWatch(
        mode=WatchMode.OFF, acts_from=FaultSeverity.REPLACE, actions_per_hour=5, interval_seconds=20,
        reboots_per_hour=7, resets_per_hour=8, repair_wait_seconds=60, silence_seconds=7200, maintenance="new cables",
        drain_on_rebalance=True, job_units=("training.service", "etl@1.service"), job_seconds=60,
        health_port=9001, health_from=("10.0.1.0/24", "10.0.2.0/24"), metrics_port=9810,
    )  # fmt: skip
    environment = node_environment(settings(told))
    assert {name: value for name, value in environment.items() if name in told.environment()} == {
        "GPU_WATCH": "off",
        "GPU_WATCH_ACTS_FROM": "replace",
        "GPU_WATCH_ACTIONS_PER_HOUR": "5",
        "GPU_REBOOTS_PER_HOUR": "7",
        "GPU_RESETS_PER_HOUR": "8",
        "GPU_REPAIR_WAIT_SECONDS": "60",
        "GPU_SILENCE_SECONDS": "7200",
        "GPU_MAINTENANCE": "new cables",
        "GPU_WATCH_INTERVAL": "20",
        "GPU_REBALANCE": "drain",
        "GPU_JOB_UNITS": "training.service etl@1.service",
        "GPU_JOB_SECONDS": "60",
        "GPU_HEALTH_PORT": "9001",
        "GPU_HEALTH_FROM": "10.0.1.0/24 10.0.2.0/24",
        "GPU_METRICS_PORT": "9810",
    }


def test_both_sides_know_the_same_words() -> None:
    assert {mode.value for mode in WatchMode} == {mode.value for mode in Mode}
    assert NodeWatch().health_port == PORT


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"interval_seconds": 0}, "watch.interval_seconds"),
        ({"interval_seconds": 31}, "watch.interval_seconds"),
        ({"interval_seconds": 2.5}, "watch.interval_seconds"),
        ({"actions_per_hour": 0}, "watch.actions_per_hour"),
        ({"reboots_per_hour": 0}, "watch.reboots_per_hour"),
        ({"resets_per_hour": 1001}, "watch.resets_per_hour"),
        ({"repair_wait_seconds": -1}, "watch.repair_wait_seconds"),
        ({"silence_seconds": 599}, "watch.silence_seconds"),
        ({"job_seconds": 121}, "watch.job_seconds"),
        ({"job_units": ("good.service", "two words")}, "watch.job_units[1]"),
        ({"health_port": 80}, "watch.health_port"),
        ({"health_port": 65_536}, "watch.health_port"),
        ({"health_from": ("10.0.0.0/16", "10.0.0.1/16")}, "watch.health_from[1]"),
        ({"metrics_port": 80}, "watch.metrics_port"),
        ({"metrics_port": 8687}, "watch.metrics_port"),
        ({"health_from": ("10.0.0.1",)}, "watch.health_from[0]"),
    ],
)
def test_what_the_watchdog_cannot_work_with_is_refused(changes: dict[str, Any], path: str) -> None:
    [finding] = check_settings(settings(NodeWatch(**changes)))
    assert (finding.id, finding.path) == ("GPU-UD-008", path)
    assert finding.allowed


@pytest.mark.parametrize("off", [{"health_port": 0}, {"mode": WatchMode.OFF}])
def test_clients_of_a_check_that_nothing_answers_are_refused(off: dict[str, Any]) -> None:
    [finding] = check_settings(settings(NodeWatch(health_from=("10.0.0.0/16",), **off)))
    assert (finding.id, finding.path) == ("GPU-UD-008", "watch.health_from")


def test_metrics_without_the_watchdog_that_serves_them_are_refused() -> None:
    [finding] = check_settings(settings(NodeWatch(metrics_port=9810, mode=WatchMode.OFF)))
    assert (finding.id, finding.path) == ("GPU-UD-008", "watch.metrics_port")
    assert not check_settings(settings(NodeWatch(metrics_port=9810)))
