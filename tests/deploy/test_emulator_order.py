"""The order in which stacks are made and deleted, with nodes that need their permissions at the time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from plain_fleet import BY_NAME, BY_REFERENCE, HOOKS, LOG_GROUP, fleet, node_permissions

Json = dict[str, Any]

#: The policy refers to the group, so it comes after the group and goes before it.
WRONG = fleet(permissions=node_permissions(BY_REFERENCE))
#: Neither depends on the other: CloudFormation takes any order.
UNORDERED = fleet(permissions=node_permissions(BY_NAME))
#: The policy is there before the group, and stays until the group is gone.
RIGHT = fleet(permissions=node_permissions(BY_NAME), before=("Permissions", "Logs"))


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": "2026-11-21T08:00Z", "nodes": {"log_group": LOG_GROUP}}) as made:
        yield made


def states(account: InProcessEmulator) -> list[str]:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return [one["LifecycleState"] for one in group["Instances"]]


@pytest.mark.parametrize("template", [WRONG, UNORDERED])
def test_a_stack_that_waits_for_nodes_fails_without_their_permissions(
    account: InProcessEmulator, template: Json
) -> None:
    account.seed({"waits_for_in_service": True})
    message = "Group did not stabilize. {current/minimum/target} group size = {0/1/1}"
    with pytest.raises(DeployFailed) as failure:
        account.deploy(copy.deepcopy(template))
    assert message in str(failure.value)
    assert failure.value.status == "ROLLBACK_COMPLETE"
    assert account.now >= "2026-11-21T14:00", "node after node ran out of its 30 minutes, for six hours"
    assert {one["action"] for one in account.history()["denied"]} == {
        "autoscaling:CompleteLifecycleAction",
        "logs:PutLogEvents",
    }


@pytest.mark.parametrize("waits", [False, True])
def test_permissions_before_the_group_are_right_either_way(account: InProcessEmulator, waits: bool) -> None:
    account.seed({"waits_for_in_service": waits})
    account.deploy(copy.deepcopy(RIGHT))
    assert states(account) == (["InService"] if waits else ["Pending:Wait"])
    account.move_clock("2026-11-21T08:06Z")
    assert states(account) == ["InService"]
    account.destroy()
    history = account.history()
    assert (history["denied"], history["lost"]) == ([], [])
    assert [one["state"] for one in history["logged"]] == ["Pending:Wait", "Terminating:Wait"]
    assert account.now < "2026-11-21T08:08", "the node drained at once"


@pytest.mark.parametrize("template", [WRONG, UNORDERED])
def test_permissions_that_go_before_the_nodes_lose_the_drain(account: InProcessEmulator, template: Json) -> None:
    account.deploy(copy.deepcopy(template))
    account.move_clock("2026-11-21T08:06Z")
    assert states(account) == ["InService"]
    account.destroy()
    history = account.history()
    assert [one["action"] for one in history["denied"]] == ["logs:PutLogEvents", "autoscaling:CompleteLifecycleAction"]
    assert len(history["lost"]) == len(HOOKS)
    assert account.now > "2026-11-21T08:36", "the node idled until its hook ran out of time"


def test_a_log_group_that_goes_first_loses_the_last_event(account: InProcessEmulator) -> None:
    made = copy.deepcopy(RIGHT)
    del made["Resources"]["Logs"]["DeletionPolicy"]
    made["Resources"]["Fleet"]["DependsOn"] = ["Permissions"]
    account.deploy(made)
    account.move_clock("2026-11-21T08:06Z")
    account.destroy()
    assert [one["error"] for one in account.history()["lost"]] == [
        "ResourceNotFoundException: The specified log group does not exist."
    ]
