"""An instance refresh as the update policy of a group: hooks run, percentages hold, and it can fail."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from plain_fleet import fleet

Json = dict[str, Any]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    seed = {"now": "2026-11-21T08:00Z", "waits_for_in_service": True}
    with InProcessEmulator(seed=seed) as made:
        yield made


def refreshed(size: int, image: str, **preferences: Any) -> Json:
    made = copy.deepcopy(fleet(size, before=("Permissions", "Logs")))
    policy = {"AutoScalingInstanceRefresh": {"Strategy": "Rolling", "Preferences": preferences}}
    made["Resources"]["Fleet"] |= {"UpdatePolicy": policy}
    made["Resources"]["Fleet"]["Properties"]["MaxSize"] = str(2 * size)
    made["Resources"]["Template"]["Properties"]["LaunchTemplateData"]["ImageId"] = image
    return made


def group(account: InProcessEmulator) -> Json:
    (found,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return dict(found)


def versions(account: InProcessEmulator) -> list[tuple[str, str]]:
    return [(one["LaunchTemplate"]["Version"], one["LifecycleState"]) for one in group(account)["Instances"]]


OLD, NEW = "ami-0aaaaaaaaaaaaaaaa", "ami-0bbbbbbbbbbbbbbbb"


@pytest.mark.parametrize(
    ("preferences", "minutes"),
    [
        ({"MinHealthyPercentage": 50}, 2 * 5),  # two at a time drain, and two others boot
        ({}, 4 * (5 + 1)),  # 90 to 100 % by default, which four nodes leave no room in: one boots before one drains
        ({"MinHealthyPercentage": 100, "MaxHealthyPercentage": 110}, 4 * (5 + 1)),
        ({"MinHealthyPercentage": 100, "MaxHealthyPercentage": 150}, 2 * (5 + 1)),  # two boot before two drain
        ({"MinHealthyPercentage": 50, "BakeTime": 600}, 2 * 5 + 10),
    ],
)
def test_every_node_is_replaced_through_its_hooks(account: InProcessEmulator, preferences: Json, minutes: int) -> None:
    account.deploy(refreshed(4, OLD, **preferences))
    before = account.now
    account.deploy(refreshed(4, NEW, **preferences))
    assert versions(account) == [("2", "InService")] * 4
    assert account.history()["denied"] == []
    assert _minutes(account.now) - _minutes(before) == minutes


def _minutes(moment: str) -> int:
    return int(moment[11:13]) * 60 + int(moment[14:16])


def test_a_refresh_that_cannot_launch_fails_the_update(account: InProcessEmulator) -> None:
    account.deploy(refreshed(2, OLD))
    account.client("autoscaling").suspend_processes(
        AutoScalingGroupName=group(account)["AutoScalingGroupName"], ScalingProcesses=["Launch"]
    )
    with pytest.raises(DeployFailed, match="the instance refresh did not end in time"):
        account.deploy(refreshed(2, NEW))


@pytest.mark.parametrize(
    ("preferences", "message"),
    [
        ({"MinHealthyPercentage": 101}, "at most 100, got 101"),
        ({"MinHealthyPercentage": 0, "MaxHealthyPercentage": 200}, "differ by at most 100"),
        ({"ScaleInProtectedInstances": "Replace"}, "is not one of Refresh, Ignore, Wait"),
    ],
)
def test_wrong_preferences_are_refused(account: InProcessEmulator, preferences: Json, message: str) -> None:
    with pytest.raises(DeployFailed, match=message):
        account.deploy(refreshed(1, OLD, **preferences))


def test_a_refresh_and_a_rolling_update_exclude_each_other(account: InProcessEmulator) -> None:
    made = refreshed(1, OLD)
    made["Resources"]["Fleet"]["UpdatePolicy"]["AutoScalingRollingUpdate"] = {"MaxBatchSize": 1}
    with pytest.raises(DeployFailed, match="exclude each other"):
        account.deploy(made)
