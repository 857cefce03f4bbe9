"""The brake of a budget, deployed: what it stops, what it never touches, and what starts a fleet again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import Capacity, ClusterBudget, ClusterNetwork, FleetBrake, GpuFleet
from cdk_gpu_clusters.testing import InProcessEmulator

NOW, BLOCK = "2026-12-02T08:00Z", "cr-0123456789abcdef0"
LIMIT = 1_000
SEED = {
    "now": NOW,
    "reservations": [
        {
            "id": BLOCK,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 2,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-15T11:30Z",
        }
    ],
}


class Cluster:
    """A deployed cluster: a fleet on demand and one on Spot below the brake, and one on a block beside it."""

    def __init__(self, account: InProcessEmulator, template: dict[str, Any]) -> None:
        self.account, self.template = account, template
        self.scaling = account.client("autoscaling")
        account.deploy(template)
        for name in ("OnDemand", "Spot", "Block"):
            self.boot(name)

    def group(self, name: str) -> dict[str, Any]:
        groups = self.scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        (found,) = [one for one in groups if f"-{name}" in one["AutoScalingGroupName"]]
        return dict(found)

    def sizes(self, name: str) -> tuple[int, int, int]:
        group = self.group(name)
        return group["MinSize"], group["DesiredCapacity"], group["MaxSize"]

    def states(self, name: str) -> list[str]:
        return [one["LifecycleState"] for one in self.group(name)["Instances"]]

    def complete(self, name: str, hook: str, state: str) -> None:
        group = self.group(name)
        for one in group["Instances"]:
            if one["LifecycleState"] == state:
                self.scaling.complete_lifecycle_action(
                    AutoScalingGroupName=group["AutoScalingGroupName"],
                    LifecycleHookName=hook,
                    InstanceId=one["InstanceId"],
                    LifecycleActionResult="CONTINUE",
                )

    def boot(self, name: str) -> None:
        self.complete(name, "node-ready", "Pending:Wait")

    def spend(self, usd: float) -> None:
        (budget,) = self.account.world.of_type("AWS::Budgets::Budget")
        self.account.world.spent[budget.physical_id] = str(usd)

    def pass_minutes(self, minutes: float) -> None:
        now = datetime.fromisoformat(self.account.now)
        self.account.move_clock(now + timedelta(minutes=minutes))

    def runs(self) -> list[dict[str, Any]]:
        return [one for one in self.account.world.executions if "Brake" in one["logical_id"]]

    def last_run(self) -> dict[str, Any]:
        self.pass_minutes(16)
        return self.runs()[-1]


@pytest.fixture(scope="module")
def template(app_factory: Callable[..., cdk.App]) -> dict[str, Any]:
    stack = cdk.Stack(app_factory(), "Lab", env=cdk.Environment(account="123456789012", region="us-east-1"))
    network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
    common: dict[str, Any] = {
        "vpc": network.vpc,
        "vpc_subnets": ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        "alarms": None,
    }
    on_demand = GpuFleet(stack, "OnDemand", instance_type="g6.xlarge", node_count=2, **common)
    spot = GpuFleet(
        stack,
        "Spot",
        instance_type="g6.xlarge",
        min_node_count=1,
        max_node_count=4,
        capacity=Capacity.spot(),
        **common,
    )
    block = Capacity.capacity_block(BLOCK, starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z")
    GpuFleet(stack, "Block", instance_type="p5.48xlarge", node_count=2, capacity=block, **common)
    budget = ClusterBudget(stack, "Budget", cluster="lab", usd_per_month=LIMIT, emails=["a@example.org"])
    FleetBrake(stack, "Brake", budget_name=budget.budget_name, fleets=[on_demand, spot], percent=90)
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture
def cluster(template: dict[str, Any]) -> Iterator[Cluster]:
    with InProcessEmulator(seed=SEED) as account:
        yield Cluster(account, template)


def test_it_stops_its_fleets_when_the_budget_is_spent_and_leaves_the_block_alone(cluster: Cluster) -> None:
    cluster.spend(0.9 * LIMIT - 0.01)
    quiet = cluster.last_run()
    assert (quiet["status"], quiet["states"]) == ("SUCCEEDED", ["Look", "IsSpent", "Done"])
    running = {name: cluster.sizes(name) for name in ("OnDemand", "Spot", "Block")}
    assert running == {"OnDemand": (2, 2, 2), "Spot": (1, 1, 4), "Block": (0, 2, 2)}

    cluster.spend(0.9 * LIMIT)
    stopped = cluster.last_run()
    assert stopped["status"] == "SUCCEEDED"
    assert {cluster.sizes(name) for name in ("OnDemand", "Spot")} == {(0, 0, 0)}
    assert cluster.states("OnDemand") == ["Terminating:Wait"] * 2  # jobs get their notice
    cluster.complete("OnDemand", "node-drain", "Terminating:Wait")
    assert cluster.states("OnDemand") == []
    assert cluster.sizes("Block") == (0, 2, 2)
    assert cluster.states("Block") == ["InService"] * 2
    assert cluster.account.history()["denied"] == []


def test_nothing_starts_a_stopped_fleet_again_but_a_person(cluster: Cluster) -> None:
    cluster.spend(2 * LIMIT)
    cluster.last_run()
    name = cluster.group("Spot")["AutoScalingGroupName"]
    with pytest.raises(Exception, match="ValidationError"):
        cluster.scaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=1)
    cluster.spend(0)  # the next month
    assert cluster.last_run()["states"] == ["Look", "IsSpent", "Done"]
    assert cluster.sizes("Spot") == (0, 0, 0)
    cluster.scaling.update_auto_scaling_group(AutoScalingGroupName=name, MinSize=1, MaxSize=4)
    cluster.last_run()
    assert cluster.sizes("Spot") == (1, 1, 4)


def test_a_fleet_that_is_started_before_there_is_budget_is_stopped_again(cluster: Cluster) -> None:
    cluster.spend(2 * LIMIT)
    cluster.last_run()
    name = cluster.group("Spot")["AutoScalingGroupName"]
    cluster.scaling.update_auto_scaling_group(AutoScalingGroupName=name, MinSize=1, MaxSize=4)
    cluster.last_run()
    assert cluster.sizes("Spot") == (0, 0, 0)


def test_a_group_that_was_moved_to_a_block_is_never_stopped(cluster: Cluster) -> None:
    """Somebody gave the group another template by hand after the deployment."""
    block = cluster.group("Block")["LaunchTemplate"]
    spot = cluster.group("Spot")["AutoScalingGroupName"]
    template = {"LaunchTemplateId": block["LaunchTemplateId"], "Version": block["Version"]}
    cluster.scaling.update_auto_scaling_group(AutoScalingGroupName=spot, LaunchTemplate=template)
    cluster.spend(2 * LIMIT)
    run = cluster.last_run()
    assert (run["status"], run["error"]) == ("FAILED", "NotStopped")
    assert cluster.sizes("Spot") == (1, 1, 4)
    assert cluster.sizes("OnDemand") == (0, 0, 0)  # the other one is stopped all the same
    changed = [one["parameters"]["AutoScalingGroupName"] for one in run["calls"] if one["operation"].startswith("Upd")]
    assert changed == [cluster.group("OnDemand")["AutoScalingGroupName"]]


def test_a_call_that_fails_keeps_no_other_fleet_running(cluster: Cluster) -> None:
    cluster.spend(2 * LIMIT)
    cluster.account.world.failing_calls.append(
        {
            "service": "autoscaling",
            "operation": "UpdateAutoScalingGroup",
            "error": "ScalingActivityInProgress",
            "times": 4,
        }
    )
    run = cluster.last_run()
    assert (run["status"], run["error"]) == ("FAILED", "NotStopped")
    assert (cluster.sizes("OnDemand"), cluster.sizes("Spot")) == ((2, 2, 2), (0, 0, 0))
    cluster.last_run()
    assert cluster.sizes("OnDemand") == (0, 0, 0)


def test_a_budget_that_cannot_be_read_stops_nothing(cluster: Cluster) -> None:
    cluster.account.world.failing_calls.append(
        {"service": "budgets", "operation": "DescribeBudget", "error": "AccessDeniedException", "times": 4}
    )
    cluster.spend(2 * LIMIT)
    assert cluster.last_run()["status"] == "FAILED"
    assert cluster.sizes("OnDemand") == (2, 2, 2)
