"""`Capacity`: the one value that states how a fleet's instances are bought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters._cdk import resolved_or_none
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms, parse_instant

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

    @classmethod
    def on_demand(cls, *, uses_open_reservations: bool = False) -> Capacity:
        """Instances at list price, without a reservation.

        Args:
            uses_open_reservations: Let a matching open reservation of the account pay; off by default, so that the
                fleet does not eat another team's reservation.
        """
        return cls(terms=CapacityTerms(kind=CapacityKind.ON_DEMAND, uses_open_reservations=uses_open_reservations))

    @classmethod
    def spot(cls, *, max_price_usd_per_hour: float | None = None) -> Capacity:
        """Spare instances that EC2 takes back with two minutes' notice.

        Args:
            max_price_usd_per_hour: Most to pay for an instance-hour, in US dollars; the on-demand price if left out.
        """
        return cls(terms=CapacityTerms(kind=CapacityKind.SPOT, max_price_usd_per_hour=max_price_usd_per_hour))

    @classmethod
    def reservation(cls, reservation: CapacityReservation) -> Capacity:
        """An On-Demand Capacity Reservation made in this app, in its placement group if it has one."""
        return cls(
            terms=CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=reservation.reservation_id),
            placement_group=reservation.placement_group,
            availability_zone=reservation.availability_zone,
            reserved_type=reservation.instance_type,
            reserved_count=reservation.instance_count,
        )

    @classmethod
    def from_reservation_id(
        cls, reservation_id: str, *, placement_group: ec2.IPlacementGroup | None = None
    ) -> Capacity:
        """An existing On-Demand Capacity Reservation.

        Args:
            reservation_id: `cr-…`.
            placement_group: The group that it was made in; leave it out if it was made in none.
        """
        return cls(
            terms=CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=reservation_id),
            placement_group=placement_group,
        )

    @classmethod
    def from_reservation_group_arn(
        cls, resource_group_arn: str, *, placement_group: ec2.IPlacementGroup | None = None
    ) -> Capacity:
        """Existing On-Demand Capacity Reservations in a resource group.

        Args:
            resource_group_arn: ARN of the resource group.
            placement_group: The group that all of them were made in; leave it out if in none.
        """
        return cls(
            terms=CapacityTerms(kind=CapacityKind.RESERVATION, reservation_group_arn=resource_group_arn),
            placement_group=placement_group,
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
            resource_group_arn: Resource group that holds the block; UltraServers cannot be targeted by id.
            ends_at: When the block ends, as EC2 shows it. Required.
            starts_at: When it starts; leave it out if it is already running.
            reservation_id: `cr-…` of the block, to follow EC2's events about it; without it the group grows and
                drains by the clock alone.

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
