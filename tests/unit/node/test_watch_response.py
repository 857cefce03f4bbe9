"""What is done about a node that is not well, in which order, and how often."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.watch import response
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from cdk_gpu_clusters.node.gpunode.watch.response import Response, ResponseOutcome, ResponseResult

XID = Symptom("xid-79", Severity.REPLACE, "Xid 79", lasting=False)
ECC = Symptom("ecc-reset", Severity.RESET, "GPU 3: 2 uncorrected errors")


class Fleet:
    """An orchestrator that says what it is told to say, and everything that was asked of it."""

    def __init__(self) -> None:
        self.out = ""
        self.others: set[str] = set()
        self.faults: list[Exception] = []
        self.asked: list[str] = []

    def why_out(self) -> str:
        self.asked.append("why_out")
        if self.faults:
            raise self.faults.pop()
        return self.out

    def taken_out(self) -> set[str]:
        self.asked.append("taken_out")
        return self.others

    def take_out(self, severity: Severity, reason: str) -> None:
        self.asked.append(f"take_out {severity.name}: {reason}")

    def keep_new_work_away(self, reason: str) -> None:
        raise AssertionError(reason)

    def end_work(self) -> str:
        raise AssertionError

    def evidence(self, reason: str) -> str:
        self.asked.append(f"evidence {reason}")
        return "s3://evidence/1.tar.gz"

    def response(self, limit: int = 2, *, dry_run: bool = False) -> Response:
        return Response(self, keep_evidence=self.evidence, limit_per_hour=limit, dry_run=dry_run)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_evidence_is_kept_and_the_fleet_counted_before_the_node_is_taken_out(fleet: Fleet) -> None:
    assert fleet.response().respond([XID]) == ResponseResult(
        ResponseOutcome.DONE, "Xid 79; evidence: s3://evidence/1.tar.gz"
    )
    assert fleet.asked == ["why_out", "evidence Xid 79", "taken_out", "take_out REPLACE: Xid 79"]


def test_worst_symptom_is_the_reason(fleet: Fleet) -> None:
    fleet.response().respond([ECC, XID, ECC])
    assert fleet.asked[-1] == "take_out REPLACE: Xid 79 (and 2 more)"


def test_node_that_is_out_already_is_left_alone(fleet: Fleet) -> None:
    fleet.out = "trainers-asg has this node Standby"
    answer = fleet.response().respond([XID])
    assert answer == ResponseResult(ResponseOutcome.NOT_NEEDED, "trainers-asg has this node Standby; seen: Xid 79")
    assert fleet.asked == ["why_out"]


@pytest.mark.parametrize(
    ("others", "limit", "outcome"),
    [
        (set(), 1, ResponseOutcome.DONE),
        ({"i-1"}, 1, ResponseOutcome.HELD),
        ({"i-1"}, 2, ResponseOutcome.DONE),
        ({"i-1", "i-2"}, 2, ResponseOutcome.HELD),
        ({"i-1", "i-2", "i-3"}, 2, ResponseOutcome.HELD),
        (set(), 0, ResponseOutcome.HELD),
    ],
)
def test_fleet_loses_no_more_nodes_than_it_may(
    fleet: Fleet, others: set[str], limit: int, outcome: ResponseOutcome
) -> None:
    fleet.others = others
    answer = fleet.response(limit).respond([XID])
    assert answer.outcome is outcome
    assert any(asked.startswith("take_out") for asked in fleet.asked) is (outcome is ResponseOutcome.DONE)


def test_node_that_finds_no_place_is_held_and_asks_again(fleet: Fleet) -> None:
    free = [False, True]
    fleet.others = {"i-1"}
    asked: list[list[int]] = []

    def take_slot(numbers: Iterable[int]) -> bool:
        asked.append(list(numbers))
        return free.pop(0)

    response = Response(fleet, keep_evidence=fleet.evidence, limit_per_hour=3, dry_run=False, take_slot=take_slot)
    held = response.respond([XID])
    assert held.outcome is ResponseOutcome.HELD
    assert held.words == "the fleet may lose 3 nodes an hour, as many are being taken out; because of Xid 79"
    assert response.respond([XID]).outcome is ResponseOutcome.DONE
    assert asked == [[2, 3]] * 2


def test_node_keeps_its_place_until_the_orchestrator_takes_the_action(fleet: Fleet) -> None:
    places = iter([True, False])
    refused = [ActionError("scontrol: timed out")]

    class Refusing(Fleet):
        def take_out(self, severity: Severity, reason: str) -> None:
            if refused:
                raise refused.pop()

    response = Response(
        Refusing(),
        keep_evidence=fleet.evidence,
        limit_per_hour=1,
        dry_run=False,
        take_slot=lambda _: next(places),
    )
    assert [response.respond([XID]).outcome for _ in range(3)] == [
        ResponseOutcome.FAILED,
        ResponseOutcome.DONE,
        ResponseOutcome.HELD,
    ]


def test_node_that_is_held_is_taken_out_once_there_is_room_and_keeps_its_first_evidence(fleet: Fleet) -> None:
    limited = fleet.response(1)
    fleet.others = {"i-1"}
    held = limited.respond([XID])
    assert held.words == "the fleet may lose 1 nodes an hour, gone are: i-1; because of Xid 79"
    fleet.others = set()
    assert limited.respond([XID]).outcome is ResponseOutcome.DONE
    assert [asked for asked in fleet.asked if asked.startswith("evidence")] == ["evidence Xid 79"]


def test_dry_run_only_says_what_it_would_do(fleet: Fleet) -> None:
    answer = fleet.response(dry_run=True).respond([XID])
    assert answer == ResponseResult(ResponseOutcome.DRY_RUN, "would take this node out of service: Xid 79")
    assert fleet.asked == ["why_out", "taken_out"]


def test_dry_run_says_that_the_fleet_would_hold_the_node(fleet: Fleet) -> None:
    fleet.others = {"i-1", "i-2"}
    assert fleet.response(dry_run=True).respond([XID]).outcome is ResponseOutcome.HELD


def test_evidence_that_hangs_does_not_keep_a_broken_node_in_service(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response, "_EVIDENCE_SECONDS", 0.05)
    gate = threading.Event()
    hangs = Response(fleet, keep_evidence=lambda _: str(gate.wait()), limit_per_hour=2, dry_run=False)
    assert hangs.respond([XID]).words == "Xid 79; evidence: none, since it was not there within 0.05 s"
    assert fleet.asked[-1] == "take_out REPLACE: Xid 79"
    gate.set()


@pytest.mark.parametrize("fault", [ActionError("sinfo: timed out"), KeyError("InstanceId"), RuntimeError()])
def test_whatever_fails_is_tried_again(fleet: Fleet, fault: Exception) -> None:
    fleet.faults = [fault]
    response = fleet.response()
    assert response.respond([XID]).outcome is ResponseOutcome.FAILED
    assert response.respond([XID]).outcome is ResponseOutcome.DONE


def test_store_that_takes_no_evidence_holds_the_action_back_for_three_tries_only(fleet: Fleet) -> None:
    def refuse(reason: str) -> str:
        fleet.asked.append(f"evidence {reason}")
        raise ActionError("S3 does not answer")

    response = Response(fleet, keep_evidence=refuse, limit_per_hour=2, dry_run=False)
    outcomes = [response.respond([XID]) for _ in range(3)]
    assert [answer.outcome for answer in outcomes] == [
        ResponseOutcome.FAILED,
        ResponseOutcome.FAILED,
        ResponseOutcome.DONE,
    ]
    assert outcomes[-1].words == "Xid 79; evidence: none, since S3 does not answer"
    assert fleet.asked.count("evidence Xid 79") == 3


def test_fleet_without_a_bucket_acts_without_evidence(fleet: Fleet) -> None:
    response = Response(fleet, keep_evidence=lambda _: "", limit_per_hour=2, dry_run=False)
    assert response.respond([XID]).words == "Xid 79; evidence: the fleet keeps none"


def test_next_fault_has_evidence_of_its_own(fleet: Fleet) -> None:
    response = fleet.response()
    response.respond([XID])
    response.respond([ECC])
    assert [asked for asked in fleet.asked if asked.startswith("evidence")] == [
        "evidence Xid 79",
        "evidence GPU 3: 2 uncorrected errors",
    ]
