"""`cdk deploy` of a HyperPod cluster by the real CLI: made with its scripts, changed in place, destroyed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from cdk_cli import CdkCli, bootstrap
from cdk_gpu_clusters import ClusterNetwork, HyperPodCluster
from cdk_gpu_clusters.testing import DeployFailed, Emulator, InProcessEmulator
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster

PLACE = cdk.Environment(account="123456789012", region="us-east-1")
CLUSTER = "AWS::SageMaker::Cluster"


@pytest.fixture
def account(new_account: Emulator) -> Emulator:
    new_account.seed({"buckets": {"my-corpus": "us-east-1"}})
    return new_account


def assembly(app_factory: Any, node_count: int) -> str:
    app = app_factory()
    stack = cdk.Stack(app, "Research", env=PLACE)
    network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a", cidr="10.0.0.0/16")
    cluster = HyperPodCluster(
        stack, "HyperPod", vpc=network.vpc, vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet])
    )
    cluster.add_instance_group(
        "Trainers", instance_type="p5.48xlarge", node_count=node_count, setup_script="#!/bin/sh\n"
    )
    return str(app.synth().directory)


def trainers_of(account: Emulator) -> tuple[str, dict[str, Any]]:
    """The cluster's id, and the group of its trainers."""
    [made] = account.resources(CLUSTER)
    groups = {one["InstanceGroupName"]: one for one in made["properties"]["InstanceGroups"]}
    assert groups["controller"]["InstanceCount"] == 1
    return made["physical_id"], groups["trainers"]


def test_a_cluster_from_its_first_node_to_its_end(account: Emulator, app_factory: Any, tmp_path: Path) -> None:
    call = CdkCli(account, tmp_path)
    first = assembly(app_factory, 2)
    bootstrap(account)
    call(first, "deploy", "Research", "--require-approval", "never")
    made, group = trainers_of(account)
    folder = group["LifeCycleConfig"]["SourceS3Uri"].removeprefix("s3://")
    bucket, _, prefix = folder.partition("/")
    storage = account.client("s3")
    found = {one["Key"].rpartition("/")[2] for one in storage.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]}
    assert found == {"own.sh", "setup.sh", "software.tar"}, "what HyperPod copies is in one folder"
    read = {name: storage.get_object(Bucket=bucket, Key=f"{prefix}/{name}")["Body"].read() for name in found}
    assert hashlib.sha256(read["software.tar"]).hexdigest().encode() in read["setup.sh"]
    call(assembly(app_factory, 4), "deploy", "Research", "--require-approval", "never")
    changed, group = trainers_of(account)
    assert (changed, group["InstanceCount"]) == (made, 4), "a size changes in place"
    call(assembly(app_factory, 4), "destroy", "Research", "--force")
    assert account.resources(CLUSTER) == []


def template(**changes: Any) -> dict[str, Any]:
    """A cluster with a security group that exchanges all traffic, and a role."""
    nodes = {"Fn::GetAtt": ["Nodes", "GroupId"]}
    rule = {"GroupId": nodes, "IpProtocol": "-1"}
    group = {
        "InstanceGroupName": "trainers",
        "InstanceCount": 2,
        "InstanceType": "ml.p5.48xlarge",
        "ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]},
        "NetworkInterface": {"InterfaceType": "efa-only"},
        "SlurmConfig": {"NodeType": "Controller"},
        **changes.pop("group", {}),
    }
    trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    resources: dict[str, Any] = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/20", "AvailabilityZone": "us-east-1a"},
        },
        "Nodes": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "nodes", "VpcId": {"Ref": "Vpc"}},
        },
        "In": {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": {**rule, "SourceSecurityGroupId": nodes}},
        "Out": {"Type": "AWS::EC2::SecurityGroupEgress", "Properties": {**rule, "DestinationSecurityGroupId": nodes}},
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}},
        },
        "Cluster": {
            "Type": CLUSTER,
            "DependsOn": ["In", "Out"],
            "Properties": {
                "ClusterName": "research",
                "Orchestrator": {"Slurm": {"SlurmConfigStrategy": "Managed"}},
                "VpcConfig": {"Subnets": [{"Ref": "Subnet"}], "SecurityGroupIds": [nodes]},
                "InstanceGroups": [group],
                **changes.pop("cluster", {}),
            },
        },
        **changes.pop("resources", {}),
    }
    for name in changes.pop("without", ()):
        del resources[name]
        resources["Cluster"]["DependsOn"].remove(name)
    assert not changes
    return {"Resources": resources}


QUOTA = {
    "Type": "AWS::SageMaker::ComputeQuota",
    "Properties": {
        "Name": "vision",
        "ClusterArn": {"Fn::GetAtt": ["Cluster", "ClusterArn"]},
        "ComputeQuotaTarget": {"TeamName": "vision"},
        "ComputeQuotaConfig": {"ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge", "Count": 1}]},
    },
}
SCRIPT = {"SourceS3Uri": "s3://sagemaker-scripts/base", "OnInitComplete": "setup.sh"}
EKS = {"Eks": {"ClusterArn": "arn:aws:eks:us-east-1:123456789012:cluster/missing"}}
LUSTRE = {"FsxLustreConfig": {"DnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "MountName": "abcdefgh"}}
CONTINUOUS = {"NodeProvisioningMode": "Continuous"}


def of_kinds(*kinds: str) -> dict[str, Any]:
    """Groups with these tasks in Slurm, without partitions."""
    [one] = template()["Resources"]["Cluster"]["Properties"]["InstanceGroups"]
    named = [
        {"InstanceGroupName": f"group-{index}", "SlurmConfig": {"NodeType": kind}} for index, kind in enumerate(kinds)
    ]
    return {"InstanceGroups": [one | own for own in named]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"without": ["Out"]}, "EFA health checks did not run successfully"),
        ({"group": {"MinInstanceCount": 3}}, "MinInstanceCount is above InstanceCount"),
        ({"group": {"MinInstanceCount": 1}}, "NodeProvisioningMode Continuous"),
        ({"cluster": CONTINUOUS}, "SlurmConfigStrategy is not supported with continuous provisioning"),
        ({"cluster": of_kinds("Compute")}, "exactly one InstanceGroup with Controller node type"),
        ({"cluster": of_kinds("Controller", "Controller")}, "may only have one Controller Group"),
        ({"cluster": of_kinds("Controller", "Login", "Login")}, "can have the node type Login"),
        ({"cluster": of_kinds("Controller", "Compute")}, "PartitionNames is required for Compute node types"),
        (
            {"group": {"SlurmConfig": {"NodeType": "Controller", "PartitionNames": ["a"]}}},
            "Partitions can only be assigned to Compute node types",
        ),
        ({"group": {"InstanceStorageConfigs": [LUSTRE, LUSTRE]}}, "at most one FsxLustreConfig"),
        ({"cluster": {"Orchestrator": EKS}, "group": {"InstanceStorageConfigs": [LUSTRE]}}, "NodeType: Controller"),
        ({"cluster": {"Orchestrator": EKS}}, "LifeCycleConfig is required for instance group trainers"),
        (
            {"cluster": {"Orchestrator": EKS}, "group": {"LifeCycleConfig": SCRIPT}},
            "LifeCycleConfig is required for instance group trainers",
        ),
        ({"group": {"LifeCycleConfig": SCRIPT}}, "allows s3:GetObject on s3://sagemaker-scripts/base/setup.sh"),
        ({"group": {"InstanceRequirements": {"InstanceTypes": ["ml.p5.48xlarge"]}}}, "and not both"),
        ({"cluster": {"Orchestrator": EKS}}, "there is no cluster"),
        ({"resources": {"Quota": QUOTA}}, "clusters on Amazon EKS alone"),
    ],
)
def test_what_sagemaker_refuses(changes: dict[str, Any], words: str) -> None:
    with InProcessEmulator() as made, pytest.raises(DeployFailed, match=words):
        made.deploy(template(**changes))


def test_the_plain_cluster_is_made() -> None:
    with InProcessEmulator() as made:
        made.deploy(template())
        assert json.dumps(made.resources(CLUSTER)).count("research") == 1


@pytest.mark.parametrize("example", ["hyperpod-slurm-p5", "hyperpod-eks-p5"])
def test_an_example_is_deployed_by_the_command(
    example: str, account: Emulator, app_factory: Any, tmp_path: Path
) -> None:
    """Store, network, cluster and groups of a cluster file, an edit of the size in place, and the end."""
    call, made = CdkCli(account, tmp_path), list[str]()
    for nodes in (16, 8):
        file = tmp_path / f"{example}-{nodes}.yaml"
        text = Path("examples", f"{example}.yaml").read_text(encoding="utf-8")
        file.write_text(text.replace("nodes: 16", f"nodes: {nodes}"), encoding="utf-8")
        app, spec = app_factory(), load_cluster(file)
        build_cluster(app, spec)
        folder = str(app.synth().directory)
        if not made:
            bootstrap(account, spec.region)
        call(folder, "deploy", "--all", "--require-approval", "never")
        [cluster] = account.resources(CLUSTER)
        groups = {one["InstanceGroupName"]: one["InstanceCount"] for one in cluster["properties"]["InstanceGroups"]}
        assert groups["trainers"] == nodes
        assert ("controller" in groups) == (spec.orchestrator == "hyperpod-slurm")
        made.append(cluster["physical_id"])
    assert made[0] == made[1], "a size changes in place"
