"""What EC2 refuses in the market options and the reservation target of a launch template.

Sources: EC2 user guide, "Capacity Blocks for ML" (market type `capacity-block` together with a reservation target; no
placement groups), "Capacity Reservations in cluster placement groups" (a reservation of a group is used only from
within it), read 2026-11-21; RunInstances, `CapacityReservationSpecification`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..zones import zone_name

if TYPE_CHECKING:
    from ..reservations import Reservation
    from ..world import World

_PATH = "LaunchTemplateData/CapacityReservationSpecification"
_MARKET = "LaunchTemplateData/InstanceMarketOptions"
_PLACEMENT = "LaunchTemplateData/Placement"


def target_faults(data: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of market type, reservation target and placement together."""
    specification = data.get("CapacityReservationSpecification", {})
    target = specification.get("CapacityReservationTarget", {})
    market = data.get("InstanceMarketOptions", {}).get("MarketType", "")
    yield from _market_faults(data, market, target, specification)
    if not target:
        return
    reservations, missing = _targets(target, world)
    if missing:
        yield Fault(check="reservation-missing", message=missing, path=f"{_PATH}/CapacityReservationTarget")
    for reservation in reservations:
        yield from _match_faults(data, market, reservation)


def _market_faults(
    data: dict[str, Any], market: str, target: dict[str, Any], specification: dict[str, Any]
) -> Iterator[Fault]:
    if market == "spot" and target:
        yield Fault(
            check="spot-with-reservation", message="Spot instances cannot use a reservation", path=_MARKET
        )
    if market == "capacity-block" and not target:
        yield Fault(
            check="block-without-target",
            message="market type capacity-block needs the reservation of the Capacity Block as its target",
            path=_PATH,
        )
    if market == "capacity-block" and (data.get("Placement", {}).keys() & {"GroupName", "GroupId"}):
        yield Fault(
            check="block-in-placement-group",
            message="Capacity Blocks do not support placement groups",
            path=_PLACEMENT,
        )
    if specification.get("CapacityReservationPreference") in ("none", "open") and target:
        yield Fault(
            check="preference-with-target",
            message=f"preference {specification['CapacityReservationPreference']} cannot stand beside a target",
            path=_PATH,
        )


def _targets(target: dict[str, Any], world: World) -> tuple[list[Reservation], str]:
    identifier = target.get("CapacityReservationId")
    group = target.get("CapacityReservationResourceGroupArn")
    if identifier and group:
        return [], "a target is one reservation or one resource group, not both"
    if identifier:
        found = world.reservations().get(identifier)
        return ([found], "") if found else ([], f"the capacity reservation {identifier!r} does not exist")
    members = world.reservations_in_group(str(group))
    return (members, "") if members is not None else ([], f"the resource group {group!r} does not exist")


def _match_faults(data: dict[str, Any], market: str, reservation: Reservation) -> Iterator[Fault]:
    name = data.get("InstanceType")
    if name and name != reservation.instance_type:
        yield Fault(
            check="reservation-type",
            message=f"{reservation.id} reserves {reservation.instance_type}, the template launches {name}",
            path="LaunchTemplateData/InstanceType",
        )
    zone = data.get("Placement", {}).get("AvailabilityZone")
    if zone and zone_name(zone) != reservation.availability_zone:
        yield Fault(
            check="reservation-zone",
            message=f"{reservation.id} is in {reservation.availability_zone}, the template launches in {zone}",
            path=f"{_PLACEMENT}/AvailabilityZone",
        )
    if reservation.is_block and market != "capacity-block":
        yield Fault(
            check="block-without-market-type",
            message=f"{reservation.id} is a Capacity Block: the market type must be capacity-block",
            path=_MARKET,
        )
    if not reservation.is_block and market == "capacity-block":
        yield Fault(
            check="market-type-with-odcr",
            message=f"{reservation.id} is an On-Demand Capacity Reservation, not a Capacity Block",
            path=_MARKET,
        )
    yield from _group_faults(data, reservation)


def _group_faults(data: dict[str, Any], reservation: Reservation) -> Iterator[Fault]:
    group = data.get("Placement", {}).get("GroupName", "")
    if reservation.is_block or group == reservation.placement_group:
        return
    if reservation.placement_group:
        message = (
            f"{reservation.id} was made in the placement group {reservation.placement_group!r}; "
            f"the template names {group!r}"
        )
    else:
        message = f"{reservation.id} was made in no placement group; the template names {group!r}"
    yield Fault(check="reservation-group", message=message, path=_PLACEMENT)
