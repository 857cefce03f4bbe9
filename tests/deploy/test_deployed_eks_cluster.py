"""`cdk deploy` of the examples on Amazon EKS, by the real CLI: the cluster, its nodes, an edit, the block, the end."""

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
from cdk_gpu_clusters_stacks.spec.load import load_cluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BLOCK = EXAMPLES / "eks-p5-capacity-block.yaml"
LOGS = {"api", "audit", "authenticator", "controllerManager", "scheduler"}
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

Json = dict[str, Any]
Assembly = Callable[..., Path]


@pytest.fixture(scope="module")
def account(new_account_of_file: Emulator) -> Emulator:
    """An account that is bootstrapped in the Regions of the examples."""
    new_account_of_file.seed(SEED)
    for region in ("us-east-1", "us-west-2"):
        bootstrap(new_account_of_file, region)
    return new_account_of_file


@pytest.fixture(scope="module")
def assembly(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The cloud assembly of a cluster file, with some of its text replaced."""

    def make(file: Path, *edits: tuple[str, str]) -> Path:
        text = file.read_text()
        for before, after in edits:
            assert before in text
            text = text.replace(before, after)
        edited = tmp_path_factory.mktemp("cluster") / file.name
        edited.write_text(text)
        app: cdk.App = app_factory()
        build_cluster(app, load_cluster(edited))
        return Path(app.synth().directory)

    return make


class Cluster:
    """The one cluster of a stack, as EKS describes it."""

    def __init__(self, account: Emulator, stack: str) -> None:
        self._eks = account.client("eks")
        self._scaling = account.client("autoscaling")
        self._ec2 = account.client("ec2")
        (self.name,) = (one["physical_id"] for one in account.resources("AWS::EKS::Cluster") if one["stack"] == stack)
        self.document: Json = self._eks.describe_cluster(name=self.name)["cluster"]

    def node_group(self, part_of_name: str) -> Json:
        (name,) = (one for one in self._eks.list_nodegroups(clusterName=self.name)["nodegroups"] if part_of_name in one)
        found: Json = self._eks.describe_nodegroup(clusterName=self.name, nodegroupName=name)["nodegroup"]
        return found

    def nodes(self, part_of_name: str) -> list[Json]:
        """The instances of the Auto Scaling group behind a node group, each with its launch template data."""
        (behind,) = self.node_group(part_of_name)["resources"]["autoScalingGroups"]
        (group,) = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[behind["name"]])[
            "AutoScalingGroups"
        ]
        (version,) = self._ec2.describe_launch_template_versions(
            LaunchTemplateId=group["LaunchTemplate"]["LaunchTemplateId"],
            Versions=[group["LaunchTemplate"]["Version"]],
        )["LaunchTemplateVersions"]
        return [{**one, "data": version["LaunchTemplateData"]} for one in group["Instances"]]

    def add_ons(self) -> set[str]:
        return set(self._eks.list_addons(clusterName=self.name)["addons"])

    def principals(self) -> list[str]:
        found: list[str] = self._eks.list_access_entries(clusterName=self.name)["accessEntries"]
        return found


def retained(folder: Path) -> set[tuple[str, str]]:
    """Stack and logical id of what stays when its stack is deleted."""
    return {
        (template.name.removesuffix(".template.json"), name)
        for template in folder.glob("*.template.json")
        for name, one in json.loads(template.read_text())["Resources"].items()
        if str(one.get("DeletionPolicy", "")).startswith("Retain")
    }


def lift_protection(account: Emulator, stacks: set[str]) -> None:
    """Take termination protection off, as an operator does before paid capacity is given up."""
    regions = {one["stack"]: one["region"] for one in account.resources()}
    for name in stacks & set(regions):
        cloudformation = boto3.client(
            "cloudformation",
            region_name=regions[name],
            endpoint_url=account.endpoint_url,
            aws_access_key_id=account.account,
            aws_secret_access_key="none",
        )
        cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)


def left_of(account: Emulator, stacks: set[str]) -> set[tuple[str, str]]:
    return {(one["stack"], one["logical_id"]) for one in account.resources() if one["stack"] in stacks}


def test_a_cluster_lives_through_an_edit_and_its_block_and_leaves_only_what_it_keeps(
    account: Emulator, assembly: Assembly, tmp_path: Path
) -> None:
    before, after = assembly(BLOCK, ("nodes: 16", "nodes: 12")), assembly(BLOCK)
    command = CdkCli(account, tmp_path)
    command(before, "deploy", "--all", "--require-approval", "never", "--concurrency", "2")
    cluster = Cluster(account, "llama-pods-eks")
    check_the_control_plane(cluster)
    assert {one["AvailabilityZone"] for one in cluster.nodes("System")} == {"us-east-1a", "us-east-1b"}
    trainers = cluster.node_group("NodesResource")
    assert trainers["scalingConfig"] == {"minSize": 0, "maxSize": 12, "desiredSize": 0}

    difference = command(after, "diff", "--all")
    assert "Number of stacks with differences: 1" in difference
    assert "replaced" not in difference, "another number of nodes is a change in place"
    command(after, "deploy", "--all", "--require-approval", "never")
    edited = Cluster(account, "llama-pods-eks")
    assert (edited.name, edited.document["arn"]) == (cluster.name, cluster.document["arn"])
    assert edited.node_group("NodesResource")["nodegroupArn"] == trainers["nodegroupArn"]
    assert edited.node_group("NodesResource")["scalingConfig"] == {
        "minSize": 0,
        "maxSize": 16,
        "desiredSize": 0,
    }

    account.move_clock("2026-12-01T11:31Z")
    check_the_trainers(cluster)
    account.move_clock("2026-12-15T10:51Z")
    assert cluster.nodes("NodesResource") == [], "EKS empties the group 40 minutes before the end"
    executions = account.history()["executions"]
    assert {one["status"] for one in executions} == {"SUCCEEDED"}

    stacks = {f"llama-pods-{name}" for name in ("fleet-trainers", "fabric-default", "link-corpus-default", "eks")}
    lift_protection(account, stacks)
    command(after, "destroy", *sorted(stacks), "--exclusively", "--force")
    assert left_of(account, stacks) == {one for one in retained(after) if one[0] in stacks}
    assert account.client("eks").list_clusters()["clusters"] == []
    assert account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []


def check_the_control_plane(cluster: Cluster) -> None:
    given = cluster.document
    network = given["resourcesVpcConfig"]
    assert (network["endpointPrivateAccess"], network["endpointPublicAccess"]) == (True, False)
    (logging,) = given["logging"]["clusterLogging"]
    assert (set(logging["types"]), logging["enabled"]) == (LOGS, True)
    (encryption,) = given["encryptionConfig"]
    assert encryption["resources"] == ["secrets"]
    assert encryption["provider"]["keyArn"].startswith("arn:aws:kms:")
    assert given["accessConfig"]["authenticationMode"] == "API"
    assert "arn:aws:iam::123456789012:role/platform" in cluster.principals()
    assert {"vpc-cni", "coredns", "kube-proxy", "eks-pod-identity-agent"} <= cluster.add_ons()
    assert {"aws-fsx-csi-driver", "eks-node-monitoring-agent", "metrics-server"} <= cluster.add_ons()


def check_the_trainers(cluster: Cluster) -> None:
    """Sixteen nodes in the block, in one zone, with every EFA interface, that reach their cluster."""
    nodes = cluster.nodes("NodesResource")
    assert [one["LifecycleState"] for one in nodes] == ["InService"] * 16
    assert {one["AvailabilityZone"] for one in nodes} == {"us-east-1a"}
    found = cluster.node_group("NodesResource")
    assert (found["status"], found["health"]["issues"]) == ("ACTIVE", [])
    data = nodes[0]["data"]
    assert sum(one["InterfaceType"] == "efa-only" for one in data["NetworkInterfaces"]) == 32
    own = cluster.document["resourcesVpcConfig"]["clusterSecurityGroupId"]
    assert own in data["NetworkInterfaces"][0]["Groups"]


WITH_SOFTWARE = ("eks:\n", "eks:\n  software: { apply: true }\n")


@pytest.mark.parametrize(
    ("example", "edits", "name", "sizes"),
    [
        ("eks-g5-dev.yaml", [WITH_SOFTWARE], "sandbox", (0, 1)),
        ("eks-g6e-vllm.yaml", [], "answers", (2, 4)),
        ("eks-p4d-mig.yaml", [], "upscale", (2, 2)),
    ],
)
def test_every_example_is_deployed_and_destroyed(
    example: str,
    edits: list[tuple[str, str]],
    name: str,
    sizes: tuple[int, int],
    account: Emulator,
    assembly: Assembly,
    tmp_path: Path,
) -> None:
    folder = assembly(EXAMPLES / example, *edits)
    command = CdkCli(account, tmp_path)
    command(folder, "deploy", "--all", "--require-approval", "never", "--concurrency", "2")
    cluster = Cluster(account, f"{name}-eks")
    group = cluster.node_group("NodesResource")
    assert (group["scalingConfig"]["minSize"], group["scalingConfig"]["maxSize"]) == sizes
    assert (group["amiType"], group["health"]["issues"]) == ("AL2023_x86_64_NVIDIA", [])
    assert len(cluster.nodes("NodesResource")) == sizes[0]
    charts = [one["properties"]["Release"] for one in account.resources("Custom::AWSCDK-EKS-HelmChart")]
    assert ("nvidia-device-plugin" in charts) is bool(edits), "software is applied where the file has so"
    stacks = {path.name.removesuffix(".template.json") for path in folder.glob("*.template.json")}
    lift_protection(account, stacks)
    command(folder, "destroy", "--all", "--force")
    assert left_of(account, stacks) == retained(folder)
