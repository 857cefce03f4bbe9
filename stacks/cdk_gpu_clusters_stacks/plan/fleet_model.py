"""What a plan says about a fleet: its nodes, how they are bought and placed, what they mount and serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cost_model import FleetCost
from .kubernetes_model import NodeGroupPlan
from .node_model import NodePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    """How the nodes are bought, and what follows.

    Attributes:
        kind: `on-demand`, `spot`, `reservation`, `capacity-block` or `ultraserver-block`.
        words: The same in a phrase, such as "Capacity Block cr-0123456789abcdef0".
        reason: What follows from it for the launches, in a sentence.
        reservation_id: Id of the reservation or block.
        reservation_group_arn: Resource group of reservations.
        is_made_here: Whether the reservation is made by this cluster; it bills from then on.
        market_type: `spot` or `capacity-block` in the launch template, None for neither.
        starts_at, ends_at: When a block starts and ends, or a reservation made here ends; None for no such time.
        drains_at: When the fleet goes to zero before the end of a block.
        hours: From start to end of a block.
        size_changes_after_deploy: Whether the fleet starts at zero and grows when the block is delivered.
        terminates_before_launch: Whether a replacement must free its slot first.
        max_price_usd_per_hour: Limit of spot instances.
        unknown: Fields above that are None though they have a value -> why.
    """

    kind: str
    words: str
    reason: str
    reservation_id: str | None = None
    reservation_group_arn: str | None = None
    is_made_here: bool = False
    market_type: str | None = None
    starts_at: str | None = None
    drains_at: str | None = None
    ends_at: str | None = None
    hours: float | None = None
    size_changes_after_deploy: bool = False
    terminates_before_launch: bool = False
    max_price_usd_per_hour: float | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """Where the nodes stand to each other.

    Attributes:
        strategy: `cluster`, `spread`, `partition`, or None for no placement group.
        group_name: Name of an existing group; None for a new one or none.
        is_made_here: Whether a group is made for the fleet or its reservation.
        reason: Why, in a sentence.
    """

    strategy: str | None
    group_name: str | None
    is_made_here: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """A file system that every node mounts.

    Attributes:
        mount_point: Directory of the node.
        store: Key of the store.
        over_efa: Whether data take EFA.
        efa_interfaces: EFA interfaces that Lustre uses; 0 over TCP.
    """

    mount_point: str
    store: str
    over_efa: bool
    efa_interfaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """The machine image.

    Attributes:
        operating_system: Such as `al2023`; None if unknown.
        parameter: SSM parameter that names it, None for an id.
        image_id: Its id, None for a parameter.
        moves: Whether a later deployment may take a newer one; running nodes stay as they are.
        versions: Of what the release note names, such as `nvidia_driver` -> `580.95.05`.
    """

    operating_system: str | None
    parameter: str | None
    image_id: str | None
    moves: bool
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersPlan:
    """The model servers of a node.

    Attributes:
        image: Reference of the container image.
        device_kind: What each server is given: `gpu`, `mig` (a slice) or `neuron`.
        servers: Per server the indices of its devices.
        servers_per_node: How many.
        minimum_servers: Servers that must be up for a node to be healthy; None on EKS, where each is a pod.
        node_port: Port of the node's balancer; None on EKS, where a Service finds the pods.
        first_server_port: Port of the first server on loopback, the others follow; None on EKS.
        weights_path, weights_s3_uri: Where the servers find the model, and where it is copied from; None for neither.
    """

    image: str
    device_kind: str
    servers: tuple[tuple[int, ...], ...]
    servers_per_node: int
    minimum_servers: int | None
    node_port: int | None
    first_server_port: int | None
    weights_path: str | None
    weights_s3_uri: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerPlan:
    """The Application Load Balancer of an inference fleet.

    Attributes:
        internet_facing: Whether it has public addresses.
        protocol: `https` or `http`.
        port: Port of its listener.
        clients: Who may connect.
        subnets: Keys of the subnets in the network plan that it stands in.
        requests_per_minute_per_node: What the fleet scales on; None for no scaling.
    """

    internet_facing: bool
    protocol: str
    port: int
    clients: tuple[str, ...]
    subnets: tuple[str, ...]
    requests_per_minute_per_node: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """A fleet of equal nodes.

    Attributes:
        name: Key of the fleet.
        purpose: `training` or `inference`.
        stack_name: Its stack.
        minimum_nodes, maximum_nodes: Least and most nodes.
        nodes_at_deploy: Nodes when the stack is new: 0 on a block that is still to be delivered.
        node: One of its nodes.
        accelerators: Devices of all nodes, at the most.
        accelerator_memory_gib: Their memory together, in GiB.
        capacity: How the nodes are bought.
        placement: Where they stand to each other.
        subnets: Keys of the subnets in the network plan that the nodes stand in.
        availability_zones: Zones of the nodes, as far as they are known.
        fabric: EFA fabric that it shares with the fleets that name it, None without EFA.
        mounts: File systems.
        checkpoints: Key of the store for checkpoints, None for none.
        image: Machine image; None on EKS, which chooses it by the node group's image type.
        servers, load_balancer: Of an inference fleet, None of others. On EKS a Service takes the place of the load
            balancer.
        update: What a changed launch template does to running nodes: `never` or `rolling`.
        watch: Mode of the watchdog: `on`, `dry-run` or `off`.
        tags: Tags of the fleet, over and above the cluster's.
        cost: What the instances cost.
        node_group: The managed node group of EKS; None on plain EC2.
        notes: What is worth knowing, in sentences.
    """

    name: str
    purpose: str
    stack_name: str
    minimum_nodes: int
    maximum_nodes: int
    nodes_at_deploy: int
    node: NodePlan
    accelerators: int
    accelerator_memory_gib: float
    capacity: CapacityPlan
    placement: PlacementPlan
    subnets: tuple[str, ...]
    availability_zones: tuple[str, ...]
    fabric: str | None
    mounts: tuple[MountPlan, ...]
    checkpoints: str | None
    image: ImagePlan | None
    servers: ServersPlan | None
    load_balancer: LoadBalancerPlan | None
    update: str
    watch: str
    tags: Mapping[str, str]
    cost: FleetCost
    node_group: NodeGroupPlan | None = None
    notes: tuple[str, ...] = ()
