"""A stack of network, reservations and fleets with every option, and what such stacks share."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    CapacityReservationGroup,
    ClusterNetwork,
    ClusterPlacementGroup,
    EfaSecurityGroup,
    GpuFleet,
    InterfacePolicy,
    NetworkEgress,
    NetworkFeature,
    NodeImage,
    NodeWatch,
    PlacementStrategy,
    RootVolume,
    UpdatePolicy,
    UserDataPart,
    WatchMode,
)

# Where each environment stands: its Region and a zone of it; None is env-agnostic.
ENVIRONMENTS: dict[str, tuple[cdk.Environment | None, str]] = {
    "agnostic": (None, "us-east-1a"),
    "commercial": (cdk.Environment(account="123456789012", region="us-east-1"), "us-east-1a"),
    "gov": (cdk.Environment(account="123456789012", region="us-gov-west-1"), "us-gov-west-1a"),
    "china": (cdk.Environment(account="123456789012", region="cn-north-1"), "cn-north-1a"),
}


def define_training(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Network, fabric, reservations and fleets, with every option, in one stack."""
    stack = cdk.Stack(app, "Everything", env=env)
    network = ClusterNetwork(
        stack, "Network", availability_zone=zone, egress=NetworkEgress.CLOSED, features=list(NetworkFeature)
    )
    place: dict[str, Any] = {
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
        **place,
        instance_type="p4d.24xlarge",
        node_count=4,
        capacity=Capacity.reservation(reservation),
        fabric=fabric,
        image=NodeImage.latest("ubuntu-24.04"),
        root_volume=RootVolume(size_gib=500, iops=6000, throughput_mib_per_s=1000),
        environment={"NCCL_DEBUG": "WARN", "TEAM": "vision"},
        user_data_parts=[UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\nexit 0\n")],
        update_policy=UpdatePolicy.ROLLING,
        watch=NodeWatch(mode=WatchMode.DRY_RUN, drain_on_rebalance=True, job_units=("training.service",)),
        evidence_bucket=s3.Bucket.from_bucket_name(stack, "Records", "my-node-records"),
        ready_timeout=cdk.Duration.minutes(40),
        drain_timeout=cdk.Duration.minutes(15),
    )
    GpuFleet(
        stack,
        "Block",
        **place,
        instance_type="p5.48xlarge",
        node_count=16,
        capacity=Capacity.capacity_block(
            "cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z"
        ),
        interface_policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH,
    )
    spare = GpuFleet(
        stack,
        "Spare",
        **place,
        instance_type="g6.12xlarge",
        min_node_count=0,
        max_node_count=4,
        capacity=Capacity.spot(max_price_usd_per_hour=3.5),
        placement=PlacementStrategy.PARTITION,
        efa=False,
        image=NodeImage.from_id("ami-0123456789abcdef0"),
    )
    spare.grant_run_jobs(iam.Role(stack, "Builds", assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com")))
    return stack


def existing_vpc(stack: cdk.Stack, zone: str) -> ec2.IVpc:
    """A VPC that exists, with a private and a public subnet in each of two zones."""
    ids = [f"0123456789abcdef{index}" for index in range(4)]
    return ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=[zone, f"{zone[:-1]}b"],
        private_subnet_ids=[f"subnet-{one}" for one in ids[:2]],
        private_subnet_route_table_ids=[f"rtb-{one}" for one in ids[:2]],
        public_subnet_ids=[f"subnet-{one}" for one in ids[2:]],
        public_subnet_route_table_ids=[f"rtb-{one}" for one in ids[2:]],
    )
