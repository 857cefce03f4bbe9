"""Every example in a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

import cdk_gpu_clusters
import cdk_gpu_clusters_stacks

MODULES = sorted(
    module.name
    for package in (cdk_gpu_clusters, cdk_gpu_clusters_stacks)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    # The last one runs in AWS Lambda alone, and has no examples.
    if not module.name.endswith(("__main__", "._reservation_function"))
)


def names(app_factory: Any) -> dict[str, Any]:
    """What the examples take for granted: a stack, a network, a group and a few parts."""
    stack = cdk.Stack(app_factory(), "Docs")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a"],
        private_subnet_ids=["subnet-0123456789abcdef0"],
        private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
    )
    return {
        "cdk": cdk,
        "ec2": ec2,
        **{name: getattr(cdk_gpu_clusters, name) for name in cdk_gpu_clusters.__all__},
        "app": stack.node.root,
        "stack": stack,
        "two_zone_vpc": ec2.Vpc.from_vpc_attributes(
            stack,
            "TwoZones",
            vpc_id="vpc-0123456789abcdef1",
            availability_zones=["us-east-1a", "us-east-1b"],
            private_subnet_ids=["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
            private_subnet_route_table_ids=["rtb-0123456789abcdef1", "rtb-0123456789abcdef2"],
        ),
        "vpc": vpc,
        "gpu_subnet": vpc.private_subnets[0],
        "existing_group": ec2.SecurityGroup.from_security_group_id(stack, "Given", "sg-0123456789abcdef0"),
        "cfn_group": autoscaling.CfnAutoScalingGroup(stack, "CfnGroup", min_size="0", max_size="16"),
        "log_group": logs.LogGroup(stack, "LogGroup"),
    }


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, app_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    module = importlib.import_module(name)
    found = doctest.DocTestFinder().find(module)
    if not any(test.examples for test in found):  # most modules have none, and the names take time to make
        return
    given = names(app_factory)
    # Names of the module win, as they do for its reader.
    result = doctest.testmod(
        module, extraglobs={key: value for key, value in given.items() if not hasattr(module, key)}
    )
    assert result.attempted > 0
    assert result.failed == 0


def test_public_constructs_have_an_example() -> None:
    constructs = {
        name: made
        for name in cdk_gpu_clusters.__all__
        if isinstance(made := getattr(cdk_gpu_clusters, name), type) and issubclass(made, Construct)
    }
    assert constructs
    assert [name for name, made in constructs.items() if ">>>" not in (made.__doc__ or "")] == []
