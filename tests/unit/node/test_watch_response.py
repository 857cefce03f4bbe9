"""What is done about a node that is not well, in which order, and how often."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.node import AwsError
from cdk_gpu_clusters.node.gpunode.repair.history import History
from cdk_gpu_clusters.node.gpunode.repair.limit import Silence
from cdk_gpu_clusters.node.gpunode.watch import response
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from cdk_gpu_clusters.node.gpunode.watch.response import Response, ResponseOutcome
from orchestrators import Willing

XID = Symptom("xid-79", Severity.REPLACE, "Xid 79", lasting=False)
ECC = Symptom("ecc-reset", Severity.RESET, "GPU 3: 2 uncorrected errors")


class Slots:
    """The slots of the fleet: whether each try finds one."""

    def __init__(self, *free: bool) -> None:
        self.free = list(free)
        self.asked: list[tuple[str, int]] = []

    def has_room(self, kind: str, limit: int) -> bool:
        return True

    def take(self, kind: str, limit: int) -> str:
        self.asked.append((kind, limit))
        return "slot" if not self.free or self.free.pop(0) else ""


class Fleet(Willing):
    """An orchestrator that answers as a test wants, and everything that was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Exception] = []

    def why_out(self) -> str:
        self.asked.append("why_out")
        if self.faults:
            raise self.faults.pop()
        return self.out

    def taken_out(self, severity: Severity) -> set[str]:
        self.asked.append("taken_out")
        return super().taken_out(severity)

    def evidence(self, reason: str) -> str:
        self.asked.append(f"evidence {reason}")
        return "s3://evidence/1.tar.gz"

    def response(self, limit: int = 2, *, dry_run: bool = False, slots: Slots | None = None, **more: Any) -> Response:
        given: dict[str, Any] = {
            "keep_evidence": self.evidence,
            "history": History("i-0123456789abcdef0"),
            "steps": Idle(),
            "limits": dict.fromkeys((Severity.RESET, Severity.REBOOT, Severity.REPLACE), limit),
            "dry_run": dry_run,
            "slots": slots or Slots(),
            "silence": Silence(),
            **more,
        }
        return Response(self, **given)


class Idle:
    """A node on which nothing runs."""

    def why_suspended(self) -> str:
        return ""

    def work(self) -> str:
        return ""

    def end_work(self) -> None:
        raise AssertionError

    def reset(self) -> str:
        return ""

    def reboot(self) -> None:
        raise AssertionError

    def boot_result(self) -> str:
        return "ready"

    def check(self) -> str:
        return ""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_evidence_is_kept_and_the_fleet_counted_before_the_node_is_taken_out(fleet: Fleet) -> None:
    result = fleet.response().respond([XID])
    assert (result.outcome, result.words) == (ResponseOutcome.DONE, "Xid 79; evidence: s3://evidence/1.tar.gz")
    assert fleet.asked == ["why_out", "evidence Xid 79", "taken_out", "take_out REPLACE: Xid 79"]


def test_worst_symptom_is_the_reason(fleet: Fleet) -> None:
    fleet.response().respond([ECC, XID, ECC])
    assert fleet.asked[-1] == "take_out REPLACE: Xid 79 (and 2 more)"


def test_node_that_is_out_already_is_left_alone(fleet: Fleet) -> None:
    fleet.out = "trainers-asg has this node Standby"
    result = fleet.response().respond([XID])
    assert result.outcome is ResponseOutcome.NOT_NEEDED
    assert result.words == "trainers-asg has this node Standby; seen: Xid 79"
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


def test_node_that_finds_no_slot_is_held_and_asks_again(fleet: Fleet) -> None:
    slots = Slots(False, True)
    response = fleet.response(3, slots=slots)
    held = response.respond([XID])
    assert held.outcome is ResponseOutcome.HELD
    assert held.words == "the fleet may lose 3 nodes an hour, as many were begun; because of Xid 79"
    assert response.respond([XID]).outcome is ResponseOutcome.DONE
    assert slots.asked == [("repairs/replace", 3)] * 2


def test_node_keeps_its_slot_until_the_orchestrator_takes_the_action(fleet: Fleet) -> None:
    refused = [ActionError("scontrol: timed out")]

    class Refusing(Fleet):
        def take_out(self, severity: Severity, reason: str) -> None:
            if refused:
                raise refused.pop()

    slots = Slots(True, False)
    response = Refusing().response(1, slots=slots)
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


@pytest.mark.parametrize(
    "refusal",
    [
        "An error occurred (ThrottlingException) when calling the CreateLogStream operation: Rate exceeded",
        "An error occurred (AccessDeniedException) when calling the CreateLogStream operation",
        "aws did not end within 10 s",
        "Could not connect to the endpoint URL",
        "something that nobody has seen before",
    ],
)
def test_whatever_is_no_answer_holds_the_node(fleet: Fleet, refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise AwsError(refusal)

    slots = Slots()
    monkeypatch.setattr(slots, "take", refuse)
    response = fleet.response(slots=slots)
    for _ in range(20):
        held = response.respond([XID])
        assert held.outcome is ResponseOutcome.HELD
        assert refusal in held.words
    assert not any(asked.startswith("take_out") for asked in fleet.asked)


def test_pauses_of_a_held_node_grow_to_ten_minutes_and_are_random(fleet: Fleet) -> None:
    fleet.others = {"i-1", "i-2"}
    longest = fleet.response(chance=lambda: 1.0)
    assert [longest.respond([XID]).pause_seconds for _ in range(6)] == [10, 30, 90, 270, 600, 600]
    some = fleet.response()
    pauses = [some.respond([XID]).pause_seconds for _ in range(20)]
    assert len(set(pauses)) == 20
    assert max(pauses) <= 600


def test_dry_run_only_reports_what_it_would_do(fleet: Fleet) -> None:
    answer = fleet.response(dry_run=True).respond([XID])
    assert answer.outcome is ResponseOutcome.DRY_RUN
    assert answer.words == "would take this node out of service: Xid 79"
    assert fleet.asked == ["why_out", "taken_out"]


def test_dry_run_reports_a_repair_in_place(fleet: Fleet) -> None:
    assert fleet.response(dry_run=True).respond([ECC]).words.startswith("would reset this node once idle: GPU 3")


def test_dry_run_reports_that_the_fleet_would_hold_the_node(fleet: Fleet) -> None:
    fleet.others = {"i-1", "i-2"}
    assert fleet.response(dry_run=True).respond([XID]).outcome is ResponseOutcome.HELD


def test_evidence_that_hangs_does_not_keep_a_broken_node_in_service(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response, "_EVIDENCE_SECONDS", 0.05)
    gate = threading.Event()
    hangs = fleet.response(keep_evidence=lambda _: str(gate.wait()))
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

    response = fleet.response(keep_evidence=refuse)
    outcomes = [response.respond([XID]) for _ in range(3)]
    assert [answer.outcome for answer in outcomes] == [
        ResponseOutcome.FAILED,
        ResponseOutcome.FAILED,
        ResponseOutcome.DONE,
    ]
    assert outcomes[-1].words == "Xid 79; evidence: none, since S3 does not answer"
    assert fleet.asked.count("evidence Xid 79") == 3


def test_fleet_without_a_bucket_acts_without_evidence(fleet: Fleet) -> None:
    assert fleet.response(keep_evidence=lambda _: "").respond([XID]).words == "Xid 79; evidence: the fleet keeps none"


def test_next_fault_has_evidence_of_its_own(fleet: Fleet) -> None:
    response = fleet.response()
    response.respond([XID])
    response.respond([ECC])
    assert [asked for asked in fleet.asked if asked.startswith("evidence")] == [
        "evidence Xid 79",
        "evidence GPU 3: 2 uncorrected errors",
    ]
