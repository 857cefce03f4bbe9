"""Model servers behind a load balancer in every partition, with and without flags, and as recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from cdk_gpu_clusters import InferenceFleet, ModelServer
from everything.fleets import ENVIRONMENTS, existing_vpc
from everything.serving import define_serving
from stack_fixtures import of_type, readable

# With a known Region CDK may write the partition out; it must be the right one. Otherwise it stays a reference.
PARTITIONS = {"agnostic": set(), "commercial": {"aws"}, "gov": {"aws-us-gov"}, "china": {"aws-cn"}}
CASES = [(name, flags) for name in ENVIRONMENTS for flags in (True, False)]


def minimal(app: cdk.App) -> dict[str, Any]:
    """One server on each accelerator, with every default."""
    env, zone = ENVIRONMENTS["commercial"]
    stack = cdk.Stack(app, "Serving", env=env)
    vpc = existing_vpc(stack, zone)
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
    return dict(Template.from_stack(define_serving(app, env, zone)).to_json())


@pytest.fixture(scope="module")
def templates(app_factory: Any) -> dict[tuple[str, bool], dict[str, Any]]:
    """The template of each environment, with and without feature flags."""
    return {(name, flags): everything_on(app_factory(flags=flags), *ENVIRONMENTS[name]) for name, flags in CASES}


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


def test_everything_on_is_as_recorded(templates: dict[tuple[str, bool], dict[str, Any]], snapshot_json: Any) -> None:
    assert readable(templates["commercial", True]) == snapshot_json


def test_synthesis_is_deterministic(app_factory: Any, templates: dict[tuple[str, bool], dict[str, Any]]) -> None:
    assert everything_on(app_factory(), *ENVIRONMENTS["commercial"]) == templates["commercial", True]
