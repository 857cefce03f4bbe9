"""A fleet in one of two files, and what of the cluster stands in templates beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters_stacks.spec.data import ExistingCheckpointsSpec, ExistingLustreSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.views import FleetView

from ._compare import Made
from .fleet_model import FleetPlan

#: Where a statement about what replaces a resource comes from.
SCHEMA = "CloudFormation registry schema of {}, createOnlyProperties (cfn-lint 1.58.0)"


@dataclass(frozen=True, slots=True)
class Side:
    """A fleet in one of the two files: the cluster, the fleet with its rules, and its plan."""

    cluster: ClusterSpec
    view: FleetView
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
