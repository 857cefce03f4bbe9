"""Rates of EFA error counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.probes import EfaCounters
from watched_node import WatchedNode


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    node = WatchedNode(tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(node.root))
    return node


@pytest.fixture
def counters(node: WatchedNode) -> EfaCounters:
    """Two devices, whose first values are whatever their lives gave them."""
    node.efa_counter("rdmap0s1", "rx_drops", 5_000)
    node.efa_counter("rdmap0s2", "rx_drops", 0)
    node.efa_counter("rdmap0s1", "retrans_bytes", 10**12)
    node.efa_counter("rdmap0s1", "rx_bytes", 0)
    counters = EfaCounters(node.clock)
    assert counters.probe() == []
    return counters


def keys(counters: EfaCounters) -> list[str]:
    return [symptom.key for symptom in counters.probe()]


def test_burst_on_one_device_is_seen_there_and_only_watched(node: WatchedNode, counters: EfaCounters) -> None:
    node.efa_counter("rdmap0s1", "rx_drops", 5_101)
    [symptom] = counters.probe()
    assert (symptom.key, symptom.severity) == ("efa-rdmap0s1-rx_drops", Severity.MONITOR)
    assert symptom.reason == "EFA rdmap0s1 port 1: rx_drops rose by 101"
    assert counters.probe() == []


def test_slow_creep_is_the_daily_business(node: WatchedNode, counters: EfaCounters) -> None:
    for step in range(1, 100):
        node.clock.now += 10
        node.efa_counter("rdmap0s1", "rx_drops", 5_000 + 10 * step)
        assert counters.probe() == []


def test_creep_above_the_refill_is_seen_once_the_tokens_are_used_up(node: WatchedNode, counters: EfaCounters) -> None:
    seen = []
    for step in range(1, 11):
        node.clock.now += 10
        node.efa_counter("rdmap0s1", "rx_drops", 5_000 + 30 * step)
        seen.append(bool(counters.probe()))
    # 100 tokens, 10 more and 30 less with each look: enough for four, not for the fifth.
    assert seen[:5] == [False, False, False, False, True]


def test_each_counter_has_its_own_measure(node: WatchedNode, counters: EfaCounters) -> None:
    node.efa_counter("rdmap0s1", "retrans_bytes", 10**12 + 10**6)
    assert keys(counters) == []
    node.efa_counter("rdmap0s1", "retrans_bytes", 10**12 + 3 * 10**6)
    node.efa_counter("rdmap0s1", "rx_bytes", 10**15)
    assert keys(counters) == ["efa-rdmap0s1-retrans_bytes"]


def test_bytes_that_trickle_are_no_symptom(node: WatchedNode, counters: EfaCounters) -> None:
    """A few retransmitted packets of 8 KiB in every probe: with a refill of 1 byte a second each was a symptom."""
    for step in range(1, 1_000):
        node.clock.now += 10
        node.efa_counter("rdmap0s1", "retrans_bytes", 10**12 + 5 * 8_192 * step)
        assert counters.probe() == []


def test_counter_that_fell_begins_anew(node: WatchedNode, counters: EfaCounters) -> None:
    node.efa_counter("rdmap0s1", "rx_drops", 3)
    assert keys(counters) == []
    node.efa_counter("rdmap0s1", "rx_drops", 90)
    assert keys(counters) == []


@pytest.mark.parametrize("value", ["", "garbage", "12 34"])
def test_unreadable_counter_says_nothing(node: WatchedNode, counters: EfaCounters, value: str) -> None:
    node.efa_counter("rdmap0s1", "rx_drops", value)
    assert keys(counters) == []


def test_device_that_comes_late_starts_with_its_own_value(node: WatchedNode, counters: EfaCounters) -> None:
    node.efa_counter("rdmap9s9", "unresponsive_remote_events", 10**6)
    assert keys(counters) == []
    node.efa_counter("ibp1s0", "rx_drops", 10**6)  # an NVLink controller
    node.efa_counter("ibp1s0", "rx_drops", 10**7)
    assert keys(counters) == []


def test_clock_that_goes_back_takes_no_tokens(node: WatchedNode, counters: EfaCounters) -> None:
    node.clock.now -= 10_000
    node.efa_counter("rdmap0s1", "rx_drops", 5_100)
    assert keys(counters) == []
