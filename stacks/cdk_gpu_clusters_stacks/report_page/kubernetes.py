"""The cluster of Amazon EKS on the page: a table of it, and one of its node groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.plan import ClusterPlan, KubernetesPlan
from cdk_gpu_clusters_stacks.plan.text import api_server_words, software_words, support_words

from .boxes import Box, Text
from .numbers import number


def cluster_rows(cluster: KubernetesPlan) -> Iterator[tuple[str, str]]:
    """The rows of the table of the cluster: name and text."""
    yield "version", f"Kubernetes {cluster.version}; {support_words(cluster)}"
    if cluster.stack_name is None:
        yield "cluster", f"{cluster.cluster_name}, which exists already"
    else:
        yield "API server", api_server_words(cluster)
        yield "administered by", ", ".join(cluster.admins) or "none, not even the deploying principal"
        yield "add-ons", ", ".join(cluster.add_ons)
    if cluster.system_nodes is not None:
        yield "system nodes", f"{cluster.system_nodes.node_count} x {cluster.system_nodes.instance_type}"
    yield "services", cluster.service_cidr
    yield "software", "; ".join(software_words(cluster))


def node_group_rows(plan: ClusterPlan) -> Iterator[tuple[str, ...]]:
    """The rows of the table of node groups: fleet, purchase, pods, resources and taints, size and updates."""
    for fleet in plan.fleets:
        group = fleet.node_group
        if group is not None:
            devices = [f"{name}: {number(many)}" for name, many in group.resources.items()]
            shown = ", ".join(devices) or "no devices"
            taints = f"; taints: {', '.join(group.taints)}" if group.taints else ""
            bought = f"{group.capacity_type}, {group.ami_type}"
            yield (
                fleet.name,
                bought,
                number(group.max_pods),
                shown + taints,
                f"{group.grown_by}; {group.update}",
            )


def cluster_box(cluster: KubernetesPlan) -> Box:
    """The cluster in the topology."""
    name = cluster.cluster_name or "Amazon EKS"
    notes = [api_server_words(cluster)] if cluster.stack_name is not None else ["existing cluster"]
    if cluster.system_nodes is not None:
        nodes = cluster.system_nodes
        notes.append(f"{nodes.node_count} x {nodes.instance_type} for its own pods")
    return Box(
        style="balancer",
        texts=[
            Text(text=f"{name}: Kubernetes {cluster.version}", bold=True, size=13),
            *(Text(text=one, style="note", size=11, wraps=True) for one in notes),
        ],
        padding=10,
    )
