"""`cdk deploy` of an example on AWS PCS, by the real CLI: the cluster, an edit, the block, another type, the end.

What an edit replaces, `plan --against` has said before.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest

from cdk_cli import CdkCli, bootstrap
from cdk_gpu_clusters.testing import Emulator
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.plan import compare_clusters
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster

BLOCK = Path(__file__).resolve().parents[2] / "examples" / "pcs-p5-capacity-block.yaml"
IMAGE = "ami-0aaaaaaaaaaaaaaaa"
SEED: dict[str, Any] = {
    "now": "2026-11-22T08:00Z",
    "reservations": [
        {
            "id": "cr-0123456789abcdef0",
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 16,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-15T11:30Z",
        }
    ],
    "buckets": {"my-corpus": "us-east-1"},
}
OLDER = ("pcs:\n", 'pcs:\n  slurm_version: "25.11"\n')
SMALLER = ("nodes: 16", "nodes: 12")
ANOTHER_IMAGE = ("nodes: 16", f"nodes: 16\n      image: {{ id: {IMAGE}, os: ubuntu-24.04 }}")
ANOTHER_TYPE = ("instance_type: p5.48xlarge", "instance_type: p5en.48xlarge")

Json = dict[str, Any]
Made = Callable[..., tuple[ClusterSpec, Path]]


@pytest.fixture(scope="module")
def account(new_account_of_file: Emulator) -> Emulator:
    """A bootstrapped account."""
    new_account_of_file.seed(SEED)
    bootstrap(new_account_of_file)
    return new_account_of_file


@pytest.fixture
def made(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The cluster of the example with some of its text replaced, and its cloud assembly."""

    def run(*edits: tuple[str, str]) -> tuple[ClusterSpec, Path]:
        text = BLOCK.read_text("utf-8")
        for before, after in edits:
            assert before in text
            text = text.replace(before, after, 1)
        file = tmp_path_factory.mktemp("cluster") / BLOCK.name
        file.write_text(text, encoding="utf-8")
        app: cdk.App = app_factory()
        spec = load_cluster(file)
        build_cluster(app, spec)
        return spec, Path(app.synth().directory)

    return run


class Slurm:
    """The cluster as AWS PCS describes it."""

    def __init__(self, account: Emulator) -> None:
        self._pcs, self._ec2 = account.client("pcs"), account.client("ec2")
        (found,) = self._pcs.list_clusters()["clusters"]
        self.id: str = found["id"]

    @property
    def cluster(self) -> Json:
        found: Json = self._pcs.get_cluster(clusterIdentifier=self.id)["cluster"]
        return found

    @property
    def queues(self) -> list[str]:
        return [one["name"] for one in self._pcs.list_queues(clusterIdentifier=self.id)["queues"]]

    @property
    def groups(self) -> list[str]:
        found = self._pcs.list_compute_node_groups(clusterIdentifier=self.id)["computeNodeGroups"]
        return sorted(one["name"] for one in found)

    def group(self, part_of_name: str) -> Json:
        (name,) = (one for one in self.groups if one.startswith(part_of_name))
        found: Json = self._pcs.get_compute_node_group(clusterIdentifier=self.id, computeNodeGroupIdentifier=name)[
            "computeNodeGroup"
        ]
        return found

    def image(self, part_of_name: str) -> str:
        """The image of the launch template version that the group is on."""
        template = self.group(part_of_name)["customLaunchTemplate"]
        (found,) = self._ec2.describe_launch_template_versions(
            LaunchTemplateId=template["id"], Versions=[template["version"]]
        )["LaunchTemplateVersions"]
        image: str = found["LaunchTemplateData"]["ImageId"]
        return image

    def nodes(self, part_of_name: str) -> list[Json]:
        group = {"Name": "tag:aws:pcs:compute-node-group-id", "Values": [self.group(part_of_name)["id"]]}
        running = {"Name": "instance-state-name", "Values": ["running"]}
        found = self._ec2.describe_instances(Filters=[group, running])["Reservations"]
        return [node for one in found for node in one["Instances"]]


def told(before: ClusterSpec, after: ClusterSpec) -> set[tuple[str, str]]:
    """Resource and effect of what `plan --against` says of PCS."""
    changes = compare_clusters(before, after).changes
    return {(one.resource, one.effect.value) for one in changes if one.resource.startswith("AWS::PCS")}


def lift_protection(account: Emulator, stacks: set[str]) -> None:
    """Take termination protection off, as an operator does before paid capacity is given up."""
    cloudformation = boto3.client(
        "cloudformation",
        region_name="us-east-1",
        endpoint_url=account.endpoint_url,
        aws_access_key_id=account.account,
        aws_secret_access_key="none",
    )
    for name in stacks & {one["stack"] for one in account.resources()}:
        cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)


def test_a_slurm_cluster_lives_through_edits_and_its_block_and_leaves_only_what_it_keeps(
    account: Emulator, made: Made, tmp_path: Path
) -> None:
    (first, before), (second, after) = made(OLDER, SMALLER), made(ANOTHER_IMAGE)
    command = CdkCli(account, tmp_path)
    command(before, "deploy", "--all", "--require-approval", "never", "--concurrency", "2")
    slurm = Slurm(account)
    given, trainers = slurm.cluster, slurm.group("trainers")
    assert (given["status"], given["size"], given["scheduler"]["version"]) == ("ACTIVE", "SMALL", "25.11")
    assert given["slurmConfiguration"]["accounting"]["mode"] == "STANDARD"
    assert slurm.queues == ["trainers"]
    assert len(slurm.nodes("Login")) == 1
    assert (trainers["purchaseOption"], slurm.nodes("trainers")) == ("CAPACITY_BLOCK", [])

    assert told(first, second) == {("AWS::PCS::Cluster", "updated"), ("AWS::PCS::ComputeNodeGroup", "updated")}
    command(after, "deploy", "--all", "--require-approval", "never")
    edited = Slurm(account)
    assert edited.id == given["id"], "another version of Slurm is a change in place"
    assert edited.cluster["scheduler"]["version"] == "26.05"
    assert edited.group("trainers")["id"] == trainers["id"]

    account.move_clock("2026-12-01T11:45Z")
    nodes = slurm.nodes("trainers")
    assert {one["InstanceType"] for one in nodes} == {"p5.48xlarge"}
    assert slurm.image("trainers") == IMAGE
    assert len(nodes) == 16
    account.move_clock("2026-12-15T11:15Z")
    assert slurm.nodes("trainers") == [], "the group is empty before the block ends"
    executions = account.history()["executions"]
    assert {one["status"] for one in executions} == {"SUCCEEDED"}, "no run fails while AWS PCS updates the cluster"

    third, other = made(ANOTHER_IMAGE, ANOTHER_TYPE)
    assert ("AWS::PCS::ComputeNodeGroup", "replaced") in told(second, third)
    difference = command(other, "diff", "research-fleet-trainers")
    assert "replace" in difference

    stacks = {path.name.removesuffix(".template.json") for path in after.glob("*.template.json")}
    lift_protection(account, stacks)
    going = {one for one in stacks if "-data-" not in one and not one.endswith("-network")}
    command(after, "destroy", *sorted(going), "--exclusively", "--force")
    assert account.client("pcs").list_clusters()["clusters"] == []
    left = {(one["stack"], one["logical_id"]) for one in account.resources() if one["stack"] in going}
    assert left == {
        (name, logical_id)
        for name in going
        for logical_id, one in json.loads((after / f"{name}.template.json").read_text())["Resources"].items()
        if str(one.get("DeletionPolicy", "")).startswith("Retain")
    }
