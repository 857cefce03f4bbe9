"""What Auto Scaling refuses in a group beyond its schema.

Sources: EC2 Auto Scaling user guide, "Use Capacity Blocks for machine learning workloads" (no mixed instances policy,
no warm pool, a subnet in the block's Availability Zone) and "Instance maintenance policy" (minimum 0 to 100, maximum
100 to 200, difference at most 100, both required) and "Attach an Elastic Load Balancing load balancer" (target type
instance, same VPC); API, CreateAutoScalingGroup; CloudFormation user guide, "UpdatePolicy attribute"
(MinInstancesInService is below MaxSize). Stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..world import TARGET_GROUP, template_specification
from .network_interfaces import subnet_faults
from .scaling_schedules import timeout_faults

if TYPE_CHECKING:
    from ..world import World


def group_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::AutoScalingGroup`."""
    yield from _size_faults(properties)
    yield from _maintenance_faults(properties.get("InstanceMaintenancePolicy"))
    for hook in properties.get("LifecycleHookSpecificationList", []):
        yield from timeout_faults(hook)
    yield from subnet_faults(properties.get("VPCZoneIdentifier", []), world, "VPCZoneIdentifier")
    yield from _target_group_faults(properties, world)
    yield from _template_faults(properties, world)


def update_policy_faults(policy: dict[str, Any], properties: dict[str, Any]) -> Iterator[Fault]:
    """Faults of the `UpdatePolicy` beside a group."""
    if "AutoScalingReplacingUpdate" in policy:
        message = "AutoScalingReplacingUpdate is not emulated"
        yield Fault(check="update-policy", message=message, path="UpdatePolicy")
    rolling = policy.get("AutoScalingRollingUpdate")
    if rolling is None:
        return
    least, most = int(rolling.get("MinInstancesInService", 0)), int(properties["MaxSize"])
    if least >= most:
        yield Fault(
            check="rolling-update",
            message=f"MinInstancesInService must be less than the group's MaxSize, got {least} and {most}",
            path="UpdatePolicy",
        )


def _size_faults(properties: dict[str, Any]) -> Iterator[Fault]:
    least, most = int(properties["MinSize"]), int(properties["MaxSize"])
    if most < least:
        yield Fault(check="group-size", message=f"MaxSize {most} is below MinSize {least}", path="MaxSize")
    desired = properties.get("DesiredCapacity")
    if desired is not None and not least <= int(desired) <= most:
        yield Fault(
            check="group-desired",
            message=f"DesiredCapacity {desired} is not between MinSize {least} and MaxSize {most}",
            path="DesiredCapacity",
        )


def _maintenance_faults(policy: dict[str, Any] | None) -> Iterator[Fault]:
    if policy is None:
        return
    least, most = policy.get("MinHealthyPercentage"), policy.get("MaxHealthyPercentage")
    message = ""
    if least is None or most is None:
        message = "MinHealthyPercentage and MaxHealthyPercentage are given together"
    elif (least, most) == (-1, -1):  # takes back an earlier policy
        return
    elif not 0 <= least <= 100:
        message = f"MinHealthyPercentage is 0 to 100, got {least}"
    elif not 100 <= most <= 200:
        message = f"MaxHealthyPercentage is 100 to 200, got {most}"
    elif most - least > 100:
        message = f"the percentages differ by at most 100, got {least} and {most}"
    if message:
        yield Fault(check="maintenance-policy", message=message, path="InstanceMaintenancePolicy")


def _target_group_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    vpcs = {world.vpc_of_subnet(subnet) for subnet in properties.get("VPCZoneIdentifier", [])} - {None}
    for arn in properties.get("TargetGroupARNs", []):
        group = world.find(TARGET_GROUP, arn)
        message = ""
        if group is None:
            message = f"one or more target groups not found: {arn}"
        elif group.properties.get("TargetType", "instance") != "instance":
            message = f"{arn} has targets of type {group.properties['TargetType']}, not instance"
        elif vpcs and group.properties.get("VpcId") not in vpcs:
            message = f"{arn} is in another VPC than the group's subnets"
        if message:
            yield Fault(check="group-targets", message=message, path="TargetGroupARNs")


def _template_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    specification = template_specification(properties)
    if specification is None:
        return
    if world.launch_template(specification) is None:
        yield Fault(
            check="launch-template-missing",
            message=f"the launch template {specification} does not exist",
            path="LaunchTemplate",
        )
        return
    data = world.launch_template_data(specification)
    if data is None:
        yield Fault(
            check="launch-template-version",
            message=f"the launch template has no version {specification.get('Version')!r}",
            path="LaunchTemplate/Version",
        )
        return
    yield from _block_faults(properties, data)
    yield from zone_faults(properties.get("VPCZoneIdentifier", []), data, world, "VPCZoneIdentifier")


def _block_faults(properties: dict[str, Any], data: dict[str, Any]) -> Iterator[Fault]:
    if data.get("InstanceMarketOptions", {}).get("MarketType") != "capacity-block":
        return
    if "MixedInstancesPolicy" in properties:
        yield Fault(
            check="block-with-mixed-instances",
            message="a group with a Capacity Block has no mixed instances policy",
            path="MixedInstancesPolicy",
        )


def zone_faults(subnets: list[str], data: dict[str, Any], world: World, path: str) -> Iterator[Fault]:
    """Faults of subnets in which nodes shall use the reservation that their launch template targets."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation = world.reservations().get(target.get("CapacityReservationId", ""))
    if reservation is None:
        return
    for subnet in subnets:
        zone = world.zone_of_subnet(subnet)
        if zone and zone != reservation.availability_zone:
            yield Fault(
                check="reservation-subnet-zone",
                message=f"{subnet} is in {zone}, the reservation {reservation.id} in {reservation.availability_zone}",
                path=path,
            )
