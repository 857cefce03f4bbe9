"""The cluster file as preflight reads it: what it creates, and what must already exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from cdk_gpu_clusters_stacks.plan import ClusterPlan
from cdk_gpu_clusters_stacks.plan.cluster import plan_cluster
from cdk_gpu_clusters_stacks.spec import (
    CheckpointsSpec,
    ClusterSpec,
    EfsSpec,
    ExistingEfsSpec,
    ExistingLustreOptions,
    ExistingLustreSpec,
    ExistingOpenZfsOptions,
    ExistingOpenZfsSpec,
    InferenceFleetSpec,
    LustreSpec,
    NewNetwork,
    OpenZfsSpec,
)
from cdk_gpu_clusters_stacks.spec.data import ExistingCheckpointsSpec, KeyArn
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets

ValueT = TypeVar("ValueT")

#: Tag of everything that a cluster's stacks make: key, and the cluster's name as value.
CLUSTER_TAG = "gpu-cluster"


#: A file system of FSx that exists already.
ExistingFsx = ExistingLustreOptions | ExistingOpenZfsOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A valid cluster file.

    Attributes:
        spec: The file.
        plan: What it makes.
        fleets: Its fleets by their keys in the file, such as `training.fleets.trainers`.
    """

    spec: ClusterSpec
    plan: ClusterPlan
    fleets: Mapping[str, PlannedFleet]

    @classmethod
    def of(cls, spec: ClusterSpec) -> Cluster:
        """Look at a file."""
        return cls(
            spec=spec,
            plan=plan_cluster(spec, ()),
            fleets={".".join(map(str, view.key)): view for view in planned_fleets(spec)},
        )

    @property
    def region(self) -> str:
        """Its Region."""
        return self.spec.region

    @property
    def new_network(self) -> NewNetwork | None:
        """The network that is made for it, if one is."""
        return self.spec.network if isinstance(self.spec.network, NewNetwork) else None

    @property
    def existing_network(self) -> ExistingNetwork | None:
        """The network that it is put into, if it exists."""
        return self.spec.network if isinstance(self.spec.network, ExistingNetwork) else None

    @property
    def subnets(self) -> Mapping[str, tuple[str, str]]:
        """Subnet and zone of each existing subnet, by its key in the file."""
        network = self.existing_network
        if network is None:
            return {}
        zone = network.availability_zone
        found = {f"network.subnet_ids.{index}": (subnet, zone) for index, subnet in enumerate(network.subnet_ids)}
        for name in ("service_subnets", "public_subnets"):
            for zone, subnet in getattr(network, name).items():
                found[f"network.{name}.{zone}"] = (subnet, zone)
        return found

    @property
    def servers(self) -> Mapping[str, InferenceFleetSpec]:
        """The inference fleets by their keys in the file."""
        return {f"inference.fleets.{name}": fleet for name, fleet in self.spec.inference.fleets.items()}

    @property
    def balanced(self) -> Mapping[str, InferenceFleetSpec]:
        """The inference fleets with a load balancer; where model servers are pods, a Service takes its place."""
        return {
            where: fleet
            for where, fleet in self.servers.items()
            if self.fleets[where].plan.request.profile.runs_model_servers
        }

    @property
    def makes_eks(self) -> bool:
        """Whether a cluster of EKS is made."""
        return self.plan.kubernetes is not None and self.plan.kubernetes.stack_name is not None

    @property
    def names_reservation_groups(self) -> bool:
        """Whether a fleet launches into a resource group of reservations."""
        return any(fleet.plan.terms.reservation_group_arn for fleet in self.fleets.values())

    def stores(self, kind: type[ValueT]) -> Mapping[str, ValueT]:
        """The stores of one kind by their keys in the file."""
        return {f"data.{name}": store for name, store in self.spec.data.items() if isinstance(store, kind)}

    @property
    def existing_lustre(self) -> Mapping[str, ExistingLustreOptions]:
        """Existing Lustre file systems by their keys in the file."""
        stores = self.stores(ExistingLustreSpec)
        return {f"{where}.existing_lustre": store.existing_lustre for where, store in stores.items()}

    @property
    def existing_fsx(self) -> Mapping[str, ExistingFsx]:
        """Existing file systems of FSx by their keys in the file."""
        homes = self.stores(ExistingOpenZfsSpec)
        return {
            **self.existing_lustre,
            **{f"{where}.existing_openzfs": store.existing_openzfs for where, store in homes.items()},
        }

    @property
    def buckets(self) -> Mapping[str, str]:
        """Existing buckets by their keys in the file."""
        found: dict[str, str | None] = {}
        for where, lustre in self.stores(LustreSpec).items():
            for index, link in enumerate(lustre.repositories):
                found[f"{where}.repositories.{index}.bucket"] = link.bucket
        for where, given in self.stores(ExistingCheckpointsSpec).items():
            found[f"{where}.bucket_name"] = given.existing_checkpoints.bucket_name
        for where, fleet in self.fleets.items():
            found[f"{where}.evidence_bucket"] = fleet.spec.evidence_bucket
        for where, service in self.servers.items():
            weights = service.server.weights
            uri = None if weights is None else weights.s3_uri
            found[f"{where}.server.weights.s3_uri"] = uri and uri.removeprefix("s3://").partition("/")[0]
        for where, service in self.balanced.items():
            found[f"{where}.load_balancer.access_log_bucket"] = service.load_balancer.access_log_bucket
        return {where: name for where, name in found.items() if name}

    @property
    def keys(self) -> Mapping[str, KeyArn]:
        """KMS keys by their keys in the file."""
        found: dict[str, str | None] = {}
        for where, fleet in self.fleets.items():
            found[f"{where}.root_volume.encryption_key_arn"] = fleet.spec.root_volume.encryption_key_arn
        for where, lustre in self.stores(LustreSpec).items():
            found[f"{where}.lustre.encryption_key_arn"] = lustre.lustre.encryption_key_arn
        for where, zfs in self.stores(OpenZfsSpec).items():
            found[f"{where}.openzfs.encryption_key_arn"] = zfs.openzfs.encryption_key_arn
        for where, efs in self.stores(EfsSpec).items():
            found[f"{where}.efs.encryption_key_arn"] = efs.efs.encryption_key_arn
        for where, made in self.stores(CheckpointsSpec).items():
            found[f"{where}.checkpoints.encryption_key_arn"] = made.checkpoints.encryption_key_arn
        for where, given in self.stores(ExistingCheckpointsSpec).items():
            found[f"{where}.existing_checkpoints.encryption_key_arn"] = given.existing_checkpoints.encryption_key_arn
        for where, service in self.servers.items():
            if service.server.weights is not None:
                found[f"{where}.server.weights.encryption_key_arn"] = service.server.weights.encryption_key_arn
        return {where: arn for where, arn in found.items() if arn}

    @property
    def security_groups(self) -> Mapping[str, str]:
        """Existing security groups by their keys in the file."""
        efs = {f"{where}.existing_efs": one.existing_efs for where, one in self.stores(ExistingEfsSpec).items()}
        stores = {**self.existing_fsx, **efs}
        found = {f"{where}.security_group_id": store.security_group_id for where, store in stores.items()}
        existing = self.spec.eks.existing
        if existing is not None and self.plan.kubernetes is not None:
            found["eks.existing.cluster_security_group_id"] = existing.cluster_security_group_id
        for where, service in self.balanced.items():
            for index, client in enumerate(service.load_balancer.clients):
                if client.startswith("sg-"):
                    found[f"{where}.load_balancer.clients.{index}"] = client
        return found

    def about(self, kind: str, of: str) -> str:
        """The key of the cluster file that a planned stack is made for, otherwise what it holds."""
        if kind == "data":
            return f"data.{of}"
        if kind in ("capacity", "fleet", "inference"):
            return next((key for key in self.fleets if key.endswith(f".{of}")), of)
        return " ".join(filter(None, (kind, of)))

    def owns(self, resource: Mapping[str, Any]) -> bool:
        """Whether a resource of the account is of this cluster, by its tag; what it uses is already counted then."""
        tags = resource.get("Tags") or resource.get("TagSet") or ()
        return any((tag["Key"], tag["Value"]) == (CLUSTER_TAG, self.spec.name) for tag in tags)

    def is_zone(self, zone: str, found: Mapping[str, Any]) -> bool:
        """Whether a zone of the file, name or id, is the zone of a resource of the account."""
        return zone in (found.get("AvailabilityZone"), found.get("AvailabilityZoneId"))


def fleets_where(wanted: Callable[[PlannedFleet], bool]) -> Callable[[Cluster], Mapping[str, PlannedFleet]]:
    """The fleets that a check looks at, by key of the cluster file."""
    return lambda cluster: {where: fleet for where, fleet in cluster.fleets.items() if wanted(fleet)}


def words(items: Iterable[object]) -> str:
    """Items in a row for a sentence, "none" if there are none."""
    return ", ".join(map(str, items)) or "none"


def utc(moment: datetime) -> str:
    """A time for a sentence."""
    return f"{moment:%Y-%m-%dT%H:%MZ}"
