"""What a user asks for, in words of AWS: what the invariants hold a template against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from matrix.hardware import Hardware, hardware_types

RESERVED = ("odcr", "capacity-block", "ultraserver-block")
BLOCKS = ("capacity-block", "ultraserver-block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """How the instances are bought.

    Attributes:
        kind: `on-demand`, `spot`, `odcr`, `capacity-block` or `ultraserver-block`.
        target: Id or resource-group ARN of existing reservations; None where the reservation is made here.
        placement_group: Group that an existing reservation was made in.
        is_made_here: Whether the reservation stands in the same app.
        is_in_group: Whether the reservation was made in a placement group.
        uses_open: On-demand: whether open reservations may pay.
        max_price: Spot: the price limit.
        block_id: Id of a block, None where it is known by its resource group alone.
        starts_at: When a block starts.
        ends_at: When a block ends.
    """

    kind: str = "on-demand"
    target: str | None = None
    placement_group: str | None = None
    is_made_here: bool = False
    is_in_group: bool = False
    uses_open: bool = False
    max_price: float | None = None
    block_id: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def is_reserved(self) -> bool:
        """Whether the number of instances is fixed."""
        return self.kind in RESERVED

    @property
    def is_block(self) -> bool:
        """Whether the capacity starts and ends at a time."""
        return self.kind in BLOCKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One group of nodes as the user asks for it.

    Attributes:
        orchestrator: `ec2`, `eks-managed`, `eks-self-managed` or `pcs`.
        instance_type: Type of the nodes.
        purchase: How they are bought.
        efa: The user's word about EFA; by default accelerated types that have it use it.
        policy: `minimum-ip`, `maximum-ena-bandwidth` or `efa-per-card`; None for the orchestrator's default.
        system: Operating system of the image; None to leave it to the library.
        image_id: The user's own image.
        image_parameter: The SSM parameter of the user's own image.
        minimum: Least nodes, None where the orchestrator sizes the group.
        maximum: Most nodes.
        zone: Zone that the nodes are to stand in.
        zones: Zones of existing subnets, by their ids.
        is_public: Whether the subnets give public addresses.
        placement: Placement strategy in the user's words.
        rolling: Whether a new template version replaces running nodes.
        tags: Tags that every node, volume and interface carries.
        partition: MIG_PARTITION text, None for whole GPUs.
        mounts: Mount points of file systems.
        server_groups: Security groups of those that exist already.
        environment: Variables of the nodes.
        is_node_group: Whether Amazon EKS makes and resizes the group, for one of our node groups.
        is_compute_node_group: Whether AWS PCS does, for one of our compute node groups.
        cluster_group: The security group of an existing cluster that the nodes join, of Kubernetes or Slurm.
    """

    instance_type: str
    orchestrator: str = "ec2"
    purchase: Purchase = field(default_factory=Purchase)
    efa: bool | None = None
    policy: str | None = None
    system: str | None = None
    image_id: str | None = None
    image_parameter: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    zone: str | None = None
    zones: Mapping[str, str] = field(default_factory=dict)
    is_public: bool = False
    placement: str | None = None
    rolling: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    partition: str | None = None
    mounts: tuple[str, ...] = ()
    server_groups: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_node_group: bool = False
    is_compute_node_group: bool = False
    cluster_group: str | None = None

    @property
    def hardware(self) -> Hardware:
        """What EC2 publishes about the type."""
        return hardware_types()[self.instance_type]

    @property
    def wants_efa(self) -> bool:
        """Whether the nodes are to have EFA interfaces."""
        hardware = self.hardware
        return hardware.most_efa > 0 and (hardware.accelerator is not None if self.efa is None else self.efa)

    @property
    def layout(self) -> str:
        """The interface policy, with the default filled in: AWS PCS documents one `efa` for each card."""
        return self.policy or ("efa-per-card" if self.orchestrator in ("pcs", "batch") else "minimum-ip")

    def buying(self, purchase: Purchase) -> Asked:
        """The same, bought in another way."""
        return replace(self, purchase=purchase)
