"""What the credentials of one node may do, asked of the emulated IAM: every action of the services that a cluster touches.

The actions are those of the service authorization reference (`tools/refresh_iam_actions.py`). Each is tried on what does not
belong to the node: a peer, another fleet, the account. moto's evaluation of policies is asked, too; it knows no
conditions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from botocore import xform_name
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.iam.aws_managed_policies import aws_managed_policies_data

from cdk_gpu_clusters import ClusterNetwork, EksGpuCluster, EksGpuNodeGroup, GpuFleet
from cdk_gpu_clusters.testing import InProcessEmulator
from cdk_gpu_clusters.testing.account import DEFAULT_ACCOUNT as ACCOUNT
from gpu_clusters_emulator import permissions
from gpu_clusters_emulator.faults import ApiError
from gpu_clusters_emulator.world import Caller

TESTS = Path(__file__).parents[1]
NODE = TESTS.parent / "constructs/cdk_gpu_clusters/node"
REFERENCE: dict[str, dict[str, list[str]]] = json.loads(
    (TESTS / "support/security/iam_actions.json").read_text(encoding="utf-8")
)["actions"]
SESSIONS = {f"ssmmessages:{verb}{channel}Channel" for verb in ("Create", "Open") for channel in ("Control", "Data")} | {
    "ssm:UpdateInstanceInformation"
}
#: Without a narrower resource: they carry sessions, register a node with Systems Manager, and describe.
WITHOUT_RESOURCE = SESSIONS | {
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeInstanceTopology",
    "ec2:DescribeInstances",
}
#: What no condition key narrows further: IAM knows the own group, not the own instance in it.
OF_OWN_FLEET = {
    "autoscaling:CompleteLifecycleAction",
    "autoscaling:RecordLifecycleActionHeartbeat",
    "autoscaling:SetInstanceHealth",
    "logs:DescribeLogStreams",
}
#: What EKS asks of its nodes, on every resource; AWS writes both policies.
OF_EKS = {
    action
    for name in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
    for statement in json.loads(aws_managed_policies_data)[name]["Document"]["Statement"]
    for action in statement["Action"]
}
_FIELD = re.compile(r"\$\{(\w+)\}")


class Fleets:
    """Two deployed fleets, and a node of the first with its credentials."""

    def __init__(self, account: InProcessEmulator) -> None:
        self._world = account.world
        groups = {one["AutoScalingGroupName"]: one for one in _groups(account)}
        own = next(one for name, one in groups.items() if "Trainers" in name)
        other = next(one for name, one in groups.items() if "Others" in name)
        self.node, self.peer = (one["InstanceId"] for one in own["Instances"])
        self.group, self.other_group = own["AutoScalingGroupARN"], other["AutoScalingGroupARN"]
        session = account.world.sessions[permissions.open_session(account.world, self.node)]
        self._caller = Caller(role=session.role, session=self.node)
        documents = list(permissions.policies_of(account.world, session.role))
        self._with_conditions = {
            one["Action"] for document in documents for one in document["Statement"] if "Condition" in one
        }
        address = permissions.private_address(self.node)
        texts = (json.dumps(one).replace("${aws:Ec2InstanceSourcePrivateIPv4}", address) for one in documents)
        self._policies = [IAMPolicy(text) for text in texts]
        ids = _physical_ids(account)
        self.logs, self.other_logs, self.bucket, *parameters = (
            next((physical for logical, physical in ids.items() if logical.startswith(name)), "none")
            for name in ("TrainersLogs", "OthersLogs", "Evidence", "TrainersJobRequest", "OthersJobRequest")
        )
        self.parameter, self.other_parameter = (
            f"arn:aws:ssm:us-east-1:{ACCOUNT}:parameter/{one}" for one in parameters
        )

    def may(self, action: str, resource: str) -> bool:
        """Whether the node may do it, as two evaluations of policies agree."""
        try:
            permissions.require(self._world, self._caller, action, resource)
            allowed = True
        except ApiError:
            allowed = False
        found = {policy.is_action_permitted(action, resource) for policy in self._policies}
        if action not in self._with_conditions:
            assert allowed is (PermissionResult.PERMITTED in found), f"{action} on {resource}: evaluations differ"
        return allowed

    def stream(self, instance: str, group: str | None = None) -> str:
        name = f"{instance}/{permissions.private_address(instance)}"
        return f"{self.log_group(group or self.logs)}:log-stream:{name}"

    @staticmethod
    def log_group(name: str) -> str:
        return f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:{name}"

    def evidence(self, instance: str, fleet: str = "Trainers") -> str:
        address = permissions.private_address(instance)
        return f"arn:aws:s3:::{self.bucket}/node-evidence/Site/{fleet}/{address}/{instance}/20261121T080000Z.tar.gz"


def _groups(account: InProcessEmulator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return found


def _physical_ids(account: InProcessEmulator) -> dict[str, str]:
    found = account.client("cloudformation").describe_stack_resources(StackName="stack")["StackResources"]
    return {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in found}


VPC, CLUSTER_GROUP = "vpc-0123456789abcdef0", "sg-0123456789abcdef0"
SUBNETS = {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"}
SEED = {
    "now": "2026-11-21T08:00Z",
    "vpcs": [VPC],
    "subnets": SUBNETS,
    "security_groups": [CLUSTER_GROUP],
    "clusters": {"research": {"version": "1.34", "security_group": CLUSTER_GROUP, "subnets": list(SUBNETS)}},
}


def _deployed(stack: cdk.Stack) -> Iterator[Fleets]:
    with InProcessEmulator(seed=SEED) as account:
        account.deploy(Template.from_stack(stack).to_json())
        yield Fleets(account)


def _options(stack: cdk.Stack) -> dict[str, Any]:
    return {"instance_type": "g6.xlarge", "node_count": 2, "evidence_bucket": s3.Bucket(stack, "Evidence")}


@pytest.fixture(scope="module")
def fleets(app_factory: Any) -> Iterator[Fleets]:
    stack = cdk.Stack(app_factory(), "Site")
    network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
    subnets, options = ec2.SubnetSelection(subnets=[network.fleet_subnet]), _options(stack)
    for name in ("Trainers", "Others"):
        GpuFleet(stack, name, vpc=network.vpc, vpc_subnets=subnets, **options)
    yield from _deployed(stack)


@pytest.fixture(scope="module")
def eks_fleets(app_factory: Any) -> Iterator[Fleets]:
    stack = cdk.Stack(app_factory(), "Site")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id=VPC, availability_zones=list(SUBNETS.values()), private_subnet_ids=list(SUBNETS),
        private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
    )  # fmt: skip
    cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
        stack, "Research", vpc=vpc, cluster_name="research", cluster_security_group_id=CLUSTER_GROUP,
        kubernetes_version="1.34",
    )  # fmt: skip
    subnets, options = ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]), _options(stack)
    for name in ("Trainers", "Others"):
        EksGpuNodeGroup(stack, name, cluster=cluster, vpc_subnets=subnets, **options)
    yield from _deployed(stack)


def _foreign(pattern: str, fleets: Fleets) -> list[str]:
    """Resources of a kind that do not belong to the node, by the pattern of the reference."""
    if ":autoScalingGroup:" in pattern:
        return [fleets.other_group]
    if ":log-stream:" in pattern:
        return [
            fleets.stream(fleets.peer),
            fleets.stream(fleets.peer, fleets.other_logs),
            fleets.stream(fleets.node, fleets.other_logs),
        ]
    if pattern.endswith("log-group:${LogGroupName}"):
        return [fleets.log_group(fleets.other_logs)]
    if pattern.startswith("arn:${Partition}:s3:::${BucketName}/"):
        assets = f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-us-east-1"
        return [
            fleets.evidence(fleets.peer),
            fleets.evidence(fleets.node, "Others"),
            f"{assets}/{'0' * 64}.tar",
            f"{assets}/{'0' * 64}.gpunode",
        ]
    values = {"Partition": "aws", "Region": "us-east-1", "Account": ACCOUNT, "InstanceId": fleets.peer}
    return [_FIELD.sub(lambda field: values.get(field[1], "another"), pattern)]


def _allowed(fleets: Fleets) -> set[str]:
    """What a node may do to what is not its own."""
    asked = [
        (f"{service}:{action}", resource)
        for service, actions in REFERENCE.items()
        for action, patterns in actions.items()
        for pattern in (patterns or ["*"])
        for resource in ([pattern] if pattern == "*" else _foreign(pattern, fleets))
    ]
    assert len(asked) > 2_700
    return {action for action, resource in asked if fleets.may(action, resource)}


def test_a_node_may_do_nothing_to_what_is_not_its_own(fleets: Fleets) -> None:
    assert _allowed(fleets) == WITHOUT_RESOURCE


def test_a_node_of_eks_may_do_what_eks_asks_for_and_nothing_else_to_what_is_not_its_own(eks_fleets: Fleets) -> None:
    software = "s3:GetObject"  # of all groups: nodes keep the launch template of an earlier deployment
    assert _allowed(eks_fleets) == SESSIONS | {software} | OF_EKS
    assets = f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-us-east-1/{'0' * 64}"
    assert eks_fleets.may(software, f"{assets}.gpunode")
    assert not eks_fleets.may(software, f"{assets}.tar")
    instance = "arn:aws:ec2:us-east-1:{}:instance/{}".format
    assert eks_fleets.may("ec2:TerminateInstances", instance(ACCOUNT, eks_fleets.node))
    assert not eks_fleets.may("ec2:TerminateInstances", instance(ACCOUNT, eks_fleets.peer))


def _own(fleets: Fleets) -> dict[str, str]:
    return {
        **dict.fromkeys(WITHOUT_RESOURCE, "*"),
        "autoscaling:CompleteLifecycleAction": fleets.group,
        "autoscaling:RecordLifecycleActionHeartbeat": fleets.group,
        "autoscaling:SetInstanceHealth": fleets.group,
        "logs:CreateLogStream": fleets.stream(fleets.node),
        "logs:PutLogEvents": fleets.stream(fleets.node),
        "logs:DescribeLogStreams": f"{fleets.log_group(fleets.logs)}:*",
        "logs:GetLogEvents": f"{fleets.log_group(fleets.logs)}:log-stream:jobs/20261123-120000-a1b2/files",
        "ssm:GetParameter": fleets.parameter,
        "s3:PutObject": fleets.evidence(fleets.node),
    }


def test_every_call_of_the_software_of_a_node_is_allowed(fleets: Fleets) -> None:
    own = _own(fleets)
    assert [action for action, resource in own.items() if not fleets.may(action, resource)] == []
    assert fleets.may("logs:PutLogEvents", f"{fleets.stream(fleets.node)}/metrics")
    assert fleets.may("logs:CreateLogStream", f"{fleets.log_group(fleets.logs)}:log-stream:repairs/reset/000000001")
    # EKS nodes end themselves; secrets of model servers are granted one by one; the software is one object; and people
    # start sessions.
    elsewhere = {
        "ec2:TerminateInstances",
        "s3:GetObject",
        "secretsmanager:GetSecretValue",
        "ssm:StartSession",
    }
    assert _calls_of_software() - elsewhere <= own.keys()


def test_a_node_speaks_about_jobs_for_itself_and_starts_none(fleets: Fleets) -> None:
    job = f"{fleets.log_group(fleets.logs)}:log-stream:jobs/20261123-120000-a1b2"
    own, peer = (f"{one}/{permissions.private_address(one)}" for one in (fleets.node, fleets.peer))
    for flag in ("attempt/0001/ready", "attempt/0001/exit-0", "attempt/0002/lost", "result/0", "log"):
        assert fleets.may("logs:CreateLogStream", f"{job}/{flag}/{own}"), flag
        assert not fleets.may("logs:CreateLogStream", f"{job}/{flag}/{peer}"), flag
    assert not fleets.may("logs:PutLogEvents", f"{job}/files")
    assert not fleets.may("logs:GetLogEvents", f"{job}/log/{peer}")
    assert not fleets.may("ssm:PutParameter", fleets.parameter)
    assert not fleets.may("ssm:GetParameter", fleets.other_parameter)
    assert not fleets.may("ssm:SendCommand", "*")


def _calls_of_software() -> set[str]:
    """The operations that the software names, as the AWS CLI spells them."""
    texts = [
        file.read_text(encoding="utf-8")
        for pattern in ("gpunode/**/*.py", "scripts/*.sh")
        for file in NODE.glob(pattern)
    ]
    words = set(re.findall(r"\b[a-z]+(?:-[a-z0-9]+)+\b", "\n".join(texts)))
    session = boto3.Session(region_name="us-east-1")
    found = set()
    for service in ("autoscaling", "ec2", "logs", "s3", "secretsmanager", "ssm"):
        names = session.client(service).meta.service_model.operation_names
        found |= {f"{service}:{name}" for name in names if xform_name(name, "-") in words}
    return found


def test_slots_are_taken_and_never_written(fleets: Fleets) -> None:
    slot = f"{fleets.log_group(fleets.logs)}:log-stream:repairs/reset/000000001"
    assert not fleets.may("logs:PutLogEvents", slot)
    assert not fleets.may("logs:DeleteLogStream", slot)


def test_what_remains_is_within_the_fleet(fleets: Fleets) -> None:
    """A peer of the same group: what AWS has no condition key for, which the page on security lists."""
    assert all(fleets.may(action, fleets.group) for action in OF_OWN_FLEET if action.startswith("autoscaling"))
    assert not any(fleets.may(action, fleets.other_group) for action in OF_OWN_FLEET)
