"""The Slurm cluster of AWS PCS or ParallelCluster on the page: a box in the topology, and tables."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.plan import ClusterPlan
from cdk_gpu_clusters_stacks.plan.model import ParallelClusterPlan, SlurmPlan
from cdk_gpu_clusters_stacks.plan.text import login_words, slurm_services_words, slurm_version_words

from .boxes import Box, Text, number


def controller_box(cluster: SlurmPlan) -> Box:
    """The controller in the topology, with its queues."""
    made = cluster.cluster_id or f"{cluster.size}, up to {number(cluster.most_nodes or 0)} nodes"
    queues = [f"queue {one.name}: {', '.join(one.fleets)}" for one in cluster.queues]
    return Box(
        style="balancer",
        key="slurm",
        texts=[
            Text(text=f"AWS PCS: Slurm {cluster.slurm_version}", bold=True, size=13),
            *(Text(text=words, style="note", size=11, wraps=True) for words in (made, *queues)),
        ],
        padding=10,
    )


def head_node_box(cluster: ParallelClusterPlan) -> Box:
    """The controller of AWS ParallelCluster in the topology, with its queues."""
    queues = [f"queue {one.name}: {', '.join(one.fleets)}" for one in cluster.queues]
    maker = "the deployment" if cluster.is_deployed else "pcluster, not by the stacks"
    words = f"head node, {cluster.head_node.instance_type}: made by {maker}"
    return Box(
        style="balancer",
        key="slurm",
        texts=[
            Text(text=f"AWS ParallelCluster {cluster.version}: Slurm", bold=True, size=13),
            *(Text(text=one, style="note", size=11, wraps=True) for one in (words, *queues)),
        ],
        padding=10,
    )


def slurm_queue_rows(plan: ClusterPlan) -> Iterator[tuple[str, ...]]:
    """The rows of the table of queues of AWS ParallelCluster: fleet, purchase, settings, size and updates."""
    for fleet in plan.fleets:
        queue = fleet.slurm_queue
        if queue is not None:
            settings = "; ".join(f"{name}={value}" for name, value in queue.slurm_settings.items())
            size = f"{queue.static_nodes} static, {queue.dynamic_nodes} dynamic; {queue.grown_by}; {queue.update}"
            yield fleet.name, queue.capacity_type, settings, size


def slurm_rows(cluster: SlurmPlan) -> Iterator[tuple[str, str]]:
    """The rows of the table of the cluster: name and text."""
    yield "version", slurm_version_words(cluster)
    if cluster.stack_name is None:
        yield "cluster", f"{cluster.cluster_id}, which exists already"
    else:
        yield "size", f"{cluster.size}: {cluster.most_nodes:,} nodes, {cluster.most_jobs:,} jobs"
        yield "controller", slurm_services_words(cluster)
        yield "settings", ", ".join(f"{name}={value}" for name, value in cluster.slurm_settings.items())
    if cluster.login is not None:
        yield "login nodes", "; ".join(login_words(cluster.login))
    for queue in cluster.queues:
        settings = "".join(f"; {name}={value}" for name, value in queue.slurm_settings.items())
        yield f"queue {queue.name}", f"{', '.join(queue.fleets)}{settings}"


def compute_node_group_rows(plan: ClusterPlan) -> Iterator[tuple[str, ...]]:
    """The rows of the table of compute node groups: fleet, name, purchase, settings, size and updates."""
    for fleet in plan.fleets:
        group = fleet.compute_node_group
        if group is not None:
            settings = "; ".join(f"{name}={value}" for name, value in group.slurm_settings.items())
            size = f"{group.minimum_nodes} to {group.maximum_nodes}; {group.grown_by}; {group.update}"
            yield fleet.name, group.name, group.purchase_option, settings, size
