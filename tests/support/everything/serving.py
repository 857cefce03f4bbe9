"""A stack of model servers with every option."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    Capacity,
    InferenceFleet,
    LustreStore,
    MigLayout,
    ModelServer,
    ModelWeights,
    NodeImage,
    RootVolume,
    ServerSecret,
    ServerSlots,
    UpdatePolicy,
)
from everything.fleets import existing_vpc


def define_serving(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Every option: one service on MIG slices, and one that reads a file system; both together are too long for one."""
    stack = cdk.Stack(app, "Serving", env=env)
    vpc = existing_vpc(stack, zone)
    _on_slices(stack, vpc)
    _on_files(stack, vpc)
    return stack


def _secret(stack: cdk.Stack, name: str, field: str | None = None) -> ServerSecret:
    arn = stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{name}-AbCdEf",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    return ServerSecret.from_arn(arn, field)


def _on_slices(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    server = ModelServer(
        image=ecr.Repository.from_repository_name(stack, "Images", "servers"),
        tag="2026-11-01",
        command=["--model", "/opt/gpu-cluster/model"],
        health_path="/v1/health/ready",
        environment={"MAX_MODEL_LEN": "8192"},
        secrets={"HF_TOKEN": _secret(stack, "hub", "token")},
        registry_login=_secret(stack, "registry"),
        weights=ModelWeights.from_bucket(s3.Bucket.from_bucket_name(stack, "Weights", "weights"), "llama/"),
        max_concurrent_requests=4,
    )
    arn = stack.format_arn(service="acm", resource="certificate", resource_name="c-1")
    made = InferenceFleet(
        stack,
        "Slices",
        vpc=vpc,
        instance_type="p4d.24xlarge",
        min_node_count=2,
        max_node_count=8,
        mig=MigLayout(["1g.5gb"] * 7),
        server=server,
        node_port=8088,
        min_servers_per_node=50,
        image=NodeImage.latest("ubuntu-24.04"),
        root_volume=RootVolume(size_gib=500, throughput_mib_per_s=750),
        internet_facing=True,
        certificate=acm.Certificate.from_certificate_arn(stack, "Certificate", arn),
        clients=[ec2.Peer.ipv4("198.51.100.0/24")],
        idle_timeout=cdk.Duration.minutes(10),
        drain_timeout=cdk.Duration.minutes(20),
        ready_timeout=cdk.Duration.minutes(45),
        requests_per_minute_per_node=600,
    )
    activity = cloudwatch.Metric(
        namespace="Gpu", metric_name="Utilization", dimensions_map={"Fleet": "chat"}, statistic="Average"
    )
    made.add_scaling("Activity", metric=activity, target_value=70)


def _on_files(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    store = LustreStore(
        stack,
        "Models",
        vpc=vpc,
        subnet=vpc.private_subnets[0],
        storage_capacity_gib=2400,
        throughput_mb_per_s_per_tib=500,
    )
    InferenceFleet(
        stack,
        "Files",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
        instance_type="g6e.48xlarge",
        min_node_count=1,
        max_node_count=3,
        capacity=Capacity.spot(),
        slots=ServerSlots.tensor_parallel(4),
        server=ModelServer(image="vllm/vllm-openai:v0.11.0", weights=ModelWeights.from_path("/fsx/models/llama")),
        mounts={"/fsx": store},
        scratch=True,
        plain_http=True,
        drain_timeout=cdk.Duration.seconds(60),
        access_logs=s3.Bucket.from_bucket_name(stack, "Logs", "access-logs"),
        update_policy=UpdatePolicy.NEVER_REPLACE,
    )
