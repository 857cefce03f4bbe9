"""What a cluster file takes for granted, as seeds of the emulator: reservations, blocks, groups, subnets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cdk_gpu_clusters.testing.emulator.clock import format_time, parse_time
from cdk_gpu_clusters_stacks.spec.capacity import (
    CapacityBlock,
    NewReservation,
    Reservation,
    ReservationGroup,
    UltraServerBlock,
)
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork

Json = dict[str, Any]
_BEFORE = timedelta(days=1)
_MADE_UP_MEMBER = "cr-0123456789abcdef0"  # the one reservation of a resource group that a file names


def seeds_of(spec: ClusterSpec) -> Json:
    """Everything that a cluster file names and no stack makes."""
    seed: Json = {"reservations": [], "reservation_groups": {}, "placement_groups": {}, "subnets": {}}
    zone = spec.network.availability_zone
    if isinstance(spec.network, ExistingNetwork):
        seed["subnets"] = dict.fromkeys(spec.network.subnet_ids, zone)
    for fleet in spec.training.fleets.values():
        _add_capacity(seed, fleet, zone)
    dates = [parse_time(str(moment)) for fleet in spec.training.fleets.values() for moment in _dates(fleet)]
    eve = min(dates, default=datetime.max.replace(tzinfo=UTC)) - _BEFORE
    if eve < datetime.now(UTC):  # an example stays deployable after its dates have passed
        seed["now"] = format_time(eve)
    return seed


def _dates(fleet: FleetSpec) -> list[object]:
    """The moments that must lie ahead at the first deploy."""
    capacity = fleet.capacity
    if isinstance(capacity, CapacityBlock | UltraServerBlock):
        return [capacity.starts_at or capacity.ends_at]
    if isinstance(capacity, NewReservation) and capacity.new_reservation.end_date:
        return [capacity.new_reservation.end_date]
    return []


def block_times(spec: ClusterSpec) -> tuple[str, str] | None:
    """Start and end of the first Capacity Block that starts later; None where there is none."""
    for fleet in spec.training.fleets.values():
        capacity = fleet.capacity
        if isinstance(capacity, CapacityBlock | UltraServerBlock) and capacity.starts_at:
            return str(capacity.starts_at), str(capacity.ends_at)
    return None


def _add_capacity(seed: Json, fleet: FleetSpec, zone: str) -> None:
    capacity = fleet.capacity
    reservation: Json = {
        "instance_type": fleet.instance_type,
        "availability_zone": zone,
        "count": fleet.nodes or fleet.max_nodes or 1,
    }
    if isinstance(capacity, CapacityBlock | UltraServerBlock):
        reservation |= {
            "kind": "capacity-block",
            "starts_at": capacity.starts_at and str(capacity.starts_at),
            "ends_at": str(capacity.ends_at),
        }
    if isinstance(capacity, Reservation | ReservationGroup) and capacity.placement_group:
        reservation["placement_group"] = capacity.placement_group
        seed["placement_groups"][capacity.placement_group] = "cluster"
    match capacity:
        case CapacityBlock():
            identifier = capacity.capacity_block
        case Reservation():
            identifier = capacity.reservation
        case UltraServerBlock():
            identifier = _group(seed, capacity.ultraserver_block)
        case ReservationGroup():
            identifier = _group(seed, capacity.reservation_group)
        case _:
            return
    seed["reservations"].append({"id": identifier, **reservation})


def _group(seed: Json, arn: str) -> str:
    seed["reservation_groups"][arn.rsplit("/", 1)[-1]] = [_MADE_UP_MEMBER]
    return _MADE_UP_MEMBER
