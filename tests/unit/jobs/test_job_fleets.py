"""Fleets that run jobs, found among the Auto Scaling groups of a Region, and what users see of a job."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import Board, read_board
from cdk_gpu_clusters.node.gpunode.fleet_jobs.ranks import unpack
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest
from cdk_gpu_clusters_stacks.jobs.client import Line, PastJob, new_job_id
from cdk_gpu_clusters_stacks.jobs.files import FilesError, pack
from cdk_gpu_clusters_stacks.jobs.fleet import JobFleet, NoFleetError, choose_fleet, read_fleets
from cdk_gpu_clusters_stacks.jobs.follow import View, follow, view_of

JOB = "20261123-120000-a1b2"


def group(name: str, path: str, *, states: tuple[str, ...] = ("InService", "InService")) -> dict[str, Any]:
    tags = {
        "Name": path,
        "gpu-clusters:job-document": "doc",
        "gpu-clusters:job-parameter": "parameter",
        "gpu-clusters:log-group": "logs",
    }
    return {
        "AutoScalingGroupName": name,
        "DesiredCapacity": len(states),
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        "Instances": [
            {"InstanceId": f"i-{number}", "LifecycleState": state, "InstanceType": "g6.xlarge"}
            for number, state in enumerate(states, start=1)
        ],
    }


LLAMA = group("llama-fleet-trainers-Fleet-1", "llama-fleet-trainers/Fleet")
OTHER = group("vision-fleet-trainers-Fleet-1", "vision-fleet-trainers/Fleet")
PYTHON = group("Training-Trainers-1", "Training/Trainers")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Trainers", PYTHON),
        ("Training/Trainers", PYTHON),
        ("Training-Trainers-1", PYTHON),
        ("trainers", LLAMA),
        ("llama/trainers", LLAMA),
        ("llama-fleet-trainers-Fleet-1", LLAMA),
    ],
)
def test_a_fleet_has_the_names_that_its_owner_knows(name: str, found: dict[str, Any]) -> None:
    fleets = read_fleets([{"AutoScalingGroupName": "web", "Tags": []}, LLAMA, PYTHON])
    assert choose_fleet(fleets, name, region="us-east-1").group == found["AutoScalingGroupName"]


@pytest.mark.parametrize(
    ("groups", "name", "words"),
    [
        (
            [LLAMA, OTHER],
            "trainers",
            "2 fleets in us-east-1 are called trainers; say which one: llama/trainers, vision/",
        ),
        (
            [PYTHON, group("Training-Trainers-2", "Training/Trainers")],
            "Trainers",
            "Training-Trainers-1, Training-Trainers-2",
        ),
        ([LLAMA, PYTHON], "trainer", "no fleet in us-east-1 is called trainer; there are: Trainers, trainers"),
        ([], "trainers", "no fleet in us-east-1 runs jobs"),
    ],
)
def test_a_name_that_is_not_one_fleet_says_which_there_are(groups: list[dict[str, Any]], name: str, words: str) -> None:
    with pytest.raises(NoFleetError, match=words):
        choose_fleet(read_fleets(groups), name, region="us-east-1")


def test_a_folder_arrives_as_it_is_without_caches_and_links(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("train.py", "src/model.py", ".git/config", "src/__pycache__/model.pyc", ".venv/bin/python"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "data").symlink_to("/etc")
    packed = pack(source)
    target.mkdir()
    unpack(packed, target)
    files = {
        path.relative_to(target).as_posix(): path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()
    }
    assert files == {"train.py": 0o644, "src/model.py": 0o644, "run.sh": 0o755}
    assert pack(source) == packed
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        assert {member.uid for member in archive} == {0}


@pytest.mark.parametrize("size", [10, 100])
def test_a_folder_that_is_too_large_is_refused_with_the_way_to_do_it(tmp_path: Path, size: int) -> None:
    import random

    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(size * 1_000_000)
        file.write(random.Random(1).randbytes(5_000_000))
    with pytest.raises(FilesError, match="keep data and weights in S3"):
        pack(tmp_path)
    with pytest.raises(FilesError, match="is no folder"):
        pack(tmp_path / "weights.bin")


def board(*names: str) -> Board:
    return read_board(JOB, {f"jobs/{JOB}/{name}": float(number) for number, name in enumerate(names)})


def states(view: View) -> list[tuple[str, str]]:
    return [(one.name, one.state) for one in view.nodes]


def test_the_view_says_what_each_node_does() -> None:
    (fleet,) = read_fleets([group("g", "T/Trainers", states=("InService", "InService", "Pending:Wait"))])
    waiting = view_of(board("attempt/0001/ready/-/i-1/10.0.0.1"), fleet, wanted=4)
    assert waiting.summary == "1 of 4 nodes are ready"
    assert states(waiting) == [
        ("ip-10-0-0-1", "ready"),
        ("i-2", "in service"),
        ("i-3", "boots (Pending:Wait)"),
        ("-", "not launched yet"),
    ]
    ready = (
        "attempt/0001/ready/-/i-1/10.0.0.1",
        "attempt/0002/ready/-/i-1/10.0.0.1",
        "attempt/0002/ready/-/i-9/10.0.0.9",
        "attempt/0002/ready/-/i-2/10.0.0.2",
    )
    running = view_of(board(*ready, "attempt/0002/exit-0/i-1/10.0.0.1"), fleet, wanted=2)
    assert running.summary == "attempt 2 runs on 2 nodes"
    assert states(running) == [
        ("ip-10-0-0-1", "ended with 0"),
        ("ip-10-0-0-2", "spare"),
        ("i-3", "boots (Pending:Wait)"),
        ("ip-10-0-0-9", "gone"),
    ]


class Recorded:
    """A job as it is at each look: the board, and the lines that are there."""

    def __init__(self, *looks: tuple[Board, list[Line]]) -> None:
        self._looks, self._number = looks, -1
        self.asked: list[int] = []
        self.newer: PastJob | None = None

    @property
    def _now(self) -> tuple[Board, list[Line]]:
        return self._looks[min(self._number, len(self._looks) - 1)]

    def board(self, job_id: str) -> Board:
        assert job_id == JOB
        self._number += 1
        return self._now[0]

    def lines(self, job_id: str, since_milliseconds: int = 0) -> Iterator[Line]:
        assert job_id == JOB
        self.asked.append(since_milliseconds)
        return iter([one for one in self._now[1] if one.milliseconds >= since_milliseconds])

    def nodes(self) -> JobFleet:
        return read_fleets([group("g", "T/Trainers")])[0]

    def replacement(self, job_id: str) -> PastJob | None:
        assert job_id == JOB
        return self.newer

    def refusals(self, command_id: str) -> dict[str, str]:
        assert command_id == "c-1"
        return {"i-2": "Undeliverable"}


def line(number: int, at: int) -> Line:
    return Line(id=f"e{number}", address="10.0.0.1", milliseconds=at, text=f"line {number}")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_each_line_comes_once_even_if_it_arrives_late_and_after_the_result() -> None:
    clock, shown, views = Clock(), list[tuple[str, str]](), list[View]()
    # The third line was printed before the second, and sent after it.
    first, second, third, last = line(1, 100_000), line(2, 101_000), line(3, 100_500), line(4, 102_000)
    ended = board("result/3/i-1/10.0.0.1")
    source = Recorded(
        (board(), [first, second]),
        (board(), [first, third, second]),
        (ended, [first, third, second]),
        (ended, [first, third, second, last]),
    )
    result = follow(
        source, JOB, wanted=2, on_line=lambda host, one: shown.append((host, one.text)), on_view=views.append,
        clock=clock, sleep=clock.sleep,
    )  # fmt: skip
    assert result == "3"
    assert shown == [("ip-10-0-0-1", f"line {number}") for number in (1, 2, 3, 4)]
    assert source.asked[0] == 0
    assert source.asked[-1] == 102_000 - 30_000


def test_a_job_whose_place_another_one_took_is_not_followed_for_ever() -> None:
    clock, source = Clock(), Recorded((board(), []))
    newer = JobRequest(job_id="20261123-120001-c3d4", command=("true",), nodes=2)
    source.newer = PastJob(request=newer, requested_at=datetime.now(UTC), requested_by="")
    result = follow(
        source, JOB, wanted=2, on_line=lambda *_: None, on_view=lambda _: None, clock=clock, sleep=clock.sleep
    )
    assert result == "replaced"


def test_nodes_that_do_not_answer_are_named_after_a_while() -> None:
    clock, seen = Clock(), list[dict[str, str]]()

    def on_view(view: View) -> None:
        seen.append(dict(view.refusals))
        if view.refusals:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(
            Recorded((board(), [])), JOB, wanted=2, on_line=lambda *_: None, on_view=on_view, command_id="c-1",
            clock=clock, sleep=clock.sleep,
        )  # fmt: skip
    assert seen[0] == {}
    assert seen[-1] == {"i-2": "Undeliverable"}
    assert clock.now > 30


def test_ids_of_later_jobs_come_later() -> None:
    now = datetime(2026, 11, 23, 23, 59, 59, tzinfo=UTC)
    assert new_job_id(now) < new_job_id(now + timedelta(seconds=1))
