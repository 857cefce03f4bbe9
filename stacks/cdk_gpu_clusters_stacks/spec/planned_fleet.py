"""A fleet of the cluster file with the plan that every construct, rule and report of it reads."""

from __future__ import annotations

from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.images import ImageParameter, OperatingSystem
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan, NodeGroupRequest, plan_node_group
from cdk_gpu_clusters.fleet.plan import FleetPlan, plan_fleet
from cdk_gpu_clusters.fleet.profile import EC2, EKS_MANAGED
from cdk_gpu_clusters.fleet.request import (
    DEFAULT_READY_TIMEOUT_SECONDS,
    Field,
    FleetRequest,
    ImageRequest,
    ReservationFacts,
    SubnetFacts,
)
from cdk_gpu_clusters.node.storage import SCRATCH_MOUNT_POINT, ScratchSettings
from cdk_gpu_clusters.rules.eks_cluster import MINIMUM_IP_TARGET
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL
from cdk_gpu_clusters.rules.mig import MigPlan
from cdk_gpu_clusters.rules.model_servers import plan_scratch

from ._document import Key
from ._parts import FleetPart, SpecParts
from .capacity import NewReservation, Reservation, ReservationGroup, capacity_terms
from .fleet import FleetSpec, ImageByOs
from .inference import InferenceFleetSpec
from .network import ExistingNetwork, NewNetwork

_COUNTS = frozenset({"nodes", "min_nodes", "max_nodes"})
#: Fields of a fleet -> the part of the request that they make.
_PARTS = {
    **dict.fromkeys(_COUNTS, Field.NODES),
    "capacity": Field.CAPACITY,
    "efa": Field.EFA,
    "interface_policy": Field.INTERFACES,
    "placement": Field.PLACEMENT,
    "image": Field.IMAGE,
    "mig": Field.MIG,
}
#: What the file's own checks read: the subnets together with all fleets, the time-outs beside the load balancer.
_CHECKED_ELSEWHERE = frozenset({Field.NETWORK, Field.TIMEOUTS})


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """A fleet of the file with its plan.

    Attributes:
        part: The fleet in the file.
        network: Network of the cluster, if it is valid.
        plan: What was decided about it.
    """

    part: FleetPart
    network: NewNetwork | ExistingNetwork | None
    plan: FleetPlan

    @classmethod
    def of(cls, part: FleetPart, parts: SpecParts) -> PlannedFleet:
        """Plan a fleet of the file."""
        return cls(part, parts.network, plan_fleet(fleet_request(part, parts)))

    @property
    def key(self) -> Key:
        """Path of the fleet in the file."""
        return self.part.key

    @property
    def spec(self) -> FleetSpec | InferenceFleetSpec:
        """The fleet."""
        return self.part.spec

    @property
    def broken(self) -> frozenset[str]:
        """Fields of it that have a fault already."""
        return self.part.broken

    @property
    def name(self) -> str:
        """The fleet's name."""
        return str(self.key[-1])

    @property
    def on_eks(self) -> bool:
        """Whether its nodes are a node group of Amazon EKS."""
        return self.plan.request.profile is EKS_MANAGED

    @property
    def region(self) -> str | None:
        """Region of the cluster, if it is valid."""
        return self.plan.request.region

    @property
    def type(self) -> InstanceType:
        """Its instance type's record."""
        return self.plan.instance_type

    @property
    def mig(self) -> MigPlan | None:
        """How its GPUs are split; None if they are not, or cannot be."""
        return self.plan.mig

    @property
    def uses_efa(self) -> bool:
        """Whether its nodes have EFA interfaces."""
        return self.plan.efa

    @property
    def image_row(self) -> ImageParameter | None:
        """The catalogue's row of its machine image; None for your own image, for EKS's, and if there is none."""
        return self.plan.image

    @property
    def node_count(self) -> int | None:
        """Most nodes that it can have, if that is valid."""
        return None if Field.NODES in self.plan.request.unknown else self.plan.request.maximum

    @property
    def node_group(self) -> NodeGroupPlan:
        """What EKS adds to it.

        Raises:
            ConfigError: If there is no layout of network interfaces for it.
        """
        return plan_node_group(self.plan, NodeGroupRequest(name=self.name, labels={FLEET_LABEL: self.name}))

    @property
    def scratch(self) -> ScratchSettings | None:
        """The file system on the local disks of a node; None if it has none."""
        disks = self.plan.local_disks
        return ScratchSettings(disk_count=disks) if disks and self.scratch_plan[0] else None

    @property
    def scratch_plan(self) -> tuple[bool, list[Finding]]:
        """Whether local disks become one file system, and what is wrong with weights that lie on it."""
        if isinstance(self.spec, FleetSpec):
            return self.spec.scratch, []
        weights = self.spec.server.weights
        return plan_scratch(
            None if weights is None else weights.path,
            self.type,
            scratch=SCRATCH_MOUNT_POINT,
            requested=self.spec.scratch,
            mount_points=self.spec.mounts,
            copied=weights is not None and weights.s3_uri is not None,
        )

    @property
    def is_in_service_subnets(self) -> bool:
        """Whether its nodes are beside the load balancers, and not in the fleets' subnet."""
        return is_in_service_subnets(self.part)

    @property
    def is_place_unknown(self) -> bool:
        """Whether a fault of the capacity hides in which of the network's subnets its nodes are."""
        return is_place_unknown(self.part)

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones that its nodes may be in, as far as their names are known."""
        return tuple(subnet.zone for subnet in self.plan.request.subnets if subnet.zone is not None)


def fleet_request(part: FleetPart, parts: SpecParts) -> FleetRequest:
    """What the cluster file requests of a fleet, as constructs request it. A field with a fault is unknown.

    Args:
        part: The fleet in the file.
        parts: The valid parts of the file.
    """
    spec, serves = part.spec, isinstance(part.spec, InferenceFleetSpec)
    ready = spec.ready_timeout_seconds if isinstance(spec, InferenceFleetSpec) else None
    return FleetRequest(
        name=str(part.key[-1]),
        instance_type=spec.instance_type,
        profile=EKS_MANAGED if parts.on_eks else EC2,
        minimum=spec.minimum_nodes,
        maximum=spec.maximum_nodes or None,
        terms=capacity_terms(spec.capacity),
        reservation=_reservation(spec),
        region=parts.region,
        efa=spec.requested_efa,
        interface_policy=spec.requested_interfaces,
        placement=spec.placement_strategy,
        image=None if parts.on_eks else _image(spec),
        mig=spec.mig_layouts,
        subnets=_subnets(part, parts.network),
        pod_addresses=MINIMUM_IP_TARGET if parts.makes_eks else 0,
        serves_models=serves,
        ready_timeout_seconds=ready or DEFAULT_READY_TIMEOUT_SECONDS,
        unknown=_CHECKED_ELSEWHERE | {_PARTS[name] for name in part.broken if name in _PARTS},
    )


def is_in_service_subnets(part: FleetPart) -> bool:
    """Whether the nodes of a fleet are beside the load balancers, and not in the fleets' subnet."""
    return isinstance(part.spec, InferenceFleetSpec) and not part.spec.is_reserved


def is_place_unknown(part: FleetPart) -> bool:
    """Whether a fault of the capacity hides in which of the network's subnets the nodes of a fleet are."""
    return isinstance(part.spec, InferenceFleetSpec) and "capacity" in part.broken


def _reservation(spec: FleetSpec | InferenceFleetSpec) -> ReservationFacts:
    capacity = spec.capacity
    if isinstance(capacity, NewReservation):
        return ReservationFacts(is_for_fleet=True)
    if isinstance(capacity, Reservation | ReservationGroup):
        return ReservationFacts(has_placement_group=capacity.placement_group is not None)
    return ReservationFacts()


def _image(spec: FleetSpec | InferenceFleetSpec) -> ImageRequest | None:
    if spec.image is None:
        return None
    is_own = not isinstance(spec.image, ImageByOs)
    return ImageRequest(operating_system=OperatingSystem(spec.image.os), is_own=is_own)


def _subnets(part: FleetPart, network: NewNetwork | ExistingNetwork | None) -> tuple[SubnetFacts, ...]:
    """The subnets of the nodes; of a new network their number may be known without their zones."""
    if network is None or is_place_unknown(part):
        return ()
    if not is_in_service_subnets(part):
        return (SubnetFacts(zone=network.availability_zone),)
    if isinstance(network, ExistingNetwork):
        return tuple(SubnetFacts(zone=zone) for zone in network.service_subnets)
    zones = network.control_availability_zones or (None,) * len(network.control_zones)
    return tuple(SubnetFacts(zone=zone) for zone in zones)
