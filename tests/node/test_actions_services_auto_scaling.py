"""From a message of the real kernel log to the Auto Scaling API of an emulated account, through the real AWS CLI."""

from __future__ import annotations

import pytest

from services.account import Account, Group
from services.watched import WatchedNodes, expect_evidence


@pytest.fixture
def group(account: Account) -> Group:
    return account.make_group(2)


def settings(group: Group, **more: str) -> dict[str, str]:
    return {"GPU_ORCHESTRATOR": "ec2", "GPU_LOG_GROUP": group.log_group, **more}


@pytest.mark.alone
def test_xid_makes_the_node_unhealthy_with_its_evidence(
    account: Account, group: Group, watched_nodes: WatchedNodes
) -> None:
    group.keep_unhealthy()
    ill, well = group.instances
    node = watched_nodes.begin(ill, settings(group))
    failed = node.fail()
    node.within_deadline(failed, lambda: group.health() == {ill: "Unhealthy", well: "Healthy"})
    [(outcome, reason)] = node.acted()
    assert outcome == "ok"
    assert "Xid 79 (" in reason
    assert node.gpu in reason
    expect_evidence(account, node)
    logged = node.eventually(lambda: group.logged(ill))
    assert [one["reason"] for one in logged if one["stage"] == "action"] == [reason]


def test_node_is_marked_once_whatever_the_kernel_says_next(
    account: Account, group: Group, watched_nodes: WatchedNodes
) -> None:
    """The same fault again, another one, one while a crashed watchdog is away; then the node is left as it is."""
    group.keep_unhealthy()
    node = watched_nodes.begin(group.instances[0], settings(group))
    node.fail()
    node.acted()
    node.fail()
    node.eventually(lambda: node.outcomes() == ["ok", "skipped"])
    node.kill()
    node.fail(48)
    node.start()
    node.eventually(lambda: node.outcomes() == ["ok", "skipped", "skipped"])
    node.fail(31)
    node.sees("Xid 31")
    assert len(node.asked("set-instance-health")) == 1
    assert len(account.bundles(node.instance_id)) == 1


def test_group_replaces_the_node_once(group: Group, watched_nodes: WatchedNodes) -> None:
    ill, well = group.instances
    node = watched_nodes.begin(ill, settings(group))
    node.fail()
    node.acted()
    assert ill not in group.health()
    assert group.activities().count(f"Terminating EC2 instance: {ill}") == 1
    assert well in group.health()
    assert list(group.health().values()) == ["Healthy"] * 2


def test_of_two_nodes_that_fail_at_once_one_is_held_back_by_the_limit_of_the_fleet(
    account: Account, group: Group, watched_nodes: WatchedNodes
) -> None:
    nodes = [
        watched_nodes.begin(instance, settings(group, GPU_WATCH_ACTIONS_PER_HOUR="1")) for instance in group.instances
    ]
    for node in nodes:
        node.fail()
    for node in nodes:
        node.acted()
    gone, held = sorted(nodes, key=lambda node: node.instance_id in group.health())
    assert gone.outcomes() == ["ok"]
    [(outcome, reason)] = held.actions()
    assert outcome == "held"
    assert reason.startswith("the fleet may lose 1 nodes an hour, ")
    assert group.health()[held.instance_id] == "Healthy"
    assert account.bundles(held.instance_id), "what it has seen is kept all the same"


def test_node_that_only_says_what_it_would_do(account: Account, group: Group, watched_nodes: WatchedNodes) -> None:
    node = watched_nodes.begin(group.instances[0], settings(group, GPU_WATCH="dry-run"))
    node.fail()
    [(outcome, reason)] = node.acted()
    assert outcome == "dry-run"
    assert node.gpu in reason
    assert node.asked("set-instance-health") == []
    assert set(group.health().values()) == {"Healthy"}
