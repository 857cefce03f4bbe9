"""Checks of a model over several nodes of an UltraServer: `inference.fleets.<name>.nodes_per_server`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.kubernetes.compute_domain import DOMAIN_SIZE, ONE_SERVER, ULTRASERVERS, domain_nodes
from cdk_gpu_clusters.kubernetes.gang_job import NODE_COUNT
from cdk_gpu_clusters.kubernetes.multi_node_model import check_multi_node
from cdk_gpu_clusters.rules.vllm import is_vllm

from ._document import Fault, faults_at
from ._rules import DOMAIN_SOFTWARE, MODEL_OVER_NODES
from .eks import EksSpec
from .inference import InferenceFleetSpec
from .planned_fleet import PlannedFleet

_REMOVE = "remove nodes_per_server"


def check_model_over_nodes(view: PlannedFleet) -> list[Fault]:
    """Find a model over several nodes that never starts, or whose nodes have no NVLink between them."""
    spec, key = view.spec, (*view.key, "nodes_per_server")
    if not isinstance(spec, InferenceFleetSpec) or spec.nodes_per_server is None:
        return []
    if not view.profile.joins_eks:
        finding = MODEL_OVER_NODES.finding(
            cause="servers of plain EC2 are containers of one node",
            got="nodes_per_server without orchestrator: eks",
            allowed="orchestrator: eks",
            fix=f"write orchestrator: eks, or {_REMOVE}",
        )
        return faults_at(key, [finding])
    faults = _check_shape(view, spec)
    if not view.parts.eks_is_broken and not (view.parts.eks or EksSpec()).software.compute_domains:
        finding = DOMAIN_SOFTWARE.finding(
            cause="without the driver nothing makes the claims of the pods, which then wait forever",
            got="eks.software.compute_domains: false",
            allowed="true",
            fix=f"write eks: {{ software: {{ compute_domains: true }} }}, or {_REMOVE}",
        )
        faults += faults_at(key, [finding])
    if view.plan.interfaces_or_none is not None:
        faults += faults_at(key, _about_domain(view, spec.nodes_per_server))
    return faults


def _check_shape(view: PlannedFleet, spec: InferenceFleetSpec) -> list[Fault]:
    """Find keys that say otherwise than that one server takes all GPUs of its nodes."""
    faults: list[Fault] = []
    if spec.devices_per_server is not None:
        finding = MODEL_OVER_NODES.finding(
            cause="a server over several nodes takes all GPUs of each",
            got=f"devices_per_server: {spec.devices_per_server}",
            allowed="nodes_per_server alone",
            fix="remove devices_per_server",
        )
        faults += faults_at((*view.key, "devices_per_server"), [finding])
    if spec.scales:
        finding = MODEL_OVER_NODES.finding(
            cause="the nodes of an UltraServer serve one model, and nothing scales it",
            got="min_nodes and max_nodes",
            allowed="nodes: with the number of nodes",
            fix="write nodes",
        )
        faults += faults_at((*view.key, "max_nodes"), [finding])
    if not is_vllm(spec.server.image):
        finding = MODEL_OVER_NODES.finding(
            cause="only vLLM is started over several nodes",
            got=spec.server.image,
            allowed="an image of vLLM, such as vllm/vllm-openai:v0.21.0",
            fix=f"use such an image, or {_REMOVE}",
        )
        faults += faults_at((*view.key, "server", "image"), [finding])
    return faults


def _about_domain(view: PlannedFleet, nodes_per_server: int) -> Iterator[Finding]:
    """What the function that makes the objects would refuse, with the fix in the keys of the file."""
    pool = view.node_group.pool
    more_than_half, widest = pool.node_count // 2 + 1, domain_nodes(pool)
    alone = f"write nodes_per_server: {more_than_half} or more, or " if more_than_half <= widest else ""
    fixes = {
        NODE_COUNT.id: f"write nodes_per_server: 2 to {pool.node_count}, or more nodes",
        ULTRASERVERS.id: f"choose p6e-gb200.36xlarge, or {_REMOVE}",
        DOMAIN_SIZE.id: f"write nodes_per_server: {widest} or less",
        ONE_SERVER.id: f"{alone}make a fleet for each server",
    }
    for finding in check_multi_node(view.name, pool, nodes_per_server, compute_domain=True):
        yield replace(finding, path="", fix=fixes.get(finding.id, finding.fix))
