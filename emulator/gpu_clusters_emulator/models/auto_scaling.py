"""What Auto Scaling refuses in a group beyond its schema.

Sources: EC2 Auto Scaling user guide, "Use Capacity Blocks for machine learning workloads" (no mixed instances policy,
no warm pool, a subnet in the block's Availability Zone) and "Instance maintenance policy" (minimum 0 to 100, maximum
100 to 200, difference at most 100, both required) and "Attach an Elastic Load Balancing load balancer" (target type
instance, same VPC); API, CreateAutoScalingGroup; CloudFormation user guide, "UpdatePolicy attribute"
(MinInstancesInService is below MaxSize). Stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..clock import format_time, parse_time
from ..faults import Fault
from ..service_shapes import shape_faults
from ..world import Json, Resource, Type, World, template_specification
from .load_balancing import users_of_target_group
from .networks import subnet_faults


def group_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::AutoScalingGroup`."""
    yield from _size_faults(properties)
    yield from _maintenance_faults(properties.get("InstanceMaintenancePolicy"))
    for hook in properties.get("LifecycleHookSpecificationList", []):
        yield from timeout_faults(hook)
    yield from subnet_faults(properties.get("VPCZoneIdentifier", []), world, "VPCZoneIdentifier")
    yield from _target_group_faults(properties, world)
    yield from _template_faults(properties, world)


def update_policy_faults(policy: Json, properties: Json) -> Iterator[Fault]:
    """Faults of the `UpdatePolicy` beside a group."""
    if "AutoScalingReplacingUpdate" in policy:
        message = "AutoScalingReplacingUpdate is not emulated"
        yield Fault("update-policy", message, "UpdatePolicy")
    rolling, refresh = policy.get("AutoScalingRollingUpdate"), policy.get("AutoScalingInstanceRefresh")
    if refresh is not None:
        yield from shape_faults("autoscaling", "StartInstanceRefresh", refresh)
        yield from _maintenance_faults(
            {"MinHealthyPercentage": 90, "MaxHealthyPercentage": 100, **refresh.get("Preferences", {})}
        )
    if rolling is not None and refresh is not None:
        message = "AutoScalingRollingUpdate and AutoScalingInstanceRefresh exclude each other"
        yield Fault("update-policy", message, "UpdatePolicy")
    if rolling is None:
        return
    least, most = int(rolling.get("MinInstancesInService", 0)), int(properties["MaxSize"])
    if least >= most:
        message = f"MinInstancesInService must be less than the group's MaxSize, got {least} and {most}"
        yield Fault("rolling-update", message, "UpdatePolicy")


def _size_faults(properties: Json) -> Iterator[Fault]:
    least, most = int(properties["MinSize"]), int(properties["MaxSize"])
    if most < least:
        yield Fault("group-size", f"MaxSize {most} is below MinSize {least}", "MaxSize")
    desired = properties.get("DesiredCapacity")
    if desired is not None and not least <= int(desired) <= most:
        message = f"DesiredCapacity {desired} is not between MinSize {least} and MaxSize {most}"
        yield Fault("group-desired", message, "DesiredCapacity")


def _maintenance_faults(policy: Json | None) -> Iterator[Fault]:
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
        yield Fault("maintenance-policy", message, "InstanceMaintenancePolicy")


def _target_group_faults(properties: Json, world: World) -> Iterator[Fault]:
    vpcs = {world.vpc_of_subnet(subnet) for subnet in properties.get("VPCZoneIdentifier", [])} - {None}
    for arn in properties.get("TargetGroupARNs", []):
        group = world.find(Type.TARGET_GROUP, arn)
        message = ""
        if group is None:
            message = f"one or more target groups not found: {arn}"
        elif group.properties.get("TargetType", "instance") != "instance":
            message = f"{arn} has targets of type {group.properties['TargetType']}, not instance"
        elif vpcs and group.properties.get("VpcId") not in vpcs:
            message = f"{arn} is in another VPC than the group's subnets"
        if message:
            yield Fault("group-targets", message, "TargetGroupARNs")


def _template_faults(properties: Json, world: World) -> Iterator[Fault]:
    specification = template_specification(properties)
    if specification is None:
        return
    if world.launch_template(specification) is None:
        message = f"the launch template {specification} does not exist"
        yield Fault("launch-template-missing", message, "LaunchTemplate")
        return
    data = world.launch_template_data(specification)
    if data is None:
        message = f"the launch template has no version {specification.get('Version')!r}"
        yield Fault("launch-template-version", message, "LaunchTemplate/Version")
        return
    yield from _block_faults(properties, data)
    yield from zone_faults(properties.get("VPCZoneIdentifier", []), data, world, "VPCZoneIdentifier")


def _block_faults(properties: Json, data: Json) -> Iterator[Fault]:
    if data.get("InstanceMarketOptions", {}).get("MarketType") != "capacity-block":
        return
    if "MixedInstancesPolicy" in properties:
        message = "a group with a Capacity Block has no mixed instances policy"
        yield Fault("block-with-mixed-instances", message, "MixedInstancesPolicy")


def zone_faults(subnets: list[str], data: Json, world: World, path: str) -> Iterator[Fault]:
    """Faults of subnets in which nodes shall use the reservation that their launch template targets."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation = world.reservations().get(target.get("CapacityReservationId", ""))
    if reservation is None:
        return
    for subnet in subnets:
        zone = world.zone_of_subnet(subnet)
        if zone and zone != reservation.availability_zone:
            place = f"{reservation.id} in {reservation.availability_zone}"
            message = f"{subnet} is in {zone}, the reservation {place}"
            yield Fault("reservation-subnet-zone", message, path)


# What Auto Scaling refuses in a scaling policy. Sources: EC2 Auto Scaling API, PutScalingPolicy, and
# PredefinedMetricSpecification: ALBRequestCountPerTarget needs the resource label
# app/<name>/<id>/targetgroup/<name>/<id> of a target group that is attached to the group; a load balancer without a
# listener for it is refused with "The load balancer does not route traffic to the target group".

_TRACKING = "TargetTrackingConfiguration"
_BY_REQUESTS = "ALBRequestCountPerTarget"
_METRICS = ("PredefinedMetricSpecification", "CustomizedMetricSpecification")
_PATH = f"{_TRACKING}/PredefinedMetricSpecification/ResourceLabel"


def scaling_policy_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::ScalingPolicy`."""
    group = world.find(Type.AUTO_SCALING_GROUP, properties["AutoScalingGroupName"])
    if group is None:
        message = f"the group {properties['AutoScalingGroupName']!r} does not exist"
        yield Fault("group-missing", message, "AutoScalingGroupName")
        return
    tracking = properties.get(_TRACKING)
    if (properties.get("PolicyType") == "TargetTrackingScaling") != (tracking is not None):
        message = f"policy type TargetTrackingScaling and {_TRACKING} go together"
        yield Fault("scaling-type", message, "PolicyType")
    if tracking is None:
        return
    if sum(name in tracking for name in _METRICS) != 1:
        yield Fault("scaling-metric", f"give exactly one of {' and '.join(_METRICS)}", _TRACKING)
    predefined = tracking.get(_METRICS[0], {})
    if predefined.get("PredefinedMetricType") == _BY_REQUESTS:
        yield from _label_faults(predefined.get("ResourceLabel", ""), group, world)


def _label_faults(label: str, group: Resource, world: World) -> Iterator[Fault]:
    balancers = {one.attributes["LoadBalancerFullName"]: one for one in world.of_type(Type.LOAD_BALANCER)}
    target_groups = {one.attributes["TargetGroupFullName"]: one for one in world.of_type(Type.TARGET_GROUP)}
    front, separator, rest = label.partition("/targetgroup/")
    balancer, targets = balancers.get(front), target_groups.get(f"targetgroup/{rest}")
    message = ""
    if not separator or balancer is None or targets is None:
        message = f"the resource label names no load balancer with its target group: {label!r}"
    elif targets.physical_id not in group.properties.get("TargetGroupARNs", []):
        message = f"the target group {targets.physical_id} is not attached to the group {group.physical_id}"
    elif balancer.physical_id not in users_of_target_group(targets.physical_id, world):
        message = f"the load balancer {front} does not route traffic to the target group targetgroup/{rest}"
    if message:
        yield Fault("scaling-label", message, _PATH)


# What Auto Scaling refuses in lifecycle hooks, scheduled actions and warm pools. Sources: API, PutLifecycleHook
# (HeartbeatTimeout 30 to 7200 seconds) and PutScheduledUpdateGroupAction (StartTime in the past is an error); EC2
# Auto Scaling user guide, "Use Capacity Blocks for machine learning workloads" (no warm pool). Stored copies of
# 2026.

_TIMEOUT_SECONDS = (30, 7_200)


def timeout_faults(hook: Json) -> Iterator[Fault]:
    """Faults of a hook, as its own resource or inside its group."""
    seconds = hook.get("HeartbeatTimeout")
    if seconds is not None and not _TIMEOUT_SECONDS[0] <= int(seconds) <= _TIMEOUT_SECONDS[1]:
        message = f"a lifecycle hook waits 30 to 7,200 seconds, got {seconds}"
        yield Fault("hook-timeout", message, "HeartbeatTimeout")


def _owner_faults(properties: Json, world: World) -> Iterator[Fault]:
    name = properties.get("AutoScalingGroupName", "")
    if name not in world.groups:
        yield Fault("group-missing", f"the group {name!r} does not exist", "AutoScalingGroupName")


def lifecycle_hook_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::LifecycleHook`."""
    yield from _owner_faults(properties, world)
    yield from timeout_faults(properties)


def warm_pool_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::WarmPool`."""
    yield from _owner_faults(properties, world)
    data = world.data_of_group(properties.get("AutoScalingGroupName", "")) or {}
    if data.get("InstanceMarketOptions", {}).get("MarketType") == "capacity-block":
        yield Fault("block-with-warm-pool", "a group with a Capacity Block has no warm pool")


def scheduled_action_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::ScheduledAction`."""
    yield from _owner_faults(properties, world)
    if not properties.keys() & {"MinSize", "MaxSize", "DesiredCapacity"}:
        yield Fault("schedule-size", "give at least one of MinSize, MaxSize and DesiredCapacity")
    start = properties.get("StartTime")
    if start is not None and parse_time(start) <= world.clock.now():
        message = f"the start {start} is in the past; it is {format_time(world.clock.now())}"
        yield Fault("schedule-past", message, "StartTime")
