"""What is requested of a fleet, as plain values: the same from a construct and from a cluster file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from cdk_gpu_clusters.catalogue.images import Framework, OperatingSystem
from cdk_gpu_clusters.fleet.profile import EC2, OrchestratorProfile
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import PlacementStrategy

#: AWS PCS waits as long, too: until Slurm's ResumeTimeout (AWS PCS user guide, troubleshooting).
DEFAULT_READY_TIMEOUT_SECONDS = 30 * 60
DEFAULT_DRAIN_TIMEOUT_SECONDS = 5 * 60


class Field(str, Enum):
    """A part of a request that may be unknown: a token, or a value that has a fault of its own.

    A rule that reads an unknown part is left out.
    """

    NODES = "nodes"
    CAPACITY = "capacity"
    EFA = "efa"
    INTERFACES = "interface_policy"
    PLACEMENT = "placement"
    IMAGE = "image"
    MIG = "mig"
    TIMEOUTS = "timeouts"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationFacts:
    """What is known about the reservation that a fleet launches into, beyond its id.

    Attributes:
        has_placement_group: Whether it was made in a placement group.
        is_for_fleet: Whether it is made together with the fleet, so that its placement follows from the fleet's.
        availability_zone: Its zone, by name or id.
        instance_type: Its instance type.
        instance_count: Its number of instances.
    """

    has_placement_group: bool = False
    is_for_fleet: bool = False
    availability_zone: str | None = None
    instance_type: str | None = None
    instance_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """The requested machine image.

    Attributes:
        operating_system: Its operating system; the first that serves the type if None.
        framework: Framework that it has installed; None for an image without one.
        is_own: Whether it is your own image, whose contents are unknown.
    """

    operating_system: OperatingSystem | None = None
    framework: Framework | None = None
    is_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetFacts:
    """A subnet of the nodes.

    Attributes:
        name: Its name in errors, such as its construct path.
        zone: Its Availability Zone, by name or id.
        ipv4_block: Its IPv4 block.
    """

    name: str = ""
    zone: str | None = None
    ipv4_block: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """Everything that a fleet is decided from. None is a value that is left open, or known only at deployment.

    Attributes:
        name: Name of the fleet, for people.
        instance_type: Type of every node.
        profile: The orchestrator that launches the nodes.
        minimum: Least nodes.
        maximum: Most nodes.
        terms: How the nodes are bought.
        reservation: The reservation, if the terms name one.
        region: The Region.
        efa: Whether the nodes have EFA.
        interface_policy: Layout of the network interfaces.
        placement: Requested placement strategy.
        group_strategy: Strategy of the existing placement group to use.
        is_reservation_group: Whether that is the group of the reservation.
        image: The machine image; chosen by the profile if None.
        mig: How each GPU is split: one layout for all, or one for each.
        subnets: Subnets of the nodes.
        is_public: Whether one of them is a public subnet.
        pod_addresses: Addresses that a new node takes for its pods.
        serves_models: Whether the nodes run model servers.
        ready_timeout_seconds: How long a node's boot may take.
        drain_timeout_seconds: How long a node may take to stop its work.
        unknown: Parts that no rule reads: they are unknown, or checked elsewhere.

    Example:
        >>> FleetRequest(name="trainers", instance_type="p5.48xlarge", minimum=2, maximum=2).terms.kind.value
        'on-demand'
    """

    name: str
    instance_type: str
    profile: OrchestratorProfile = EC2
    minimum: int | None = None
    maximum: int | None = None
    terms: CapacityTerms = field(default_factory=lambda: CapacityTerms(kind=CapacityKind.ON_DEMAND))
    reservation: ReservationFacts = field(default_factory=ReservationFacts)
    region: str | None = None
    efa: bool | None = None
    interface_policy: InterfacePolicy | None = None
    placement: PlacementStrategy | None = None
    group_strategy: PlacementStrategy | None = None
    is_reservation_group: bool = False
    image: ImageRequest | None = None
    mig: MigLayout | Sequence[MigLayout] | None = None
    subnets: tuple[SubnetFacts, ...] = ()
    is_public: bool = False
    pod_addresses: int = 0
    serves_models: bool = False
    ready_timeout_seconds: int = DEFAULT_READY_TIMEOUT_SECONDS
    drain_timeout_seconds: int = DEFAULT_DRAIN_TIMEOUT_SECONDS
    unknown: frozenset[Field] = frozenset()
