"""Checks of teams that share the fleets of a cluster of EKS."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.queues import CLUSTER_QUEUE
from cdk_gpu_clusters.kubernetes.team_quotas import check_teams

from ._document import Fault, Key, faults_at
from ._parts import SpecParts
from ._rules import EKS_EXISTING
from .eks import EksSpec
from .fleet import FleetSpec
from .planned_fleet import PlannedFleet

_PLACE = re.compile(r"teams\[(\d+)\](?:\.quotas\[(\d+)\])?(?:\.(\w+))?")
#: What the library calls a group of nodes is a fleet in the file.
_KEYS = {"pool": "fleet"}


def check_eks_teams(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find teams that cannot be as the file describes them, once all fleets are right."""
    spec = parts.eks
    if not parts.profile.joins_eks or spec is None or not spec.teams:
        return []
    faults = _check_members(spec)
    pools = _pools(parts, fleets)
    if pools is None:
        return faults
    found = check_teams(spec.all_teams, pools, cluster_queue=CLUSTER_QUEUE)
    return faults + [fault for one in found for fault in _placed(one, list(spec.teams))]


def _pools(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[NodePool] | None:
    """The groups of nodes whose pods are queued; None where a fault keeps them from being known."""
    if len(fleets) < len(parts.fleets) or any(one.broken or one.node_count is None for one in fleets):
        return None
    slurm = None if parts.eks is None else parts.eks.software.slurm
    training = [part.name for part in parts.fleets if isinstance(part.spec, FleetSpec)]
    of_slurm = () if slurm is None else slurm.fleet_names(training)
    try:
        return [one.node_group.pool for one in fleets if one.name not in of_slurm]
    except ConfigError:
        return None


def _placed(finding: Finding, names: Sequence[str]) -> list[Fault]:
    place = _PLACE.fullmatch(finding.path)
    if place is None:
        return faults_at(("eks", "teams"), [finding])
    index, quota, field = place.groups()
    key: Key = ("eks", "teams", names[int(index)])
    if field == "name":
        return faults_at(key, [finding], at_key=True)
    if quota is not None:
        key = (*key, "quotas", int(quota))
    return faults_at(key if field is None else (*key, _KEYS.get(field, field)), [finding])


def _check_members(spec: EksSpec) -> list[Fault]:
    if spec.existing is None:
        return []
    return [
        fault
        for name, team in spec.teams.items()
        if team.principal_arns
        for fault in faults_at(
            ("eks", "teams", name, "principal_arns"),
            [
                EKS_EXISTING.finding(
                    cause="access entries of an existing cluster are not made here",
                    got=f"principal_arns of {name}",
                    allowed="teams without principal_arns",
                    fix=f"remove principal_arns, and put these principals into the group {team.of(name).group}",
                )
            ],
        )
    ]
