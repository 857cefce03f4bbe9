"""Checks of what only training fleets have: EFA, interfaces, checkpoints, and the user's part of the user data."""

from __future__ import annotations

from cdk_gpu_clusters.rules.interfaces import check_efa_wish

from ._check_user_data import check_environment, check_script
from ._document import Key
from ._fault import Fault, faults_at
from ._fleet_view import FleetView
from ._parts import SpecParts
from ._stores import check_store_name
from .data import CheckpointsSpec, ExistingCheckpointsSpec
from .fleet import FleetSpec

_BUCKETS = (CheckpointsSpec, ExistingCheckpointsSpec)


def check_training_values(key: Key, spec: FleetSpec, broken: frozenset[str], parts: SpecParts) -> list[Fault]:
    """Find what is wrong with a training fleet of whatever type."""
    faults: list[Fault] = []
    if "environment" not in broken:
        faults += check_environment((*key, "environment"), spec.environment)
    if "user_data" not in broken:
        faults += check_script(key, spec)
    if spec.checkpoints is not None and parts.stores is not None:
        found = check_store_name(spec.checkpoints, parts.stores, _BUCKETS, "checkpoints")
        faults += faults_at((*key, "checkpoints"), found)
    return faults


def check_training_nodes(view: FleetView, spec: FleetSpec) -> list[Fault]:
    """Find what is wrong with a training fleet of its type."""
    faults: list[Fault] = []
    if "efa" not in view.broken:
        faults += faults_at((*view.key, "efa"), check_efa_wish(view.type, spec.efa))
        if "interface_policy" not in view.broken:
            faults += faults_at((*view.key, "interface_policy"), view.plan_findings)
    return faults
