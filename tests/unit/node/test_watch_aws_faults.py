"""Faults of the AWS CLI of the image: a broken node is taken out once it works again, and not before it is sure.

docs/reliability.md lists them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.actions import auto_scaling
from cdk_gpu_clusters.node.gpunode.node import Aws, Node
from cdk_gpu_clusters.node.gpunode.watch import service
from cdk_gpu_clusters.node.gpunode.watch.kernel import XidTable
from watched_node import GROUP, INSTANCE, WatchedNode

OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:1c): 79, pid=1896, GPU has fallen off the bus."
ROW = {"InstanceId": INSTANCE, "LifecycleState": "InService", "HealthStatus": "HEALTHY"}
INSTANCES: Any = {"AutoScalingInstances": [{**ROW, "AutoScalingGroupName": GROUP}]}
GROUPS: Any = {"AutoScalingGroups": [{"Instances": [ROW]}]}


class NodeWithCli(WatchedNode):
    """A node whose account is behind the program `aws`."""

    def node(self, **settings: str) -> Node:
        found = super().node(**{**settings, "evidence_uri": ""})
        return Node(found.settings, found.metadata, found.instance_id, Aws("us-east-2"))

    def aws(self, **answers: Any) -> None:
        """A program that answers with JSON, or with a line as it is."""
        known = {"describe_auto_scaling_instances": INSTANCES, "describe_auto_scaling_groups": GROUPS}
        known["describe_scaling_activities"] = {"Activities": []}
        lines = [f'#!/bin/sh\necho "$2" >>{self.root}/aws-calls\ncase "$2" in']
        for operation, answer in {**known, **answers}.items():
            text = answer if isinstance(answer, str) else json.dumps(answer)
            lines.append(f"{operation.replace('_', '-')})\ncat <<'END'\n{text}\nEND\n;;")
        self.tool("aws", "\n".join([*lines, "esac", ""]))
        if not (self.tools / "cat").exists():
            (self.tools / "cat").symlink_to("/bin/cat")

    @property
    def marked(self) -> int:
        calls = self.root / "aws-calls"
        return calls.read_text().splitlines().count("set-instance-health") if calls.exists() else 0


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeWithCli:
    monkeypatch.setattr(service, "read_xids", lambda: XidTable({"79": {"class": "replace"}}))
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return NodeWithCli(tmp_path)


def fails_and_recovers(node: NodeWithCli, words: str, expected: str = "failed") -> None:
    node.begin({})
    node.kernel_says(OFF_THE_BUS)
    node.poll(4)
    assert node.marked == 0
    [(state, said)] = node.told.of("action")
    assert state == expected
    assert words in said
    node.aws()
    node.poll(12)
    assert node.marked == 1
    assert node.told.of("action")[-1][0] == "ok"


def test_missing_cli(node: NodeWithCli) -> None:
    fails_and_recovers(node, "not found: aws")


def test_cli_that_hangs(node: NodeWithCli, monkeypatch: pytest.MonkeyPatch) -> None:
    node.tool("aws", "#!/bin/sh\nexec /bin/sleep 60\n")
    with monkeypatch.context() as patch:
        patch.setattr(auto_scaling, "_TIMEOUT_SECONDS", 0.05)
        node.begin({})
        node.kernel_says(OFF_THE_BUS)
        node.poll(2)
    assert "aws did not end within 0.05 s" in node.told.of("action")[0][1]
    node.aws()
    node.poll(2)
    assert node.marked == 1


def test_cli_that_crashes(node: NodeWithCli) -> None:
    node.tool("aws", "#!/bin/sh\necho 'Traceback (most recent call last):' >&2; exit 255\n")
    fails_and_recovers(node, "Traceback")


def test_no_way_to_the_api(node: NodeWithCli) -> None:
    said = "Could not connect to the endpoint URL: https://autoscaling.us-east-2.amazonaws.com/"
    node.tool("aws", f"#!/bin/sh\necho '{said}' >&2; exit 255\n")
    fails_and_recovers(node, "Could not connect to the endpoint URL")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("<html>proxy</html>", "answered no JSON"),
        ('{"AutoScalingInstances": [', "answered no JSON"),
        ([7], "in no Auto Scaling group, so far"),
        ({"AutoScalingInstances": 7}, "in no Auto Scaling group, so far"),
        ({"AutoScalingInstances": [ROW]}, "AutoScalingGroupName"),
    ],
    ids=["no-json", "cut-short", "list", "number", "no-group"],
)
def test_answer_that_makes_no_sense(node: NodeWithCli, answer: object, words: str) -> None:
    node.aws(describe_auto_scaling_instances=answer)
    node.begin({})
    node.kernel_says(OFF_THE_BUS)
    node.poll(2)
    assert node.marked == 0
    assert words in node.told.of("action")[0][1]


@pytest.mark.parametrize(
    "answer",
    [{}, {"AutoScalingGroups": []}, {"AutoScalingGroups": [{"Instances": None}]}],
    ids=["empty", "no-group", "no-members"],
)
def test_fleet_that_cannot_be_counted_loses_no_node(node: NodeWithCli, answer: object) -> None:
    node.aws(describe_auto_scaling_groups=answer)
    fails_and_recovers(node, "does not list this node", "held")
