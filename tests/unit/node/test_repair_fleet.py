"""A fleet of 400 nodes with the same fault and a control plane in trouble, in simulated time, with the real code."""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.node import AwsError, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.repair import history
from cdk_gpu_clusters.node.gpunode.repair.history import History
from cdk_gpu_clusters.node.gpunode.repair.limit import Silence
from cdk_gpu_clusters.node.gpunode.slots import Slots
from cdk_gpu_clusters.node.gpunode.watch.probes import Symptom
from cdk_gpu_clusters.node.gpunode.watch.response import Response, ResponseOutcome
from orchestrators import Willing

pytestmark = pytest.mark.simulation
NODES, HOUR = 400, 3600.0
START = 1_800_000_000.0 // HOUR * HOUR - 600
POLL_SECONDS, BOOT_SECONDS = 10.0, 300.0
SILENT = "Could not connect to the endpoint URL"


class Fleet:
    """The account, the clock, and the calls.

    Attributes:
        trouble: What an answer is at a time; empty for a good one.
    """

    region = ""

    def __init__(self, trouble: Callable[[float], str]) -> None:
        self.trouble = trouble
        self.now = START
        self.streams: dict[str, float] = {}
        self.numbers: Counter[str] = Counter()
        self.calls: Counter[int] = Counter()
        self.begun: list[float] = []
        self.out: set[int] = set()
        self.most_out = 0

    def answer(self) -> None:
        self.calls[int((self.now - START) // 60)] += 1
        words = self.trouble(self.now - START)
        if words:
            raise AwsError(words)

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        self.answer()
        name = arguments[3]
        if operation == "create-log-stream":
            if name in self.streams:
                raise AwsError("ResourceAlreadyExistsException")
            self.streams[name] = self.now
            self.numbers[name.rpartition("/")[0] + "/"] += 1
            return None
        last, most = self.numbers[name], int(arguments[-1])
        names = [f"{name}{number:09}" for number in range(max(1, last - most + 1), last + 1)]
        return {"logStreams": [{"logStreamName": one, "creationTime": self.streams[one] * 1000} for one in names]}


class Orchestrator(Willing):
    """An Auto Scaling group: its calls are calls, too."""

    size = NODES

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self.fleet = fleet

    def why_out(self) -> str:
        self.fleet.answer()
        return ""

    def taken_out(self, severity: Severity) -> set[str]:
        self.fleet.answer()
        return set()

    def holds(self) -> bool:
        self.fleet.answer()
        return True

    def take_out(self, severity: Severity, reason: str) -> None:
        self.fleet.answer()


class Machine:
    """One node of the fleet."""

    def __init__(self, number: int, fleet: Fleet, limit: int, symptom: Symptom) -> None:
        self.number, self.fleet, self.limit, self.symptom = number, fleet, limit, symptom
        self.boots, self.chance = 1, random.Random(number)
        self.texts: dict[Any, str] = {}
        self.is_rebooting = self.is_done = False
        self.start()

    def start(self) -> None:
        fleet = self.fleet
        node = Node(Settings({"log_group": "/fleet"}), Metadata(), f"i-{self.number:017x}", fleet)  # type: ignore[arg-type]
        limits = dict.fromkeys((Severity.RESET, Severity.REBOOT, Severity.REPLACE), self.limit)
        self.response = Response(
            Orchestrator(fleet),
            keep_evidence=lambda _: "s3://evidence",
            history=History(node.instance_id, clock=lambda: fleet.now),
            steps=self,
            limits=limits,
            dry_run=False,
            slots=Slots(node, clock=lambda: fleet.now),
            silence=Silence(clock=lambda: fleet.now, chance=self.chance.random),
            clock=lambda: fleet.now,
            chance=self.chance.random,
        )

    def why_suspended(self) -> str:
        return ""

    def work(self) -> str:
        return ""

    def is_leftover(self) -> bool:
        return False

    def end_work(self) -> None:
        raise AssertionError

    def reset(self) -> str:
        raise AssertionError

    def reboot(self) -> None:
        assert not self.is_rebooting
        self.is_rebooting = True

    def boot_result(self) -> str:
        return "ready"

    def check(self) -> str:
        raise AssertionError

    def poll(self) -> float:
        """Respond once, and return the seconds to the next time."""
        if self.is_rebooting:
            self.is_rebooting, self.boots = False, self.boots + 1
            self.start()
        result = self.response.respond([self.symptom] if self.boots == 1 else [])
        current = self.response._history.current
        has_slot = current is not None and bool(current.slot)
        ended = result.outcome in (ResponseOutcome.REPAIRED, ResponseOutcome.DONE)
        if (has_slot or ended) and self.number not in self.fleet.out and not self.is_done:
            self.fleet.out.add(self.number)
            self.fleet.begun.append(self.fleet.now)
        if ended:
            self.is_done = True
            self.fleet.most_out = max(self.fleet.most_out, len(self.fleet.out))
            self.fleet.out.discard(self.number)
        self.fleet.most_out = max(self.fleet.most_out, len(self.fleet.out))
        return BOOT_SECONDS if self.is_rebooting else max(result.pause_seconds, POLL_SECONDS)


def most_within_an_hour(moments: list[float]) -> int:
    """The most repairs that began within any sixty minutes."""
    ordered = sorted(moments)
    return max((bisect_left(ordered, start + HOUR) - index for index, start in enumerate(ordered)), default=0)


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Fleet, list[Machine]]]:
    """Run a fleet for some hours of simulated time."""
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))

    def run(
        trouble: Callable[[float], str], *, limit: int, hours: float, symptom: Symptom
    ) -> tuple[Fleet, list[Machine]]:
        fleet = Fleet(trouble)
        present: list[Machine] = []
        monkeypatch.setattr(paths, "boot_id", lambda: f"boot-{present[0].boots}")
        monkeypatch.setattr(paths, "uptime_seconds", lambda: fleet.now - START + 1_000)

        def store(folder: Any, text: str) -> bool:
            present[0].texts[folder] = text
            return True

        class OnDisk:
            """A disk that takes everything at once."""

            busy = False

            def start(self, work: Callable[[], bool], _: float) -> None:
                work()

            def take(self, _: float) -> bool:
                return True

        def read(folder: Any, instance_id: str) -> Any:
            if not present or folder not in present[0].texts:
                return history._Known()
            file = tmp_path / "repairs.json"
            file.write_text(present[0].texts[folder])
            return real_read(lambda: tmp_path, instance_id)

        real_read = history._read
        with monkeypatch.context() as patch:
            patch.setattr(history, "_store", store)
            patch.setattr(history, "_read", read)
            patch.setattr(history, "Background", OnDisk)
            machines = [Machine(number, fleet, limit, symptom) for number in range(NODES)]
            order = count()
            due = [(START + random.Random(one.number).random() * POLL_SECONDS, next(order), one) for one in machines]
            heapq.heapify(due)
            while due and due[0][0] < START + hours * HOUR:
                fleet.now, _, machine = heapq.heappop(due)
                present[:] = [machine]
                pause = machine.poll()
                if not machine.is_done:
                    heapq.heappush(due, (fleet.now + pause, next(order), machine))
        return fleet, machines

    return run


REBOOT = Symptom("uvm", Severity.REBOOT, "uvm encountered global fatal error 0x60", lasting=False)
REPLACE = Symptom("xid-79", Severity.REPLACE, "Xid 79", lasting=False)
THROTTLED = "An error occurred (ThrottlingException) when calling the operation: Rate exceeded"
DENIED = "An error occurred (AccessDeniedException) when calling the operation"


def for_an_hour(words: str) -> Callable[[float], str]:
    return lambda seconds: words if seconds < HOUR else ""


@pytest.mark.parametrize(
    "trouble",
    [
        for_an_hour(THROTTLED),
        for_an_hour(DENIED),
        for_an_hour("aws did not end within 10 s"),
        for_an_hour(SILENT),
        lambda seconds: THROTTLED if random.Random(seconds).random() < 0.9 else "",
    ],
    ids=["throttled", "denied", "slow", "silent", "nine of ten throttled"],
)
def test_a_fleet_with_a_common_fault_is_repaired_within_its_limit(simulate: Any, trouble: Any) -> None:
    limit = NODES // 10
    fleet, machines = simulate(trouble, limit=limit, hours=24, symptom=REBOOT)
    assert all(machine.is_done for machine in machines), "all are repaired in the end"
    assert all(machine.boots == 2 for machine in machines), "each by one reboot"
    assert fleet.most_out <= limit
    assert most_within_an_hour(fleet.begun) <= limit
    # A first look of everyone, with what an answer leads to; then less than one a node, also when answers return.
    assert max(fleet.calls.values()) <= 5 * NODES
    assert max(calls for minute, calls in fleet.calls.items() if minute >= 15) <= NODES


def test_a_fleet_loses_two_nodes_an_hour_however_many_are_broken(simulate: Any) -> None:
    fleet, machines = simulate(for_an_hour(THROTTLED), limit=2, hours=6, symptom=REPLACE)
    assert most_within_an_hour(fleet.begun) <= 2
    assert 8 <= sum(machine.is_done for machine in machines) <= 10


def test_a_control_plane_that_is_gone_for_hours_opens_the_limit_for_single_nodes(simulate: Any) -> None:
    fleet, _ = simulate(lambda _: SILENT, limit=100, hours=6, symptom=REBOOT)
    begun = [moment - START for moment in fleet.begun]
    assert begun, "it is not closed for ever"
    assert min(begun) >= HOUR
    assert fleet.most_out <= 100
    assert most_within_an_hour(fleet.begun) <= 100


@pytest.mark.parametrize("words", [THROTTLED, DENIED])
def test_a_control_plane_that_refuses_for_ever_lets_no_node_act(simulate: Any, words: str) -> None:
    fleet, _ = simulate(lambda _: words, limit=100, hours=6, symptom=REBOOT)
    assert fleet.begun == []
