"""Nodes of Amazon EKS: booted from EKS's image and what EKS makes of the user data, in front of a cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdk_gpu_clusters import (
    EfaSecurityGroup,
    EksCluster,
    GpuLaunchTemplate,
    NodeRole,
    NodeUserData,
    Orchestrator,
)
from eks_user_data import ManagedGroup
from nodeadm import check_documents
from nodebox.cloud import Build
from nodebox.lab import Lab
from nodebox.node import Node
from nodebox.servers import relay
from services.kubernetes import INSIDE, Kubernetes
from sites import Site

#: What a node is called in its cluster.
NAME = "ip-10-77-0-2.ec2.internal"


def managed(instance_type: str, **options: Any) -> Build:
    """Adds the launch template of a managed node group to a site; options go to `NodeUserData`."""

    def build(site: Site) -> NodeUserData:
        capacity, efa = options.get("capacity"), options.get("efa")
        role = NodeRole(site.stack, "Role")
        nodes = NodeUserData(
            site.stack,
            "Nodes",
            instance_type=instance_type,
            orchestrator=Orchestrator.EKS_MANAGED,
            role=role,
            **options,
        )
        GpuLaunchTemplate(
            site.stack,
            "Template",
            instance_type=instance_type,
            orchestrator=Orchestrator.EKS_MANAGED,
            efa=efa,
            capacity=capacity,
            fabric=EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc),
            user_data=nodes.text,
        )
        return nodes

    return build


def eks_cluster(cluster: Kubernetes) -> EksCluster:
    """A cluster as its nodes know it."""
    return EksCluster(
        name="training",
        endpoint=f"https://{INSIDE}",
        certificate_authority=base64.b64encode(cluster.certificate.encode()).decode(),
        service_cidr="172.20.0.0/16",
    )


@contextmanager
def eks_node(
    lab: Lab, cluster: Kubernetes, build: Build, *, group: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[Node]:
    """Deploy a group of a cluster: its first node, off.

    Args:
        lab: Where it is booted.
        cluster: The cluster.
        build: Adds the group to a site.
        group: What EKS tells the nodes of a group that it manages, for `ManagedGroup`; None: it manages none.
        options: Go to `Node`.
    """
    if group is not None:
        options["user_data"] = ManagedGroup(cluster=eks_cluster(cluster), **group).merged
    with lab.instance(lab.cloud.deploy(build), eks=True, **options) as node:
        server = relay(node.network.listen(INSIDE, 443), cluster.address)
        try:
            yield node
        finally:
            server.close()


def joined(node: Node, cluster: Kubernetes) -> dict[str, Any]:
    """Wait until the node has joined its cluster: as the cluster has it."""
    return node.eventually(lambda: cluster.nodes.get(NAME))


def stays_out(node: Node, cluster: Kubernetes) -> None:
    """See that a node whose boot is through has not joined, and never will."""
    node.run("systemctl is-system-running --wait", check=False)
    assert (
        node.run("systemctl is-active nodeadm-run containerd kubelet", check=False).stdout == "inactive\n" * 3
    )
    assert node.run("systemctl list-jobs --no-legend").stdout == ""
    assert cluster.nodes == {}


def order(node: Node, *units: str, boot: int = 0) -> list[str]:
    """The units in the order in which each said something first."""
    first = {unit: node.journal(unit, boot=boot)[0].seconds for unit in units}
    return sorted(units, key=lambda unit: first[unit])


def told(node: Node) -> dict[str, Any]:
    """The NodeConfig that nodeadm has made of all it was given, which has to keep to its schema."""
    config: dict[str, Any] = node.eventually(
        lambda: json.loads(node.run("cat /run/eks/nodeadm/config.json", check=False).stdout or "{}")
    )
    check_documents([config])
    return config
