"""A node of a managed group that failed its first boot ends itself, and only a few of a group do so in an hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.boot.boot import boot
from cdk_gpu_clusters.node.gpunode.boot.stage import Stage, Verdict
from cdk_gpu_clusters.node.gpunode.events import Events
from cdk_gpu_clusters.node.gpunode.node import Aws, AwsError, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.slots import Slots

BAD = Stage("driver", lambda _: Verdict.failed("no GPU answers"))
GOOD = Stage("driver", lambda _: Verdict.ok("8 GPUs"))
ON_EKS = {"GPU_REPLACEMENTS": "2", "GPU_LOG_GROUP": "/gpu-cluster/trainers", "GPU_ORCHESTRATOR": "eks"}


class Cloud(Aws):
    """What CloudWatch Logs has, and which nodes ended."""

    def __init__(self) -> None:
        super().__init__("us-east-2")
        self.now = 0.0
        self.streams: dict[str, float] = {}
        self.ended: list[str] = []
        self.refusals: dict[str, str] = {}

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        if operation in self.refusals:
            raise AwsError(self.refusals[operation])
        if operation == "create-log-stream":
            if arguments[3] in self.streams:
                raise AwsError("An error occurred (ResourceAlreadyExistsException)")
            self.streams[arguments[3]] = self.now * 1000
        elif operation == "describe-log-streams":
            rows = [{"logStreamName": name, "creationTime": created} for name, created in self.streams.items()]
            return {"logStreams": rows[::-1]}
        elif operation == "terminate-instances":
            assert (service, arguments[0]) == ("ec2", "--instance-ids")
            self.ended.append(arguments[1])
        return None


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    cloud = Cloud()
    monkeypatch.setattr(Slots.__init__, "__defaults__", (lambda: cloud.now,))
    return cloud


def boot_node(folder: Path, cloud: Cloud, number: int, stage: Stage, **more: str) -> list[tuple[str, str]]:
    """Boot a node for the first time, unless its folder is known; gives its events of stages and states."""
    place = folder / str(number)
    (place / "proc").mkdir(parents=True, exist_ok=True)
    (place / "dev").mkdir(exist_ok=True)
    (place / "proc/uptime").write_text("400.00 1.00\n")
    with pytest.MonkeyPatch.context() as here:
        here.setenv("GPU_CLUSTER_ROOT", str(place))
        settings = Settings({key.removeprefix("GPU_").lower(): value for key, value in {**ON_EKS, **more}.items()})
        node = Node(settings, Metadata(), f"i-{number}", cloud)
        events = Events(node.instance_id)
        boot(node, events, lambda _: [stage], report=lambda: None, collect=lambda _: None)
        assert paths.run_folder().is_relative_to(place)
        return [(event["stage"], event["state"]) for event in events.written]


def test_a_failed_node_ends_so_that_its_group_launches_another(tmp_path: Path, cloud: Cloud) -> None:
    assert ("replacement", "started") in boot_node(tmp_path, cloud, 1, BAD)
    assert cloud.ended == ["i-1"]
    assert ("replacement", "started") not in boot_node(tmp_path, cloud, 2, GOOD)
    assert cloud.ended == ["i-1"]


def test_a_fault_of_every_launch_ends_few_nodes_in_an_hour(tmp_path: Path, cloud: Cloud) -> None:
    told = [boot_node(tmp_path, cloud, number, BAD) for number in range(5)]
    assert cloud.ended == ["i-0", "i-1"]
    assert all(("replacement", "skipped") in one for one in told[2:])
    cloud.now = 3599.0
    boot_node(tmp_path, cloud, 5, BAD)
    assert cloud.ended[2:] == []
    cloud.now = 3601.0
    boot_node(tmp_path, cloud, 6, BAD)
    assert cloud.ended[2:] == ["i-6"]


def test_a_node_that_was_in_service_does_not_end_itself(tmp_path: Path, cloud: Cloud) -> None:
    boot_node(tmp_path, cloud, 1, GOOD)
    boot_node(tmp_path, cloud, 1, BAD)
    assert cloud.ended == []


@pytest.mark.parametrize("operation", ["describe-log-streams", "create-log-stream", "terminate-instances"])
def test_a_node_that_cannot_count_or_end_stays_and_says_so(tmp_path: Path, cloud: Cloud, operation: str) -> None:
    cloud.refusals[operation] = "An error occurred (AccessDenied)"
    assert ("replacement", "failed") in boot_node(tmp_path, cloud, 1, BAD)
    assert cloud.ended == []


def test_nodes_of_other_orchestrators_leave_this_to_their_hooks(tmp_path: Path, cloud: Cloud) -> None:
    boot_node(tmp_path, cloud, 1, BAD, GPU_REPLACEMENTS="")
    assert cloud.ended == []
    assert cloud.streams == {}
