"""The watchdog as a whole, poll by poll, with a clock that goes when it is told to."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.actions.auto_scaling import AutoScaling
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Result, Severity, Undetermined
from cdk_gpu_clusters.node.gpunode.state import recall
from cdk_gpu_clusters.node.gpunode.watch import service
from cdk_gpu_clusters.node.gpunode.watch.kernel import XidTable
from watched_node import INSTANCE, WatchedNode

TABLE = XidTable(
    {
        "13": {"class": "monitor"},
        "79": {"class": "replace"},
        "95": {"class": "reboot"},
        "144": {"class": "reset"},
    }
)
OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus."


class Watched(WatchedNode):
    """A node under the watchdog, and the health of its GPUs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gpus = [Result("gpus", Severity.OK, "8 GPUs")]
        self.start()

    def start(self, **settings: str) -> None:
        self.begin({"gpus": lambda _: self.gpus}, efa_count="1", **settings)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(service, "read_xids", lambda: TABLE)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return Watched(tmp_path)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("plant", "actions"),
    [
        (lambda _: None, 0),
        (lambda watched: watched.kernel_says(OFF_THE_BUS), 1),
        (lambda watched: watched.gpus.append(Result("gpus", Severity.REPLACE, "7 GPUs answer")), 1),
    ],
    ids=["healthy", "xid", "lost-gpu"],
)
def test_a_thousand_polls_act_once_for_one_fault_and_never_without(
    watched: Watched, plant: Callable[[Watched], object], actions: int
) -> None:
    for number in range(1, 1001):
        if number == 501:
            assert (watched.actions, watched.told.all) == (0, [])
            plant(watched)
        watched.kernel_says(f"eth0: link is up, for the {number}. time", "NVRM: loading NVIDIA UNIX Open Kernel Module")
        watched.efa_counter("rdmap0s1", "rx_drops", number)
        watched.poll()
    assert watched.actions == actions
    assert len(watched.account.bundles) == actions
    assert [state for state, _ in watched.told.of("action")] == ["ok"] * actions


@pytest.mark.simulation
def test_ten_thousand_healthy_polls_with_what_people_do_repair_nothing(watched: Watched) -> None:
    """Slow tools, garbled answers, resets and reloads by users, changes of MIG: each lasts less than a minute."""
    chance = random.Random(7)
    # By polls of 10 s: how long it lasts.
    kinds = {"calm": 60, "reset": 5, "garbled": 1, "slow": 90, "flag": 3}
    seen = {
        "calm": [],
        "reset": [Result("gpus", Severity.REPLACE, "7 GPUs answer")],
        "garbled": [Result("gpus", Severity.UNKNOWN, "garbage")],
        "flag": [Result("gpus", Severity.RESET, "a user resets GPU 3")],
    }
    present = "calm"

    def check(_: object) -> list[Result]:
        if present == "slow":
            raise Undetermined("nvidia-smi: no answer within 20 s")
        return seen[present]

    watched.begin({"gpus": check}, accelerator="")
    polls = 0
    while polls < 10_000:
        present = chance.choice(list(kinds))
        watched.poll(kinds[present])
        polls += kinds[present] + 3
        present = "calm"
        watched.poll(3)
    assert watched.actions == 0
    assert watched.told.of("repair") == watched.told.of("action") == []
    assert watched.account.made == []


def test_evidence_lies_in_s3_before_the_node_is_marked(watched: Watched) -> None:
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    assert watched.account.made == [
        "describe-auto-scaling-instances",
        "cp",
        "describe-auto-scaling-groups",
        "describe-scaling-activities",
        "set-instance-health",
    ]
    [(address, names)] = watched.account.bundles
    assert address.startswith(f"s3://evidence/trainers/{INSTANCE}/")
    assert "reason.json" in names
    [(state, words)] = watched.told.of("action")
    assert state == "ok"
    assert words.startswith("Xid 79 on 0000:10:1c: pid=1896")
    assert address in words


def test_kernel_is_heard_between_polls(watched: Watched) -> None:
    watched.poll()
    watched.kernel_says(OFF_THE_BUS)
    watched.watch.hear()
    assert watched.actions == 1


def test_xid_of_this_boot_counts_even_when_the_watchdog_came_later(watched: Watched) -> None:
    watched.kernel_says(OFF_THE_BUS)
    watched.start()
    watched.poll(3)
    assert watched.actions == 1


def test_restarted_watchdog_does_not_act_a_second_time(watched: Watched) -> None:
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    watched.account.members[INSTANCE][1] = "Healthy"  # an operator's decision
    for _ in range(3):
        watched.start()
        watched.poll(3)
    assert watched.actions == 1


def test_restarted_watchdog_goes_on_with_what_was_not_done(watched: Watched) -> None:
    watched.account.denied["set-instance-health"] = 2
    watched.kernel_says(OFF_THE_BUS)
    watched.poll(2)
    assert [state for state, _ in watched.told.of("action")] == ["failed"]
    watched.start()
    watched.poll()
    assert watched.account.members[INSTANCE] == ["InService", "Unhealthy"]


def test_message_is_remembered_before_it_is_acted_on(watched: Watched) -> None:
    """A process that dies in the middle of an action must not have forgotten why."""
    seen = {}

    def call(*_: object, **__: object) -> object:
        seen.update(json.loads((watched.root / "run/gpu-cluster/watch.json").read_text()))
        raise OSError("dies here")

    watched.account.call = call  # type: ignore[method-assign]
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    assert [case["symptom"]["key"] for case in seen["open"]] == ["xid-79-0000:10:1c"]
    assert seen["sequence"] == 2


def test_new_boot_starts_anew(watched: Watched) -> None:
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    watched.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    watched.write("dev/kmsg", "6,1,100,-;Linux version 6.1\n")
    watched.account.members[INSTANCE][1] = "Healthy"
    watched.start()
    watched.poll(3)
    assert watched.actions == 1
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    assert watched.actions == 2


def test_container_skips_what_its_host_said_before(watched: Watched) -> None:
    watched.kernel_says(OFF_THE_BUS)
    watched.start(kernel_log_from="end")
    watched.poll(3)
    assert watched.actions == 0
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    assert watched.actions == 1


def test_ten_thousand_lines_of_one_fault_are_one_action_and_few_words(watched: Watched) -> None:
    watched.kernel_says(*[OFF_THE_BUS] * 4_000, *["NVRM: Xid (PCI:0000:10:1c): 13, pid=2, again"] * 6_000)
    watched.poll(5)
    assert watched.actions == 1
    assert len([event for event in watched.told.all if event["stage"] != "repair"]) == 3
    assert [step for step, _ in watched.told.of("repair")] == ["begin", "take-out", "ok"]


def test_condition_that_ends_in_time_is_no_fault(watched: Watched) -> None:
    for _ in range(20):
        watched.gpus = [Result("gpus", Severity.REPLACE, "7 GPUs answer")]
        watched.poll(6)
        watched.gpus = [Result("gpus", Severity.OK, "8 GPUs")]
        watched.poll(3)
    assert (watched.actions, watched.told.all) == (0, [])


def test_condition_that_is_held_back_and_then_ends_is_not_acted_on(watched: Watched) -> None:
    watched.account.members.update({f"i-{number}": ["InService", "Unhealthy"] for number in range(2)})
    watched.gpus = [Result("gpus", Severity.REPLACE, "7 GPUs answer")]
    watched.poll(20)
    assert [state for state, _ in watched.told.of("action")] == ["held"]
    watched.gpus = [Result("gpus", Severity.OK, "8 GPUs")]
    watched.poll()
    for name in ("i-0", "i-1"):
        del watched.account.members[name]
    watched.poll(20)
    assert watched.actions == 0


def test_fault_that_is_held_back_is_acted_on_once_there_is_room(watched: Watched) -> None:
    watched.account.members.update({f"i-{number}": ["InService", "Unhealthy"] for number in range(2)})
    watched.chance = 1.0
    watched.kernel_says(OFF_THE_BUS)
    watched.poll(30)
    assert watched.actions == 0
    # Asked after 10, 30 and 90 seconds, not with every poll, and told once.
    assert watched.account.made.count("describe-auto-scaling-groups") == 4
    assert len(watched.told.of("action")) == 1
    del watched.account.members["i-0"]
    watched.poll(12)
    assert watched.actions == 1


def test_limit_is_a_setting(watched: Watched) -> None:
    watched.account.members["i-1"] = ["InService", "Unhealthy"]
    watched.start(watch_actions_per_hour="1")
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    assert [state for state, _ in watched.told.of("action")] == ["held"]


def test_operator_who_has_the_node_keeps_it(watched: Watched) -> None:
    watched.account.members[INSTANCE][0] = "Standby"
    watched.kernel_says(OFF_THE_BUS)
    watched.poll(3)
    assert watched.told.of("action")[0][0] == "skipped"
    watched.account.members[INSTANCE][0] = "InService"  # repaired, and put back
    watched.poll(30)
    assert watched.actions == 0


def test_condition_that_an_operator_put_back_into_service_is_acted_on(watched: Watched) -> None:
    watched.account.members[INSTANCE][0] = "Standby"
    watched.gpus = [Result("gpus", Severity.REPLACE, "7 GPUs answer")]
    watched.poll(30)
    assert watched.actions == 0
    watched.account.members[INSTANCE][0] = "InService"
    watched.poll(7)
    assert watched.actions == 1


def test_dry_run_changes_nothing(watched: Watched) -> None:
    watched.start(watch="dry-run")
    watched.kernel_says(OFF_THE_BUS)
    watched.poll(5)
    assert {operation.split("-")[0] for operation in watched.account.made} == {"describe"}
    assert [state for state, _ in watched.told.of("action")] == ["dry-run"]


def test_fault_of_a_dry_run_is_acted_on_once_it_is_none(watched: Watched) -> None:
    watched.start(watch="dry-run")
    watched.kernel_says(OFF_THE_BUS)
    watched.poll(5)
    watched.start(watch="nonsense")
    watched.poll(5)
    assert watched.actions == 1


@pytest.mark.parametrize(
    ("acts_from", "states"),
    [("", ["repaired"]), ("reset", ["repaired"]), ("reboot", []), ("REPLACE", []), ("nonsense", ["repaired"])],
)
def test_setting_says_from_which_severity_on_it_acts(watched: Watched, acts_from: str, states: list[str]) -> None:
    watched.start(watch_acts_from=acts_from)
    watched.kernel_says("NVRM: Xid (PCI:0000:10:1c): 144, NVLINK: SAW error")
    watched.poll(3)
    assert watched.actions == 0, "no node is lost for a reset"
    assert [state for state, _ in watched.told.of("action")] == states
    assert watched.told.symptoms() == ["xid-144-0000:10:1c"]


def test_node_looks_healthy_before_it_gets_work_again(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [ActionError("no answer"), None]
    seen = []

    def release(_: object) -> None:
        known = recall("watch")
        seen.append((known["severity"], known["repair"], known["open"]))
        if answer := answers.pop(0):
            raise answer

    monkeypatch.setattr(AutoScaling, "release", release)
    watched.kernel_says("NVRM: Xid (PCI:0000:10:1c): 144, NVLINK: SAW error")
    watched.poll()
    # Nobody gave it work: it still is under repair.
    assert recall("watch")["repair"].startswith("reset, release: Xid 144")
    assert recall("watch")["severity"] == Severity.RESET
    watched.poll(3)
    assert [state for state, _ in watched.told.of("action")] == ["failed", "repaired"]
    assert seen == [(Severity.OK, "", [])] * 2


def test_node_without_an_orchestrator_only_tells(watched: Watched) -> None:
    watched.start(orchestrator="")
    watched.kernel_says(OFF_THE_BUS)
    watched.poll(5)
    assert watched.account.made == []
    assert watched.told.symptoms() == ["xid-79-0000:10:1c"]


def test_events_are_carried_to_aws_after_an_action(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = threading.Event()
    monkeypatch.setattr(service, "ship", lambda *_, **__: carried.set())
    watched.start()
    watched.poll(3)
    assert not carried.is_set()
    watched.kernel_says(OFF_THE_BUS)
    watched.poll()
    assert carried.wait(30)


def test_watchdog_of_systemd_is_fed_with_every_poll(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0gpunode-watch-test")
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", "@gpunode-watch-test")
        watched.poll(2)
        watched.watch.hear()
        assert [systemd.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3


class Enough(Exception):
    """Ends a loop that has no end."""


@pytest.fixture
def real_waits(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the loop waits for; the clock goes on by it, and not for ever."""
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        watched.clock.now += seconds
        if len(waits) == 5:
            raise Enough
        return False

    monkeypatch.setattr(watched.watch._log, "wait", wait)
    return waits


def test_loop_polls_at_its_interval_for_ever(watched: Watched, real_waits: list[float]) -> None:
    with pytest.raises(Enough):
        watched.watch.run(10)
    assert real_waits == [10] * 5
