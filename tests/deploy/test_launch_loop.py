"""A fleet whose nodes fail their boots stops to launch, tells of it, and keeps the next failure for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import AlarmSettings, ClusterNetwork, GpuFleet
from cdk_gpu_clusters.testing import InProcessEmulator

NOW = "2026-11-21T08:00Z"
HOOK = "node-ready"


class Fleet:
    """A deployed fleet.

    Attributes:
        account: Where it is deployed.
    """

    def __init__(self, account: InProcessEmulator) -> None:
        self.account = account
        self.scaling = account.client("autoscaling")

    @property
    def group(self) -> dict[str, Any]:
        (found,) = self.scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        return dict(found)

    @property
    def is_stopped(self) -> bool:
        return "Launch" in [row["ProcessName"] for row in self.group["SuspendedProcesses"]]

    def nodes(self, state: str = "Pending:Wait") -> list[str]:
        return [row["InstanceId"] for row in self.group["Instances"] if row["LifecycleState"] == state]

    def end(self, instance: str, result: str) -> None:
        self.scaling.complete_lifecycle_action(
            AutoScalingGroupName=self.group["AutoScalingGroupName"],
            LifecycleHookName=HOOK,
            InstanceId=instance,
            LifecycleActionResult=result,
        )

    def fail(self, times: int, *, minutes: float = 5) -> None:
        """Let the first node that launches fail its boot, again and again."""
        for _ in range(times):
            self.pass_minutes(minutes)
            self.end(self.nodes()[0], "ABANDON")

    def hang(self, times: int, *, minutes: float = 31) -> None:
        """Let nodes say nothing until their hook runs out of time."""
        for _ in range(times):
            self.pass_minutes(minutes)

    def pass_minutes(self, minutes: float) -> None:
        now = datetime.fromisoformat(self.account.now)
        self.account.move_clock(now + timedelta(minutes=minutes))

    def alarms(self) -> list[str]:
        return [
            event["detail"]["state"]["value"]
            for event in self.account.history()["events"]
            if event["detail-type"] == "CloudWatch Alarm State Change" and "LaunchLoop" in event["detail"]["alarmName"]
        ]

    def resume(self) -> None:
        name = self.group["AutoScalingGroupName"]
        self.scaling.resume_processes(AutoScalingGroupName=name, ScalingProcesses=["Launch"])


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": NOW}) as made:
        yield made


@pytest.fixture
def deploy(account: InProcessEmulator, app_factory: Any) -> Callable[..., Fleet]:
    """Deploy a fleet; options go to it."""

    def make(nodes: int, **options: Any) -> Fleet:
        stack = cdk.Stack(app_factory(), "Training")
        network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
        GpuFleet(
            stack, "Trainers", vpc=network.vpc, vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
            instance_type="g6.xlarge", node_count=nodes, **options,
        )  # fmt: skip
        account.deploy(Template.from_stack(stack).to_json())
        return Fleet(account)

    return make


def test_three_abandoned_launches_stop_the_loop(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1)
    fleet.fail(2)
    assert not fleet.is_stopped
    fleet.fail(1)
    assert fleet.is_stopped
    assert fleet.alarms()[-1] == "ALARM"
    assert [one["states"] for one in fleet.account.history()["executions"]][-1] == ["Which", "Suspend"]
    assert {one["status"] for one in fleet.account.history()["executions"]} == {"SUCCEEDED"}


def test_the_node_that_fails_next_is_kept_and_no_other_is_launched(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1)
    fleet.fail(3)
    [kept] = fleet.nodes()  # launched before launching was suspended
    name = fleet.group["AutoScalingGroupName"]
    for _ in range(12):  # two hours; the hook's time-out is 30 minutes
        fleet.pass_minutes(10)
        fleet.scaling.record_lifecycle_action_heartbeat(
            AutoScalingGroupName=name, LifecycleHookName=HOOK, InstanceId=kept
        )
    assert fleet.nodes() == [kept]
    fleet.end(kept, "ABANDON")
    fleet.pass_minutes(60)
    assert fleet.group["Instances"] == []


def test_three_failures_stop_a_big_fleet_with_one_bad_host(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(8)
    _, *good = fleet.nodes()
    for instance in good:
        fleet.end(instance, "CONTINUE")
    fleet.hang(5)  # the start is further back than the alarm looks then
    assert fleet.is_stopped


def test_a_big_fleet_may_have_a_few_failures_while_it_starts(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(8)
    fleet.fail(20, minutes=1)
    assert not fleet.is_stopped
    fleet.fail(4, minutes=1)
    assert fleet.is_stopped


def test_nodes_that_hang_until_their_time_out_count_too(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1, ready_timeout=cdk.Duration.minutes(110))
    fleet.hang(2, minutes=111)
    assert not fleet.is_stopped
    fleet.hang(1, minutes=111)
    assert fleet.is_stopped


def test_failures_further_back_do_not_count(deploy: Callable[..., Fleet]) -> None:
    settings = AlarmSettings(abandoned_within_minutes=60)
    fleet = deploy(1, alarms=settings, ready_timeout=cdk.Duration.minutes(50))
    fleet.fail(6, minutes=40)
    assert not fleet.is_stopped


def test_resuming_before_the_fault_is_gone_stops_again_at_the_next_failure(
    deploy: Callable[..., Fleet],
) -> None:
    fleet = deploy(1)
    fleet.fail(3)
    fleet.resume()
    assert not fleet.is_stopped
    fleet.fail(1)
    assert fleet.is_stopped
    assert fleet.alarms().count("ALARM") == 1  # no new change of its state, which nobody would see


def test_resuming_after_the_fault_is_gone_goes_on(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1)
    fleet.fail(3)
    fleet.resume()
    fleet.end(fleet.nodes()[0], "CONTINUE")
    fleet.pass_minutes(24 * 60)
    assert not fleet.is_stopped
    assert fleet.alarms()[-1] == "OK"
    assert len(fleet.nodes("InService")) == 1


def test_want_of_capacity_is_no_abandoned_launch(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1)
    for instance in ("", None):
        for _ in range(5):
            fleet.account.emit(
                {
                    "source": "aws.autoscaling",
                    "detail-type": "EC2 Instance Launch Unsuccessful",
                    "detail": {
                        "AutoScalingGroupName": fleet.group["AutoScalingGroupName"],
                        "StatusCode": "Failed",
                        "StatusMessage": "We currently do not have sufficient capacity",
                        **({} if instance is None else {"EC2InstanceId": instance}),
                    },
                }
            )
    fleet.pass_minutes(5)
    assert not fleet.is_stopped


def test_an_alarm_alone_stops_nothing(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1, alarms=AlarmSettings(suspends_launching=False))
    fleet.fail(4)
    assert fleet.alarms()[-1] == "ALARM"
    assert not fleet.is_stopped


def test_a_fleet_without_alarms_goes_on(deploy: Callable[..., Fleet]) -> None:
    fleet = deploy(1, alarms=None)
    fleet.fail(6)
    assert not fleet.is_stopped
    assert fleet.alarms() == []
