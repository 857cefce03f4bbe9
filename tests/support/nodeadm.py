"""What nodeadm makes of a node's user data: the one document that it merges, and what it refuses.

Source: awslabs/amazon-eks-ami @ 81fec2e (read 2026-11-22), nodeadm/internal: api/validation.go and api/net.go; how it
merges is in `fakes.nodeadm`, which nodes boot with.
"""

from __future__ import annotations

import base64
import email
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from cdk_gpu_clusters import EksCluster
from eks_user_data import ManagedGroup
from fakes import nodeadm as program
from kubernetes_schemas import check_objects

#: What EKS adds to the user data of a managed node group without an image of its own.
FROM_EKS = ManagedGroup(
    cluster=EksCluster(
        name="lab",
        endpoint="https://0.gr7.us-east-1.eks.amazonaws.com",
        certificate_authority="LS0t",
        service_cidr="172.20.0.0/16",
    ),
    name="trainers",
    max_pods=58,
).node_config()

# Of no account: a NodeConfig is no object of a cluster, so any version of Kubernetes will do.
_ANY_VERSION = "1.36"


def node_configs(user_data: str) -> list[dict[str, Any]]:
    """The NodeConfigs of user data, in their order."""
    message = email.message_from_string(user_data)
    assert message.get_content_maintype() == "multipart"
    assert not message.defects
    return program.node_configs(user_data)


def check_documents(documents: Sequence[Mapping[str, Any]]) -> None:
    """Hold NodeConfigs against their schema.

    Raises:
        AssertionError: There is none, or one has a field that is unknown or of a wrong type.
    """
    # nodeadm asks for no name. It takes any JSON in kubelet's configuration; its schema knows objects only.
    named = [{**one, "metadata": {"name": "node"}, "spec": _without_free_text(one["spec"])} for one in documents]
    assert check_objects(named, _ANY_VERSION) == len(documents) > 0


def read_by_nodeadm(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The spec that nodeadm acts on.

    Raises:
        AssertionError: It refuses the documents, or would not see a field of them.
    """
    check_documents(documents)
    try:
        config = program.merged([dict(one) for one in documents])
        program.check(config)
    except program.Fault as fault:
        raise AssertionError(fault) from fault
    spec = dict(config["spec"])
    base64.b64decode(spec["cluster"]["certificateAuthority"], validate=True)
    ipaddress.ip_interface(spec["cluster"]["cidr"])
    flags = spec.get("kubelet", {}).get("flags", [])
    assert [flag for flag in flags if not flag.startswith("--")] == []
    return spec


def _without_free_text(spec: Mapping[str, Any]) -> dict[str, Any]:
    kubelet = spec.get("kubelet", {})
    if "config" not in kubelet:
        return dict(spec)
    return {**spec, "kubelet": {**kubelet, "config": {name: {} for name in kubelet["config"]}}}
