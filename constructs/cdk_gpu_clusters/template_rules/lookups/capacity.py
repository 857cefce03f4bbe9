"""Capacity reservations and placement groups that a launch names."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.rules.capacity import RESERVATION, RESERVATION_IN_GROUP, CapacityKind
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters.template_rules.case import Resource, Value, known_target_of, resource_of, target_of
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, launch_of, values_at
from cdk_gpu_clusters.template_rules.resolve import Reference
from cdk_gpu_clusters.template_rules.rule import NotApplicable, applicable

#: Types of reservations: both have the same properties.
RESERVATIONS = (RESERVATION, RESERVATION_IN_GROUP)


def market_type_of(launch: Launch) -> str | None:
    """`spot`, `capacity-block`, or None."""
    return launch.data.get("InstanceMarketOptions", "MarketType").text()


def reservation_target(launch: Launch) -> Value:
    """`CapacityReservationTarget`, with the id of a reservation or the ARN of a resource group; may be absent."""
    return launch.data.get("CapacityReservationSpecification", "CapacityReservationTarget")


def reservation_of(launch: Launch) -> Resource | None:
    """The reservation of the template that a launch names; None if it names another one, or none."""
    named = target_of(reservation_target(launch).get("CapacityReservationId"))
    return named if named is not None and named.type in RESERVATIONS else None


def block_launch(resource: Resource) -> Launch:
    """The launch of a resource.

    Raises:
        NotApplicable: If it is not one into a Capacity Block.
    """
    launch = launch_of(resource)
    if market_type_of(launch) != "capacity-block":
        raise NotApplicable
    return launch


def capacity_kind_of(launch: Launch, record: InstanceType) -> CapacityKind:
    """How a launch buys instances of a type, as the decision functions name it."""
    market = market_type_of(launch)
    if market == "spot":
        return CapacityKind.SPOT
    if market == "capacity-block":
        return CapacityKind.ULTRASERVER_BLOCK if record.ultraservers else CapacityKind.CAPACITY_BLOCK
    return CapacityKind.RESERVATION if reservation_target(launch).exists else CapacityKind.ON_DEMAND


PLACEMENT_GROUP = "AWS::EC2::PlacementGroup"

#: Where resources that launch name a placement group, besides the launch template.
_GROUPS: dict[str, str] = {
    "AWS::AutoScaling::AutoScalingGroup": "PlacementGroup",
    "AWS::Batch::ComputeEnvironment": "ComputeResources/PlacementGroup",
}


def placements_of(launch: Launch) -> list[Value]:
    """Where a launch, or who uses it, names a placement group."""
    own = [launch.data.get("Placement", key) for key in ("GroupName", "GroupId")]
    named = [
        value
        for use in launch.uses()
        if use.resource.type in _GROUPS
        for value in values_at(use.resource.properties, _GROUPS[use.resource.type])
    ]
    return [value for value in [*own, *named] if value.exists]


def placement_group_in_arn(arn: Value) -> Resource | None:
    """The placement group of the template that an ARN is put together with; None if it is another one."""
    *before, last = arn.parts or ("",)
    if not isinstance(last, Reference) or last.attribute not in ("", "GroupName"):
        return None
    if not str(*before[-1:]).endswith(":placement-group/"):
        return None
    target = resource_of(arn.case, last)
    return target if target is not None and target.type == PLACEMENT_GROUP else None


def strategy_of(group: Resource) -> PlacementStrategy:
    """The strategy of a placement group.

    Raises:
        Undecidable: If the template does not name it.
    """
    strategy = group.get("Strategy")
    known = {one.value: one for one in PlacementStrategy if one is not PlacementStrategy.NONE}
    text = strategy.text()
    if text not in known:
        raise strategy.undecidable("the template names no strategy" if text is None else f"{text!r} is none")
    return known[text]


def strategies_of(launch: Launch) -> list[tuple[Value, PlacementStrategy]]:
    """Where a launch, or who uses it, names a placement group, with its strategy.

    Raises:
        NotApplicable: If none is named.
        Undecidable: If one is not in the template, or leaves its strategy open.
    """
    return [
        (value, strategy_of(known_target_of(value, PLACEMENT_GROUP, "placement group")))
        for value in applicable(placements_of(launch))
    ]
