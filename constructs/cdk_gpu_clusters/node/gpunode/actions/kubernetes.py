"""Kubernetes, through kubectl: a node condition, a taint, and the node cordoned.

The pods that run stay; who evicts them is the cluster's business. What an operator did stays: a node that is cordoned
already is left alone.

A kubelet's own identity is enough: it may change its own node, beside its taints, delete the pods on it, and says who
it is (Kubernetes documentation, "Using Node Authorization"). Since Kubernetes 1.32 it reads no other node: then the
places in the fleet's log group alone count the others. An identity of another group, by GPU_KUBECONFIG, needs `get`,
`list` and `patch` on nodes and `patch` on their status.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from ..checks.check import Severity
from ..command import run
from ..node import Node
from .orchestrator import HOUR_SECONDS, ActionError

CONDITION = "GpuHealthy"
TAINT = "gpu-cluster/unhealthy"
ENDING_TAINT = "gpu-cluster/ending"

_KUBELET = "system:node:"
# What the node authorizer says to a kubelet since Kubernetes 1.32.
_OWN_ONLY = "only its own Node object"
_KUBELET_CONFIG = "/var/lib/kubelet/kubeconfig"
_REQUEST_SECONDS = 10
_TIMEOUT_SECONDS = 15


class Kubernetes:
    """Cordons this node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._config = node.settings.text("kubeconfig", _KUBELET_CONFIG)
        self._selector = node.settings.text("kubernetes_selector")

    def why_out(self) -> str:
        """A cordon, or a node that is being deleted."""
        mine = self._mine()
        name = mine["metadata"]["name"]
        if mine["metadata"].get("deletionTimestamp"):
            return f"node {name} is being deleted"
        return f"node {name} is cordoned" if mine.get("spec", {}).get("unschedulable") else ""

    def taken_out(self) -> set[str]:
        """Nodes whose condition turned bad within the hour; none where only the places of the fleet count them."""
        nodes = self._nodes()
        if nodes is None:
            if self._node.settings.text("log_group"):
                return set()
            raise ActionError("this identity may read no other node, and no log group counts them")
        name = self._mine_of(nodes)["metadata"]["name"]
        return {node["metadata"]["name"] for node in nodes if _turned_bad(node)} - {name}

    def take_out(self, severity: Severity, reason: str) -> None:
        """Say why, then keep pods away; the cordon comes last, since it is what `why_out` goes by."""
        name = self._mine()["metadata"]["name"]
        word = severity.name.lower()
        condition = {
            "type": CONDITION,
            "status": "False",
            "reason": word.capitalize(),
            "message": reason,
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        patch = json.dumps({"status": {"conditions": [condition]}})
        self._kubectl("patch", "node", name, "--subresource=status", "--type=strategic", f"--patch={patch}")
        self._taint(name, f"{TAINT}={word}:NoSchedule")
        self._kubectl("cordon", name)

    def keep_new_work_away(self, reason: str) -> None:
        """Taint and cordon the node."""
        name = self._mine()["metadata"]["name"]
        self._taint(name, f"{ENDING_TAINT}={reason.split(maxsplit=1)[0]}:NoSchedule")
        self._kubectl("cordon", name)

    def end_work(self) -> str:
        """Have the pods end: evicted by a taint `NoExecute`, or deleted by a kubelet, which may not taint.

        Either way they get SIGTERM and their grace period, and no budget holds them.
        """
        name = self._mine()["metadata"]["name"]
        if self._taint(name, f"{ENDING_TAINT}=now:NoExecute"):
            return f"tainted {name}: its pods are evicted"
        working = self._working_pods(name)
        for namespace, pods in working.items():
            self._kubectl(
                "delete", "pod", *pods, f"--namespace={namespace}", "--wait=false", "--ignore-not-found"
            )
        count = sum(map(len, working.values()))
        return f"deleted {count} pods of {name}" if count else ""

    def _taint(self, name: str, taint: str) -> bool:
        """Set a taint, where the identity may; the cordon keeps pods away without it. Says whether it did."""
        try:
            self._kubectl("taint", "node", name, taint, "--overwrite")
        except ActionError as fault:
            if "modify taints" not in str(fault):
                raise
            return False
        return True

    def _working_pods(self, name: str) -> dict[str, list[str]]:
        """Names of the node's pods that work and do not belong to the node itself, by namespace."""
        selector = f"--field-selector=spec.nodeName={name}"
        text = self._kubectl("get", "pods", "--all-namespaces", selector, "--output=json")
        with _answer(text):
            working: dict[str, list[str]] = {}
            for pod in filter(_works, json.loads(text)["items"]):
                working.setdefault(pod["metadata"]["namespace"], []).append(pod["metadata"]["name"])
            return working

    def _nodes(self) -> list[dict[str, Any]] | None:
        """All nodes; None for an identity that may read its own one only."""
        options = (f"--selector={self._selector}",) if self._selector else ()
        try:
            text = self._kubectl("get", "nodes", "--output=json", *options)
        except ActionError as fault:
            if _OWN_ONLY in str(fault):
                return None
            raise
        with _answer(text):
            return [item for item in json.loads(text)["items"] if item["metadata"]["name"]]

    def _mine(self) -> dict[str, Any]:
        """This node, by the instance that the cloud provider knows it for; never another one."""
        nodes = self._nodes()
        return self._mine_of([self._of_kubelet()] if nodes is None else nodes)

    def _mine_of(self, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        for node in nodes:
            if str(node.get("spec", {}).get("providerID")).endswith(f"/{self._node.instance_id}"):
                return node
        raise ActionError(f"none of {len(nodes)} nodes is {self._node.instance_id}")

    def _of_kubelet(self) -> dict[str, Any]:
        """The node whose kubelet this identity is."""
        text = self._kubectl("auth", "whoami", "--output=json")
        with _answer(text):
            user = str(json.loads(text)["status"]["userInfo"]["username"])
        if not user.startswith(_KUBELET):
            raise ActionError(f"{user} may read no nodes")
        text = self._kubectl("get", "node", user[len(_KUBELET) :], "--output=json")
        with _answer(text):
            return dict(json.loads(text))

    def _kubectl(self, *arguments: str) -> str:
        outcome = run(
            "kubectl",
            f"--kubeconfig={self._config}",
            f"--request-timeout={_REQUEST_SECONDS}s",
            *arguments,
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        if not outcome.ok:
            raise ActionError(f"kubectl {arguments[0]}: {outcome.words}")
        return outcome.output


@contextmanager
def _answer(text: str) -> Iterator[None]:
    """Reads what kubectl said; anything else than expected is a fault with these words."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as fault:
        raise ActionError(f"kubectl says something else: {text[:200]}") from fault


def _works(pod: Mapping[str, Any]) -> bool:
    """Whether it is a pod whose work ends with the node; those of daemon sets and of kubelet's own files come back."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not (ended or owners & {"DaemonSet", "Node"} or pod["metadata"].get("deletionTimestamp"))


def _turned_bad(node: Mapping[str, Any]) -> bool:
    for condition in node.get("status", {}).get("conditions") or []:
        if condition.get("type") == CONDITION and condition.get("status") == "False":
            return _is_recent(str(condition.get("lastTransitionTime")))
    return False


def _is_recent(moment: str) -> bool:
    try:
        start = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return True
    return time.time() - start.timestamp() < HOUR_SECONDS
