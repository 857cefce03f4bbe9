"""A fleet in one of two files, and what of the cluster stands in templates beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters_stacks.spec.capacity import NewReservation, capacity_terms
from cdk_gpu_clusters_stacks.spec.data import ExistingCheckpointsSpec, ExistingLustreSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from ._compare import Made
from .model import FleetPlan

#: Where a statement about what replaces a resource comes from.
SCHEMA = "CloudFormation registry schema of {}, createOnlyProperties (cfn-lint 1.58.0)"


@dataclass(frozen=True, slots=True)
class Side:
    """A fleet in one of the two files: the cluster, the fleet with its rules, and its plan."""

    cluster: ClusterSpec
    view: PlannedFleet
    plan: FleetPlan

    @property
    def key(self) -> str:
        """Key of the fleet in its file."""
        return ".".join(map(str, self.view.key))


def told_of_store(cluster: ClusterSpec, name: str) -> Any:
    """What a node is told of a store: of one that is made here only its name."""
    store = cluster.data[name]
    if isinstance(store, ExistingLustreSpec):
        options = store.existing_lustre
        return options.file_system_id, options.mount_name, options.dns_name, options.efa
    if isinstance(store, ExistingCheckpointsSpec):
        return store
    express = getattr(getattr(store, "checkpoints", None), "express_zone_id", None)
    return name, express is not None


def tags_of(side: Side) -> Made:
    """Tags of the fleet's resources."""
    return {"tags": side.cluster.tags, f"{side.key}.tags": side.view.spec.tags}


def vpc_of(side: Side) -> Made:
    """The VPC as a template names it: by its id where it exists."""
    network = side.cluster.network
    return {"network.vpc_id": network.vpc_id if isinstance(network, ExistingNetwork) else None}


def subnets_of(side: Side, keys: tuple[str, ...]) -> Made:
    """The subnets as a template names them."""
    network = side.cluster.network
    if not isinstance(network, ExistingNetwork):
        return {"network": keys}
    if "fleet" in keys:
        return {"network": network.subnet_ids}
    public = any(key.startswith("public") for key in keys)
    return {"network": tuple((network.public_subnets if public else network.service_subnets).items())}


def servers_of(cluster: ClusterSpec, name: str) -> Made:
    """Whom rules between clients and a file system name, and how far they open it."""
    store = cluster.data[name]
    if isinstance(store, ExistingLustreSpec):
        options = store.existing_lustre
        return {"group": options.security_group_id, "efa": options.efa}
    return {"efa": isinstance(store, LustreSpec) and store.lustre.efa}


def bought(side: Side) -> Any:
    """What of the capacity stands in a launch template."""
    terms = capacity_terms(side.view.spec.capacity)
    is_new = isinstance(side.view.spec.capacity, NewReservation)
    return (
        terms.kind, terms.reservation_id, terms.reservation_group_arn, terms.max_price_usd_per_hour, is_new,
    )  # fmt: skip


def block_of(side: Side) -> Made | None:
    """What grows and drains a fleet with its block; None for other capacity."""
    if not side.plan.capacity.size_changes_after_deploy:
        return None
    capacity = side.plan.capacity
    return {
        f"{side.key}.capacity": (capacity.starts_at, capacity.drains_at),
        f"{side.key}.nodes": side.plan.maximum_nodes,
    }


def own_placement(side: Side) -> Made | None:
    """The placement group in the fleet's own stack; a new reservation's group stands with the reservation."""
    placement = side.plan.placement
    if not placement.is_made_here or side.plan.capacity.is_made_here:
        return None
    return {f"{side.key}.placement": placement.strategy}


def script_of(spec: FleetSpec) -> str | None:
    """The user's own script."""
    return None if spec.user_data is None else spec.user_data.read_text(encoding="utf-8")
