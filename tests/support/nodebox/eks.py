"""Nodes of Amazon EKS: booted from EKS's image and what EKS makes of the user data, in front of a cluster."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdk_gpu_clusters import EksCluster, EksGpuCluster
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.orchestration.eks.node_group import EksGpuNodeGroup
from cdk_gpu_clusters.rules.node_group import recommended_limit
from eks_user_data import ManagedGroup
from fakes.nodeadm import most_pods
from nodeadm import check_documents
from nodebox.cloud import CLUSTER, CLUSTER_GROUP, Build
from nodebox.lab import Lab
from nodebox.node import Node
from nodebox.servers import relay
from services.kubernetes import INSIDE, Kubernetes
from stack_fixtures import Site

#: What a node is called in its cluster.
NAME = "ip-10-77-0-2.ec2.internal"


def managed(instance_type: str, **options: Any) -> Build:
    """Adds a managed node group of one node to a site; options go to `EksGpuNodeGroup`."""

    def build(site: Site) -> EksGpuNodeGroup:
        cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
            site.stack,
            "Cluster",
            vpc=site.vpc,
            cluster_name=CLUSTER,
            cluster_security_group_id=CLUSTER_GROUP,
            kubernetes_version="1.35",
        )
        return cluster.add_gpu_node_group(
            "Gpus", instance_type=instance_type, node_count=1, vpc_subnets=site.one_subnet, **options
        )

    return build


def eks_cluster(cluster: Kubernetes) -> EksCluster:
    """A cluster as its nodes know it."""
    return EksCluster(
        name=CLUSTER,
        endpoint=f"https://{INSIDE}",
        certificate_authority=base64.b64encode(cluster.certificate.encode()).decode(),
        service_cidr="172.20.0.0/16",
    )


@contextmanager
def eks_node(lab: Lab, cluster: Kubernetes, build: Build, *, eks_first: bool = True, **options: Any) -> Iterator[Node]:
    """Deploy a group of a cluster: its first node, off.

    Args:
        lab: Where it is booted.
        cluster: The cluster.
        build: Adds the group to a site.
        eks_first: Whether EKS puts its part of the user data before those of the launch template.
        options: Go to `Node`.
    """
    fleet = lab.cloud.deploy(build)
    if described := fleet.node_group():
        group = ManagedGroup(
            cluster=eks_cluster(cluster),
            name=described["nodegroupName"],
            max_pods=_pods_of_eks(fleet.instance_type()),
            labels=described.get("labels", {}),
            taints=tuple(map(_taint, described.get("taints", []))),
            eks_first=eks_first,
        )
        options["user_data"] = group.merged
    with lab.instance(fleet, eks=True, **options) as node:
        server = relay(node.network.listen(INSIDE, 443), cluster.address)
        try:
            yield node
        finally:
            server.close()


def _pods_of_eks(instance_type: str) -> int:
    """What EKS itself tells the nodes, which knows of no EFA-only interfaces (Amazon EKS user guide, "How maxPods is
    determined").
    """
    return min(most_pods(instance_type), recommended_limit(catalogue_type(instance_type)))


def _taint(taint: Mapping[str, str]) -> str:
    effect = "".join(word.capitalize() for word in taint["effect"].split("_"))
    return f"{taint['key']}={taint.get('value', '')}:{effect}"


def joined(node: Node, cluster: Kubernetes) -> dict[str, Any]:
    """Wait until the node has joined its cluster: as the cluster has it."""
    return node.eventually(lambda: cluster.nodes.get(NAME))


def stays_out(node: Node, cluster: Kubernetes) -> None:
    """See that a node whose boot is through has not joined, and never will."""
    node.run("systemctl is-system-running --wait", check=False)
    assert node.run("systemctl is-active nodeadm-run containerd kubelet", check=False).stdout == "inactive\n" * 3
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
