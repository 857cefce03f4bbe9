"""Which checks apply to which resource type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..schemas import resource_schema
from .auto_scaling_groups import group_faults
from .capacity_reservations import reservation_faults
from .launch_templates import launch_template_faults
from .placement_groups import placement_group_deletion_faults
from .scaling_schedules import lifecycle_hook_faults, scheduled_action_faults, warm_pool_faults
from .security_groups import rule_faults, security_group_deletion_faults, security_group_faults

if TYPE_CHECKING:
    from ..world import World

Check = Callable[[dict[str, Any], "World"], Iterator[Fault]]

_CREATION: Mapping[str, Check] = {
    "AWS::EC2::LaunchTemplate": launch_template_faults,
    "AWS::EC2::CapacityReservation": reservation_faults,
    "AWS::EC2::SecurityGroup": security_group_faults,
    "AWS::EC2::SecurityGroupIngress": rule_faults,
    "AWS::EC2::SecurityGroupEgress": rule_faults,
    "AWS::AutoScaling::AutoScalingGroup": group_faults,
    "AWS::AutoScaling::LifecycleHook": lifecycle_hook_faults,
    "AWS::AutoScaling::ScheduledAction": scheduled_action_faults,
    "AWS::AutoScaling::WarmPool": warm_pool_faults,
}
_DELETION: Mapping[str, Callable[[str, World], Iterator[Fault]]] = {
    "AWS::EC2::PlacementGroup": placement_group_deletion_faults,
    "AWS::EC2::SecurityGroup": security_group_deletion_faults,
}


def creation_faults(type_name: str, properties: dict[str, Any], world: World) -> list[Fault]:
    """Every reason to refuse a resource, at creation or update.

    The schema comes first; where it refuses, values have no sure shape and the further checks do not run.
    """
    schema = resource_schema(type_name, world.region)
    if schema is None:
        return []
    faults = schema.faults(properties)
    check = _CREATION.get(type_name)
    if not faults and check is not None:
        faults = list(check(properties, world))
    return faults


def deletion_faults(type_name: str, physical_id: str, world: World) -> list[Fault]:
    """Every reason to refuse a deletion."""
    check = _DELETION.get(type_name)
    return list(check(physical_id, world)) if check is not None else []
