"""Jobs of a fleet: several nodes that agree by the board alone, with real threads and a clock that runs fast."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO

import pytest

from cdk_gpu_clusters.node.gpunode.fleet_jobs.attempts import CANNOT_START, CRASHED, Attempts
from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import STOPPED, Board, Member, read_board
from cdk_gpu_clusters.node.gpunode.fleet_jobs.ranks import Place, StartError
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest

JOB = "20261123-120000-a1b2"
# One second of the tests is this long.
SECOND = 0.002
# What a program of a rank does: its place -> its status, or None if it runs until it is ended.
Program = Callable[[Place], "int | None"]


def clock() -> float:
    return time.monotonic() / SECOND


def sleep(seconds: float) -> None:
    time.sleep(seconds * SECOND)


class Fleet:
    """A fleet with a log group. `alive` is what Auto Scaling says of its nodes."""

    def __init__(self, request: JobRequest, program: Program) -> None:
        self.request, self.program = request, program
        self.streams: dict[str, float] = {}
        self.alive: set[str] = set()
        self.stopped = threading.Event()
        self.started: list[tuple[str, Place]] = []
        self.nodes: list[Node] = []
        self._lock = threading.Lock()

    def launch(self, *numbers: int, broken_image: bool = False, has_crashed: bool = False) -> None:
        for number in numbers:
            node = Node(self, number, broken_image=broken_image, has_crashed=has_crashed)
            self.alive.add(node.own.instance_id)
            self.nodes.append(node)
            node.thread.start()

    def kill(self, number: int) -> None:
        """End a node without a word, as a faulty host does; Auto Scaling notices later."""
        (node,) = [one for one in self.nodes if one.own == member(number) and not one.is_dead.is_set()]
        node.is_dead.set()
        node.thread.join(10)
        self.alive.discard(node.own.instance_id)

    def results(self) -> list[str]:
        """The results of the nodes that are there."""
        for node in self.nodes:
            node.thread.join(20)
            assert not node.thread.is_alive(), f"{node.own} still runs: {node.said}"
        return [node.result for node in self.nodes if not node.is_dead.is_set()]

    def create(self, name: str) -> bool:
        with self._lock:
            if name in self.streams:
                return False
            self.streams[name] = clock()
            return True

    def board(self) -> Board:
        with self._lock:
            return read_board(JOB, dict(self.streams))


class Dead(Exception):
    """The node is gone: nothing of it goes on."""


class Node:
    """A node. It is its own board and its own ranks."""

    def __init__(self, fleet: Fleet, number: int, *, broken_image: bool, has_crashed: bool) -> None:
        self.fleet, self.number, self.own, self.is_dead = fleet, number, member(number), threading.Event()
        self.result, self._broken_image, self._has_crashed = "", broken_image, has_crashed
        self.said: list[str] = []
        self._place: Place | None = None
        self._status: int | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        attempts = Attempts(
            self.fleet.request,
            self.own,
            self,
            self,
            in_service=lambda: set(self.fleet.alive),
            are_known=lambda members: all(one.instance_id != "i-666" for one in members),
            place="-" if self.number % 2 else f"nn-{9 - self.number}",
            has_crashed=self._has_crashed,
            copy=lambda _: None,
            say=self.said.append,
            is_ending=lambda: False,
            clock=clock,
            sleep=self._sleep,
        )
        with suppress(Dead):
            self.result = attempts.run()

    def _sleep(self, seconds: float) -> None:
        self._check()
        sleep(seconds)
        self._check()

    def _check(self) -> None:
        if self.is_dead.is_set():
            raise Dead

    def read(self) -> Board:
        self._check()
        return self.fleet.board()

    def post(self, name: str) -> bool:
        self._check()
        return self.fleet.create(f"jobs/{JOB}/{name}/{self.own.instance_id}/{self.own.address}")

    def is_stopped(self) -> bool:
        return self.fleet.stopped.is_set()

    def prepare(self, say: Callable[[str], None]) -> None:
        if self._broken_image:
            raise StartError("docker pull nothing: not found")

    def start(self, place: Place) -> IO[bytes]:
        self._place, self._status = place, None
        self.fleet.started.append((self.own.instance_id, place))
        return io.BytesIO()

    def status(self) -> int | None:
        assert self._place is not None
        if self._status is None:
            self._status = self.fleet.program(self._place)
        return self._status

    def end(self, wait_seconds: float) -> None:
        assert wait_seconds == self.fleet.request.grace_seconds
        self._status = 143 if self._status is None else self._status


def member(number: int) -> Member:
    return Member(f"i-{number:x}", f"10.0.0.{number}")


def request(nodes: int, **options: object) -> JobRequest:
    return JobRequest(job_id=JOB, command=("torchrun", "train.py"), nodes=nodes, **options)  # type: ignore[arg-type]


def _at_random(chance: random.Random, _: Place) -> int | None:
    return chance.choice([*[None] * 30, 0, 1])


def eventually(look: Callable[[], object], words: str) -> None:
    end = time.monotonic() + 20
    while not look():
        assert time.monotonic() < end, words
        time.sleep(0.005)


def test_all_nodes_start_once_with_different_ranks_and_the_same_master() -> None:
    fleet = Fleet(request(4), lambda _: 0)
    fleet.launch(3, 1, 4, 2)
    assert fleet.results() == ["0"] * 4
    assert sorted(place.rank for _, place in fleet.started) == [0, 1, 2, 3]
    assert {place.members[0].address for _, place in fleet.started} == {"10.0.0.1"}
    assert {place.attempt for _, place in fleet.started} == {1}


def test_nobody_starts_before_all_nodes_are_ready() -> None:
    fleet = Fleet(request(3), lambda _: 0)
    fleet.launch(1, 2)
    eventually(lambda: all(node.said for node in fleet.nodes), "the first two nodes wait")
    sleep(30)
    assert fleet.started == []
    assert "2 of 3" in fleet.nodes[0].said[-1] or "2 of 3" in fleet.nodes[1].said[-1]
    fleet.launch(3)
    assert fleet.results() == ["0"] * 3


def test_ranks_that_fail_restart_on_all_nodes_and_the_last_status_is_the_jobs() -> None:
    # The second node fails in every attempt; the others would run on for ever.
    fleet = Fleet(request(3, max_restarts=2), lambda place: 7 if place.rank == 1 else None)
    fleet.launch(1, 2, 3)
    assert fleet.results() == ["7"] * 3
    # A node that hears of a failure before it has started does not start.
    assert {place.attempt for _, place in fleet.started} == {1, 2, 3}


def test_a_job_that_recovers_ends_well() -> None:
    fleet = Fleet(request(2), lambda place: 1 if place.attempt < 3 and place.rank == 0 else 0)
    fleet.launch(1, 2)
    assert fleet.results() == ["0"] * 2


@pytest.mark.parametrize("hangs", [True, False])
def test_a_replaced_node_does_not_count_as_a_failure(hangs: bool) -> None:
    """Whether the ranks of the other nodes hang or fail when a node is gone: no restart is left, and none is needed."""
    fleet = Fleet(request(3, max_restarts=0), lambda _: None)

    def program(place: Place) -> int | None:
        is_gone = any(one.instance_id not in fleet.alive for one in place.members)
        if place.attempt == 1:
            return 1 if is_gone and not hangs else None
        return 0

    fleet.program = program
    fleet.launch(1, 2, 3)
    eventually(lambda: len(fleet.started) == 3, "the first attempt")
    fleet.kill(2)
    fleet.launch(4)
    assert fleet.results() == ["0"] * 3
    last = [place for _, place in fleet.started if place.attempt == max(place.attempt for _, place in fleet.started)]
    assert {one.instance_id for one in last[0].members} == {"i-1", "i-3", "i-4"}


def test_a_node_that_starts_again_ends_the_attempt_for_all() -> None:
    fleet = Fleet(request(2, max_restarts=0), lambda place: None if place.attempt == 1 else 0)
    fleet.launch(1, 2)
    eventually(lambda: len(fleet.started) == 2, "the first attempt")
    fleet.kill(2)
    fleet.launch(2)  # the same instance, after a reboot
    assert fleet.results() == ["0"] * 2
    assert {place.attempt for _, place in fleet.started} == {1, 2}


def _has_begun(fleet: Fleet, attempt: int) -> bool:
    return [place.attempt for _, place in fleet.started].count(attempt) == len(fleet.alive)


def test_a_program_that_crashes_again_and_again_uses_up_the_restarts() -> None:
    """Such as one that the kernel ends for want of memory: it would start the job on all nodes for ever."""
    fleet = Fleet(request(2, max_restarts=1), lambda _: None)
    fleet.launch(1, 2)
    for attempt in (1, 2):
        eventually(partial(_has_begun, fleet, attempt), "an attempt")
        fleet.kill(2)
        fleet.launch(2, has_crashed=True)
    assert fleet.results() == [str(CRASHED)] * 2


def test_a_forged_number_of_an_attempt_is_no_attempt() -> None:
    fleet = Fleet(request(2), lambda _: 0)
    fleet.create(f"jobs/{JOB}/attempt/9999/lost/i-666/203.0.113.9")
    fleet.launch(1, 2)
    assert fleet.results() == ["0"] * 2
    assert {place.attempt for _, place in fleet.started} == {1}


def test_ranks_follow_the_network_if_all_places_are_known() -> None:
    names = {f"attempt/0001/ready/{place}/i-{n}/10.0.0.{n}": n for n, place in ((1, "nn-b"), (2, "nn-a"), (3, "nn-b"))}
    streams = {f"jobs/{JOB}/{name}": float(when) for name, when in names.items()}
    assert [one.instance_id for one in read_board(JOB, streams).attempt(1).ranks(3)] == ["i-2", "i-1", "i-3"]
    streams[f"jobs/{JOB}/attempt/0001/ready/-/i-4/10.0.0.4"] = 0.0
    assert [one.instance_id for one in read_board(JOB, streams).attempt(1).ranks(4)] == ["i-1", "i-2", "i-3", "i-4"]


def test_a_spare_node_stands_by_and_takes_the_place_of_a_lost_one() -> None:
    fleet = Fleet(request(2, max_restarts=0), lambda place: None if place.attempt == 1 else 0)
    fleet.launch(1, 2)
    eventually(lambda: len(fleet.started) == 2, "the first attempt")
    fleet.launch(3)
    eventually(lambda: any("is a spare" in words for words in fleet.nodes[2].said), "the third node stands by")
    assert len(fleet.started) == 2
    fleet.kill(1)
    assert fleet.results() == ["0"] * 2
    assert {name for name, place in fleet.started if place.attempt > 1} == {"i-2", "i-3"}


def test_an_image_that_cannot_be_pulled_ends_the_job_on_all_nodes() -> None:
    fleet = Fleet(request(2, max_restarts=1), lambda _: None)
    fleet.launch(1)
    fleet.launch(2, broken_image=True)
    assert fleet.results() == [str(CANNOT_START)] * 2
    assert "cannot start: docker pull nothing: not found" in fleet.nodes[1].said


def test_a_stopped_job_does_not_start_again() -> None:
    fleet = Fleet(request(2), lambda _: 1 if fleet.stopped.is_set() else None)
    fleet.launch(1, 2)
    eventually(lambda: len(fleet.started) == 2, "the first attempt")
    fleet.stopped.set()
    assert fleet.results() == [STOPPED] * 2


def test_flags_of_instances_outside_of_the_fleet_only_cost_an_attempt() -> None:
    """Many roles of an account may write to all of its log groups."""
    fleet = Fleet(request(2, max_restarts=0), lambda _: 0)
    fleet.create(f"jobs/{JOB}/attempt/0001/ready/-/i-666/203.0.113.9")
    fleet.launch(1, 2)
    assert fleet.results() == ["0"] * 2
    assert all(one.instance_id != "i-666" for _, place in fleet.started for one in place.members if place.attempt > 1)


def test_random_walks_end_alike_on_all_nodes() -> None:
    """Nodes are killed and replaced at random, and ranks fail at random: all nodes end with one result."""
    for seed in range(20):
        chance = random.Random(seed)
        fleet = Fleet(request(3, max_restarts=50), partial(_at_random, chance))
        fleet.launch(1, 2, 3)
        for number in range(4, 4 + chance.randrange(3)):
            sleep(chance.uniform(5, 60))
            running = [node for node in fleet.nodes if not node.is_dead.is_set() and node.thread.is_alive()]
            if len(running) < 3:
                break
            fleet.kill(chance.choice(running).number)
            fleet.launch(number)
        fleet.program = lambda _: 0
        assert set(fleet.results()) == {"0"}, seed
