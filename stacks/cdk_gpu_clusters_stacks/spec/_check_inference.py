"""Checks of what only inference fleets have: model servers and load balancers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding, Severity, errors_in
from cdk_gpu_clusters.rules.checkpoints import check_bucket_name
from cdk_gpu_clusters.rules.fleet import BLOCK_DRAIN, check_drain_of_block, check_timeout
from cdk_gpu_clusters.rules.inference import (
    DRAIN_MARGIN_SECONDS,
    check_counts,
    check_drain_timeout,
    check_idle_timeout,
    check_room_to_scale,
    check_servers_required,
    check_tls,
)
from cdk_gpu_clusters.rules.model_servers import (
    CACHE_ON_SCRATCH,
    GROUP_DIVIDES,
    NO_NVLINK,
    SLICES_MATCH,
    DeviceKind,
    ServerPlan,
    check_container_image,
    check_container_port,
    check_health_path,
    check_secret_arn,
    check_variables,
    check_weights,
)
from cdk_gpu_clusters.rules.secrets import NAME_ITS_ARN, check_secret_arguments
from cdk_gpu_clusters.rules.vllm import check_vllm_server

from ._check_nodes import check_number, check_plain_values
from ._check_values import check_arn, check_registry
from ._document import Fault, Key, faults_at
from ._parts import SpecParts
from ._rules import MISSING_KEY
from .inference import InferenceFleetSpec, LoadBalancerSpec, ServerSpec, WeightsSpec
from .planned_fleet import COUNTS, PlannedFleet

_READ_OF_SERVER = frozenset({"nodes_per_server", "server", "server.command", "server.image", "server.weights"})


def check_inference_values(fleet: PlannedFleet, spec: InferenceFleetSpec) -> list[Fault]:
    """Find what is wrong with an inference fleet of whatever type."""
    faults: list[Fault] = []
    key = fleet.key
    rate, ready = spec.requests_per_minute_per_node, spec.ready_timeout_seconds
    if ready is not None:
        found = check_timeout("ready_timeout_seconds", ready)
        faults += faults_at((*key, "ready_timeout_seconds"), found)
    if rate is None:
        return faults
    findings = check_counts(requests_per_minute_per_node=rate)
    if not fleet.broken & (COUNTS | {"capacity"}) and not check_number(fleet):
        findings += _check_room(fleet)
    return faults + faults_at((*key, "requests_per_minute_per_node"), findings)


def _check_room(fleet: PlannedFleet) -> list[Finding]:
    spec, is_block = fleet.spec, fleet.plan.terms.kind.is_block
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


def check_inference_nodes(view: PlannedFleet, spec: InferenceFleetSpec) -> list[Fault]:
    """Find what is wrong with an inference fleet of its type: its slots, and how many of them must be up."""
    plan, findings = view.server_plan
    faults = [fault for finding in findings for fault in _slot_faults(view, spec, finding)]
    if not view.broken & {"scratch", "mounts", "server", "server.weights"}:
        faults += _check_scratch(view, spec)
    required = spec.min_servers_per_node
    if plan is not None and required is not None:
        found = check_servers_required(required, plan.server_count)
        faults += faults_at((*view.key, "min_servers_per_node"), found)
    # What the GPUs of one node hold says nothing of a server over several.
    if plan is not None and spec.nodes_per_server is None and not view.broken & _READ_OF_SERVER:
        faults += _check_gpus(view, spec.server, plan)
    return faults


def _check_gpus(view: PlannedFleet, server: ServerSpec, plan: ServerPlan) -> list[Fault]:
    """Find GPUs that do not fit a vLLM server."""
    if plan.kind is not DeviceKind.GPU:
        return []
    weights = server.weights
    found = check_vllm_server(
        server.image,
        server.command,
        weights="" if weights is None else weights.s3_uri or weights.path or "",
        instance_type=view.plan.instance_type,
        devices_per_server=len(plan.devices[0]),
    )
    return faults_at((*view.key, "server", *(["command"] if server.command else [])), found)


def _slot_faults(view: PlannedFleet, spec: InferenceFleetSpec, finding: Finding) -> list[Fault]:
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


def _check_scratch(view: PlannedFleet, spec: InferenceFleetSpec) -> list[Fault]:
    """Find weights and caches on local disks that are not there, or that nothing fills."""
    faults: list[Fault] = []
    for finding in view.scratch_plan[1]:
        if finding.id == CACHE_ON_SCRATCH.id:
            if view.profile.runs_model_servers:
                faults += faults_at((*view.key, "server", "cache_path"), [finding])
            continue
        if spec.scratch is False and view.plan.instance_type.local_disks:
            told = replace(finding, got="scratch: false", allowed="scratch: true", fix="remove scratch")
            faults += faults_at((*view.key, "scratch"), [told])
        else:
            is_error = finding.severity is Severity.ERROR
            fix = finding.fix if is_error else "add s3_uri"
            told = replace(finding, got=str(getattr(spec.server.weights, "path", "")), fix=fix)
            faults += faults_at((*view.key, "server", "weights", "path"), [told])
    return faults


# The model server.


def check_server(fleet: PlannedFleet, spec: ServerSpec) -> list[Fault]:
    """Find what is wrong with a model server, on whatever node."""
    key, parts = (*fleet.key, "server"), fleet.parts
    faults = faults_at((*key, "port"), check_container_port(spec.port))
    faults += faults_at((*key, "health_path"), check_health_path(spec.health_path))
    if not fleet.broken & {"server", "server.image"}:
        faults += _check_image((*key, "image"), spec.image, parts)
    not_secret = fleet.spec.not_secret
    for index, finding in check_secret_arguments(spec.command, not_secret=not_secret, fix=NAME_ITS_ARN):
        faults += faults_at((*key, "command", index), [finding])
    variables = (*key, "environment")
    faults += check_plain_values(variables, spec.environment, not_secret=not_secret, fix=NAME_ITS_ARN)
    for name in ("shared_memory_gib", "max_concurrent_requests"):
        faults += faults_at((*key, name), check_counts(**{name: getattr(spec, name)}))
    faults += _check_variables(key, spec)
    faults += _check_arns(key, spec, parts.region)
    return faults + ([] if spec.weights is None else _check_weights((*key, "weights"), spec.weights))


def _check_image(key: Key, image: str, parts: SpecParts) -> list[Fault]:
    findings = check_container_image(image)
    return faults_at(key, findings if errors_in(findings) else [*findings, *check_registry(image, parts)])


def _check_variables(key: Key, spec: ServerSpec) -> list[Fault]:
    faults: list[Fault] = []
    for name in spec.environment:
        found = check_variables({name: ""}, ())
        faults += faults_at((*key, "environment", name), found, at_key=True)
    for name in spec.secrets:
        plain = {name: ""} if name in spec.environment else {}
        known = check_variables(plain, ())
        found = [finding for finding in check_variables(plain, [name]) if finding not in known]
        faults += faults_at((*key, "secrets", name), found, at_key=True)
    return faults


def _check_arns(key: Key, spec: ServerSpec, region: str | None) -> list[Fault]:
    arns: dict[Key, str] = {("secrets", name, "arn"): one.arn for name, one in spec.secrets.items()}
    if spec.registry_login is not None:
        arns["registry_login", "arn"] = spec.registry_login.arn
    faults: list[Fault] = []
    for path, arn in arns.items():
        found = check_secret_arn(arn)
        faults += faults_at((*key, *path), found)
        if not found and region is not None:
            faults += check_arn((*key, *path), arn, region, "secret")
    return faults


def _check_weights(key: Key, weights: WeightsSpec) -> list[Fault]:
    if weights.path is None and weights.s3_uri is None:
        finding = MISSING_KEY.finding(
            cause="the weights lie nowhere",
            got="neither path nor s3_uri",
            allowed="path, s3_uri, or both",
            fix="add path for a folder that is there, or s3_uri for objects to copy",
        )
        return faults_at(key, [finding], at_key=True)
    faults: list[Fault] = []
    if weights.encryption_key_arn is not None and weights.s3_uri is None:
        finding = MISSING_KEY.finding(
            cause="the key is that of a bucket, and nothing is copied from one",
            got="no s3_uri",
            allowed="encryption_key_arn with s3_uri",
            fix="add s3_uri, or remove encryption_key_arn",
        )
        faults = faults_at((*key, "encryption_key_arn"), [finding])
    return [
        *faults,
        *faults_at((*key, "path"), _about_path(weights.path)),
        *faults_at((*key, "s3_uri"), _about_uri(weights.s3_uri)),
    ]


def _about_path(path: str | None) -> Iterable[Finding]:
    return () if path is None else check_weights(path, None)


def _about_uri(uri: str | None) -> Iterable[Finding]:
    return () if uri is None else check_weights("/model", uri)


# The load balancer.

_LISTENER = frozenset({"certificate_arn", "plain_http", "internet_facing"})


def check_balancer(fleet: PlannedFleet, spec: InferenceFleetSpec) -> list[Fault]:
    """Find what is wrong with a load balancer, wherever it is."""
    balancer, here, region = spec.load_balancer, (*fleet.key, "load_balancer"), fleet.parts.region
    faults: list[Fault] = []
    if not fleet.broken & {"load_balancer", *(f"load_balancer.{name}" for name in _LISTENER)}:
        faults += _check_listener(here, balancer)
    if region is not None and balancer.certificate_arn is not None:
        faults += check_arn((*here, "certificate_arn"), balancer.certificate_arn, region, "certificate")
    if balancer.access_log_bucket is not None:
        faults += faults_at((*here, "access_log_bucket"), check_bucket_name(balancer.access_log_bucket))
    if balancer.idle_timeout_seconds is not None:
        found = check_idle_timeout(balancer.idle_timeout_seconds)
        faults += faults_at((*here, "idle_timeout_seconds"), found)
    if balancer.drain_timeout_seconds is not None:
        faults += _check_drain((*here, "drain_timeout_seconds"), fleet, balancer.drain_timeout_seconds)
    return faults


def _check_listener(key: Key, balancer: LoadBalancerSpec) -> list[Fault]:
    has_certificate = balancer.certificate_arn is not None
    findings = check_tls(
        has_certificate=has_certificate,
        plain_http=balancer.plain_http,
        internet_facing=balancer.internet_facing,
    )
    fix = "give certificate_arn" + ("" if balancer.internet_facing else ", or write plain_http: true")
    if has_certificate:
        fix = "keep one of certificate_arn and plain_http"
    told = [
        replace(
            finding,
            got=finding.got.replace("plain_http=True", "plain_http: true"),
            allowed="certificate_arn, or plain_http: true for an internal one",
            fix=fix,
        )
        for finding in findings
    ]
    where = (*key, "plain_http") if balancer.plain_http else key
    return faults_at(where, told, at_key=not balancer.plain_http)


def _check_drain(key: Key, fleet: PlannedFleet, seconds: int) -> list[Fault]:
    findings = [replace(one, fix=f"change {key[-1]}") for one in check_drain_timeout(seconds)]
    if not findings and "capacity" not in fleet.broken:
        most = int(BLOCK_DRAIN.total_seconds()) - DRAIN_MARGIN_SECONDS
        findings = [
            replace(one, got=f"{seconds} seconds", allowed=f"at most {most} seconds", fix=f"change {key[-1]}")
            for one in check_drain_of_block(fleet.plan.decision, seconds + DRAIN_MARGIN_SECONDS)
        ]
    return faults_at(key, findings)
