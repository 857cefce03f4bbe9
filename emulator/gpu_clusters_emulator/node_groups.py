"""Managed node groups of EKS at run time: the launch template and the Auto Scaling group that EKS keeps behind each.

Both stand in `World.resources` without a stack, go with their node group, and act as every fleet does. A changed
template or image replaces the nodes at once. With a Capacity Block EKS plans to empty the group before the block ends.

Sources: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Create a managed node group with Capacity
Blocks for ML", "Understand each phase of node updates", read 2026-11-22; EKS API model (botocore 1.44.5),
NodegroupScalingConfig: without a desired size the present one stays. Unverified: that a new group without one starts
at its minimum, that new bounds pull the present one in as they do in EC2 Auto Scaling, that every update writes a
given one back, and the sizes that the planned action sets.
"""

from __future__ import annotations

from datetime import timedelta

from . import fleets
from .clock import format_time
from .faults import ApiError
from .groups import Group
from .node_templates import launch_data, obstacles
from .template_versions import add_version, first_version
from .world import AUTO_SCALING_GROUP, LAUNCH_TEMPLATE, SCHEDULED_ACTION, Json, Resource, World

_SCALE_DOWN = "Amazon EKS Node Group Capacity Scaledown Before Reservation End"
_SCALE_DOWN_LEAD = timedelta(minutes=40)


def group_behind(world: World, node_group: Resource) -> Group:
    """The Auto Scaling group behind a node group."""
    return world.groups[node_group.parts[AUTO_SCALING_GROUP]]


def version_of(world: World, node_group: Resource) -> str:
    """Kubernetes version of its nodes: without one of its own, a group keeps that which its cluster had first."""
    cluster = world.cluster(node_group.properties["ClusterName"])
    first = node_group.settings.setdefault(
        "Version", cluster.properties.get("Version", "") if cluster else ""
    )
    return str(node_group.properties.get("Version", first))


def start(world: World, node_group: Resource) -> None:
    """Make what stands behind a new node group, and launch its nodes."""
    name = f"eks-{node_group.attributes['NodegroupName']}-{world.new_id('', node_group.physical_id, 32)}"
    template = _behind(world, node_group, LAUNCH_TEMPLATE, world.new_id("lt-", node_group.physical_id))
    template.properties = {"LaunchTemplateName": name, "LaunchTemplateData": _data(world, node_group)}
    first_version(world, template)
    group = _behind(world, node_group, AUTO_SCALING_GROUP, name)
    group.properties = _group_properties(world, node_group)
    group.attributes = {"AutoScalingGroupARN": world.arn("autoscaling", f"autoScalingGroup:{name}")}
    fleets.create_group(world, group)
    _plan_scale_down(world, node_group)


def change(world: World, node_group: Resource) -> None:
    """Bring what stands behind a node group to its new properties."""
    node_group.settings["Version"] = version_of(world, node_group)
    template = world.find(LAUNCH_TEMPLATE, node_group.parts[LAUNCH_TEMPLATE])
    group = world.find(AUTO_SCALING_GROUP, node_group.parts[AUTO_SCALING_GROUP])
    if template is None or group is None:
        raise ValueError(f"what stood behind {node_group.physical_id} is gone")
    template.properties["LaunchTemplateData"] = _data(world, node_group)
    add_version(world, template)
    group.properties = _group_properties(world, node_group)
    group.update_policy = {"AutoScalingRollingUpdate": {}}
    fleets.update_group(world, group)
    _plan_scale_down(world, node_group)


def end(world: World, node_group: Resource) -> None:
    """Remove what stands behind a node group."""
    world.groups.pop(node_group.parts[AUTO_SCALING_GROUP], None)
    for type_name, physical_id in node_group.parts.items():
        world.remove(type_name, physical_id)


def resize(world: World, node_group: Resource, wish: Json) -> None:
    """Change sizes as UpdateNodegroupConfig does; what is left out stays, a desired size within its new bounds.

    Raises:
        ApiError: `InvalidParameterException` where the sizes do not fit each other, in EKS's words.
    """
    group = group_behind(world, node_group)
    least, most = int(wish.get("MinSize", group.minimum)), int(wish.get("MaxSize", group.maximum))
    desired = int(wish.get("DesiredSize", min(max(group.desired, least), most)))
    for message in size_messages(least, desired, most):
        raise ApiError("InvalidParameterException", message)
    fleets.resize(world, group.name, {"MinSize": least, "MaxSize": most, "DesiredCapacity": desired})


def size_messages(least: int, desired: int, most: int) -> list[str]:
    """What is wrong with the sizes of a node group.

    Wording: hashicorp and module users' reports (terraform-aws-modules/terraform-aws-eks issue 3521,
    ministryofjustice/cloud-platform-infrastructure pull request 4595), read 2026-11-22.
    """
    messages = []
    if least > desired:
        messages.append(f"Minimum capacity {least} can't be greater than desired size {desired}")
    if desired > most:
        messages.append(f"desiredSize can't be greater than maxSize: {desired} and {most}")
    return messages


def issues(world: World, node_group: Resource) -> list[Json]:
    """Health issues as DescribeNodegroup tells them: nodes that run and cannot register."""
    cluster = world.cluster(node_group.properties["ClusterName"])
    nodes = [one.id for one in group_behind(world, node_group).instances]
    if cluster is None or not nodes:
        return []
    reasons = list(obstacles(_data(world, node_group), cluster, world))
    if not reasons:
        return []
    message = f"Instances failed to join the kubernetes cluster: {'; '.join(reasons)}"
    return [{"code": "NodeCreationFailure", "message": message, "resourceIds": nodes}]


def _behind(world: World, node_group: Resource, type_name: str, physical_id: str) -> Resource:
    made = Resource(
        type=type_name,
        logical_id=node_group.logical_id,
        physical_id=physical_id,
        stack_name="",
        region=node_group.region,
        properties={},
        attributes={},
        answered_by="model",
    )
    world.add(made)
    node_group.parts[type_name] = physical_id
    return made


def _data(world: World, node_group: Resource) -> Json:
    cluster = world.cluster(node_group.properties["ClusterName"])
    if cluster is None:
        raise ValueError(f"the cluster of {node_group.physical_id} is gone")
    return launch_data(node_group.properties, cluster, world, version_of(world, node_group))


def _group_properties(world: World, node_group: Resource) -> Json:
    given, sizes = node_group.properties, node_group.properties["ScalingConfig"]
    template = world.resources[f"{LAUNCH_TEMPLATE} {node_group.parts[LAUNCH_TEMPLATE]}"]
    made: Json = {
        "MinSize": sizes.get("MinSize", 0),
        "MaxSize": sizes["MaxSize"],
        "VPCZoneIdentifier": given["Subnets"],
        "LaunchTemplate": {"LaunchTemplateId": template.physical_id, "Version": str(len(template.versions))},
        "Tags": [
            {"Key": key, "Value": value, "PropagateAtLaunch": True}
            for key, value in (
                ("eks:cluster-name", given["ClusterName"]),
                ("eks:nodegroup-name", node_group.attributes["NodegroupName"]),
                (f"kubernetes.io/cluster/{given['ClusterName']}", "owned"),
            )
        ],
    }
    return made | ({"DesiredCapacity": sizes["DesiredSize"]} if "DesiredSize" in sizes else {})


def _plan_scale_down(world: World, node_group: Resource) -> None:
    if node_group.properties.get("CapacityType") != "CAPACITY_BLOCK":
        return
    specification = _data(world, node_group).get("CapacityReservationSpecification", {})
    target = specification.get("CapacityReservationTarget", {})
    block = world.reservations().get(target.get("CapacityReservationId", ""))
    if block is None or block.ends_at is None:
        return
    group = node_group.parts[AUTO_SCALING_GROUP]
    action = _behind(world, node_group, SCHEDULED_ACTION, f"{_SCALE_DOWN}|{group}")
    action.properties = {
        "AutoScalingGroupName": group,
        "StartTime": format_time(block.ends_at - _SCALE_DOWN_LEAD),
        "MinSize": 0,
        "DesiredCapacity": 0,
    }
