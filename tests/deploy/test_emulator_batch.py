"""AWS Batch in the emulator: an environment, its queue and a job are made, changed in place or replaced, and deleted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_cli import CdkCli
from cdk_gpu_clusters import BatchComputeEnvironment, BatchJobQueue, BatchMultiNodeJob, Capacity, RootVolume
from cdk_gpu_clusters.testing import DeployFailed, Emulator, InProcessEmulator
from mutations import put

Json = dict[str, Any]
Stack = Callable[..., Json]

BLOCK, NEXT_BLOCK = "cr-0123456789abcdef0", "cr-0fedcba9876543210"
SUBNETS = {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"}
VPC = "vpc-0123456789abcdef0"
LIFE = {"starts_at": "2026-12-01T11:30Z", "ends_at": "2026-12-15T11:30Z"}
SEED: Json = {
    "now": "2026-11-22T08:00Z",
    "vpcs": [VPC],
    "subnets": SUBNETS,
    "reservations": [
        {
            "id": one,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "kind": "capacity-block",
            **LIFE,
        }
        for one in (BLOCK, NEXT_BLOCK)
    ],
}
_BLOCK = {"capacity": Capacity.capacity_block(BLOCK, **LIFE)}
VARIANTS: dict[str, Json] = {
    "on demand": {},
    "larger disk": {"root_volume": RootVolume(size_gib=300)},
    "fewer nodes": {"max_node_count": 2},
    "a block": _BLOCK,
    "a block with a larger disk": {**_BLOCK, "root_volume": RootVolume(size_gib=300)},
    "the next block": {"capacity": Capacity.capacity_block(NEXT_BLOCK, **LIFE)},
}


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed=SEED) as made:
        yield made


def define(app: cdk.App, variant: str) -> cdk.Stack:
    """Trainers, their queue and a job, as the variant of that name has them."""
    made = cdk.Stack(app, "Training", env=cdk.Environment(account="123456789012", region="us-east-1"))
    vpc = ec2.Vpc.from_vpc_attributes(
        made,
        "Vpc",
        vpc_id=VPC,
        availability_zones=list(SUBNETS.values()),
        private_subnet_ids=list(SUBNETS),
        private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
    )
    options = {"min_node_count": 0, "max_node_count": 4, **VARIANTS[variant]}
    nodes = BatchComputeEnvironment(
        made,
        "Trainers",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
        instance_type="p5.48xlarge",
        **options,
    )
    queue = BatchJobQueue(made, "Queue", compute_environments=[nodes])
    job = BatchMultiNodeJob(made, "Job", compute_environment=nodes, node_count=2, image="example:1")
    for name, value in (
        ("Environment", nodes.compute_environment_arn),
        ("JobQueue", queue.job_queue_arn),
        ("JobDefinition", job.job_definition_arn),
    ):
        cdk.CfnOutput(made, f"{name}Arn", value=value).override_logical_id(name)
    return made


@pytest.fixture(scope="module")
def stack(app_factory: Any) -> Stack:
    """The template of a variant; each is synthesized once."""

    @cache
    def make(variant: str) -> Json:
        return dict(Template.from_stack(define(app_factory(), variant)).to_json())

    return make


def edited(template: Json, path: str, value: Any) -> Json:
    after = copy.deepcopy(template)
    [name] = [name for name, one in after["Resources"].items() if one["Type"] == path.partition(" ")[0]]
    put(f"Resources.{name}.Properties.{path.partition(' ')[2]}", value)(after)
    return after


def test_arns_have_the_forms_of_the_service(account: InProcessEmulator, stack: Stack) -> None:
    shown = account.deploy(stack("on demand"))
    above = "arn:aws:batch:us-east-1:123456789012:"
    assert shown["Environment"].startswith(f"{above}compute-environment/")
    assert shown["JobQueue"].startswith(f"{above}job-queue/")
    assert shown["JobDefinition"].startswith(f"{above}job-definition/")
    assert shown["JobDefinition"].endswith(":1")


@pytest.mark.parametrize("variant", ["larger disk", "fewer nodes"])
def test_an_update_keeps_the_environment(account: InProcessEmulator, stack: Stack, variant: str) -> None:
    before = account.deploy(stack("on demand"))
    assert account.deploy(stack(variant)) == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("a block", "a block with a larger disk"),
        ("a block", "the next block"),
        ("a block", "on demand"),
        ("on demand", "a block"),
    ],
)
def test_with_a_block_it_is_replaced_and_the_queue_moves(
    account: InProcessEmulator, stack: Stack, first: str, then: str
) -> None:
    before = account.deploy(stack(first))
    after = account.deploy(stack(then))
    assert after["Environment"] != before["Environment"]
    assert after["JobQueue"] == before["JobQueue"]
    [left] = account.resources("AWS::Batch::ComputeEnvironment")
    assert left["physical_id"] == after["Environment"], "the old one is deleted"


def test_the_stack_is_deleted_whole(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack("a block"))
    account.destroy()
    assert [one for one in account.resources() if one["type"].startswith("AWS::Batch::")] == []


def test_an_environment_with_best_fit_takes_no_update_in_place(account: InProcessEmulator, stack: Stack) -> None:
    """What the construct avoids: the service refuses it, and the deployment fails."""
    flag = "AWS::Batch::ComputeEnvironment ReplaceComputeEnvironment"
    account.deploy(edited(stack("a block"), flag, False))
    with pytest.raises(DeployFailed, match="BEST_FIT takes no change of LaunchTemplate"):
        account.deploy(edited(stack("the next block"), flag, False))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("AWS::Batch::ComputeEnvironment ComputeResources.InstanceTypes", ["p5.huge"], "no instance type"),
        ("AWS::Batch::ComputeEnvironment ComputeResources.MaxvCpus", 0, "maxvCpus"),
        ("AWS::Batch::ComputeEnvironment ComputeResources.Subnets", ["subnet-0123"], "does not exist"),
        (
            "AWS::Batch::ComputeEnvironment ComputeResources.LaunchTemplate.Version",
            "7",
            "no launch template .* with version 7",
        ),
        (
            "AWS::Batch::ComputeEnvironment ComputeResources.SecurityGroupIds",
            [f"sg-{n}" for n in range(6)],
            "at most 5",
        ),
        ("AWS::EC2::LaunchTemplate LaunchTemplateData.UserData", "ZWNobwo=", "MIME multi-part"),
        ("AWS::Batch::JobQueue ComputeEnvironmentOrder", [], "1 to 3 compute environments"),
        ("AWS::Batch::JobQueue JobStateTimeLimitActions.0.Reason", "ACTION_REQUIRED", "no action takes"),
        ("AWS::Batch::JobQueue JobStateTimeLimitActions.0.MaxTimeSeconds", 599, "599"),
        ("AWS::Batch::JobDefinition NodeProperties.MainNode", 2, "main node"),
        (
            "AWS::Batch::JobDefinition NodeProperties.NodeRangeProperties.0.TargetNodes",
            "0:0",
            "the ranges name 1 nodes",
        ),
    ],
)
def test_what_the_service_refuses(account: InProcessEmulator, stack: Stack, path: str, value: Any, words: str) -> None:
    with pytest.raises(DeployFailed, match=words):
        account.deploy(edited(stack("on demand"), path, value))


def test_the_real_cdk_deploys_updates_in_place_and_destroys(app_factory: Any, tmp_path: Path) -> None:
    """Slow, since it is the one test in which the CDK CLI itself does so."""
    assemblies = []
    for variant in ("on demand", "larger disk"):
        app = app_factory()
        define(app, variant)
        assemblies.append(app.synth().directory)
    with Emulator(seed=SEED) as account:
        call, environments = CdkCli(account, tmp_path), []
        call(assemblies[0], "bootstrap")
        for assembly in assemblies:
            call(assembly, "deploy", "--all", "--require-approval", "never")
            environments.append(account.resources("AWS::Batch::ComputeEnvironment"))
        assert [len(one) for one in environments] == [1, 1]
        assert environments[0][0]["physical_id"] == environments[1][0]["physical_id"]
        call(assemblies[1], "destroy", "--all", "--force")
        assert [one for one in account.resources() if one["type"].startswith("AWS::Batch::")] == []
