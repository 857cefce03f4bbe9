"""Managed node groups of EKS at run time: the launch template and the Auto Scaling group that EKS keeps behind each.

Both are in `World.resources` without a stack, go with their node group, and act as every fleet does. A changed
template or image replaces the nodes at once. With a Capacity Block EKS plans to empty the group before the block ends.

Sources: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Create a managed node group with Capacity
Blocks for ML", "Understand each phase of node updates", read 2026-11-22; EKS API model (botocore 1.44.5),
NodegroupScalingConfig: without a desired size the present one stays, and "whenever this parameter changes" the group
gets that size. CloudFormation sends all sizes when one of them changes (eksctl-io/eksctl issue 3532: a new bound set
the size of the template again). Whether it also sends them with other changes is unknown: the seed
`writes_sizes_back` chooses. Unverified: that new bounds pull the present size in as they do in EC2 Auto Scaling, and
the sizes that the planned action sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta

from . import fleets
from .clock import format_time
from .faults import ApiError
from .world import Group, Json, Resource, Type, World, add_version, first_version

_SCALE_DOWN = "Amazon EKS Node Group Capacity Scaledown Before Reservation End"
_SCALE_DOWN_LEAD = timedelta(minutes=40)


def group_behind(world: World, node_group: Resource) -> Group:
    """The Auto Scaling group behind a node group."""
    return world.groups[node_group.parts[Type.AUTO_SCALING_GROUP]]


def version_of(world: World, node_group: Resource) -> str:
    """Kubernetes version of its nodes: without one of its own, a group keeps that which its cluster had first."""
    cluster = world.cluster(node_group.properties["ClusterName"])
    first = node_group.settings.setdefault("Version", cluster.properties.get("Version", "") if cluster else "")
    return str(node_group.properties.get("Version", first))


def start(world: World, node_group: Resource) -> None:
    """Make the launch template and the group behind a new node group, and launch its nodes."""
    name = f"eks-{node_group.attributes['NodegroupName']}-{world.new_id('', node_group.physical_id, 32)}"
    template = _behind(world, node_group, Type.LAUNCH_TEMPLATE, world.new_id("lt-", node_group.physical_id))
    template.properties = {"LaunchTemplateName": name, "LaunchTemplateData": _data(world, node_group)}
    first_version(world, template)
    group = _behind(world, node_group, Type.AUTO_SCALING_GROUP, name)
    group.properties = _group_properties(world, node_group, _sizes(node_group))
    group.attributes = {"AutoScalingGroupARN": world.arn("autoscaling", f"autoScalingGroup:{name}")}
    fleets.create_group(world, group)
    _plan_scale_down(world, node_group)


def change(world: World, node_group: Resource) -> None:
    """Bring the launch template and the group behind a node group to its new properties."""
    before = node_group.settings["ScalingConfig"]
    node_group.settings["Version"] = version_of(world, node_group)
    template = world.find(Type.LAUNCH_TEMPLATE, node_group.parts[Type.LAUNCH_TEMPLATE])
    group = world.find(Type.AUTO_SCALING_GROUP, node_group.parts[Type.AUTO_SCALING_GROUP])
    if template is None or group is None:
        raise ValueError(f"what was behind {node_group.physical_id} is gone")
    template.properties["LaunchTemplateData"] = _data(world, node_group)
    add_version(world, template)
    sizes = _sizes(node_group)
    if sizes == before and not world.writes_sizes_back:
        now = group_behind(world, node_group)
        sizes = {"MinSize": now.minimum, "MaxSize": now.maximum}
    group.properties = _group_properties(world, node_group, sizes)
    group.update_policy = {"AutoScalingRollingUpdate": {}}
    fleets.update_group(world, group)
    _plan_scale_down(world, node_group)


def end(world: World, node_group: Resource) -> None:
    """Remove the launch template and the group behind a node group."""
    world.groups.pop(node_group.parts[Type.AUTO_SCALING_GROUP], None)
    for type_name, physical_id in node_group.parts.items():
        world.remove(type_name, physical_id)


def resize(world: World, node_group: Resource, sizes: Json) -> None:
    """Change sizes as UpdateNodegroupConfig does; what is left out stays; ApiError if they do not fit."""
    group = group_behind(world, node_group)
    least, most = int(sizes.get("MinSize", group.minimum)), int(sizes.get("MaxSize", group.maximum))
    desired = int(sizes.get("DesiredSize", min(max(group.desired, least), most)))
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
    """Health issues as DescribeNodegroup reports them: nodes that run and cannot register."""
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
    name, region = node_group.logical_id, node_group.region
    made = Resource(type=type_name, logical_id=name, physical_id=physical_id, region=region)
    world.add(made)
    node_group.parts[type_name] = physical_id
    return made


def _data(world: World, node_group: Resource) -> Json:
    cluster = world.cluster(node_group.properties["ClusterName"])
    if cluster is None:
        raise ValueError(f"the cluster of {node_group.physical_id} is gone")
    return launch_data(node_group.properties, cluster, world, version_of(world, node_group))


def _sizes(node_group: Resource) -> Json:
    """The sizes of the template, which are remembered as those that were sent last."""
    given = node_group.properties["ScalingConfig"]
    sizes = {"MinSize": given.get("MinSize", 0), "MaxSize": given["MaxSize"]}
    sizes |= {"DesiredCapacity": given["DesiredSize"]} if "DesiredSize" in given else {}
    node_group.settings["ScalingConfig"] = sizes
    return sizes


def _group_properties(world: World, node_group: Resource, sizes: Json) -> Json:
    given = node_group.properties
    template = world.resources[f"{Type.LAUNCH_TEMPLATE} {node_group.parts[Type.LAUNCH_TEMPLATE]}"]
    return {
        **sizes,
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


def _plan_scale_down(world: World, node_group: Resource) -> None:
    if node_group.properties.get("CapacityType") != "CAPACITY_BLOCK":
        return
    specification = _data(world, node_group).get("CapacityReservationSpecification", {})
    target = specification.get("CapacityReservationTarget", {})
    block = world.reservations().get(target.get("CapacityReservationId", ""))
    if block is None or block.ends_at is None:
        return
    group = node_group.parts[Type.AUTO_SCALING_GROUP]
    action = _behind(world, node_group, Type.SCHEDULED_ACTION, f"{_SCALE_DOWN}|{group}")
    action.properties = {
        "AutoScalingGroupName": group,
        "StartTime": format_time(block.ends_at - _SCALE_DOWN_LEAD),
        "MinSize": 0,
        "DesiredCapacity": 0,
    }


# The launch template that EKS makes for a managed node group, and whether its nodes reach their cluster. Sources:
# Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Customize managed nodes with launch templates" (a
# node group always has a template of EKS's own; t3.medium where no type is given; EKS adds the cluster security
# group where the user's template has no groups), "View Amazon EKS security group requirements for clusters" and
# "View Amazon EKS networking requirements for VPC and subnets" (DNS support); EKS API model (botocore 1.44.5),
# CreateCluster (bootstrapSelfManagedAddons), read 2026-11-22. The merged user data is not modelled.

_DEFAULT_TYPE = "t3.medium"
_HTTPS = 443


def own_specification(properties: Json) -> Json | None:
    """The user's launch template of a node group, as EC2 spells it; None where it has none."""
    given = properties.get("LaunchTemplate")
    if given is None:
        return None
    return {
        "LaunchTemplateId": given.get("Id"),
        "LaunchTemplateName": given.get("Name"),
        "Version": given.get("Version", "$Default"),
    }


def own_data(properties: Json, world: World) -> Json:
    """The data of the user's launch template; empty if there is none."""
    specification = own_specification(properties)
    return (world.launch_template_data(specification) if specification else None) or {}


def launch_data(properties: Json, cluster: Resource, world: World, version: str = "") -> Json:
    """What a node of the group is launched with; its version is the cluster's if it has none of its own."""
    data = {"InstanceType": _DEFAULT_TYPE, **own_data(properties, world)}
    data |= {"InstanceType": types[0]} if (types := properties.get("InstanceTypes")) else {}
    if "ImageId" not in data:
        chosen = properties.get("Version") or version or cluster.properties.get("Version", "")
        data["ImageId"] = _image(properties.get("AmiType", ""), chosen, properties.get("ReleaseVersion", ""))
    group = cluster.attributes["ClusterSecurityGroupId"]
    interfaces = data.get("NetworkInterfaces", [])
    if not data.get("SecurityGroupIds") and not any(one.get("Groups") for one in interfaces):
        if interfaces:
            data["NetworkInterfaces"] = [{**one, "Groups": [group]} for one in interfaces]
        else:
            data["SecurityGroupIds"] = [group]
    return data


def _image(*chosen: str) -> str:
    """An image id that is made up from what chooses the image."""
    return "ami-" + hashlib.sha256(" ".join(chosen).encode()).hexdigest()[:17]


def obstacles(data: Json, cluster: Resource, world: World) -> Iterator[str]:
    """What keeps nodes from registering with their cluster, as far as the account shows it."""
    groups = set(_primary_groups(data))
    own = cluster.attributes["ClusterSecurityGroupId"]
    if not reaches(groups, cluster, world):
        yield f"their security groups ({', '.join(sorted(groups))}) do not reach the control plane, which is in {own}"
    if not _has_network_plugin(cluster, world):
        yield "the cluster was made without its networking add-ons, and vpc-cni is not there yet"
    for subnet in cluster.properties["ResourcesVpcConfig"]["SubnetIds"]:
        vpc = world.find("AWS::EC2::VPC", world.vpc_of_subnet(subnet) or "")
        if vpc is not None and not _has_dns(vpc.properties):
            yield f"the VPC {vpc.physical_id} has no DNS hostnames or no DNS support"
            return


def _has_network_plugin(cluster: Resource, world: World) -> bool:
    return cluster.properties.get("BootstrapSelfManagedAddons") is not False or any(
        (one.properties["ClusterName"], one.properties["AddonName"]) == (cluster.physical_id, "vpc-cni")
        for one in world.of_type(Type.ADD_ON)
    )


def _primary_groups(data: Json) -> list[str]:
    for one in data.get("NetworkInterfaces", []):
        if not one.get("DeviceIndex") and not one.get("NetworkCardIndex"):
            return list(one.get("Groups", []))
    return list(data.get("SecurityGroupIds", []))


def _has_dns(vpc: Json) -> bool:
    return bool(vpc.get("EnableDnsHostnames")) and vpc.get("EnableDnsSupport") is not False


def reaches(groups: set[str], cluster: Resource, world: World) -> bool:
    """Whether security groups let their members call the control plane; a range of addresses is taken as theirs."""
    doors = {cluster.attributes["ClusterSecurityGroupId"]}
    if doors & groups:
        return True
    doors |= set(cluster.properties["ResourcesVpcConfig"].get("SecurityGroupIds", []))
    rules = [
        one.properties
        for one in world.of_type("AWS::EC2::SecurityGroupIngress")
        if one.properties.get("GroupId") in doors
    ]
    for name in doors:
        made = world.find(Type.SECURITY_GROUP, name)
        rules += made.properties.get("SecurityGroupIngress", []) if made else []
    return any(_is_https(rule) and ("CidrIp" in rule or rule.get("SourceSecurityGroupId") in groups) for rule in rules)


def _is_https(rule: Json) -> bool:
    if str(rule.get("IpProtocol")) == "-1":
        return True
    return int(rule.get("FromPort", 0)) <= _HTTPS <= int(rule.get("ToPort", 0))
