"""Model servers behind a load balancer in every partition, with and without flags, and as recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

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
from sites import of_type, readable

# Where each environment stands: its Region and its first zone; None is env-agnostic.
ENVIRONMENTS: dict[str, tuple[cdk.Environment | None, str]] = {
    "agnostic": (None, "us-east-1a"),
    "commercial": (cdk.Environment(account="123456789012", region="us-east-1"), "us-east-1a"),
    "gov": (cdk.Environment(account="123456789012", region="us-gov-west-1"), "us-gov-west-1a"),
    "china": (cdk.Environment(account="123456789012", region="cn-north-1"), "cn-north-1a"),
}
# With a known Region CDK may write the partition out; it must be the right one. Otherwise it stays a reference.
PARTITIONS = {"agnostic": set(), "commercial": {"aws"}, "gov": {"aws-us-gov"}, "china": {"aws-cn"}}
CASES = [(name, flags) for name in ENVIRONMENTS for flags in (True, False)]


def stack_with_vpc(app: cdk.App, env: cdk.Environment | None, zone: str) -> tuple[cdk.Stack, ec2.IVpc]:
    stack = cdk.Stack(app, "Serving", env=env)
    ids = [f"0123456789abcdef{number}" for number in range(4)]
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=[zone, f"{zone[:-1]}b"],
        private_subnet_ids=[f"subnet-{one}" for one in ids[:2]],
        private_subnet_route_table_ids=[f"rtb-{one}" for one in ids[:2]],
        public_subnet_ids=[f"subnet-{one}" for one in ids[2:]],
        public_subnet_route_table_ids=[f"rtb-{one}" for one in ids[2:]],
    )
    return stack, vpc


def minimal(app: cdk.App) -> dict[str, Any]:
    """One server on each accelerator, with every default."""
    env, zone = ENVIRONMENTS["commercial"]
    stack, vpc = stack_with_vpc(app, env, zone)
    InferenceFleet(
        stack,
        "Chat",
        vpc=vpc,
        instance_type="g6.xlarge",
        min_node_count=2,
        server=ModelServer(image="vllm/vllm-openai:v0.11.0"),
        plain_http=True,
    )
    return dict(Template.from_stack(stack).to_json())


def everything_on(app: cdk.App, env: cdk.Environment | None, zone: str) -> dict[str, Any]:
    """Every option: one service on MIG slices, and one that reads a file system; both together are too long for one."""
    stack, vpc = stack_with_vpc(app, env, zone)
    _on_slices(stack, vpc)
    _on_files(stack, vpc)
    return dict(Template.from_stack(stack).to_json())


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
        server=ModelServer(
            image="vllm/vllm-openai:v0.11.0", weights=ModelWeights.from_path("/fsx/models/llama")
        ),
        mounts={"/fsx": store},
        scratch=True,
        plain_http=True,
        drain_timeout=cdk.Duration.seconds(60),
        access_logs=s3.Bucket.from_bucket_name(stack, "Logs", "access-logs"),
        update_policy=UpdatePolicy.NEVER_REPLACE,
    )


@pytest.fixture(scope="module")
def templates(app_factory: Any) -> dict[tuple[str, bool], dict[str, Any]]:
    """The template of each environment, with and without feature flags."""
    return {
        (name, flags): everything_on(app_factory(flags=flags), *ENVIRONMENTS[name]) for name, flags in CASES
    }


@pytest.mark.parametrize("case", CASES)
def test_no_other_partition_is_written_down(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    text = json.dumps(templates[case])
    assert set(re.findall(r"arn:(aws[a-z-]*):", text)) <= PARTITIONS[case[0]]
    assert "amazonaws.com.cn" not in text or case[0] == "china"


@pytest.mark.parametrize("case", CASES)
def test_everything_is_there_under_the_same_ids(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    resources = templates[case]["Resources"]
    kinds = {
        "AWS::AutoScaling::AutoScalingGroup": 2,
        "AWS::AutoScaling::ScalingPolicy": 2,
        "AWS::EC2::LaunchTemplate": 2,
        "AWS::ElasticLoadBalancingV2::LoadBalancer": 2,
        "AWS::ElasticLoadBalancingV2::Listener": 2,
        "AWS::ElasticLoadBalancingV2::TargetGroup": 2,
        "AWS::FSx::FileSystem": 1,
        "AWS::S3::Bucket": 1,
    }
    for kind, count in kinds.items():
        here = of_type(resources, kind)
        assert len(here) == count, kind
        assert set(here) == set(of_type(templates["agnostic", True]["Resources"], kind))
    assert list(of_type(resources, "AWS::S3::Bucket")) == ["SlicesLoadBalancerAccessLogs2EF824F3"]


def test_minimal_is_as_recorded(app_factory: Any, snapshot_json: Any) -> None:
    assert readable(minimal(app_factory())) == snapshot_json


def test_everything_on_is_as_recorded(
    templates: dict[tuple[str, bool], dict[str, Any]], snapshot_json: Any
) -> None:
    assert readable(templates["commercial", True]) == snapshot_json


def test_synthesis_is_deterministic(
    app_factory: Any, templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    assert everything_on(app_factory(), *ENVIRONMENTS["commercial"]) == templates["commercial", True]
