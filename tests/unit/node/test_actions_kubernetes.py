"""Cordoning a Kubernetes node, with a kubectl that keeps its nodes in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.actions.kubernetes import Kubernetes
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from fakes import kubectl
from watched_node import INSTANCE, WatchedNode


def node_object(name: str, instance: str, fleet: str = "trainers") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"fleet": fleet}},
        "spec": {"providerID": f"aws:///us-east-2a/{instance}"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def unhealthy(*, minutes_ago: float) -> dict[str, str]:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60 * minutes_ago))
    return {"type": "GpuHealthy", "status": "False", "reason": "Replace", "lastTransitionTime": moment}


class Cluster:
    """The cluster behind the program, and this node in it."""

    def __init__(self, folder: Path) -> None:
        self.watched = WatchedNode(folder)
        self.state = folder / "cluster.json"
        nodes = [
            node_object("mine", INSTANCE),
            node_object("other", "i-0aaa"),
            node_object("cpu", "i-0bbb", "cpus"),
        ]
        kubectl.install(self.watched.tools, self.state, nodes)

    def change(self, **values: Any) -> None:
        self.state.write_text(json.dumps({**self.read(), **values}))

    def read(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.state.read_text())
        return state

    def node(self, name: str) -> dict[str, Any]:
        [node] = [node for node in self.read()["nodes"] if node["metadata"]["name"] == name]
        found: dict[str, Any] = node
        return found

    def edit(self, name: str, **spec: Any) -> None:
        """Change the spec of a node; `conditions` and `metadata` go where they belong."""
        nodes = self.read()["nodes"]
        for node in nodes:
            if node["metadata"]["name"] == name:
                node["status"]["conditions"] += spec.pop("conditions", [])
                node["metadata"].update(spec.pop("metadata", {}))
                node["spec"].update(spec)
        self.change(nodes=nodes)

    def kubernetes(self, **settings: str) -> Kubernetes:
        return Kubernetes(self.watched.node(**settings))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(tmp_path)
    monkeypatch.setenv("PATH", str(cluster.watched.tools))
    return cluster


def test_node_gets_a_condition_a_taint_and_last_a_cordon(cluster: Cluster) -> None:
    kubernetes = cluster.kubernetes()
    assert kubernetes.why_out() == ""
    kubernetes.take_out(Severity.REBOOT, "Xid 95 on 0000:10:1c")
    mine = cluster.node("mine")
    assert mine["spec"]["unschedulable"] is True
    assert mine["spec"]["taints"] == [{"key": "gpu-cluster/unhealthy", "value": "reboot", "effect": "NoSchedule"}]
    condition = mine["status"]["conditions"][-1]
    assert {name: condition[name] for name in ("type", "status", "reason", "message")} == {
        "type": "GpuHealthy",
        "status": "False",
        "reason": "Reboot",
        "message": "Xid 95 on 0000:10:1c",
    }
    assert [line.split()[0] for line in cluster.read()["asked"]][-3:] == ["patch", "taint", "cordon"]
    assert kubernetes.why_out() == "node mine is cordoned"
    assert "unschedulable" not in cluster.node("other")["spec"]


def test_operators_own_cordon_is_left_alone(cluster: Cluster) -> None:
    cluster.edit("mine", unschedulable=True)
    assert cluster.kubernetes().why_out() == "node mine is cordoned"


def test_node_that_is_being_deleted_is_left_alone(cluster: Cluster) -> None:
    cluster.edit("mine", metadata={"deletionTimestamp": "2026-12-01T11:00:00Z"})
    assert cluster.kubernetes().why_out() == "node mine is being deleted"


def test_nodes_whose_condition_turned_bad_within_the_hour_count(cluster: Cluster) -> None:
    cluster.edit("mine", conditions=[unhealthy(minutes_ago=1)])
    cluster.edit("other", conditions=[unhealthy(minutes_ago=59)])
    cluster.edit("cpu", conditions=[unhealthy(minutes_ago=61)])
    assert cluster.kubernetes().taken_out(Severity.REPLACE) == {"other"}
    cluster.edit("cpu", conditions=[{**unhealthy(minutes_ago=1), "lastTransitionTime": "once"}])
    assert cluster.kubernetes().taken_out(Severity.REPLACE) == {"other"}


def test_condition_without_a_readable_time_counts(cluster: Cluster) -> None:
    cluster.edit("other", conditions=[{**unhealthy(minutes_ago=1), "lastTransitionTime": "once"}])
    assert cluster.kubernetes().taken_out(Severity.REPLACE) == {"other"}


def test_selector_says_which_nodes_are_the_fleet(cluster: Cluster) -> None:
    cluster.edit("other", conditions=[unhealthy(minutes_ago=1)])
    cluster.edit("cpu", conditions=[unhealthy(minutes_ago=1)])
    assert cluster.kubernetes().taken_out(Severity.REPLACE) == {"other", "cpu"}
    assert cluster.kubernetes(kubernetes_selector="fleet=trainers").taken_out(Severity.REPLACE) == {"other"}


def test_identity_that_may_set_no_taints_still_cordons(cluster: Cluster) -> None:
    refused = {"taint node": 'nodes "mine" is forbidden: node "mine" is not allowed to modify taints'}
    cluster.change(refused=refused)
    cluster.kubernetes().take_out(Severity.REPLACE, "Xid 79")
    assert cluster.node("mine")["spec"] == {
        "providerID": f"aws:///us-east-2a/{INSTANCE}",
        "unschedulable": True,
    }


@pytest.mark.parametrize("command", ["patch", "taint", "cordon"])
def test_other_refusals_leave_the_node_in_service_to_be_tried_again(cluster: Cluster, command: str) -> None:
    cluster.change(refused={command: "etcdserver: request timed out"})
    kubernetes = cluster.kubernetes()
    with pytest.raises(ActionError, match=f"kubectl {command}: .*request timed out"):
        kubernetes.take_out(Severity.REPLACE, "Xid 79")
    cluster.change(refused={})
    assert kubernetes.why_out() == ""
    kubernetes.take_out(Severity.REPLACE, "Xid 79")
    assert kubernetes.why_out() == "node mine is cordoned"
    assert len(cluster.node("mine")["spec"]["taints"]) == 1


OWN_ONLY = "nodes is forbidden: node 'mine' cannot read all nodes, only its own Node object"


def test_kubelet_that_reads_its_own_node_only_cordons_it(cluster: Cluster) -> None:
    cluster.change(refused={"get nodes": OWN_ONLY})
    kubernetes = cluster.kubernetes(log_group="/nodes")
    assert kubernetes.why_out() == ""
    assert kubernetes.taken_out(Severity.REPLACE) == set()
    kubernetes.take_out(Severity.REPLACE, "Xid 79")
    assert kubernetes.why_out() == "node mine is cordoned"
    assert "unschedulable" not in cluster.node("other")["spec"]


def test_kubelet_that_nobody_counts_takes_nothing_out(cluster: Cluster) -> None:
    cluster.change(refused={"get nodes": OWN_ONLY})
    with pytest.raises(ActionError, match="may read no other node, and no log group counts them"):
        cluster.kubernetes().taken_out(Severity.REPLACE)


def test_kubelet_of_another_node_changes_nothing(cluster: Cluster) -> None:
    nodes = cluster.read()["nodes"]
    cluster.change(refused={"get nodes": OWN_ONLY}, nodes=[nodes[1], nodes[0]])
    with pytest.raises(ActionError, match=f"none of 1 nodes is {INSTANCE}"):
        cluster.kubernetes(log_group="/nodes").take_out(Severity.REPLACE, "Xid 79")


@pytest.mark.parametrize("user", ["admin", ""])
def test_identity_that_is_no_kubelet_and_reads_no_nodes_is_an_error(cluster: Cluster, user: str) -> None:
    answer = json.dumps({"status": {"userInfo": {"username": user}}})
    cluster.watched.tool(
        "kubectl",
        f"#!/bin/sh\ncase $* in *whoami*) echo '{answer}';; *) echo \"{OWN_ONLY}\" >&2; exit 1;; esac\n",
    )
    with pytest.raises(ActionError, match="may read no nodes"):
        cluster.kubernetes().why_out()


def test_identity_that_lists_no_nodes_counts_nothing(cluster: Cluster) -> None:
    cluster.change(refused={"get nodes": "nodes is forbidden: User cannot list resource"})
    with pytest.raises(ActionError, match="cannot list resource"):
        cluster.kubernetes(log_group="/nodes").taken_out(Severity.REPLACE)


def test_node_that_is_not_in_the_list_is_an_error_and_no_other_node_is_touched(cluster: Cluster) -> None:
    with pytest.raises(ActionError, match=f"none of 1 nodes is {INSTANCE}"):
        cluster.kubernetes(kubernetes_selector="fleet=cpus").take_out(Severity.REPLACE, "Xid 79")
    assert [line.split()[0] for line in cluster.read()["asked"]] == ["get"]


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"items": [{}]}', '{"items": null}'])
def test_garbage_is_an_error(cluster: Cluster, answer: str) -> None:
    cluster.watched.tool("kubectl", f"#!/bin/sh\necho '{answer}'\n")
    with pytest.raises(ActionError):
        cluster.kubernetes().why_out()


def test_interruption_taints_and_cordons(cluster: Cluster) -> None:
    cluster.kubernetes().keep_new_work_away("spot-interruption 2026-12-01T11:00:00Z")
    spec = cluster.node("mine")["spec"]
    assert spec["unschedulable"] is True
    assert spec["taints"] == [{"key": "gpu-cluster/ending", "value": "spot-interruption", "effect": "NoSchedule"}]


def test_pods_of_a_node_that_ends_are_evicted_by_a_taint(cluster: Cluster) -> None:
    kubernetes = Kubernetes(cluster.watched.node())
    assert kubernetes.end_work() == "tainted mine: its pods are evicted"
    assert cluster.node("mine")["spec"]["taints"] == [
        {"key": "gpu-cluster/ending", "value": "now", "effect": "NoExecute"}
    ]
    assert "taints" not in cluster.node("other")["spec"]


def test_kubelet_deletes_the_pods_that_work_on_its_node_since_it_may_not_taint(cluster: Cluster) -> None:
    """Kubernetes documentation, "Using Node Authorization": pods bound to itself are all that it may delete."""

    def pod(name: str, node: str = "mine", owner: str = "Job", phase: str = "Running") -> dict[str, Any]:
        owners = [{"kind": owner}]
        metadata = {"name": name, "namespace": "research", "ownerReferences": owners}
        return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}

    others = [
        pod("elsewhere", node="other"),
        pod("plugin", owner="DaemonSet"),
        pod("mirror", owner="Node"),
        pod("done", phase="Succeeded"),
    ]
    refused = {"taint": 'nodes "mine" is forbidden: node "mine" is not allowed to modify taints'}
    cluster.change(refused=refused, pods=[pod("trainer-0"), *others, pod("trainer-1")])
    kubernetes = Kubernetes(cluster.watched.node())
    assert kubernetes.end_work() == "deleted 2 pods of mine"
    assert cluster.read()["pods"] == others
    asked = [line for line in cluster.read()["asked"] if line.startswith("delete")]
    assert len(asked) == 1, "one call for all of a namespace: a node with 56 slices has many"
    told = [line for line in cluster.read()["asked"] if line.startswith(("patch", "delete"))]
    assert told[0].startswith("patch pod trainer-0 trainer-1 --namespace=research --subresource=status")
    assert json.loads(told[0].partition("--patch=")[2])["status"]["conditions"][0]["type"] == "DisruptionTarget"
    assert kubernetes.end_work() == "", "nothing is waited for"


def test_a_pod_of_slurm_ends_with_its_node_even_if_it_is_idle(cluster: Cluster) -> None:
    refused = {"taint": 'nodes "mine" is forbidden: node "mine" is not allowed to modify taints'}
    cluster.change(refused=refused, pods=[slurm_pod("trainers-0", "Idle")])
    assert Kubernetes(cluster.watched.node()).end_work() == "deleted 1 pods of mine"


def gpu_pod(name: str, **values: Any) -> dict[str, Any]:
    limits = values.pop("limits", {"nvidia.com/gpu": "8"})
    return {
        "metadata": {"namespace": "ml", "name": name, **values.pop("metadata", {})},
        "spec": {"nodeName": "mine", "containers": [{"resources": {"limits": limits}}], **values.pop("spec", {})},
        "status": {"phase": "Running", **values},
    }


def test_node_under_repair_is_held_until_it_is_released(cluster: Cluster) -> None:
    kubernetes = cluster.kubernetes()
    assert not kubernetes.holds()
    kubernetes.hold(Severity.REBOOT, "Xid 95")
    assert kubernetes.holds()
    kubernetes.release()
    mine = cluster.node("mine")
    assert "unschedulable" not in mine["spec"]
    assert mine["spec"]["taints"] == []
    condition = mine["status"]["conditions"][-1]
    assert (condition["type"], condition["status"], condition["reason"]) == ("GpuHealthy", "True", "Repaired")
    assert not kubernetes.holds()
    assert kubernetes.why_out() == ""


def test_release_takes_back_what_ended_the_work(cluster: Cluster) -> None:
    kubernetes = cluster.kubernetes()
    kubernetes.hold(Severity.REBOOT, "Xid 95")
    kubernetes.end_work()
    assert {taint["effect"] for taint in cluster.node("mine")["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
    kubernetes.release()
    assert cluster.node("mine")["spec"]["taints"] == []


def test_cordon_of_an_operator_is_never_released(cluster: Cluster) -> None:
    cluster.edit("mine", unschedulable=True)
    kubernetes = cluster.kubernetes()
    assert not kubernetes.holds()
    kubernetes.release()
    assert cluster.node("mine")["spec"]["unschedulable"] is True


def test_release_that_failed_half_way_is_completed(cluster: Cluster) -> None:
    kubernetes = cluster.kubernetes()
    kubernetes.hold(Severity.RESET, "Xid 119")
    cluster.change(refused={"patch": "etcdserver: request timed out"})
    with pytest.raises(ActionError):
        kubernetes.release()
    cluster.change(refused={})
    kubernetes.release()
    assert cluster.node("mine")["status"]["conditions"][-1]["status"] == "True"


def slurm_pod(name: str, *states: str, kind: str = "NodeSet", group: str = "slinky.slurm.net") -> dict[str, Any]:
    """A pod of Slinky with the states of its node in Slurm (slurm-operator v1.2.1, pkg/conditions/conditions.go)."""
    owners = [{"apiVersion": f"{group}/v1beta1", "kind": kind}]
    conditions = [{"type": f"SlurmNodeState{state}", "status": "True"} for state in states]
    conditions += [{"type": "Ready", "status": "True"}, {"type": "SlurmNodeStateFail", "status": "False"}]
    return gpu_pod(name, metadata={"ownerReferences": owners}, conditions=conditions)


@pytest.mark.parametrize(
    "pod",
    [
        slurm_pod("all-of-it", "Allocated", "Drain"),
        slurm_pod("a-part", "Mixed"),
        slurm_pod("epilog", "Idle", "Completing"),
        slurm_pod("unknown"),
        slurm_pod("login", "Idle", kind="LoginSet"),
        slurm_pod("of-others", "Idle", group="example.com"),
        gpu_pod("trainer"),
        gpu_pod("slice", limits={"nvidia.com/mig-1g.10gb": "1"}),
        gpu_pod("neuron", limits={"aws.amazon.com/neuroncore": "2"}),
        gpu_pod("claims", limits={}, spec={"resourceClaims": [{"name": "gpus"}]}),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_pods_with_accelerators_are_waited_for(cluster: Cluster, pod: dict[str, Any]) -> None:
    cluster.change(pods=[pod])
    assert cluster.kubernetes().busy() == f"pods with accelerators: ml/{pod['metadata']['name']}"


@pytest.mark.parametrize(
    "pod",
    [
        gpu_pod("done", phase="Succeeded"),
        gpu_pod("processor", limits={"cpu": "4"}),
        gpu_pod("exporter", metadata={"ownerReferences": [{"kind": "DaemonSet"}]}),
        gpu_pod("elsewhere", spec={"nodeName": "other"}),
        slurm_pod("idle", "Idle", "Drain"),
        slurm_pod("down", "Down", "Drain"),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_other_pods_are_not_waited_for(cluster: Cluster, pod: dict[str, Any]) -> None:
    cluster.change(pods=[pod])
    assert cluster.kubernetes().busy() == ""
