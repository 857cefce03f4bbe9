"""Everything on: in every partition, with and without flags, without credentials, with the same ids."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    CapacityReservationGroup,
    ClusterNetwork,
    ClusterPlacementGroup,
    EfaSecurityGroup,
    Egress,
    Feature,
    GpuFleet,
    InterfacePolicy,
    NodeImage,
    PlacementStrategy,
    RootVolume,
    UpdatePolicy,
    UserPart,
)
from sites import of_type, readable

# Where each environment stands: its Region and a zone of it; None is env-agnostic.
ENVIRONMENTS: dict[str, tuple[cdk.Environment | None, str]] = {
    "agnostic": (None, "us-east-1a"),
    "commercial": (cdk.Environment(account="123456789012", region="us-east-1"), "us-east-1a"),
    "gov": (cdk.Environment(account="123456789012", region="us-gov-west-1"), "us-gov-west-1a"),
    "china": (cdk.Environment(account="123456789012", region="cn-north-1"), "cn-north-1a"),
}


def everything_on(app: cdk.App, env: cdk.Environment | None, zone: str) -> dict[str, Any]:
    """Every construct with every option, in one stack."""
    stack = cdk.Stack(app, "Everything", env=env)
    network = ClusterNetwork(
        stack, "Network", availability_zone=zone, egress=Egress.CLOSED, features=list(Feature)
    )
    place = {
        "vpc": network.vpc,
        "vpc_subnets": ec2.SubnetSelection(subnets=[network.fleet_subnet]),
    }
    fabric = EfaSecurityGroup(stack, "Fabric", vpc=network.vpc, allow_all_outbound=False)
    group = ClusterPlacementGroup(stack, "Placement")
    reservation = CapacityReservation(
        stack,
        "Reservation",
        instance_type="p4d.24xlarge",
        instance_count=4,
        availability_zone=zone,
        placement_group=group,
        ends_at="2027-01-31T00:00Z",
    )
    CapacityReservationGroup(stack, "Pool", name="pool", reservations=[reservation])
    GpuFleet(
        stack,
        "Reserved",
        **place,  # type: ignore[arg-type]
        instance_type="p4d.24xlarge",
        node_count=4,
        capacity=Capacity.reservation(reservation),
        fabric=fabric,
        image=NodeImage.latest("ubuntu-24.04"),
        root_volume=RootVolume(size_gib=500, iops=6000, throughput_mib_per_s=1000),
        environment={"NCCL_DEBUG": "WARN", "TEAM": "vision"},
        user_data_parts=[UserPart(content_type="text/x-shellscript", body="#!/bin/sh\nexit 0\n")],
        update_policy=UpdatePolicy.ROLLING,
        ready_timeout=cdk.Duration.minutes(40),
        drain_timeout=cdk.Duration.minutes(15),
    )
    GpuFleet(
        stack,
        "Block",
        **place,  # type: ignore[arg-type]
        instance_type="p5.48xlarge",
        node_count=16,
        capacity=Capacity.capacity_block(
            "cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z"
        ),
        interface_policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH,
    )
    GpuFleet(
        stack,
        "Spare",
        **place,  # type: ignore[arg-type]
        instance_type="g6.12xlarge",
        min_node_count=0,
        max_node_count=4,
        capacity=Capacity.spot(max_price_usd_per_hour=3.5),
        placement=PlacementStrategy.PARTITION,
        efa=False,
        image=NodeImage.from_id("ami-0123456789abcdef0"),
    )
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture(scope="module")
def templates(app_factory: Any) -> dict[tuple[str, bool], dict[str, Any]]:
    """The template of each environment, with and without feature flags."""
    return {
        (name, flags): everything_on(app_factory(flags=flags), env, zone)
        for name, (env, zone) in ENVIRONMENTS.items()
        for flags in (True, False)
    }


CASES = [(name, flags) for name in ENVIRONMENTS for flags in (True, False)]


# With a known Region CDK may write the partition out; it must be the right one. Otherwise it stays a reference.
PARTITIONS = {"agnostic": set(), "commercial": {"aws"}, "gov": {"aws-us-gov"}, "china": {"aws-cn"}}


@pytest.mark.parametrize("case", CASES)
def test_no_other_partition_is_written_down(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    text = json.dumps(templates[case])
    assert set(re.findall(r"arn:(aws[a-z-]*):", text)) <= PARTITIONS[case[0]]
    assert "amazonaws.com.cn" not in text or case[0] == "china"


@pytest.mark.parametrize("case", CASES)
def test_reservations_have_the_same_logical_ids_everywhere(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    kinds = ("AWS::EC2::CapacityReservation", "AWS::EC2::PlacementGroup", "AWS::EC2::Subnet", "AWS::EC2::VPC")
    for kind in kinds:
        here = sorted(of_type(templates[case]["Resources"], kind))
        there = sorted(of_type(templates["agnostic", True]["Resources"], kind))
        assert here == there
    assert list(of_type(templates[case]["Resources"], "AWS::EC2::CapacityReservation")) == [
        "Reservation658FFB35"
    ]


@pytest.mark.parametrize("case", CASES)
def test_everything_is_there(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    """A template that lost half its resources would pass every other test."""
    resources = templates[case]["Resources"]
    assert len(resources) > 70
    assert len(of_type(resources, "AWS::AutoScaling::AutoScalingGroup")) == 3
    assert len(of_type(resources, "AWS::EC2::VPCEndpoint")) > 10


def test_everything_on_is_as_recorded(
    templates: dict[tuple[str, bool], dict[str, Any]], snapshot_json: Any
) -> None:
    assert readable(templates["commercial", True]) == snapshot_json


def test_synthesis_is_deterministic(
    app_factory: Any, templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    env, zone = ENVIRONMENTS["commercial"]
    assert everything_on(app_factory(), env, zone) == templates["commercial", True]
