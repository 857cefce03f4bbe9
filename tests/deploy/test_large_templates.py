"""Templates beyond what a request to CloudFormation carries: they go through a bucket, and no message repeats them."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError

from cdk_gpu_clusters import Capacity, GpuFleet
from cdk_gpu_clusters.testing import InProcessEmulator

#: CloudFormation user guide, "Understand CloudFormation quotas": template body size in a request, and in an S3 object.
IN_REQUEST_BYTES, IN_OBJECT_BYTES = 51_200, 1_000_000
LONGEST_MESSAGE = 1_000


def two_fleets() -> dict[str, Any]:
    stack = cdk.Stack(cdk.App(), "Stack", env=cdk.Environment(account="123456789012", region="us-east-1"))
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=["us-east-1a"])
    for name in ("Trainers", "Others"):
        GpuFleet(stack, name, vpc=vpc, instance_type="p5.48xlarge", node_count=2, capacity=Capacity.spot())
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return two_fleets()


def test_two_fleets_with_efa_in_one_stack_are_deployed(template: dict[str, Any]) -> None:
    assert IN_REQUEST_BYTES < len(json.dumps(template)) < IN_OBJECT_BYTES
    with InProcessEmulator() as account:
        account.deploy(template)
        assert len(account.resources("AWS::AutoScaling::AutoScalingGroup")) == 2
        account.deploy(template | {"Description": "changed"})
        account.destroy()
        assert account.resources("AWS::AutoScaling::AutoScalingGroup") == []


def test_a_template_that_no_object_may_hold_is_refused_without_repeating_it(template: dict[str, Any]) -> None:
    padded = template | {"Metadata": {"padding": "x" * IN_OBJECT_BYTES}}
    with InProcessEmulator() as account, pytest.raises((ClientError, ValueError)) as refused:
        account.deploy(padded)
    assert len(str(refused.value)) < LONGEST_MESSAGE
    assert str(IN_OBJECT_BYTES)[:3] in str(refused.value).replace(",", "").replace("_", "")


def test_a_request_that_is_too_large_is_refused_without_repeating_it(template: dict[str, Any]) -> None:
    with InProcessEmulator() as account, pytest.raises(ClientError, match="51200") as refused:
        account.client("cloudformation").create_stack(StackName="large", TemplateBody=json.dumps(template))
    assert len(str(refused.value)) < LONGEST_MESSAGE
