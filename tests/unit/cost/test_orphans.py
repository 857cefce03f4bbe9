"""What bills of clusters without stacks. Answers and parameters are checked by botocore's models."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.cost import Live, policy_for_cost, read_account
from cdk_gpu_clusters_stacks.cost.text import live_text
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.spec import load_cluster
from cost_month import CLUSTER
from fake_aws import FakeAws, Refusal
from preflight_account import ACCOUNT

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
BALANCER = f"arn:aws:elasticloadbalancing:us-west-2:{ACCOUNT}:loadbalancer/net/lost/0123456789abcdef"


def tags(cluster: str) -> list[dict[str, str]]:
    return [{"Key": "Name", "Value": "x"}, {"Key": "gpu-cluster", "Value": cluster}]


def stack(name: str, *stack_tags: dict[str, str]) -> dict[str, Any]:
    made = {"CreationTime": NOW, "StackStatus": "CREATE_COMPLETE"}
    return {"StackName": name, "Tags": list(stack_tags), **made}


STACKS = [stack("llama-network", *tags("llama")), stack("plain-fleet-a"), stack("other")]
RESERVATION = {
    "InstanceType": "p4d.24xlarge",
    "AvailabilityZone": "us-west-2b",
    "TotalInstanceCount": 4,
    "AvailableInstanceCount": 4,
}
ANSWERS: dict[str, Any] = {
    "sts.get_caller_identity": {"Account": ACCOUNT},
    "ec2.describe_instances": {"Reservations": []},
    "cloudformation.describe_stacks": {"Stacks": STACKS},
    "ec2.describe_capacity_reservations": {
        "CapacityReservations": [
            {**RESERVATION, "CapacityReservationId": "cr-llama", "Tags": tags("llama")},
            {**RESERVATION, "CapacityReservationId": "cr-lost", "Tags": tags("lost")},
        ]
    },
    "ec2.describe_volumes": {
        "Volumes": [
            {"VolumeId": "vol-plain", "Size": 100, "Tags": tags("plain")},
            {"VolumeId": "vol-lost", "Size": 2048, "Tags": tags("lost")},
        ]
    },
    "ec2.describe_snapshots": {
        "Snapshots": [{"SnapshotId": "snap-lost", "VolumeSize": 50, "Tags": tags("lost")}],
    },
    "fsx.describe_file_systems": {
        "FileSystems": [
            {"FileSystemId": "fs-0123456789abcdef0", "StorageCapacity": 4800, "Tags": tags("gone")},
            {"FileSystemId": "fs-0123456789abcdef1", "StorageCapacity": 1200},
        ]
    },
    "efs.describe_file_systems": {
        "FileSystems": [
            {
                "OwnerId": ACCOUNT,
                "CreationToken": "t",
                "FileSystemId": "fs-0123456789abcdef2",
                "CreationTime": NOW,
                "LifeCycleState": "available",
                "NumberOfMountTargets": 0,
                "SizeInBytes": {"Value": 6144},
                "PerformanceMode": "generalPurpose",
                "Tags": tags("lost"),
            }
        ]
    },
    "resourcegroupstaggingapi.get_resources": {
        "ResourceTagMappingList": [{"ResourceARN": BALANCER, "Tags": tags("lost")}]
    },
}


@pytest.fixture
def look(tmp_path: Path) -> Any:
    def ask(aws: FakeAws, *, orphans: bool = True) -> Live:
        (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        spec = load_cluster(tmp_path / "cluster.yaml")
        with Account(aws.clients, region=spec.region) as account:
            return read_account(spec, account, now=NOW, bill=False, orphans=orphans)

    return ask


def test_resources_of_clusters_without_stacks_are_found_each_once(look: Any) -> None:
    live = look(FakeAws(ANSWERS))
    assert [(one.cluster, one.kind, one.name, one.size) for one in live.orphans] == [
        ("gone", "FSx file system", "fs-0123456789abcdef0", "4,800 GiB"),
        ("lost", "EFS file system", "fs-0123456789abcdef2", ""),
        ("lost", "load balancer", BALANCER, ""),
        ("lost", "reservation", "cr-lost", "4 instances"),
        ("lost", "snapshot", "snap-lost", "50 GiB at most"),
        ("lost", "volume", "vol-lost", "2,048 GiB"),
    ]
    assert live.cannot_tell == {}


def test_a_cluster_whose_name_begins_another_one_does_not_hide_it(look: Any) -> None:
    """`llama-network` is tagged `llama-big`: it is no stack of `llama`."""
    stacks = {"Stacks": [stack("llama-big-network", *tags("llama-big")), stack("plain-fleet-a")]}
    live = look(FakeAws({**ANSWERS, "cloudformation.describe_stacks": stacks}))
    assert "cr-llama" in {one.name for one in live.orphans}


def test_a_longer_name_without_tags_does_not_hide_a_cluster(look: Any) -> None:
    stacks = {"Stacks": [stack("llama-train-network"), stack("plain-fleet-a")]}
    live = look(FakeAws({**ANSWERS, "cloudformation.describe_stacks": stacks}))
    assert "cr-llama" in {one.name for one in live.orphans}


def test_an_own_app_whose_stacks_have_no_tags_is_living(look: Any) -> None:
    """As with the feature flag `@aws-cdk/core:explicitStackTags`: CDK tags resources, not stacks."""
    arn = f"arn:aws:cloudformation:us-west-2:{ACCOUNT}:stack/Training/0123"
    made_by = {"Key": "aws:cloudformation:stack-id", "Value": arn}
    volumes = [{"VolumeId": "vol-own", "Size": 1, "Tags": [*tags("lost"), made_by]}]
    stacks = [*STACKS, {**stack("Training"), "StackId": arn}]
    answers = {"cloudformation.describe_stacks": {"Stacks": stacks}, "ec2.describe_volumes": {"Volumes": volumes}}
    assert {one.cluster for one in look(FakeAws({**ANSWERS, **answers})).orphans} == {"gone"}
    gone = {"cloudformation.describe_stacks": {"Stacks": STACKS}}
    assert "vol-own" in {one.name for one in look(FakeAws({**ANSWERS, **answers, **gone})).orphans}


def test_the_reservations_of_all_clusters_are_asked_for_and_only_active_ones(look: Any) -> None:
    aws = FakeAws(ANSWERS)
    look(aws)
    asked = [one.parameters["Filters"] for one in aws.asked if one.name == "ec2.describe_capacity_reservations"]
    assert [
        {"Name": "tag-key", "Values": ["gpu-cluster"]},
        {"Name": "state", "Values": ["active"]},
    ] in asked
    (snapshots,) = [one.parameters for one in aws.asked if one.name == "ec2.describe_snapshots"]
    assert snapshots["OwnerIds"] == ["self"]


def test_nothing_is_an_orphan_if_the_stacks_are_unknown(look: Any) -> None:
    denied = Refusal("AccessDenied", "User x is not authorized to perform: cloudformation:DescribeStacks")
    live = look(FakeAws({**ANSWERS, "cloudformation.describe_stacks": denied}))
    assert live.orphans is None
    assert "not allowed" in live.cannot_tell["cloudformation:DescribeStacks"]
    assert "Bills without a cluster" not in live_text(live, width=110)


def test_a_denied_kind_cannot_be_told_and_the_others_are(look: Any) -> None:
    denied = Refusal("UnauthorizedOperation", "You are not authorized to perform this operation.")
    live = look(FakeAws({**ANSWERS, "ec2.describe_volumes": denied}))
    assert "ec2:DescribeVolumes" in live.cannot_tell
    assert "snap-lost" in {one.name for one in live.orphans}


def test_the_text_has_a_row_for_each_cluster(look: Any) -> None:
    text = live_text(look(FakeAws(ANSWERS)), width=110)
    assert "Bills without a cluster" in text
    assert "volume vol-lost, 2,048 GiB" in text
    assert text.count("lost  ") == 1


def test_an_account_without_orphans_says_so(look: Any) -> None:
    stacks = {"Stacks": [*STACKS, stack("lost-data-a"), stack("any", *tags("gone"))]}
    live = look(FakeAws({**ANSWERS, "cloudformation.describe_stacks": stacks}))
    assert live.orphans == []
    assert "nothing found" in live_text(live, width=110)


def test_the_policy_has_exactly_the_calls(look: Any) -> None:
    (statement,) = policy_for_cost(bill=False, orphans=True)["Statement"]
    aws = FakeAws(ANSWERS)
    look(aws)
    prefixes = {"efs": "elasticfilesystem", "resourcegroupstaggingapi": "tag"}
    calls = set()
    for name in aws.names():
        service, _, operation = name.partition(".")
        calls.add(f"{prefixes.get(service, service)}:{operation.replace('_', '')}")
    assert {action.lower() for action in statement["Action"]} == calls


def test_they_are_not_asked_for_by_default(look: Any) -> None:
    aws = FakeAws(ANSWERS)
    assert look(aws, orphans=False).orphans is None
    assert "cloudformation.describe_stacks" not in aws.names()
    assert "tag:GetResources" not in policy_for_cost(bill=False)["Statement"][0]["Action"]
