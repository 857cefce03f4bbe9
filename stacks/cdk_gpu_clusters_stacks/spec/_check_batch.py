"""Checks of fleets on AWS Batch, and of their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from cdk_gpu_clusters.catalogue import AcceleratorKind, Architecture
from cdk_gpu_clusters.catalogue.kubernetes import image as catalogue_image
from cdk_gpu_clusters.errors import Finding, Severity, errors_in
from cdk_gpu_clusters.rules.model_servers import check_container_image
from cdk_gpu_clusters.rules.secrets import OF_BATCH_JOB, check_secret_arguments

from ._check_values import check_registry
from ._document import Fault, Key, faults_at
from ._parts import SpecParts
from ._rules import BATCH_INFERENCE, BATCH_JOBS, BATCH_SECTION, BATCH_UNUSED
from .batch import BatchSpec
from .fleet import FleetSpec
from .planned_fleet import PlannedFleet

_NOT_ON_BATCH = BATCH_SECTION.finding(
    cause="no job queue is made",
    got="batch without orchestrator: batch",
    fix="write orchestrator: batch, or remove the section",
    severity=Severity.WARNING,
)
#: Paths of findings about an environment or a job -> keys of a fleet or of its job.
_OF_FLEET = {"capacity": "capacity", "mig": "mig", "instance_type": "instance_type", "update_policy": "update"}
_OF_JOB = {"node_count": "nodes", "timeout": "timeout_minutes"}


def check_batch(parts: SpecParts) -> list[Fault]:
    """Find a section without the orchestrator, fleets that AWS Batch cannot run, and jobs of no fleet."""
    if not parts.profile.joins_batch:
        return [] if parts.batch is None else faults_at(("batch",), [_NOT_ON_BATCH], at_key=True)
    faults = [fault for part in parts.fleets if not isinstance(part.spec, FleetSpec) for fault in _no_servers(part.key)]
    names = [part.name for part in parts.fleets if isinstance(part.spec, FleetSpec)]
    for name in (parts.batch or BatchSpec()).jobs:
        if name not in names:
            faults += faults_at(("batch", "jobs", name), [_no_fleet(name, names)], at_key=True)
    return faults


def _no_servers(key: Key) -> list[Fault]:
    finding = BATCH_INFERENCE.finding(
        cause="model servers are a service, and AWS Batch runs jobs that end",
        got=f"the inference fleet {key[-1]}",
        allowed="training fleets",
        fix="put inference fleets into a cluster file of their own, with orchestrator ec2 or eks",
    )
    return faults_at(key, [finding], at_key=True)


def _no_fleet(name: str, names: list[str]) -> Finding:
    near = get_close_matches(name, names, n=1)
    return BATCH_JOBS.finding(
        cause="there is no such training fleet",
        got=name,
        allowed=", ".join(names) or "a fleet of training",
        fix=f"write {near[0]}" if near else "name a fleet of training",
    )


def check_environment_of(fleet: PlannedFleet) -> list[Fault]:
    """Find what a compute environment of AWS Batch cannot take, and what its containers do not see."""
    spec = fleet.spec
    if not fleet.profile.joins_batch or not isinstance(spec, FleetSpec):
        return []
    faults = []
    for finding in fleet.compute_environment.findings:
        name = _OF_FLEET.get(finding.path)
        place = (*fleet.key, name) if name else ("network",) if finding.path == "vpc_subnets" else fleet.key
        faults += faults_at(place, [_in_words(finding)], at_key=not name)
    return faults + list(_check_users(fleet.key, spec))


def _in_words(finding: Finding) -> Finding:
    """The finding as a cluster file has it, not as Python does."""
    if finding.path == "update_policy":
        return replace(
            finding,
            got="update: never",
            allowed="rolling",
            fix="remove update; pin the image, and deploy when nodes may be replaced",
            path="",
        )
    return replace(finding, path="")


def _check_users(key: Key, spec: FleetSpec) -> Iterator[Fault]:
    if spec.metadata_users:
        finding = BATCH_UNUSED.finding(
            cause="containers of AWS Batch reach no instance metadata, and their job role has the rights for "
            "checkpoints",
            got=", ".join(spec.metadata_users),
            allowed="no metadata_users with orchestrator: batch",
            fix="remove metadata_users",
            severity=Severity.WARNING,
        )
        yield from faults_at((*key, "metadata_users"), [finding])


def check_job_of(fleet: PlannedFleet) -> list[Fault]:
    """Find a job that its nodes cannot run, that AWS Batch refuses, or whose command holds a secret."""
    parts = fleet.parts
    if not fleet.profile.joins_batch or not isinstance(fleet.spec, FleetSpec) or parts.batch_is_broken:
        return []
    is_named = parts.batch is not None and fleet.name in parts.batch.jobs
    key: Key = ("batch", "jobs", fleet.name) if is_named else fleet.key
    faults = []
    for finding in (*fleet.multi_node_job.findings, *_about_image(fleet)):
        place = (*key, _OF_JOB.get(finding.path, finding.path)) if is_named else key
        faults += faults_at(place, [replace(finding, path="")], at_key=not is_named)
    for index, finding in check_secret_arguments(
        fleet.batch_job.command, not_secret=fleet.spec.not_secret, fix=OF_BATCH_JOB
    ):
        faults += faults_at((*key, "command", index), [replace(finding, path="")])
    return faults


def _about_image(fleet: PlannedFleet) -> Iterator[Finding]:
    """Find an image that Docker refuses or no node reaches, one that moves, and nodes that cannot run the default."""
    image = fleet.batch_job.image
    found = [] if image is None else check_container_image(image)
    if not errors_in(found):
        found = [*found, *check_registry(image or catalogue_image("pytorch").reference, fleet.parts)]
    yield from (replace(finding, path="image") for finding in found)
    record = fleet.plan.instance_type
    is_gpu = record.accelerator is not None and record.accelerator.kind is AcceleratorKind.GPU
    is_refused = record.accelerator is not None and not is_gpu  # other accelerators have a rule of their own
    if image is None and not is_refused and not (is_gpu and record.architecture is Architecture.X86_64):
        yield BATCH_JOBS.finding(
            cause="the job has no image, and AWS's image with PyTorch is for NVIDIA GPUs on x86_64",
            got=f"{record.name}, {record.architecture.value}{'' if is_gpu else ', without NVIDIA GPUs'}",
            allowed="an image for these nodes",
            fix=f"add batch.jobs.{fleet.name}.image",
            path="image",
        )
