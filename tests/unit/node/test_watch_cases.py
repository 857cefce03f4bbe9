"""When a symptom is believed, told, acted on, and over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch.cases import Cases
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from watched_node import Clock

LOST = Symptom("gpus-replace", Severity.REPLACE, "7 GPUs answer", confirmations=3)
HOT = Symptom("clocks-monitor", Severity.MONITOR, "too hot", confirmations=2)
BLIND = Symptom("gpus", Severity.UNKNOWN, "nvidia-smi: garbage", confirmations=3)
XID = Symptom("xid-79-0000:10:1c", Severity.REPLACE, "Xid 79", lasting=False)


class Told:
    """Cases with what they told."""

    def __init__(self, acts_from: Severity = Severity.REBOOT) -> None:
        self.clock = Clock()
        self.words: list[tuple[str, str]] = []
        self.cases = Cases(acts_from=acts_from, report=self._tell, clock=self.clock)

    def _tell(self, state: str, symptom: Symptom) -> None:
        self.words.append((state, symptom.key))

    def look(self, *symptoms: Symptom) -> list[str]:
        """One look at the GPUs; the cases that are open after it."""
        self.cases.note("gpus", symptoms)
        return list(self.cases.open)


def test_condition_is_believed_when_enough_looks_in_a_row_agree() -> None:
    told = Told()
    assert [told.look(LOST), told.look(LOST)] == [[], []]
    assert told.words == []
    assert told.look(LOST) == ["gpus-replace"]
    assert told.look(LOST) == ["gpus-replace"]
    assert told.words == [("seen", "gpus-replace")]


def test_one_look_that_sees_nothing_begins_the_count_anew() -> None:
    told = Told()
    for symptoms in ((LOST,), (LOST,), (), (LOST,), (LOST,), (), (LOST,), (LOST,)):
        assert told.look(*symptoms) == []


def test_look_that_cannot_see_confirms_nothing_and_ends_nothing() -> None:
    told = Told()
    for symptoms in ((LOST,), (LOST,), (BLIND,), (LOST,), (LOST,)):
        assert told.look(*symptoms) == []
    assert told.look(LOST) == ["gpus-replace"]
    assert told.look(BLIND) == ["gpus-replace"]
    assert told.look() == []


def test_condition_that_ends_before_it_was_acted_on_calls_for_nothing_any_more() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST)
    assert told.look() == []
    assert told.words == [("seen", "gpus-replace"), ("gone", "gpus-replace")]


def test_looks_of_one_kind_say_nothing_of_another() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST)
        told.cases.note("disk", [])
    assert list(told.cases.open) == ["gpus-replace"]


def test_event_is_believed_at_once_and_stays() -> None:
    told = Told()
    assert told.look(XID) == ["xid-79-0000:10:1c"]
    assert told.look() == ["xid-79-0000:10:1c"]
    assert told.words == [("seen", "xid-79-0000:10:1c")]


@pytest.mark.parametrize(
    ("acts_from", "severity", "acts"),
    [
        (Severity.REBOOT, Severity.MONITOR, False),
        (Severity.REBOOT, Severity.UNKNOWN, False),
        (Severity.REBOOT, Severity.RESET, False),
        (Severity.REBOOT, Severity.REBOOT, True),
        (Severity.RESET, Severity.RESET, True),
        (Severity.REPLACE, Severity.REBOOT, False),
        (Severity.REPLACE, Severity.REPLACE, True),
    ],
)
def test_only_what_is_bad_enough_calls_for_an_action(acts_from: Severity, severity: Severity, acts: bool) -> None:
    told = Told(acts_from)
    assert bool(told.look(Symptom("fault", severity, "why", lasting=False))) is acts
    assert told.words == [("seen", "fault")]


def test_condition_that_was_acted_on_calls_for_no_second_action() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST)
    told.cases.act_done(["gpus-replace"])
    assert [told.look(LOST) for _ in range(5)] == [[]] * 5


def test_condition_that_was_acted_on_and_comes_back_calls_again() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST)
    told.cases.act_done(["gpus-replace"])
    told.look()
    assert [told.look(LOST) for _ in range(3)] == [[], [], ["gpus-replace"]]


def test_condition_that_got_worse_after_an_action_calls_again() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST)
    told.cases.act_done(["gpus-replace"])
    assert told.look(Symptom("gpus-replace", Severity.REPLACE, "6 GPUs answer", confirmations=3)) == ["gpus-replace"]


def test_same_event_after_an_action_is_a_new_one() -> None:
    told = Told()
    told.look(XID)
    told.cases.act_done(["xid-79-0000:10:1c"])
    assert told.look() == []
    assert told.look(XID) == ["xid-79-0000:10:1c"]


def test_node_that_is_out_already_forgets_events_and_keeps_looking_at_conditions() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST, XID)
    told.cases.act_not_needed(list(told.cases.open))
    assert list(told.cases.open) == ["gpus-replace"]


def test_what_comes_and_goes_is_not_told_each_time() -> None:
    told = Told()
    for _ in range(50):
        told.look(HOT)
        told.look(HOT)
        told.look()
        told.clock.now += 5
    assert told.words == [("seen", "clocks-monitor"), ("gone", "clocks-monitor")]
    told.clock.now += 600
    told.look(HOT)
    told.look(HOT)
    assert told.words[2:] == [("seen", "clocks-monitor")]


def handed_over(cases: Cases) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(cases.dump()))
    return plain


def test_later_process_knows_open_cases_and_those_that_were_acted_on() -> None:
    first, second = Told(), Told()
    for _ in range(3):
        first.look(LOST, XID)
    first.cases.act_done(["gpus-replace"])
    second.cases.restore(handed_over(first.cases))
    assert list(second.cases.open) == ["xid-79-0000:10:1c"]
    assert second.look(LOST) == ["xid-79-0000:10:1c"]


def test_later_process_ends_conditions_of_the_earlier_one() -> None:
    first, second = Told(), Told()
    for _ in range(3):
        first.look(LOST)
    second.cases.restore(handed_over(first.cases))
    assert list(second.cases.open) == ["gpus-replace"]
    assert second.look() == []


def test_repaired_condition_is_over_at_once_and_told_again_if_it_is_not() -> None:
    told = Told()
    for _ in range(3):
        told.look(LOST)
    assert told.cases.dump()["severity"] == Severity.REPLACE
    assert told.cases.dump(["gpus-replace"]) == {"open": [], "handled": [], "severity": Severity.OK, "seen": []}
    told.cases.act_repaired(["gpus-replace"])
    assert told.cases.dump() == {"open": [], "handled": [], "severity": Severity.OK, "seen": []}
    for opened in ([], [], ["gpus-replace"]):
        assert told.look(LOST) == opened
    assert told.words == [("seen", "gpus-replace"), ("gone", "gpus-replace"), ("seen", "gpus-replace")]
    assert told.cases.dump()["severity"] == Severity.REPLACE
