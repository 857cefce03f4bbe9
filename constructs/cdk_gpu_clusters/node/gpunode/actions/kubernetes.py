"""Kubernetes: a node condition, a taint, and the node cordoned.

Running pods stay; the cluster decides on their eviction. Changes by an operator are respected: a node that is already
cordoned is left alone.

A kubelet's own identity is enough: it may change its own node except its taints, change the status of the pods on it,
delete them, and get its own name (Kubernetes documentation, "Using Node Authorization"). Since Kubernetes 1.32 it reads
no other node. Then only the slots in the fleet's log group count the others. An identity of another group, by
GPU_KUBECONFIG, needs `get`, `list` and `patch` on nodes and `patch` on their status.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import Any

from ..checks.check import Severity
from ..node import Node
from .kubernetes_api import Cluster, Kubectl, KubeletApi
from .orchestrator import HOUR_SECONDS, REPAIRS, ActionError

CONDITION = "GpuHealthy"
TAINT = "gpu-cluster/unhealthy"
ENDING_TAINT = "gpu-cluster/ending"

_KUBELET = "system:node:"
# The node authorizer's error for a kubelet since Kubernetes 1.32.
_OWN_ONLY = "only its own Node object"
_KUBELET_CONFIG = "/var/lib/kubelet/kubeconfig"
_MOST_PODS = 5
# Pods of Slinky, and what their operator says of their node in Slurm.
_SLINKY = "slinky.slurm.net/"
_NO_JOBS = {"SlurmNodeStateIdle", "SlurmNodeStateDown"}
_JOBS = {"SlurmNodeStateAllocated", "SlurmNodeStateMixed", "SlurmNodeStateCompleting"}


class Kubernetes:
    """Cordons this node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        config = node.settings.text("kubeconfig", _KUBELET_CONFIG)
        self._cluster: Cluster = Kubectl(config) if shutil.which("kubectl") else KubeletApi(config)
        self._selector = node.settings.text("kubernetes_selector")
        self.size: int = 0
        self.knows_jobs: bool = True

    def why_out(self) -> str:
        """A cordon, or a node that is being deleted."""
        mine = self._mine()
        name = mine["metadata"]["name"]
        if mine["metadata"].get("deletionTimestamp"):
            return f"node {name} is being deleted"
        return f"node {name} is cordoned" if mine.get("spec", {}).get("unschedulable") else ""

    def taken_out(self, severity: Severity) -> set[str]:
        """Nodes whose condition became bad within the hour; none if only the slots of the fleet count them."""
        nodes = self._nodes()
        if nodes is None:
            if self._node.settings.text("log_group"):
                return set()
            raise ActionError("this identity may read no other node, and no log group counts them")
        name = self._mine_of(nodes)["metadata"]["name"]
        self.size = len(nodes)
        bad = (node for node in nodes if _repair_of(node) >= severity and _is_recent(_condition(node)))
        return {node["metadata"]["name"] for node in bad} - {name}

    def take_out(self, severity: Severity, reason: str) -> None:
        """Take the node out of service permanently, in the same way as until `release`."""
        self.hold(severity, reason)

    def hold(self, severity: Severity, reason: str) -> None:
        """Set the condition, then keep pods away. The cordon comes last, since `why_out` reads it."""
        name = self._mine()["metadata"]["name"]
        word = severity.name.lower()
        condition = {
            "type": CONDITION,
            "status": "False",
            "reason": word.capitalize(),
            "message": reason,
            "lastTransitionTime": _now(),
        }
        self._cluster.change_condition(name, condition)
        self._taint(name, f"{TAINT}={word}:NoSchedule")
        self._cluster.cordon(name)

    def holds(self) -> bool:
        """Whether it is cordoned, and its condition is that of this software."""
        mine = self._mine()
        return bool(mine.get("spec", {}).get("unschedulable")) and _repair_of(mine) is not Severity.OK

    def busy(self) -> str:
        """Pods on this node that have GPUs or Neuron devices. Those of daemon sets belong to the node.

        So does a pod of Slinky, which holds all devices while Slurm has no job there.
        """
        name = self._mine()["metadata"]["name"]
        text = self._cluster.pods(name)
        with _answer(text):
            pods = [
                f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                for pod in json.loads(text)["items"]
                if _works(pod) and _has_accelerators(pod) and not _is_idle_in_slurm(pod)
            ]
        return f"pods with accelerators: {', '.join(sorted(pods)[:_MOST_PODS])}" if pods else ""

    def release(self) -> None:
        """Uncordon it, if its condition is that of this software. The condition comes last: it shows what is left."""
        mine = self._mine()
        name = mine["metadata"]["name"]
        if _repair_of(mine) is Severity.OK:
            return
        keys = {taint.get("key") for taint in mine.get("spec", {}).get("taints") or []}
        # The second is of a repair that ended the work of the node.
        for key in (TAINT, ENDING_TAINT):
            if key in keys:
                self._taint(name, f"{key}-")
        if mine.get("spec", {}).get("unschedulable"):
            self._cluster.uncordon(name)
        condition = {
            "type": CONDITION,
            "status": "True",
            "reason": "Repaired",
            "message": "the boot checks found no fault",
            "lastTransitionTime": _now(),
        }
        self._cluster.change_condition(name, condition)

    def reboot(self) -> bool:
        """Nothing: the node reboots itself."""
        return False

    def keep_new_work_away(self, reason: str) -> None:
        """Taint and cordon the node."""
        name = self._mine()["metadata"]["name"]
        self._taint(name, f"{ENDING_TAINT}={reason.split(maxsplit=1)[0]}:NoSchedule")
        self._cluster.cordon(name)

    def end_work(self) -> str:
        """End the pods: evict them by a taint `NoExecute`, or delete them if the identity may not taint.

        Either way they get SIGTERM and their grace period, and no disruption budget protects them.
        """
        name = self._mine()["metadata"]["name"]
        if self._taint(name, f"{ENDING_TAINT}=now:NoExecute"):
            return f"tainted {name}: its pods are evicted"
        working = self._working_pods(name)
        for namespace, pods in working.items():
            self._mark_disrupted(namespace, pods)
            self._cluster.delete(namespace, pods)
        count = sum(map(len, working.values()))
        return f"deleted {count} pods of {name}" if count else ""

    def _mark_disrupted(self, namespace: str, pods: Sequence[str]) -> None:
        """Say that the pods end with their node, as the eviction by a taint does, so that their jobs count no failure.

        A deletion alone does not (Kubernetes documentation, "Disruptions", pod disruption conditions). The pods still
        end if this fails.
        """
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "NodeEnds",
            "message": "the node is about to end",
            "lastTransitionTime": _now(),
        }
        with suppress(ActionError):
            self._cluster.mark(namespace, pods, condition)

    def _taint(self, name: str, taint: str) -> bool:
        """Set a taint if the identity may, and return whether it did. The cordon keeps pods away without it."""
        try:
            self._cluster.taint(name, taint)
        except ActionError as fault:
            if "modify taints" not in str(fault):
                raise
            return False
        return True

    def _working_pods(self, name: str) -> dict[str, list[str]]:
        """Names of the node's running pods that do not belong to the node itself, by namespace."""
        text = self._cluster.pods(name)
        with _answer(text):
            working: dict[str, list[str]] = {}
            for pod in filter(_works, json.loads(text)["items"]):
                working.setdefault(pod["metadata"]["namespace"], []).append(pod["metadata"]["name"])
            return working

    def _nodes(self) -> list[dict[str, Any]] | None:
        """All nodes; None if the identity may read only its own."""
        try:
            text = self._cluster.nodes(self._selector)
        except ActionError as fault:
            if _OWN_ONLY in str(fault):
                return None
            raise
        with _answer(text):
            return [item for item in json.loads(text)["items"] if item["metadata"]["name"]]

    def _mine(self) -> dict[str, Any]:
        """This node, by the instance id of the cloud provider."""
        nodes = self._nodes()
        return self._mine_of([self._of_kubelet()] if nodes is None else nodes)

    def _mine_of(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        for node in nodes:
            if str(node.get("spec", {}).get("providerID")).endswith(f"/{self._node.instance_id}"):
                return node
        raise ActionError(f"none of {len(nodes)} nodes is {self._node.instance_id}")

    def _of_kubelet(self) -> dict[str, Any]:
        """The node of the kubelet whose identity this is."""
        text = self._cluster.identity()
        with _answer(text):
            user = str(json.loads(text)["status"]["userInfo"]["username"])
        if not user.startswith(_KUBELET):
            raise ActionError(f"{user} may read no nodes")
        text = self._cluster.node(user[len(_KUBELET) :])
        with _answer(text):
            return dict(json.loads(text))


@contextmanager
def _answer(text: str) -> Iterator[None]:
    """Read an answer; unexpected text is an error with that text."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ActionError(f"unexpected answer of Kubernetes: {text[:200]}") from fault


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _works(pod: Mapping[str, Any]) -> bool:
    """Whether a pod's work ends with the node. Pods of daemon sets and static pods come back."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not (ended or owners & {"DaemonSet", "Node"} or pod["metadata"].get("deletionTimestamp"))


def _is_idle_in_slurm(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is a node of Slurm on which no job runs, as Slinky's operator writes it into its conditions.

    Source: SlinkyProject/slurm-operator @ 87313da (v1.2.1), pkg/conditions/conditions.go. Its label `pod-protect`
    follows from the same conditions, but is never set where `workloadDisruptionProtection` is false.
    """
    owners = pod["metadata"].get("ownerReferences", [])
    if not any(one["kind"] == "NodeSet" and str(one.get("apiVersion")).startswith(_SLINKY) for one in owners):
        return False
    conditions = pod.get("status", {}).get("conditions") or []
    states = {one["type"] for one in conditions if one.get("status") == "True"}
    return bool(states & _NO_JOBS) and not states & _JOBS


def _has_accelerators(pod: Mapping[str, Any]) -> bool:
    """Whether a pod asks for devices of NVIDIA's or AWS's device plugins, or claims devices otherwise."""
    spec = pod.get("spec", {})
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    limits = (container.get("resources", {}).get("limits") or {} for container in containers)
    wanted = {name.partition("/")[0] for limit in limits for name in limit}
    return bool(wanted & {"nvidia.com", "aws.amazon.com"} or spec.get("resourceClaims"))


def _condition(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition of this software, if it is bad; otherwise empty."""
    for condition in node.get("status", {}).get("conditions") or []:
        if condition.get("type") == CONDITION and condition.get("status") == "False":
            return dict(condition)
    return {}


def _repair_of(node: Mapping[str, Any]) -> Severity:
    """The repair that a node's condition names; OK without one."""
    return REPAIRS.get(str(_condition(node).get("reason")).lower(), Severity.OK)


def _is_recent(condition: Mapping[str, Any]) -> bool:
    try:
        start = datetime.strptime(str(condition.get("lastTransitionTime")), "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=timezone.utc
        )
    except ValueError:
        return True
    return time.time() - start.timestamp() < HOUR_SECONDS
