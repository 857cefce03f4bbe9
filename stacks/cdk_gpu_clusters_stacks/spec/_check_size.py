"""Checks of a fleet's number of nodes and of their root volume."""

from __future__ import annotations

from dataclasses import replace

from cdk_gpu_clusters.rules.root_volume import (
    DEFAULT_IOPS,
    DEFAULT_SIZE_GIB,
    DEFAULT_THROUGHPUT_MIB_PER_S,
    check_root_volume,
)

from ._document import Key
from ._fault import Fault, faults_at
from ._rules import NODE_COUNT
from .nodes import NodesSpec


def check_number(key: Key, spec: NodesSpec) -> list[Fault]:
    """Find a number of nodes that is missing, given twice, or no range."""
    both = spec.nodes is not None and (spec.min_nodes is not None or spec.max_nodes is not None)
    if both or (spec.nodes is None and None in (spec.min_nodes, spec.max_nodes)):
        given = [name for name in ("nodes", "min_nodes", "max_nodes") if getattr(spec, name) is not None]
        cause = "both a number of nodes and a range" if both else "no number of nodes"
        finding = NODE_COUNT.finding(
            cause=cause,
            got=" and ".join(given) or "none of them",
            allowed="nodes, or min_nodes and max_nodes",
            fix="keep one of the two" if both else "add nodes, or both min_nodes and max_nodes",
        )
        return faults_at(key, [finding], at_key=True)
    if spec.minimum_nodes > spec.maximum_nodes:
        finding = NODE_COUNT.finding(
            cause="more nodes at least than at most",
            got=f"{spec.min_nodes} to {spec.max_nodes}",
            allowed=f"at most {spec.max_nodes}",
            fix="exchange min_nodes and max_nodes",
        )
        return faults_at((*key, "min_nodes"), [finding])
    return []


def check_volume(key: Key, spec: NodesSpec) -> list[Fault]:
    """Find a root volume that EC2 refuses."""
    volume = spec.root_volume
    findings = check_root_volume(
        size_gib=volume.size_gib or DEFAULT_SIZE_GIB,
        iops=volume.iops or DEFAULT_IOPS,
        throughput_mib_per_s=volume.throughput_mib_per_s or DEFAULT_THROUGHPUT_MIB_PER_S,
    )
    return [
        fault
        for finding in findings
        for fault in faults_at((*key, "root_volume", finding.path), [replace(finding, path="")])
    ]
