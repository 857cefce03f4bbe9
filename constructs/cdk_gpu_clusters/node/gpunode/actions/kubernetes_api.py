"""The Kubernetes API as a node reaches it: through kubectl, or with kubelet's own configuration.

The images of EKS have no kubectl. On them nodeadm writes a configuration for kubelet that names the address of the API
server, its certificate and the call of the AWS CLI that gives a token; nothing else is needed.

Sources: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/kubeconfig.template.yaml, and issue 1557 (no
kubectl); Kubernetes documentation, "Using Node Authorization", and API reference, Node and Pod (read 2026-11-23).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from ..command import run
from .orchestrator import ActionError

_REQUEST_SECONDS = 10
_TIMEOUT_SECONDS = 15
_NOT_FOUND = 404
# `aws eks get-token` makes tokens for 14 minutes (aws-cli, awscli/customizations/eks/get_token.py).
_TOKEN_SECONDS = 600


class Cluster(Protocol):
    """What a node asks of its cluster. Reading returns the text of JSON. Every method raises ActionError."""

    def nodes(self, selector: str) -> str:
        """All nodes, or those with a label."""

    def node(self, name: str) -> str:
        """One node."""

    def pods(self, node: str) -> str:
        """The pods on a node."""

    def identity(self) -> str:
        """Who asks: a SelfSubjectReview."""

    def change_condition(self, node: str, condition: Mapping[str, str]) -> None:
        """Set a condition of a node."""

    def cordon(self, node: str) -> None:
        """Keep new pods away from a node."""

    def uncordon(self, node: str) -> None:
        """Let new pods onto a node."""

    def taint(self, node: str, taint: str) -> None:
        """Set a taint of a node, or remove it if a `-` follows its key."""

    def label(self, node: str, key: str, value: str) -> None:
        """Set a label of a node."""

    def mark(self, namespace: str, pods: Sequence[str], condition: Mapping[str, str]) -> None:
        """Set a condition of pods."""

    def delete(self, namespace: str, pods: Sequence[str]) -> None:
        """Delete pods that may be gone already."""


def _status(condition: Mapping[str, str]) -> str:
    return json.dumps({"status": {"conditions": [condition]}})


class Kubectl:
    """A cluster through kubectl."""

    def __init__(self, config: str) -> None:
        self._config = config

    def nodes(self, selector: str) -> str:
        return self._run("get", "nodes", "--output=json", *([f"--selector={selector}"] if selector else []))

    def node(self, name: str) -> str:
        return self._run("get", "node", name, "--output=json")

    def pods(self, node: str) -> str:
        selector = f"--field-selector=spec.nodeName={node}"
        return self._run("get", "pods", "--all-namespaces", selector, "--output=json")

    def identity(self) -> str:
        return self._run("auth", "whoami", "--output=json")

    def change_condition(self, node: str, condition: Mapping[str, str]) -> None:
        self._patch("node", node, condition=condition)

    def cordon(self, node: str) -> None:
        self._run("cordon", node)

    def uncordon(self, node: str) -> None:
        self._run("uncordon", node)

    def taint(self, node: str, taint: str) -> None:
        self._run("taint", "node", node, taint, "--overwrite")

    def label(self, node: str, key: str, value: str) -> None:
        self._run("label", "node", node, f"{key}={value}", "--overwrite")

    def mark(self, namespace: str, pods: Sequence[str], condition: Mapping[str, str]) -> None:
        self._patch("pod", *pods, f"--namespace={namespace}", condition=condition)

    def delete(self, namespace: str, pods: Sequence[str]) -> None:
        self._run("delete", "pod", *pods, f"--namespace={namespace}", "--wait=false", "--ignore-not-found")

    def _patch(self, *what: str, condition: Mapping[str, str]) -> None:
        self._run("patch", *what, "--subresource=status", "--type=strategic", f"--patch={_status(condition)}")

    def _run(self, *arguments: str) -> str:
        options = (f"--kubeconfig={self._config}", f"--request-timeout={_REQUEST_SECONDS}s")
        outcome = run("kubectl", *options, *arguments, timeout_seconds=_TIMEOUT_SECONDS)
        if not outcome.ok:
            raise ActionError(f"kubectl {arguments[0]}: {outcome.words}")
        return outcome.output


class KubeletApi:
    """A cluster by the identity of this node's kubelet, without kubectl."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._token, self._token_ends = "", 0.0

    def nodes(self, selector: str) -> str:
        return self._call("GET", f"/api/v1/nodes?{urlencode({'labelSelector': selector})}")

    def node(self, name: str) -> str:
        return self._call("GET", f"/api/v1/nodes/{quote(name)}")

    def pods(self, node: str) -> str:
        return self._call("GET", f"/api/v1/pods?{urlencode({'fieldSelector': f'spec.nodeName={node}'})}")

    def identity(self) -> str:
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        return self._call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json.dumps(kind))

    def change_condition(self, node: str, condition: Mapping[str, str]) -> None:
        self._call("PATCH", f"/api/v1/nodes/{quote(node)}/status", _status(condition))

    def cordon(self, node: str) -> None:
        self._schedule(node, unschedulable=True)

    def uncordon(self, node: str) -> None:
        self._schedule(node, unschedulable=False)

    def taint(self, node: str, taint: str) -> None:
        raise ActionError(f"a kubelet may not modify taints: {taint} of {node}")

    def label(self, node: str, key: str, value: str) -> None:
        self._call("PATCH", f"/api/v1/nodes/{quote(node)}", json.dumps({"metadata": {"labels": {key: value}}}))

    def mark(self, namespace: str, pods: Sequence[str], condition: Mapping[str, str]) -> None:
        for pod in pods:
            self._call("PATCH", f"{_pod(namespace, pod)}/status", _status(condition))

    def delete(self, namespace: str, pods: Sequence[str]) -> None:
        for pod in pods:
            self._call("DELETE", _pod(namespace, pod), may_be_gone=True)

    def _schedule(self, node: str, *, unschedulable: bool) -> None:
        self._call("PATCH", f"/api/v1/nodes/{quote(node)}", json.dumps({"spec": {"unschedulable": unschedulable}}))

    def _call(self, verb: str, path: str, body: str | None = None, *, may_be_gone: bool = False) -> str:
        import ssl  # most commands never need it

        server, authority, command = self._access()
        kind = "application/strategic-merge-patch+json" if verb == "PATCH" else "application/json"
        headers = {
            "Authorization": f"Bearer {self._bearer(command)}",
            "Content-Type": kind,
            "Accept": "application/json",
        }
        data = None if body is None else body.encode()
        request = Request(f"{server}{path}", data=data, headers=headers, method=verb)  # noqa: S310  https by _access
        try:
            trusted = ssl.create_default_context(cafile=authority)
            with urlopen(request, timeout=_REQUEST_SECONDS, context=trusted) as answer:  # noqa: S310
                return str(answer.read().decode())
        except HTTPError as refused:
            if may_be_gone and refused.code == _NOT_FOUND:
                return ""
            raise ActionError(f"{verb} {path}: {_message(refused)}") from refused
        except (OSError, HTTPException) as fault:
            raise ActionError(f"{verb} {path}: {fault}") from fault

    def _access(self) -> tuple[str, str, list[str]]:
        """The address of the API server, its certificate, and the command that gives a token."""
        try:
            text = Path(self._config).read_text(encoding="utf-8")
        except OSError as fault:
            raise ActionError(f"{self._config}: {fault.strerror}") from fault
        server = re.search(r"^ *server: *\"?(https://[^\s\"]+)", text, re.MULTILINE)
        authority = re.search(r"^ *certificate-authority: *\"?([^\s\"]+)", text, re.MULTILINE)
        command = re.search(r"^ *command: *\"?(aws)\"? *\n *args:((?: *\n *- .*)+)", text, re.MULTILINE)
        if server is None or authority is None or command is None:
            raise ActionError(f"{self._config} is not what nodeadm writes for kubelet; add kubectl to the node")
        arguments = re.findall(r"- *\"?([^\"\n]+)", command[2])
        return server[1].rstrip("/"), authority[1], [command[1], *(one.strip() for one in arguments)]

    def _bearer(self, command: Sequence[str]) -> str:
        """A token; a program starts for each, and a node that ends may have a hundred calls to make."""
        if time.monotonic() > self._token_ends:
            self._token, self._token_ends = _new_token(command), time.monotonic() + _TOKEN_SECONDS
        return self._token


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"


def _new_token(command: Sequence[str]) -> str:
    outcome = run(*command, timeout_seconds=_TIMEOUT_SECONDS)
    try:
        return str(json.loads(outcome.output)["status"]["token"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ActionError(f"{' '.join(command[:3])}: {outcome.words}") from None


def _message(refused: HTTPError) -> str:
    """The message of a Status of Kubernetes, or what else the server answered."""
    text = refused.read().decode(errors="replace")
    try:
        found: Any = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        return f"{refused.code} {text[:200]}"
    return str(found)
