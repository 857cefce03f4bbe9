"""Stacks with every construct and every option, for tests that look at all that the library makes."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    CapacityReservationGroup,
    CheckpointStore,
    ClusterNetwork,
    ClusterPlacementGroup,
    ColdFileRelease,
    EfaSecurityGroup,
    Egress,
    Feature,
    GpuFleet,
    GpuLaunchTemplate,
    InferenceFleet,
    InterfacePolicy,
    LustreDeploymentType,
    LustreStorageType,
    LustreStore,
    MigLayout,
    ModelServer,
    ModelWeights,
    NodeImage,
    NodeRole,
    Orchestrator,
    PlacementStrategy,
    ReadCacheMode,
    RootVolume,
    ServerSecret,
    UpdatePolicy,
    UserPart,
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
        stack, "Network", availability_zone=zone, egress=Egress.CLOSED, features=list(Feature)
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
        user_data_parts=[UserPart(content_type="text/x-shellscript", body="#!/bin/sh\nexit 0\n")],
        update_policy=UpdatePolicy.ROLLING,
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
    GpuFleet(
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
    return stack


def define_storage(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Every class of file system, every kind of bucket, and a fleet that uses them, in one stack."""
    stack = cdk.Stack(app, "Storage", env=env)
    vpc = existing_vpc(stack, zone)
    place: dict[str, Any] = {"vpc": vpc, "subnet": vpc.private_subnets[0]}
    size: dict[str, Any] = {"storage_capacity_gib": 19_200, "throughput_mb_per_s_per_tib": 250}
    fabric = EfaSecurityGroup(stack, "Fabric", vpc=vpc)
    corpus = LustreStore(stack, "Corpus", **place, **size, efa=True, client_security_group=fabric)
    linked = LustreStore(stack, "Linked", **place, **size, metadata_iops=12_000)
    LustreStore(
        stack,
        "Scratch",
        **place,
        storage_capacity_gib=2400,
        deployment_type=LustreDeploymentType.SCRATCH_2,
        logging=False,
    )
    LustreStore(
        stack,
        "Elastic",
        **place,
        storage_type=LustreStorageType.INTELLIGENT_TIERING,
        throughput_capacity_mb_per_s=4000,
        read_cache=ReadCacheMode.NO_CACHE,
        metadata_iops=6000,
        backup_retention_days=7,
        weekly_maintenance_start_time="7:03:00",
    )
    logs_bucket = s3.Bucket.from_bucket_name(stack, "Logs", "access-logs")
    checkpoints = CheckpointStore(
        stack,
        "Checkpoints",
        access_logs_bucket=logs_bucket,
        express_zone_id="use1-az4",
        expire_after=cdk.Duration.days(30),
        archive_after=cdk.Duration.days(7),
    )
    plain = CheckpointStore(stack, "Plain", versioned=False)
    linked.add_data_repository("/checkpoints", bucket=checkpoints.bucket)
    ColdFileRelease(stack, "Release", store=linked)
    trainers = GpuFleet(
        stack,
        "Trainers",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
        instance_type="p5.48xlarge",
        node_count=2,
        capacity=Capacity.from_reservation_id("cr-0123456789abcdef0"),
        fabric=fabric,
        mounts={"/fsx": corpus, "/data": linked},
        root_volume=RootVolume(encryption_key=checkpoints.encryption_key),
    )
    checkpoints.grant_read_write(trainers)
    plain.grant_read_write(trainers)
    trainers.grant_read(s3.Bucket.from_bucket_name(stack, "Dataset", "dataset"))
    return stack


def define_inference(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Model servers with every source of images, secrets and weights, behind TLS and without, in one stack."""
    stack = cdk.Stack(app, "Inference", env=env)
    vpc = existing_vpc(stack, zone)
    arn = stack.format_arn(service="acm", resource="certificate", resource_name="c-1")
    secret = stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name="hub-AbCdEf",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    weights = s3.Bucket.from_bucket_name(stack, "Weights", "weights")
    public = InferenceFleet(
        stack,
        "Public",
        vpc=vpc,
        instance_type="g6e.48xlarge",
        min_node_count=2,
        max_node_count=6,
        server=ModelServer(
            image=ecr.Repository.from_repository_name(stack, "Servers", "servers"),
            tag="2026-11-01",
            secrets={"HF_TOKEN": ServerSecret.from_arn(secret, "token")},
            registry_login=ServerSecret.from_arn(secret.replace("hub", "registry")),
            weights=ModelWeights.from_bucket(weights, "llama/"),
        ),
        certificate=acm.Certificate.from_certificate_arn(stack, "Certificate", arn),
        internet_facing=True,
        clients=[ec2.Peer.ipv4("198.51.100.0/24")],
        requests_per_minute_per_node=120,
    )
    activity = cloudwatch.Metric(
        namespace="Gpu", metric_name="Utilization", dimensions_map={"Fleet": "chat"}, statistic="Average"
    )
    public.add_scaling("ScaleOnActivity", metric=activity, target_value=70)
    InferenceFleet(
        stack,
        "Private",
        vpc=vpc,
        instance_type="p4d.24xlarge",
        min_node_count=1,
        max_node_count=2,
        mig=MigLayout(["1g.5gb"] * 7),
        server=ModelServer(
            image="vllm/vllm-openai:v0.11.0", secrets={"HF_TOKEN": ServerSecret.from_arn(secret, "token")}
        ),
        plain_http=True,
        clients=[ec2.Peer.ipv4("10.0.0.0/16")],
        access_logs=s3.Bucket.from_bucket_name(stack, "Logs", "access-logs"),
    )
    return stack


def define_variants(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """What the other stacks leave out: further networks, templates for other orchestrators, a shared role."""
    stack = cdk.Stack(app, "Variants", env=env)
    open_network = ClusterNetwork(stack, "Nat", availability_zone=zone)
    ClusterNetwork(stack, "Unrecorded", availability_zone=zone, flow_logs=False)
    block = cdk.Fn.import_value("block")
    ClusterNetwork(
        stack,
        "Token",
        availability_zone=zone,
        cidr=block,
        egress=Egress.CLOSED,
        features=[Feature.SESSION_MANAGER],
    )
    fabric = EfaSecurityGroup(stack, "Fabric", vpc=open_network.vpc)
    for orchestrator in Orchestrator:
        GpuLaunchTemplate(
            stack,
            f"For{orchestrator.name.title().replace('_', '')}",
            instance_type="p5en.48xlarge",
            orchestrator=orchestrator,
            fabric=fabric,
        )
    role = NodeRole(stack, "Role")
    for name in ("First", "Second"):
        GpuFleet(
            stack,
            name,
            vpc=open_network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[open_network.fleet_subnet]),
            instance_type="trn1.32xlarge",
            node_count=1,
            role=role,
            fabric=fabric,
        )
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
