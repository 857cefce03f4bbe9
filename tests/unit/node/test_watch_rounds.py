"""Looks beside each other: none holds back the others or the loop."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.command import Background
from cdk_gpu_clusters.node.gpunode.watch.probes import Probe, Symptom
from cdk_gpu_clusters.node.gpunode.watch.watch import Rounds, Seen
from watched_node import Clock

HOT = Symptom("hot", Severity.MONITOR, "too hot")
WELL = Probe("well", list)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a look hangs on."""
    gate = threading.Event()
    yield gate
    gate.set()


def hanging(gate: threading.Event) -> Probe:
    def take() -> list[Symptom]:
        gate.wait()
        return [HOT]

    return Probe("hanging", take)


def seen(found: list[Seen]) -> dict[str, list[str]]:
    return {look: [symptom.key for symptom in symptoms] for look, symptoms in found}


def test_look_that_breaks_says_so_and_the_others_go_on() -> None:
    def broken() -> Iterator[Symptom]:
        yield HOT
        raise ZeroDivisionError("division by zero")

    found = Rounds([Probe("broken", broken), Probe("hot", lambda: [HOT]), WELL], patience_seconds=30).poll(0)
    assert seen(found) == {"broken": ["broken-broken"], "hot": ["hot"], "well": [], "late": []}
    assert found[0].symptoms[0].reason == "the probe broken itself failed: ZeroDivisionError: division by zero"
    assert found[0].symptoms[0].severity is Severity.UNKNOWN


def test_look_that_hangs_holds_nobody_and_is_not_begun_again(gate: threading.Event) -> None:
    rounds = Rounds([hanging(gate), WELL], patience_seconds=0.05)
    before, names = threading.active_count(), set[str]()
    for number in range(20):
        names |= set(seen(rounds.poll(number)))
    assert names == {"well", "late"}
    assert threading.active_count() <= before + 2


def test_look_that_hangs_for_minutes_is_told_and_its_answer_still_counts(gate: threading.Event) -> None:
    clock = Clock()
    rounds = Rounds([hanging(gate)], clock=clock, patience_seconds=0.05)
    rounds.poll(0)
    assert seen(rounds.poll(1))["late"] == []
    clock.now += 180
    assert seen(rounds.poll(2))["late"] == ["late-hanging"]
    gate.set()
    patient = 0
    while "hanging" not in (found := seen(rounds.poll(3 + patient))):
        patient += 1
        assert patient < 100
    assert found["hanging"] == ["hot"]


def test_costly_looks_are_taken_less_often() -> None:
    taken = []

    def take() -> list[Symptom]:
        taken.append(1)
        return []

    rounds = Rounds([Probe("costly", take, every=6)], patience_seconds=30)
    found = [seen(rounds.poll(number)) for number in range(13)]
    assert len(taken) == 3
    assert ["costly" in each for each in found].count(True) == 3


def test_system_without_threads_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert seen(Rounds([WELL]).poll(0)) == {"well": ["broken-well"], "late": []}


def test_background_does_one_thing_at_a_time(gate: threading.Event) -> None:
    work: Background[str] = Background()
    assert (work.busy, work.take(0), work.seconds(7.0)) == (False, None, 0.0)

    def wait() -> str:
        gate.wait()
        return "done"

    work.start(wait, 5.0)
    assert (work.busy, work.take(0), work.seconds(7.0)) == (True, None, 2.0)
    gate.set()
    assert work.take(30) == "done"
    assert not work.busy
