"""Policy packs find nothing that is not accepted where it arises, with its reason."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from assemblies import REPORT_ONLY, Assembly, Packs

# Those that find something, accepted or told.
PACKS = {
    "AwsSolutions",
    "CloudFormation Validate",
    "GpuClusterRules",
    "HIPAA.Security",
    "NIST.800.53.R5",
    "PCI.DSS.321",
    "Serverless",
}
#: What our own GPU rules tell of an app as the cluster file tells it: a choice of the user, for them to weigh.
TOLD = {"train-and-serve.yaml": "GPU-LUS-021", "every key of inference": "GPU-LUS-021"}
#: Least resources over all apps; an app that lost its resources would have no findings either.
FLOORS = {
    "AWS::EC2::LaunchTemplate": 40,
    "AWS::AutoScaling::AutoScalingGroup": 40,
    "AWS::EC2::VPC": 15,
    "AWS::EC2::SecurityGroup": 60,
    "AWS::IAM::Role": 60,
    "AWS::FSx::FileSystem": 15,
    "AWS::S3::Bucket": 10,
    "AWS::S3Express::DirectoryBucket": 4,
    "Custom::EC2CapacityReservation": 5,
    "AWS::ElasticLoadBalancingV2::LoadBalancer": 6,
    "AWS::StepFunctions::StateMachine": 5,
    "AWS::Logs::LogGroup": 50,
    "AWS::KMS::Key": 20,
    "AWS::EKS::Cluster": 3,
    "AWS::EKS::Addon": 25,
    "AWS::EKS::AccessEntry": 10,
    "AWS::PCS::Cluster": 6,
    "AWS::PCS::ComputeNodeGroup": 18,
    "AWS::PCS::Queue": 6,
    "AWS::Logs::Delivery": 18,
}


def test_there_is_much_to_look_at(assemblies: dict[str, Assembly]) -> None:
    counts = Counter(resource["Type"] for made in assemblies.values() for _, resource in made.resources())
    assert {kind: counts[kind] for kind, least in FLOORS.items() if counts[kind] < least} == {}
    assert {name for name, made in assemblies.items() if len(list(made.resources())) < 8} == set()
    assert counts.total() > 1200


def test_every_pack_looked(assemblies: dict[str, Assembly]) -> None:
    assert set.union(*(made.packs for made in assemblies.values())) == PACKS
    assert [fault for made in assemblies.values() for fault in made.faults] == []


def test_nothing_is_found_that_is_not_accepted(assemblies: dict[str, Assembly]) -> None:
    untold = {
        name: [one for one in made.findings if not one.startswith(TOLD.get(name, "-"))]
        for name, made in assemblies.items()
    }
    assert {name: findings for name, findings in untold.items() if findings} == {}


def test_what_is_told_is_found(assemblies: dict[str, Assembly]) -> None:
    """Otherwise an entry of `TOLD` would hide what comes later."""
    assert [name for name, rule in TOLD.items() if not any(rule in one for one in assemblies[name].findings)] == []


def test_findings_are_accepted_below_stacks_with_a_reason(assemblies: dict[str, Assembly]) -> None:
    """An acknowledgement at a stack or an app would hide what later constructs in it do."""
    for name, made in assemblies.items():
        for one in made.acknowledged:
            assert "/" in one.path, f"{name}: {one.rule} is accepted at the app or a stack: {one.path!r}"
            assert len(one.reason) > 40, f"{name}: {one.rule} at {one.path} has no reason"


#: What an acknowledgement at a construct may cover: its own resource, and what CDK makes below it. The policy of an
#: imported role is called after the stack that adds it.
BELOW = re.compile(r"((/Role|/EventsRole)?/DefaultPolicy|/Policy\w*)?(/Resource)?")
#: What holds resources that were defined together, with none of anybody else's: its acknowledgements cover them.
TOGETHER = re.compile(r"(.*/Resources)/\w+")


def test_findings_are_accepted_at_the_construct_that_causes_them(assemblies: dict[str, Assembly]) -> None:
    for name, made in assemblies.items():
        for one, found_at in made.accepted:
            assert found_at.startswith(one.path)
            together = TOGETHER.fullmatch(found_at)
            if together and together[1] == one.path:
                continue
            covered = found_at.removeprefix(one.path)
            assert BELOW.fullmatch(covered), f"{name}: {one.rule} at {one.path} covers {found_at}"


def test_every_acknowledgement_suppresses_something(assemblies: dict[str, Assembly]) -> None:
    suppressing = {(one.rule, one.reason) for made in assemblies.values() for one, _ in made.accepted}
    idle = {
        f"{one.rule} at {name}: {one.path}"
        for name, made in assemblies.items()
        for one in made.acknowledged
        if (one.rule, one.reason) not in suppressing
    }
    assert idle == set()


@pytest.fixture
def open_bucket(packs: Packs, app_factory: Any) -> Any:
    """An app with a bucket that is open, and what is acknowledged of it at each place."""

    def make(*places: str) -> Assembly:
        def define(app: cdk.App) -> None:
            stack = cdk.Stack(app, "Stack")
            bucket = s3.Bucket(stack, "Bucket")
            where = {"app": app, "stack": stack, "bucket": bucket}
            for place in places:
                cdk.Validations.of(where[place]).acknowledge(
                    cdk.Acknowledgment(id="AwsSolutions::AwsSolutions-S10", reason="a planted fault")
                )

        return packs.assemble("planted", app_factory(context=REPORT_ONLY), define)

    return make


def test_a_planted_fault_is_found(open_bucket: Any) -> None:
    found = "\n".join(open_bucket().findings)
    for rule in (
        "AwsSolutions-S10",
        "NIST.800.53.R5-S3DefaultEncryptionKMS",
        "HIPAA.Security-S3BucketLoggingEnabled",
    ):
        assert f"{rule} at Stack/Bucket/Resource" in found


@pytest.mark.parametrize(("place", "path"), [("app", ""), ("stack", "Stack"), ("bucket", "Stack/Bucket")])
def test_acknowledgements_are_seen_wherever_they_stand(open_bucket: Any, place: str, path: str) -> None:
    made = open_bucket(place)
    assert {one.path for one in made.acknowledged} == {path}
    assert {one.path for one, _ in made.accepted} == {path}
