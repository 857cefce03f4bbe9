"""Checks of what only inference fleets have, beside their server and their load balancer."""

from __future__ import annotations

from dataclasses import replace

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.capacity import block_window
from cdk_gpu_clusters.rules.fleet import check_timeout
from cdk_gpu_clusters.rules.inference import check_counts, check_room_to_scale, check_servers_required
from cdk_gpu_clusters.rules.model_servers import GROUP_DIVIDES, NO_NVLINK, SLICES_MATCH

from ._check_size import check_number
from ._document import Key
from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from ._slots import plan_slots
from .capacity import capacity_terms
from .inference import InferenceFleetSpec

_NODES = frozenset({"nodes", "min_nodes", "max_nodes", "capacity"})


def check_inference_values(key: Key, spec: InferenceFleetSpec, broken: frozenset[str]) -> list[Fault]:
    """Find what is wrong with an inference fleet of whatever type."""
    faults: list[Fault] = []
    rate, ready = spec.requests_per_minute_per_node, spec.ready_timeout_seconds
    if ready is not None:
        found = check_timeout("ready_timeout_seconds", ready)
        faults += faults_at((*key, "ready_timeout_seconds"), found)
    if rate is None:
        return faults
    findings = check_counts(requests_per_minute_per_node=rate)
    if not broken & _NODES and not check_number(key, spec):
        findings += _check_room(spec)
    return faults + faults_at((*key, "requests_per_minute_per_node"), findings)


def _check_room(spec: InferenceFleetSpec) -> list[Finding]:
    is_block = block_window(capacity_terms(spec.capacity)) is not None
    return [
        replace(
            finding,
            got=f"{spec.minimum_nodes} to {spec.maximum_nodes} nodes",
            allowed="no scaling" if is_block else "min_nodes below max_nodes",
            fix="remove requests_per_minute_per_node"
            if is_block
            else "write min_nodes and max_nodes, or remove requests_per_minute_per_node",
        )
        for finding in check_room_to_scale(spec.minimum_nodes, spec.maximum_nodes, size_is_set=is_block)
    ]


def check_inference_nodes(view: FleetView, spec: InferenceFleetSpec) -> list[Fault]:
    """Find what is wrong with an inference fleet of its type: its slots, and how many of them must be up."""
    plan, findings = plan_slots(view, spec)
    faults = [fault for finding in findings for fault in _slot_faults(view, spec, finding)]
    if not view.broken & {"scratch", "mounts", "server", "server.weights"}:
        faults += _check_scratch(view, spec)
    required = spec.min_servers_per_node
    if plan is not None and required is not None:
        found = check_servers_required(required, plan.server_count)
        faults += faults_at((*view.key, "min_servers_per_node"), found)
    return faults


def _slot_faults(view: FleetView, spec: InferenceFleetSpec, finding: Finding) -> list[Fault]:
    """Place a finding at the size of the groups, at the layout, or at the type."""
    field = "instance_type"
    if finding.id in (GROUP_DIVIDES.id, NO_NVLINK.id):
        field = "devices_per_server"
        finding = replace(finding, got=str(spec.devices_per_server))
    elif finding.id == SLICES_MATCH.id:
        field = "mig"
        if "per_mig_slice" in finding.allowed:
            field, size = "devices_per_server", spec.devices_per_server
            fix = "remove devices_per_server: every slice has a server"
            finding = replace(finding, got=str(size), allowed="mig without devices_per_server", fix=fix)
    return faults_at((*view.key, field), [finding])


def _check_scratch(view: FleetView, spec: InferenceFleetSpec) -> list[Fault]:
    """Find weights on local disks that are not there, or that nothing fills."""
    faults: list[Fault] = []
    for finding in view.scratch_plan[1]:
        if spec.scratch is False and view.type.local_disks:
            told = replace(finding, got="scratch: false", allowed="scratch: true", fix="remove scratch")
            faults += faults_at((*view.key, "scratch"), [told])
        else:
            is_error = finding.severity is Severity.ERROR
            fix = finding.fix if is_error else "add s3_uri"
            told = replace(finding, got=str(getattr(spec.server.weights, "path", "")), fix=fix)
            faults += faults_at((*view.key, "server", "weights", "path"), [told])
    return faults
