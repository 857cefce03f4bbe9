"""What EC2 refuses about placement groups.

Source: EC2 user guide, "Capacity Reservations in cluster placement groups" (a group cannot be deleted while it holds
reservations) and "Delete a placement group" (nor while it holds instances), stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..faults import Fault

if TYPE_CHECKING:
    from ..world import World


def placement_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::PlacementGroup`."""
    now = world.clock.now()
    for reservation in world.reservations().values():
        if reservation.placement_group == physical_id and reservation.state(now) in ("active", "scheduled"):
            yield Fault(
                check="placement-group-in-use",
                message=f"the placement group {physical_id!r} still holds the reservation {reservation.id}",
            )
