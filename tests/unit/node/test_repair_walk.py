"""The repair of a node from the first fault to its end, also interrupted at every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError, NotYet
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.repair import history
from cdk_gpu_clusters.node.gpunode.repair.history import History, Step
from cdk_gpu_clusters.node.gpunode.watch.response import ResponseOutcome
from repaired_node import INSTANCE, REBOOT, REPLACE, RESET, Dies, RepairedNode

DAY = 24 * 3600


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RepairedNode:
    return RepairedNode(tmp_path, monkeypatch)


def reboots(node: RepairedNode) -> None:
    """The process that comes after the reboot."""
    node.start()


def test_a_reset_of_an_idle_node_walks_its_steps_and_gives_the_node_back(node: RepairedNode) -> None:
    assert node.respond(RESET).outcome is ResponseOutcome.REPAIRED
    assert node.walk == [f"reset {step}" for step in ("begin", "hold", "wait", "reset", "check", "release", "ok")]
    assert node.hardware.done == ["reset", "check"]
    assert node.fleet.asked == ["hold RESET: Xid 119", "release"]
    assert node.evidence == ["Xid 119"]
    assert not node.response.is_repairing


def test_a_reset_waits_for_the_job_however_long_it_runs(node: RepairedNode) -> None:
    node.hardware.works = "a process on the GPUs: python (7)"
    for _ in range(100):
        assert node.respond(RESET).outcome is ResponseOutcome.WAITING
        node.now += 3600
    assert node.hardware.done == []
    node.hardware.works = ""
    assert node.respond(RESET).outcome is ResponseOutcome.REPAIRED


def test_a_reset_does_not_wait_for_ever_for_what_is_no_job(node: RepairedNode) -> None:
    """Such as a process that hangs in the driver since the fault."""
    node.hardware.works, node.hardware.leftover = "a process on the GPUs: python (7)", True
    assert node.respond(RESET).outcome is ResponseOutcome.WAITING
    node.now += 1799
    assert node.respond(RESET).outcome is ResponseOutcome.WAITING
    node.now += 1
    assert node.respond(RESET).words == "reboots: Xid 119"
    assert node.hardware.done == ["end-work", "reboot"]
    reboots(node)
    assert node.respond().outcome is ResponseOutcome.REPAIRED
    assert node.hardware.done == ["end-work", "reboot", "check"]


class OnlyResets:
    """A fleet that has no room for a reboot now."""

    def has_room(self, kind: str, limit: int) -> bool:
        return bool(self.take(kind, limit))

    def take(self, kind: str, limit: int) -> str:
        return "slot" if kind == "repairs/reset" and limit else ""


def test_a_node_whose_reset_failed_is_rebooted_even_if_the_fault_has_gone(node: RepairedNode) -> None:
    """The reset may have restarted the fabric manager, or left the GPUs half reset."""
    node.hardware.resets = ["In use by another client"]
    node.start(slots=OnlyResets())
    assert node.respond(RESET).outcome is ResponseOutcome.HELD
    node.start()
    assert node.respond().words == "reboots: In use by another client; first: Xid 119"
    reboots(node)
    assert node.respond().outcome is ResponseOutcome.REPAIRED
    assert node.fleet.asked[-1] == "release"


def test_a_reboot_waits_for_the_job_for_a_grace_and_then_ends_it(node: RepairedNode) -> None:
    node.fleet.jobs = "Slurm has gpu-1 draining"
    assert node.respond(REBOOT).outcome is ResponseOutcome.WAITING
    node.now += 1799
    assert node.respond(REBOOT).outcome is ResponseOutcome.WAITING
    assert node.hardware.done == []
    node.now += 1
    assert node.respond(REBOOT).words == "reboots: Xid 95"
    assert node.hardware.done == ["end-work", "reboot"]
    reboots(node)
    assert node.respond().outcome is ResponseOutcome.REPAIRED
    assert node.fleet.asked == ["hold REBOOT: Xid 95", "release"]


def test_a_job_that_ends_in_time_is_not_ended(node: RepairedNode) -> None:
    node.hardware.works = "2 jobs of gpunode run"
    node.respond(REBOOT)
    node.hardware.works = ""
    node.respond(REBOOT)
    assert node.hardware.done == ["reboot"]


def test_a_second_reset_within_a_day_is_a_reboot_and_a_second_reboot_a_replacement(node: RepairedNode) -> None:
    node.respond(RESET)
    node.now += DAY - 1
    node.respond(RESET)
    assert node.hardware.done == ["reset", "check", "reboot"]
    reboots(node)
    node.respond()
    assert node.respond(REBOOT).outcome is ResponseOutcome.DONE
    assert node.fleet.asked[-1] == "take_out REPLACE: Xid 95"


def test_a_repair_of_an_earlier_day_does_not_count(node: RepairedNode) -> None:
    for _ in range(3):
        node.respond(RESET)
        node.now += DAY
    assert node.hardware.done == ["reset", "check"] * 3


def test_a_clock_that_jumps_back_forgets_no_repair(node: RepairedNode) -> None:
    node.respond(RESET)
    node.now -= 3600
    node.respond(RESET)
    assert node.hardware.done[-1] == "reboot"


def test_a_reset_that_fails_leads_to_a_reboot_with_evidence_of_its_own(node: RepairedNode) -> None:
    node.hardware.resets = ["In use by another client"]
    assert node.respond(RESET).outcome is ResponseOutcome.WAITING
    assert node.hardware.done == ["reset", "reboot"]
    assert len(node.evidence) == 2
    reboots(node)
    assert node.respond().outcome is ResponseOutcome.REPAIRED


def test_a_fault_that_outlasts_the_reset_leads_to_a_reboot(node: RepairedNode) -> None:
    node.hardware.checks = ["recovery: GPU 3 wants a reset"]
    node.respond(RESET)
    assert node.hardware.done == ["reset", "check", "reboot"]


def test_a_node_that_does_not_pass_its_reboot_is_replaced(node: RepairedNode) -> None:
    node.respond(REBOOT)
    node.hardware.boot = "failed"
    reboots(node)
    assert node.respond().outcome is ResponseOutcome.DONE
    assert node.fleet.asked[-1].startswith("take_out REPLACE: it did not pass its reboot")


def test_a_reboot_that_never_comes_leads_to_a_replacement(node: RepairedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.hardware, "reboot", lambda: None)
    node.respond(REBOOT)
    node.now += 599
    assert node.respond(REBOOT).outcome is ResponseOutcome.WAITING
    node.now += 1
    assert node.respond(REBOOT).outcome is ResponseOutcome.DONE


def test_a_fault_that_ends_during_the_wait_gives_the_node_back_untouched(node: RepairedNode) -> None:
    node.hardware.works = "job"
    node.respond(RESET)
    node.respond()
    assert node.fleet.asked == ["hold RESET: Xid 119", "release"]
    assert node.hardware.done == []
    # It was not tried, so it counts for nothing.
    node.hardware.works = ""
    node.respond(RESET)
    assert node.hardware.done == ["reset", "check"]


def test_a_worse_fault_during_the_wait_is_acted_on_at_once(node: RepairedNode) -> None:
    node.hardware.works = "job"
    node.respond(RESET)
    assert node.respond(RESET, REPLACE).outcome is ResponseOutcome.DONE
    assert node.fleet.asked[-1] == "take_out REPLACE: Xid 79 (and 1 more)"


def test_monitor_is_never_repaired(node: RepairedNode) -> None:
    monitor = RESET.__class__("clocks", Severity.MONITOR, "hot")
    assert node.respond(monitor).outcome is ResponseOutcome.NOT_NEEDED
    assert node.walk == []


def test_an_operators_drain_is_neither_touched_nor_released(node: RepairedNode) -> None:
    node.fleet.out = "Slurm has gpu-1 draining: disk swap, ask Kim"
    assert node.respond(REBOOT).outcome is ResponseOutcome.NOT_NEEDED
    assert (node.fleet.asked, node.hardware.done, node.evidence) == ([], [], [])


def test_an_operator_who_takes_the_held_node_over_keeps_it(node: RepairedNode) -> None:
    node.hardware.works = "job"
    node.respond(REBOOT)
    node.fleet.held = False
    node.fleet.out = "Slurm has gpu-1 draining: mine, Kim"
    node.hardware.works = ""
    assert node.respond(REBOOT).outcome is ResponseOutcome.NOT_NEEDED
    assert node.hardware.done == []
    assert node.fleet.asked == ["hold REBOOT: Xid 95"]


@pytest.mark.parametrize("symptom", [RESET, REBOOT, REPLACE])
def test_maintenance_suspends_everything_and_the_repair_goes_on_afterwards(node: RepairedNode, symptom: Any) -> None:
    node.hardware.suspended = "maintenance: new cables, Kim"
    for _ in range(3):
        assert node.respond(symptom).outcome is ResponseOutcome.SUSPENDED
    assert (node.fleet.asked, node.hardware.done, node.walk) == ([], [], [])
    node.hardware.suspended = ""
    assert node.respond(symptom).outcome is not ResponseOutcome.SUSPENDED
    assert node.fleet.asked


STEPS = {
    "reset": (RESET, ["begin", "hold", "wait", "reset", "check", "release"]),
    "reboot": (REBOOT, ["begin", "hold", "wait", "end-work", "reboot", "check", "release"]),
    "replace": (REPLACE, ["begin", "take-out"]),
}
CASES = [(rung, step) for rung, (_, steps) in STEPS.items() for step in steps]


@pytest.mark.parametrize("with_reboot", [False, True], ids=["killed", "rebooted"])
@pytest.mark.parametrize(("rung", "step"), CASES)
def test_a_repair_that_is_interrupted_at_any_step_still_ends(
    node: RepairedNode, rung: str, step: str, with_reboot: bool
) -> None:
    symptom, _ = STEPS[rung]
    if step == "end-work":
        node.hardware.works = "job"

    def die(name: str) -> None:
        if name == step:
            node.before_step = lambda _: None
            raise Dies

    node.before_step = die
    interrupted = False
    outcomes = []
    for _ in range(8):
        # An event of an earlier boot is not seen again after a reboot.
        seen = (symptom,) if node.boots == 1 else ()
        try:
            outcomes.append(node.respond(*seen).outcome)
        except Dies:
            interrupted = True
            node.boots += with_reboot
        node.start()
        if outcomes and outcomes[-1] in (ResponseOutcome.REPAIRED, ResponseOutcome.DONE, ResponseOutcome.NOT_NEEDED):
            break
        node.now += 900
    assert interrupted
    assert not node.response.is_repairing
    assert not node.fleet.held, "it has work again"
    assert len(node.fleet.asked) <= 4
    assert node.hardware.done.count("reboot") <= 1
    taken = [asked for asked in node.fleet.asked if asked.startswith("take_out")]
    # A new boot has no sign of a fault that nothing was done about yet.
    assert len(taken) == (rung == "replace" and not (with_reboot and step == "begin"))


def test_a_slot_that_was_taken_is_kept_over_failures_and_restarts(
    node: RepairedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def take(kind: str, limit: int) -> str:
        taken.append((kind, limit))
        return f"slot-{len(taken)}"

    def refuse(*_: object) -> None:
        raise ActionError("scontrol: timed out")

    monkeypatch.setattr(node.room, "take", take)
    with monkeypatch.context() as patch:
        patch.setattr(node.fleet, "hold", refuse)
        for _ in range(3):
            assert node.respond(REBOOT).outcome is ResponseOutcome.FAILED
            node.start()
    node.respond(REBOOT)
    assert taken == [("repairs/reboot", 10)]


def test_a_node_that_cannot_take_work_yet_waits_for_seconds_and_was_no_failure(
    node: RepairedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise NotYet("slurmd of gpu-1 has not registered since this boot")

    with monkeypatch.context() as patch:
        patch.setattr(node.fleet, "release", refuse)
        waiting = node.respond(RESET)
        assert waiting.outcome is ResponseOutcome.WAITING
        assert waiting.words == "slurmd of gpu-1 has not registered since this boot; because of Xid 119"
        assert 0 < waiting.pause_seconds < 10
        assert node.fleet.held
    assert node.respond(RESET).outcome is ResponseOutcome.REPAIRED
    assert node.hardware.done == ["reset", "check"]


def test_a_fault_that_ends_while_the_fleet_has_no_room_is_forgotten(node: RepairedNode) -> None:
    node.room.free = False
    assert node.respond(REPLACE).outcome is ResponseOutcome.HELD
    assert node.respond().outcome is ResponseOutcome.NOT_NEEDED
    assert not node.response.is_repairing
    assert node.fleet.asked == []


def test_a_held_node_keeps_its_first_evidence(node: RepairedNode) -> None:
    node.room.free = False
    for _ in range(5):
        assert node.respond(REPLACE).outcome is ResponseOutcome.HELD
    assert node.evidence == ["Xid 79"]


def test_a_disk_that_takes_no_record_makes_a_reboot_a_replacement(node: RepairedNode, tmp_path: Path) -> None:
    (tmp_path / "var/lib").mkdir(parents=True, exist_ok=True)
    state = tmp_path / "var/lib/gpu-cluster"
    if state.is_dir():
        state.rmdir()
    state.write_text("no folder")
    node.start()
    assert node.respond(REBOOT).outcome is ResponseOutcome.DONE
    assert node.hardware.done == []


def test_a_disk_that_takes_no_record_prevents_no_reset(node: RepairedNode, tmp_path: Path) -> None:
    (tmp_path / "var/lib").mkdir(parents=True, exist_ok=True)
    state = tmp_path / "var/lib/gpu-cluster"
    if state.is_dir():
        state.rmdir()
    state.write_text("no folder")
    node.start()
    node.hardware.works = "job"
    node.respond(RESET)
    node.start()
    node.hardware.works = ""
    assert node.respond(RESET).outcome is ResponseOutcome.REPAIRED
    assert node.fleet.asked == ["hold RESET: Xid 119", "release"], "memory kept the record"


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "null", "7", "[]", "{}", '{"instance_id": 7}', "\0", "[" * 100_000, "9" * 300_000,
        '{"instance_id": "i-0123456789abcdef0", "version": 1, "past": [7], "current": null}',
        '{"instance_id": "i-0123456789abcdef0", "version": 1, "past": {}, "current": {"rung": "reboot"}}',
        '{"instance_id": "i-0123456789abcdef0", "version": 1e999, "past": [], "current": null}',
    ],
)  # fmt: skip
def test_a_record_that_is_no_record_counts_as_none(node: RepairedNode, tmp_path: Path, text: str) -> None:
    for folder in ("var/lib/gpu-cluster", "run/gpu-cluster"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "repairs.json").write_text(text)
    found = History(INSTANCE)
    assert (found.past, found.current) == ([], None)


def test_an_image_made_of_a_node_does_not_inherit_its_repairs(node: RepairedNode) -> None:
    node.respond(RESET)
    assert len(History(INSTANCE).past) == 1
    assert History("i-0aaaabbbbccccdddd").past == []


def test_a_disk_that_hangs_holds_no_repair(node: RepairedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    gate = threading.Event()
    real = history._store

    def store(folder: Any, text: str) -> bool:
        if folder is paths.state_folder:
            gate.wait()
        return real(folder, text)

    monkeypatch.setattr(history, "_store", store)
    monkeypatch.setattr(history, "_DISK_SECONDS", 0.05)
    assert node.respond(REPLACE).outcome is ResponseOutcome.DONE
    gate.set()
    assert node.history._writing.take(30), "the disk goes on, before another test begins"


def test_a_step_is_recorded_before_it_is_taken(node: RepairedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> str:
        current = History(INSTANCE).current
        assert current is not None
        assert current.step is Step.RESET
        return ""

    monkeypatch.setattr(node.hardware, "reset", look)
    assert node.respond(RESET).outcome is ResponseOutcome.REPAIRED
