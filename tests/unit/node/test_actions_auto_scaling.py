"""Marking a node as unhealthy in its Auto Scaling group."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.actions.auto_scaling import AutoScaling
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from watched_node import INSTANCE, Account, WatchedNode


@pytest.fixture
def watched(tmp_path: Path) -> WatchedNode:
    return WatchedNode(tmp_path)


@pytest.fixture
def account(watched: WatchedNode) -> Account:
    return watched.account


@pytest.fixture
def group(watched: WatchedNode) -> AutoScaling:
    return AutoScaling(watched.node())


def terminated(instance: str, *, minutes_ago: float, cause: str) -> dict[str, str]:
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 60 * minutes_ago))
    return {
        "Description": f"Terminating EC2 instance: {instance}",
        "Cause": f"At {start}Z an instance was taken out of service in response to {cause}.",
        "StartTime": f"{start}.859000+00:00",
    }


def test_node_in_service_is_marked_whatever_the_grace_period(account: Account, group: AutoScaling) -> None:
    assert group.why_out() == ""
    group.take_out(Severity.REPLACE, "Xid 79")
    assert account.members[INSTANCE] == ["InService", "Unhealthy"]
    assert group.why_out() == "trainers-asg has this node Unhealthy"


@pytest.mark.parametrize(
    "state",
    [
        "Standby",
        "EnteringStandby",
        "Detaching",
        "Detached",
        "Terminating:Wait",
        "Terminating:Proceed",
        "Terminated",
    ],
)
def test_node_that_an_operator_or_the_group_took_out_is_left_alone(
    account: Account, group: AutoScaling, state: str
) -> None:
    account.members[INSTANCE][0] = state
    assert group.why_out() == f"trainers-asg has this node {state}"


@pytest.mark.parametrize("state", ["Pending", "Pending:Wait", "Pending:Proceed", "Warmed:Running"])
def test_node_on_its_way_into_service_is_looked_at_again(account: Account, group: AutoScaling, state: str) -> None:
    account.members[INSTANCE][0] = state
    with pytest.raises(ActionError, match="not in service yet"):
        group.why_out()


def test_node_in_no_group_says_so_more_than_once_before_it_is_believed(account: Account, group: AutoScaling) -> None:
    del account.members[INSTANCE]
    for _ in range(2):
        with pytest.raises(ActionError, match="so far"):
            group.why_out()
    assert group.why_out() == "in no Auto Scaling group"


def test_members_that_are_unhealthy_now_count_and_the_node_itself_does_not(
    account: Account, group: AutoScaling
) -> None:
    account.members.update({"i-0bbb": ["Terminating", "Unhealthy"], "i-0ccc": ["InService", "Healthy"]})
    account.members[INSTANCE][1] = "Unhealthy"
    group.why_out()
    assert group.taken_out(Severity.REPLACE) == {"i-0bbb"}


def test_members_that_were_replaced_for_a_health_check_within_the_hour_count(
    account: Account, group: AutoScaling
) -> None:
    account.activities = [
        terminated("i-0001", minutes_ago=5, cause="a user health-check"),
        terminated("i-0002", minutes_ago=59, cause="an EC2 health check indicating it has been terminated or stopped"),
        terminated("i-0003", minutes_ago=61, cause="a user health-check"),
        terminated("i-0004", minutes_ago=5, cause="a difference between desired and actual capacity"),
        {**terminated("i-0005", minutes_ago=5, cause="a user health-check"), "StartTime": "some time ago"},
        {
            **terminated("i-0007", minutes_ago=5, cause="a user health-check"),
            "StartTime": "2021-04-01T21:48:35.859Z",
        },
        {"Description": "Launching a new EC2 instance: i-0006", "Cause": "At ... in response to a launch"},
    ]
    group.why_out()
    assert group.taken_out(Severity.REPLACE) == {"i-0001", "i-0002", "i-0005"}


def test_one_instance_counts_once(account: Account, group: AutoScaling) -> None:
    account.members["i-0001"] = ["Terminating", "Unhealthy"]
    account.activities = [terminated("i-0001", minutes_ago=1, cause="a user health-check")]
    group.why_out()
    assert group.taken_out(Severity.REPLACE) == {"i-0001"}


def test_answer_without_this_node_counts_nothing(account: Account, group: AutoScaling) -> None:
    group.why_out()
    del account.members[INSTANCE]
    with pytest.raises(ActionError, match="does not list this node"):
        group.taken_out(Severity.REPLACE)


@pytest.mark.parametrize(
    ("operation", "step"),
    [
        ("describe-auto-scaling-instances", "why_out"),
        ("describe-auto-scaling-groups", "taken_out"),
        ("describe-scaling-activities", "taken_out"),
        ("set-instance-health", "take_out"),
    ],
)
def test_refused_call_is_an_error_that_names_it(
    account: Account, group: AutoScaling, operation: str, step: str
) -> None:
    group.why_out()
    account.denied[operation] = 1
    given = {"take_out": (Severity.REBOOT, "why"), "taken_out": (Severity.REBOOT,)}
    with pytest.raises(ActionError, match=f"^{operation}: .*AccessDenied"):
        getattr(group, step)(*given.get(step, ()))
