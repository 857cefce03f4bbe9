"""What nodeadm makes of a node's user data: the one document that it merges, and what it refuses.

Source: awslabs/amazon-eks-ami @ 81fec2e (read 2026-11-22), nodeadm/internal: configprovider/mime.go (parts by their
type), api/merge.go (later parts win, lists of kubelet's flags are appended), api/validation.go, api/net.go.
"""

from __future__ import annotations

import base64
import email
import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes_schemas import check_objects

#: What EKS adds to the user data of a managed node group without an image of its own.
FROM_EKS = {
    "apiVersion": "node.eks.aws/v1alpha1",
    "kind": "NodeConfig",
    "spec": {
        "cluster": {
            "name": "lab",
            "apiServerEndpoint": "https://0.gr7.us-east-1.eks.amazonaws.com",
            "certificateAuthority": "LS0t",
            "cidr": "172.20.0.0/16",
        },
        "kubelet": {
            "config": {"maxPods": 58},
            "flags": ["--node-labels=eks.amazonaws.com/nodegroup=trainers"],
        },
    },
}

# Of no account: a NodeConfig is no object of a cluster, so any version of Kubernetes will do.
_ANY_VERSION = "1.36"
_NEEDED = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def node_configs(user_data: str) -> list[dict[str, Any]]:
    """The NodeConfigs of user data, in their order."""
    message = email.message_from_string(user_data)
    assert message.get_content_maintype() == "multipart"
    assert not message.defects
    return [
        json.loads(str(part.get_payload()))
        for part in message.walk()
        if part.get_content_type() == "application/node.eks.aws"
    ]


def check_documents(documents: Sequence[Mapping[str, Any]]) -> None:
    """Hold NodeConfigs against their schema.

    Raises:
        AssertionError: There is none, or one has a field that is unknown or of a wrong type.
    """
    # nodeadm asks for no name. It takes any JSON in kubelet's configuration; its schema knows objects only.
    named = [
        {**one, "metadata": {"name": "node"}, "spec": _without_free_text(one["spec"])} for one in documents
    ]
    assert check_objects(named, _ANY_VERSION) == len(documents) > 0


def read_by_nodeadm(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The spec that nodeadm acts on.

    Raises:
        AssertionError: It refuses the documents, or would not see a field of them.
    """
    # nodeadm asks for no name. It takes any JSON in kubelet's configuration; its schema knows objects only.
    named = [
        {**one, "metadata": {"name": "node"}, "spec": _without_free_text(one["spec"])} for one in documents
    ]
    assert check_objects(named, _ANY_VERSION) == len(documents) > 0
    spec: dict[str, Any] = {}
    for one in documents:
        spec = _merged(spec, one["spec"])
    cluster = spec.get("cluster", {})
    assert [name for name in _NEEDED if not cluster.get(name)] == [], "nodeadm validates the cluster"
    base64.b64decode(cluster["certificateAuthority"], validate=True)
    ipaddress.ip_interface(cluster["cidr"])
    flags = spec.get("kubelet", {}).get("flags", [])
    assert [flag for flag in flags if not flag.startswith("--")] == []
    return spec


def _without_free_text(spec: Mapping[str, Any]) -> dict[str, Any]:
    kubelet = spec.get("kubelet", {})
    if "config" not in kubelet:
        return dict(spec)
    return {**spec, "kubelet": {**kubelet, "config": {name: {} for name in kubelet["config"]}}}


def _merged(old: Any, new: Any, name: str = "") -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {
            **old,
            **{key: _merged(old[key], value, key) if key in old else value for key, value in new.items()},
        }
    return [*old, *new] if name == "flags" else new
