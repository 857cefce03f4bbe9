"""Checks of what pods on EKS are called, and of what they see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ._fault import Fault, faults_at
from ._parts import FleetPart, SpecParts
from ._rules import EKS_NAMES, EKS_WEIGHTS
from .inference import InferenceFleetSpec

#: What `gpu-clusters manifests` puts behind the name of a fleet: whole GPUs of a training fleet, and slices.
_OF_JOBS, _OF_SLICES = r"-(job|train-job|nccl-test)", r"-(mig-.+|all(-mig-.+)?)"


def check_names(parts: SpecParts) -> Iterator[Fault]:
    """Find model servers whose Service would also find the pods of another fleet."""
    for part in parts.fleets:
        for other in parts.fleets:
            if isinstance(part.spec, InferenceFleetSpec) and _meets(_name(part), other):
                finding = EKS_NAMES.finding(
                    cause="a job or server of another fleet has this name, and the Service would send requests to it",
                    got=f"{_name(part)}, beside {_name(other)}",
                    fix="rename one of the fleets",
                )
                yield from faults_at(part.key, [finding], at_key=True)


def check_weights(part: FleetPart) -> list[Fault]:
    """Find weights that no pod sees."""
    spec = part.spec
    weights = spec.server.weights if isinstance(spec, InferenceFleetSpec) else None
    if weights is None or weights.path is None or weights.s3_uri is not None or "mounts" in part.broken:
        return []
    if any(PurePosixPath(weights.path).is_relative_to(point) for point in spec.mounts):
        return []
    finding = EKS_WEIGHTS.finding(
        cause="a pod does not see this folder of its node",
        got=weights.path,
        allowed=f"a folder below {', '.join(spec.mounts)}" if spec.mounts else "a folder of a mounted store",
        fix="add a store to the fleet's mounts, or give s3_uri",
    )
    return faults_at((*part.key, "server", "weights", "path"), [finding])


def _name(part: FleetPart) -> str:
    return str(part.key[-1])


def _meets(name: str, other: FleetPart) -> bool:
    if other.spec.mig:
        ends = _OF_SLICES
    elif isinstance(other.spec, InferenceFleetSpec):
        return False
    else:
        ends = _OF_JOBS
    return re.fullmatch(re.escape(_name(other)) + ends, name) is not None
