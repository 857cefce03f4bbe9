"""A cluster of Amazon EKS, and a node group in it, as text."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.counting import count

from ._layout import Footnotes, Row, Section, number, usd
from .kubernetes_model import KubernetesPlan, NodeGroupPlan, SystemNodesPlan


def kubernetes_section(cluster: KubernetesPlan, notes: Footnotes) -> Section:
    """The cluster that the fleets join."""
    where = (
        f"{cluster.cluster_name}, existing" if cluster.stack_name is None else f"stack {cluster.stack_name}"
    )
    return Section(f"Kubernetes on Amazon EKS ({where})", list(_rows(cluster, notes)))


def _rows(cluster: KubernetesPlan, notes: Footnotes) -> Iterator[Row]:
    yield Row("version", [f"{cluster.version}; {support_words(cluster)}"])
    if cluster.stack_name is not None:
        yield Row("API server", [api_server_words(cluster)])
        yield Row("admins", [", ".join(cluster.admins) or "nobody, not even who deploys"])
        yield Row("add-ons", [", ".join(cluster.add_ons)])
    yield Row("services", [cluster.service_cidr])
    if cluster.system_nodes is not None:
        yield Row("system nodes", list(_system_nodes(cluster.system_nodes, notes)))
    yield Row("software", list(software_words(cluster)))
    if cluster.usd_per_hour is not None and cluster.usd_per_hour_extended is not None:
        extended = usd(cluster.usd_per_hour_extended)
        mark = notes.mark(cluster.prices)
        yield Row(
            "cost",
            [f"control plane: {usd(cluster.usd_per_hour)} an hour, {extended} in extended support{mark}"],
        )


def support_words(cluster: KubernetesPlan) -> str:
    """When EKS stops to support the version."""
    if cluster.standard_support_ends is None:
        return f"end of support unknown ({cluster.unknown['standard_support_ends']})"
    return f"standard support ends {cluster.standard_support_ends}, extended support {cluster.extended_support_ends}"


def api_server_words(cluster: KubernetesPlan) -> str:
    """Who reaches the API server."""
    inside = "reached from inside the network"
    cidrs = ", ".join(cluster.public_access_cidrs)
    return f"{inside}, and from {cidrs}" if cidrs else f"{inside} only"


def _system_nodes(nodes: SystemNodesPlan, notes: Footnotes) -> Iterator[str]:
    where = f"{count(len(nodes.subnets), 'subnet')}: {', '.join(nodes.subnets)}"
    yield f"{nodes.node_count} x {nodes.instance_type}; {where}"
    if nodes.usd_per_hour is None:
        yield f"price unknown: {nodes.unknown['usd_per_hour']}"
    else:
        yield f"{usd(nodes.usd_per_hour)} an hour{notes.mark(nodes.prices)}"


def software_words(cluster: KubernetesPlan) -> Iterator[str]:
    """Which charts, and who installs them."""
    yield ", ".join(f"{chart.name} {chart.version}" for chart in cluster.charts)
    source = f", from {cluster.mirror}" if cluster.mirror else ""
    if cluster.software_stack is None:
        yield f"`gpu-clusters manifests` writes it for you to install{source}"
    else:
        yield f"installed by stack {cluster.software_stack}{source}"


def node_group_row(group: NodeGroupPlan) -> Row:
    """The node group of a fleet."""
    pods = f"{number(group.max_pods)} pods a node at most"
    head = f"capacity type {group.capacity_type}, image type {group.ami_type}; {pods}"
    resources = ", ".join(f"{name}: {number(many)}" for name, many in group.resources.items())
    details = [
        ("size", group.grown_by),
        ("updates", f"{group.update} ({group.update_strategy})"),
        ("resources", resources or "no devices"),
        ("labels", ", ".join(f"{name}={value}" for name, value in group.labels.items())),
        ("taints", ", ".join(group.taints) or "none"),
    ]
    return Row("node group", [head], details)
