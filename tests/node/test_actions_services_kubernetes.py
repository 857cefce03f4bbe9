"""From a message of the real kernel log through the real kubectl to a Kubernetes API: the node is cordoned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters import node_health_rights
from services.account import Account
from services.kernel import unused_instance_id
from services.kubernetes import ADMIN, Kubernetes
from services.watched import WatchedNode, WatchedNodes, expect_evidence

MINE, OTHER = "ip-10-0-0-1.ec2.internal", "ip-10-0-0-2.ec2.internal"
KUBELET = f"system:node:{MINE}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Kubernetes]:
    (tmp_path / "kubernetes").mkdir()
    with Kubernetes(tmp_path / "kubernetes") as cluster:
        for name in (MINE, OTHER):
            cluster.add_node(name, unused_instance_id())
        yield cluster


class Watching:
    """Begins to watch nodes of the cluster."""

    def __init__(self, nodes: WatchedNodes, cluster: Kubernetes, kubectl: Path) -> None:
        self._nodes, self._cluster, self._kubectl = nodes, cluster, kubectl

    def begin(self, user: str = ADMIN, name: str = MINE, **settings: str) -> WatchedNode:
        instance_id = self._cluster.nodes[name]["spec"]["providerID"].rpartition("/")[2]
        given = {"GPU_ORCHESTRATOR": "eks", "GPU_KUBECONFIG": str(self._cluster.kubeconfig(user)), **settings}
        return self._nodes.begin(instance_id, given, programs=[self._kubectl])


@pytest.fixture
def watching(watched_nodes: WatchedNodes, cluster: Kubernetes, kubectl: Path) -> Watching:
    return Watching(watched_nodes, cluster, kubectl)


@pytest.mark.alone
def test_xid_cordons_the_node_and_says_why_with_its_evidence(
    account: Account, cluster: Kubernetes, watching: Watching
) -> None:
    node = watching.begin()
    failed = node.fail()
    node.within_deadline(failed, lambda: cluster.is_cordoned(MINE))
    assert cluster.taints(MINE) == [{"key": "gpu-cluster/unhealthy", "value": "replace", "effect": "NoSchedule"}]
    condition = cluster.condition(MINE, "GpuHealthy")
    assert (condition["status"], condition["reason"]) == ("False", "Replace")
    assert node.gpu in condition["message"]
    assert cluster.condition(MINE, "Ready")["status"] == "True"
    assert not cluster.is_cordoned(OTHER)
    assert {request.path.removesuffix("/status") for request in cluster.changes()} == {f"/api/v1/nodes/{MINE}"}
    expect_evidence(account, node)


def test_node_is_cordoned_once_whatever_the_kernel_says_next(
    account: Account, cluster: Kubernetes, watching: Watching
) -> None:
    """The same fault again, and another one while a crashed watchdog is away."""
    node = watching.begin()
    node.fail()
    node.acted()
    changes = cluster.changes()
    node.fail()
    node.eventually(lambda: node.outcomes() == ["ok", "skipped"])
    node.kill()
    node.fail(48)
    node.start()
    node.eventually(lambda: node.outcomes() == ["ok", "skipped", "skipped"])
    assert cluster.changes() == changes
    assert len(account.bundles(node.instance_id)) == 1


def test_cordon_of_an_operator_is_left_alone(account: Account, cluster: Kubernetes, watching: Watching) -> None:
    cluster.nodes[MINE]["spec"]["unschedulable"] = True
    node = watching.begin()
    node.fail()
    [(outcome, reason)] = node.acted()
    assert outcome == "skipped"
    assert f"node {MINE} is cordoned" in reason
    assert cluster.changes() == []
    assert account.bundles(node.instance_id) == []


@pytest.mark.alone
def test_kubelets_identity_that_may_read_all_nodes_cordons_its_own_without_a_taint(
    account: Account, cluster: Kubernetes, watching: Watching
) -> None:
    cluster.grant(node_health_rights(), KUBELET)
    node = watching.begin(KUBELET)
    failed = node.fail()
    node.within_deadline(failed, lambda: cluster.is_cordoned(MINE))
    assert cluster.condition(MINE, "GpuHealthy")["status"] == "False"
    assert cluster.taints(MINE) == []
    expect_evidence(account, node)


@pytest.mark.alone
def test_kubelets_own_identity_is_enough_to_cordon_its_node(
    account: Account, cluster: Kubernetes, watching: Watching
) -> None:
    """Since Kubernetes 1.32 it reads no other node: the log group of the nodes counts how many are gone."""
    node = watching.begin(KUBELET, GPU_LOG_GROUP=account.log_group("eks"))
    failed = node.fail()
    node.within_deadline(failed, lambda: cluster.is_cordoned(MINE))
    assert cluster.condition(MINE, "GpuHealthy")["status"] == "False"
    assert cluster.taints(MINE) == []
    assert not cluster.is_cordoned(OTHER)
    expect_evidence(account, node)


def test_kubelets_that_see_no_other_node_are_held_back_by_the_places_of_the_log_group(
    account: Account, cluster: Kubernetes, watching: Watching
) -> None:
    settings = {"GPU_LOG_GROUP": account.log_group("eks-limit"), "GPU_WATCH_ACTIONS_PER_HOUR": "1"}
    first = watching.begin(KUBELET, **settings)
    first.fail()
    assert [outcome for outcome, _ in first.acted()] == ["ok"]
    second = watching.begin(f"system:node:{OTHER}", OTHER, **settings)
    second.fail()
    [(outcome, reason)] = second.acted()
    assert outcome == "held"
    assert "as many were begun" in reason
    assert not cluster.is_cordoned(OTHER)


def test_kubelets_identity_without_rights_or_a_log_group_says_so_and_cordons_nothing(
    cluster: Kubernetes, watching: Watching
) -> None:
    """Without either nobody knows how many are gone."""
    node = watching.begin(KUBELET)
    node.fail()
    [(outcome, reason)] = node.acted()
    assert outcome == "held"
    assert "this identity may read no other node, and no log group counts them" in reason
    assert cluster.changes() == []


def test_second_node_is_held_back_by_the_limit(cluster: Kubernetes, watching: Watching) -> None:
    first = watching.begin()
    first.fail()
    first.acted()
    second = watching.begin(name=OTHER, GPU_WATCH_ACTIONS_PER_HOUR="1")
    second.fail()
    [(outcome, reason)] = second.acted()
    assert outcome == "held"
    assert f"the fleet may lose 1 nodes an hour, gone are: {MINE}" in reason
    assert not cluster.is_cordoned(OTHER)
