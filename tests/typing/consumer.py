"""An app as a user writes it; checked strictly against the installed wheel, never run."""

from __future__ import annotations

from typing import assert_type

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from constructs import Construct

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    CheckpointStore,
    ClusterNetwork,
    ClusterPlacementGroup,
    ConfigError,
    EfaSecurityGroup,
    GpuFleet,
    InferenceFleet,
    InterfacePolicy,
    LustreStore,
    MigLayout,
    ModelServer,
    ServerSlots,
)
from cdk_gpu_clusters.catalogue import InstanceType, instance_type
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.interfaces import InterfacePlan, plan_interfaces
from cdk_gpu_clusters.testing import assert_efa_ready, assert_no_public_access


class Training(cdk.Stack):
    """Two fleets: one on a Capacity Block, one on a reservation that is made here."""

    def __init__(self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc, checkpoints: s3.IBucket) -> None:
        super().__init__(scope, construct_id)
        fabric = EfaSecurityGroup(self, "Fabric", vpc=vpc)
        trainers = GpuFleet(
            self,
            "Trainers",
            vpc=vpc,
            instance_type="p5.48xlarge",
            node_count=16,
            fabric=fabric,
            capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
            interface_policy=InterfacePolicy.MINIMUM_IP,
        )
        assert_type(trainers.grant_read_write(checkpoints), iam.Grant)
        group = ClusterPlacementGroup(self, "Rack")
        reservation = CapacityReservation(
            self,
            "Reserved",
            instance_type="p4d.24xlarge",
            instance_count=4,
            availability_zone="us-east-1a",
            unlimited=True,
            placement_group=group,
        )
        GpuFleet(
            self,
            "Tuners",
            vpc=vpc,
            instance_type=ec2.InstanceType("p4d.24xlarge"),
            node_count=4,
            capacity=Capacity.reservation(reservation),
        )


class Serving(cdk.Stack):
    """Model servers on slices of GPUs, and stores for what they read and write."""

    def __init__(self, scope: Construct, construct_id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, construct_id)
        corpus = LustreStore(
            self,
            "Corpus",
            vpc=vpc,
            subnet=vpc.private_subnets[0],
            storage_capacity_gib=4800,
            throughput_mb_per_s_per_tib=250,
        )
        chat = InferenceFleet(
            self,
            "Chat",
            vpc=vpc,
            instance_type="p4d.24xlarge",
            min_node_count=1,
            max_node_count=2,
            mig=MigLayout(["1g.5gb"] * 7),
            slots=ServerSlots.per_mig_slice(56),
            server=ModelServer(image="vllm/vllm-openai:v0.11.0"),
            mounts={"/fsx": corpus},
            clients=[ec2.Peer.ipv4("10.0.0.0/16")],
            plain_http=True,
        )
        assert_type(chat.fleet, GpuFleet)
        assert_type(CheckpointStore(self, "Checkpoints").grant_read_write(chat.fleet), iam.Grant)


def explain(name: str) -> list[Finding]:
    """The pure layers, without CDK."""
    try:
        record = assert_type(instance_type(name), InstanceType)
        assert_type(plan_interfaces(record), InterfacePlan)
    except ConfigError as error:
        return list(error.findings)
    return []


def network(scope: Construct) -> ec2.IVpc:
    """A network's VPC goes wherever CDK takes one."""
    return ClusterNetwork(scope, "Network", availability_zone="us-east-1a").vpc


def test_own_template(stack: cdk.Stack) -> None:
    """Assertions take CDK's template, or a dictionary."""
    template = Template.from_stack(stack)
    assert_efa_ready(template)
    assert_no_public_access(template.to_json())
