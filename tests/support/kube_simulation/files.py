"""Cluster files of any size."""

from __future__ import annotations

from pathlib import Path

import yaml

from cdk_gpu_clusters_stacks.spec.load import read_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec

#: A Capacity Block has 64 instances at most, and the addresses of a network are for fewer than 100 model servers.
_FEWER = (96, 64)


def largest(file: Path, size: int, *, ray: bool = False) -> ClusterSpec:
    """A cluster file with so many nodes in each of its groups, or as many as it may have.

    Args:
        file: The file.
        size: Nodes of each group.
        ray: Whether its training fleets also have jobs of Ray.
    """
    return next(found for most in (size, *_FEWER) if (found := _sized(file, most, ray=ray)) is not None)


def _sized(file: Path, size: int, *, ray: bool) -> ClusterSpec | None:
    text = yaml.safe_load(file.read_text("utf-8"))
    if ray:
        text["eks"].setdefault("software", {})["ray"] = True
    for section in ("training", "inference"):
        for fleet in text.get(section, {}).get("fleets", {}).values():
            fleet.update({"nodes": size} if "nodes" in fleet else {"min_nodes": size, "max_nodes": size})
    return read_cluster(file, content=yaml.safe_dump(text).encode()).spec
