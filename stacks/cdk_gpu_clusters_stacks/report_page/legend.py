"""The legend of a topology: only what the drawing has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters_stacks.plan import ClusterPlan

from .flows import Flow
from .marks import server_groups

_FLOWS = {
    "request": "requests",
    "api": "Kubernetes API",
    "slurm": "Slurm",
    "efa": "files over EFA",
    "tcp": "files over TCP",
    "s3": "objects in Amazon S3",
    "internet": "to the internet",
}


def legend(plan: ClusterPlan, flows: Sequence[Flow]) -> str:
    """The legend as a list, each entry with a swatch."""
    marks = [f"<li><i class='key {style}'></i>{words}</li>" for style, words in _marks(plan)]
    kinds = {one.kind for one in flows}
    arrows = [f"<li><i class='line {kind}'></i>{words}</li>" for kind, words in _FLOWS.items() if kind in kinds]
    return f"<ul class='legend' aria-label='Legend'>{''.join([*marks, *arrows])}</ul>"


def _marks(plan: ClusterPlan) -> Iterator[tuple[str, str]]:
    with_devices = [fleet for fleet in plan.fleets if fleet.node.accelerator]
    if any(fleet.purpose == "training" for fleet in with_devices):
        yield "train-mark", "accelerator, training"
    if any(fleet.purpose == "inference" and not fleet.node.mig for fleet in with_devices):
        yield "infer-mark", "accelerator, inference"
    if any(fleet.node.mig for fleet in with_devices):
        yield "slice-mark", "MIG slice"
    if any(server_groups(fleet) for fleet in plan.fleets):
        yield "group", "accelerators of one model server"
    if any(fleet.node.network.efa_interface_count for fleet in plan.fleets):
        yield "efa-mark", "EFA between the nodes of a fleet"
    if any(fleet.minimum_nodes < fleet.maximum_nodes for fleet in plan.fleets):
        yield "spare", "node above the minimum"
