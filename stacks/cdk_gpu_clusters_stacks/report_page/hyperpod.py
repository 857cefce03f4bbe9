"""The cluster of SageMaker HyperPod on the page: a box in the topology, and a table of its instance groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.plan import ClusterPlan
from cdk_gpu_clusters_stacks.plan.model import HyperPodPlan
from cdk_gpu_clusters_stacks.plan.text import hyperpod_rows, instance_group_words

from .boxes import Box, Text

__all__ = ["hyperpod_box", "hyperpod_rows", "instance_group_rows"]


def hyperpod_box(cluster: HyperPodPlan) -> Box:
    """The cluster in the topology, with its nodes beside the fleets."""
    named = {"controller": cluster.controller, "login nodes": cluster.login}
    nodes = [f"{name}: {one.node_count} x {one.instance_type}" for name, one in named.items() if one is not None]
    runs = {"slurm": "Slurm", "eks": "Amazon EKS"}[cluster.runs]
    return Box(
        style="balancer",
        key="hyperpod",
        texts=[
            Text(text=f"SageMaker HyperPod: {runs}", bold=True, size=13),
            *(Text(text=words, style="note", size=11, wraps=True) for words in nodes),
        ],
        padding=10,
    )


def instance_group_rows(plan: ClusterPlan) -> Iterator[tuple[str, ...]]:
    """The rows of the table of instance groups: fleet, type, group and updates."""
    for fleet in plan.fleets:
        group = fleet.instance_group
        if group is not None:
            *words, update = instance_group_words(group)
            yield fleet.name, group.instance_type, "; ".join(words), update
