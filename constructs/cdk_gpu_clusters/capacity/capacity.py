"""`Capacity`: the one value that states how a fleet's instances are bought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters._cdk import resolved_or_none
from cdk_gpu_clusters.rules.capacity import (
    BlockTerms,
    CapacityKind,
    CapacityTerms,
    TargetCapacityType,
    parse_instant,
    terms_of_blocks,
)

if TYPE_CHECKING:
    from cdk_gpu_clusters.capacity.capacity_reservation import CapacityReservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How the instances of a fleet are bought; every consumer (fleet, launch template, node group) takes it.

    Make one with a class method; each is one row of the table in `docs/capacity.md`.

    Example:
        >>> Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z").terms.kind.value
        'capacity-block'

    Attributes:
        terms: The plain values.
        placement_group: The group that an On-Demand Capacity Reservation was made in, None if in none.
        availability_zone: Zone of a reservation made here; None where only EC2 knows it.
        reserved_type: Instance type of a reservation made here; None where only EC2 knows it.
        reserved_count: Its number of instances; None where only EC2 knows it.
    """

    terms: CapacityTerms
    placement_group: ec2.IPlacementGroup | None = None
    availability_zone: str | None = None
    reserved_type: str | None = None
    reserved_count: int | None = None

    #: How it is made, for messages.
    TEXTS: ClassVar[tuple[str, ...]] = (
        "Capacity.on_demand()",
        "Capacity.spot()",
        "Capacity.capacity_block(...)",
        "Capacity.from_reservation_id(...)",
    )

    @classmethod
    def from_text(cls, text: str) -> Capacity:
        """Capacity that a word defines: `on_demand` or `spot`, as in a cluster file.

        Args:
            text: The word.

        Raises:
            ValueError: If it is another word.
        """
        word = text.strip().lower().replace("-", "_")
        if word not in ("on_demand", "spot"):
            raise ValueError(f"{text!r} is not on_demand or spot")
        return cls.spot() if word == "spot" else cls.on_demand()

    @classmethod
    def on_demand(cls, *, uses_open_reservations: bool = False, ends_at: str | datetime | None = None) -> Capacity:
        """Instances at list price, without a reservation.

        Args:
            uses_open_reservations: Let a matching open reservation of the account pay; off by default, so that the
                fleet does not eat another team's reservation.
            ends_at: When the fleet shall have no nodes any more; its nodes drain 15 minutes before.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.
        """
        return cls(
            terms=CapacityTerms(
                kind=CapacityKind.ON_DEMAND,
                uses_open_reservations=uses_open_reservations,
                ends_at=_end(ends_at),
            )
        )

    @classmethod
    def spot(cls, *, max_price_usd_per_hour: float | None = None, ends_at: str | datetime | None = None) -> Capacity:
        """Spare instances that EC2 takes back with two minutes' notice.

        Args:
            max_price_usd_per_hour: Most to pay for an instance-hour, in US dollars; the on-demand price if left out.
            ends_at: When the fleet shall have no nodes any more; its nodes drain 15 minutes before.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.
        """
        return cls(
            terms=CapacityTerms(
                kind=CapacityKind.SPOT, max_price_usd_per_hour=max_price_usd_per_hour, ends_at=_end(ends_at)
            )
        )

    @classmethod
    def reservation(cls, reservation: CapacityReservation) -> Capacity:
        """An On-Demand Capacity Reservation made in this app, in its placement group if it has one, until its end."""
        return cls(
            terms=CapacityTerms(
                kind=CapacityKind.RESERVATION,
                reservation_id=reservation.reservation_id,
                ends_at=reservation.ends_at,
            ),
            placement_group=reservation.placement_group,
            availability_zone=reservation.availability_zone,
            reserved_type=reservation.instance_type,
            reserved_count=reservation.instance_count,
        )

    @classmethod
    def from_reservation_id(
        cls,
        reservation_id: str,
        *,
        placement_group: ec2.IPlacementGroup | None = None,
        ends_at: str | datetime | None = None,
    ) -> Capacity:
        """An existing On-Demand Capacity Reservation.

        Args:
            reservation_id: `cr-…`.
            placement_group: The group that it was made in; leave it out if it was made in none.
            ends_at: When it ends. Its instances do not end with it, and are billed on demand from then on: with this,
                the nodes drain 15 minutes before.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.
        """
        return cls(
            terms=CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=reservation_id, ends_at=_end(ends_at)),
            placement_group=placement_group,
        )

    @classmethod
    def from_reservation_group_arn(
        cls,
        resource_group_arn: str,
        *,
        placement_group: ec2.IPlacementGroup | None = None,
        ends_at: str | datetime | None = None,
    ) -> Capacity:
        """Existing On-Demand Capacity Reservations in a resource group.

        Args:
            resource_group_arn: ARN of the resource group.
            placement_group: The group that all of them were made in; leave it out if in none.
            ends_at: When the last one ends; the nodes drain 15 minutes before.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.
        """
        return cls(
            terms=CapacityTerms(
                kind=CapacityKind.RESERVATION, reservation_group_arn=resource_group_arn, ends_at=_end(ends_at)
            ),
            placement_group=placement_group,
        )

    @classmethod
    def segments(
        cls,
        resource_group_arn: str,
        *,
        capacity_types: Sequence[TargetCapacityType],
        ends_at: str | datetime | None = None,
    ) -> Capacity:
        """Reservations of several types in one resource group, used in order; for fleets on plain EC2.

        EC2 Auto Scaling launches each node into the first of these types that has room. When the fleet scales in, it
        ends the nodes of the last type first. Without `ON_DEMAND` at the end nothing is launched beside reservations.
        The fleet is in no placement group, and has no alarm on a reservation that is idle while nodes run on demand.

        Args:
            resource_group_arn: ARN of the resource group. EC2 takes a Capacity Block into it when it is active.
            capacity_types: `ON_DEMAND_RESERVATION`, `CAPACITY_BLOCK`, `INTERRUPTIBLE_RESERVATION` and `ON_DEMAND`, in
                the order of their use; `ON_DEMAND` can only be last.
            ends_at: When the fleet shall have no nodes any more; they drain 15 minutes before. With `CAPACITY_BLOCK`
                required, the end of the first block to end: 40 minutes before.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.

        Example:
            >>> from cdk_gpu_clusters.rules.capacity import TargetCapacityType as Type
            >>> reserved = Capacity.segments(
            ...     "arn:aws:resource-groups:us-east-1:111122223333:group/trainers",
            ...     capacity_types=[Type.ON_DEMAND_RESERVATION, Type.ON_DEMAND],
            ... )
            >>> [one.value for one in reserved.terms.segment]
            ['on-demand-capacity-reservation', 'on-demand']

        Source: EC2 Auto Scaling guide, "Use Distribution Segments to target multiple Capacity Reservation types".
        """
        return cls(
            terms=CapacityTerms(
                kind=CapacityKind.RESERVATION,
                reservation_group_arn=resource_group_arn,
                segment=tuple(capacity_types),
                ends_at=_end(ends_at),
            )
        )

    @classmethod
    def capacity_block(
        cls, reservation_id: str, *, ends_at: str | datetime, starts_at: str | datetime | None = None
    ) -> Capacity:
        """A Capacity Block for ML that was bought before; no resource type buys one.

        Args:
            reservation_id: `cr-…` of the block.
            ends_at: When the block ends, as EC2 shows it. Required: synthesis cannot look it up.
            starts_at: When it starts; leave it out if it is already running.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.
        """
        return cls._block(CapacityKind.CAPACITY_BLOCK, starts_at, ends_at, reservation_id=reservation_id)

    @classmethod
    def capacity_blocks(cls, blocks: Sequence[BlockTerms]) -> Capacity:
        """Several Capacity Blocks for one fleet on plain EC2, one after the other or side by side.

        The fleet makes a resource group, which takes each block when it starts, and launches into whichever runs. Each
        is drained at its own end.

        Args:
            blocks: The blocks, all in the zone of the fleet; those that are over may stay in the list until the next
                edit.

        Example:
            >>> from cdk_gpu_clusters.rules.capacity import BlockTerms, parse_instant
            >>> first, second = (parse_instant(f"2026-12-{day}T11:30Z", name="ends_at") for day in (15, 29))
            >>> both = Capacity.capacity_blocks(
            ...     [
            ...         BlockTerms(reservation_id="cr-0123456789abcdef0", ends_at=first),
            ...         BlockTerms(reservation_id="cr-0aaaaaaaaaaaaaaaa", starts_at=first, ends_at=second),
            ...     ]
            ... )
            >>> len(both.terms.blocks)
            2
        """
        return cls(terms=terms_of_blocks(blocks))

    @classmethod
    def ultraserver_block(
        cls,
        resource_group_arn: str,
        *,
        ends_at: str | datetime,
        starts_at: str | datetime | None = None,
        reservation_id: str | None = None,
    ) -> Capacity:
        """An UltraServer Capacity Block that was bought before (P6e-GB200, Trn2).

        Args:
            resource_group_arn: Resource group that holds the block, which launches target; a managed node group of EKS
                targets `reservation_id`.
            ends_at: When the block ends, as EC2 shows it. Required.
            starts_at: When it starts; leave it out if it is already running.
            reservation_id: `cr-…` of the block, to follow EC2's events about it; without it the group grows and
                drains by the clock alone. A managed node group of EKS requires it, as text that is known at synthesis.

        Raises:
            ConfigError: GPU-CAP-015 for an instant without a time zone.
        """
        return cls._block(
            CapacityKind.ULTRASERVER_BLOCK,
            starts_at,
            ends_at,
            reservation_id=reservation_id,
            reservation_group_arn=resource_group_arn,
        )

    @classmethod
    def _block(
        cls,
        kind: CapacityKind,
        starts_at: str | datetime | None,
        ends_at: str | datetime,
        *,
        reservation_id: str | None = None,
        reservation_group_arn: str | None = None,
    ) -> Capacity:
        return cls(
            terms=CapacityTerms(
                kind=kind,
                reservation_id=reservation_id,
                reservation_group_arn=reservation_group_arn,
                starts_at=None if starts_at is None else parse_instant(starts_at, name="starts_at"),
                ends_at=parse_instant(ends_at, name="ends_at"),
            )
        )

    @property
    def known_terms(self) -> CapacityTerms:
        """The terms as far as they are known at synthesis, for the rules."""
        return replace(
            self.terms,
            reservation_id=resolved_or_none(self.terms.reservation_id),
            reservation_group_arn=resolved_or_none(self.terms.reservation_group_arn),
        )


def _end(ends_at: str | datetime | None) -> datetime | None:
    return None if ends_at is None else parse_instant(ends_at, name="ends_at")
