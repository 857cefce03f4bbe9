"""A fleet is made and destroyed with permissions enforced: no call of a node is denied, and no event is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import ClusterNetwork, GpuFleet
from cdk_gpu_clusters.testing import InProcessEmulator

NODES = 2


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": "2026-11-21T08:00Z"}) as made:
        yield made


@pytest.fixture(scope="module")
def template(app_factory: Any) -> dict[str, Any]:
    stack = cdk.Stack(app_factory(), "Training")
    network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
    GpuFleet(
        stack, "Trainers", vpc=network.vpc, vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        instance_type="g6.xlarge", node_count=NODES,
    )  # fmt: skip
    return dict(Template.from_stack(stack).to_json())


def log_group(template: dict[str, Any]) -> str:
    """Logical id of the log group that the nodes' permissions name."""
    resources = template["Resources"]
    attached = [json.dumps(one) for one in resources.values() if one["Type"] == "AWS::IAM::ManagedPolicy"]
    policies = "".join(one for one in attached if "autoscaling:CompleteLifecycleAction" in one)
    groups = [name for name, one in resources.items() if one["Type"] == "AWS::Logs::LogGroup"]
    found: str
    (found,) = [name for name in groups if f'"{name}"' in policies]
    return found


@pytest.mark.parametrize("waits", [False, True])
def test_a_fleet_loses_no_call_and_no_event(account: InProcessEmulator, template: dict[str, Any], waits: bool) -> None:
    account.seed({"waits_for_in_service": waits, "nodes": {"log_group": log_group(template)}})
    account.deploy(template)
    account.move_clock("2026-11-21T08:10Z")
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert [one["LifecycleState"] for one in group["Instances"]] == ["InService"] * NODES
    account.destroy()
    history = account.history()
    assert (history["denied"], history["lost"]) == ([], [])
    assert [one["state"] for one in history["logged"]] == ["Pending:Wait"] * NODES + ["Terminating:Wait"] * NODES
    assert account.now < "2026-11-21T08:12", "nobody waited for a hook to run out of time"
