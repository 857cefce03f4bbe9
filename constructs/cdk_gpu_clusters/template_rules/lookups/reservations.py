"""Capacity reservations that launches name."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.launches import Launch

RESERVATION = "AWS::EC2::CapacityReservation"


def market_type_of(launch: Launch) -> str | None:
    """`spot`, `capacity-block`, or None."""
    return launch.data.get("InstanceMarketOptions", "MarketType").text()


def reservation_target(launch: Launch) -> Value:
    """`CapacityReservationTarget`, with the id of a reservation or the ARN of a resource group; may be absent."""
    return launch.data.get("CapacityReservationSpecification", "CapacityReservationTarget")


def reservation_of(launch: Launch) -> Resource | None:
    """The reservation of the template that a launch names; None if it names another one, or none."""
    target = target_of(reservation_target(launch).get("CapacityReservationId"))
    return target if target is not None and target.type == RESERVATION else None


def capacity_kind_of(launch: Launch, record: InstanceType) -> CapacityKind:
    """How a launch buys instances of a type, as the decision functions name it."""
    market = market_type_of(launch)
    if market == "spot":
        return CapacityKind.SPOT
    if market == "capacity-block":
        return CapacityKind.ULTRASERVER_BLOCK if record.ultraservers else CapacityKind.CAPACITY_BLOCK
    return CapacityKind.RESERVATION if reservation_target(launch).exists else CapacityKind.ON_DEMAND
