"""The launch template that EKS makes for a managed node group, and whether its nodes reach their cluster.

Sources: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "Customize managed nodes with launch
templates" (a node group always has a template of EKS's own; t3.medium where no type is given; EKS adds the cluster
security group where the user's template has no groups), "View Amazon EKS security group requirements for clusters" and
"View Amazon EKS networking requirements for VPC and subnets" (DNS support); EKS API model (botocore 1.44.5),
CreateCluster (bootstrapSelfManagedAddons), read 2026-11-22. The merged user data is not modelled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from .world import ADD_ON, SECURITY_GROUP, Json, Resource, World

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
    """What the user's launch template says; empty where there is none."""
    specification = own_specification(properties)
    return (world.launch_template_data(specification) if specification else None) or {}


def launch_data(properties: Json, cluster: Resource, world: World, version: str = "") -> Json:
    """What a node of the group is launched with.

    Args:
        properties: Those of the node group.
        cluster: Its cluster.
        world: The account.
        version: Kubernetes version of its nodes, where its properties name none; the cluster's for a new group.
    """
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
        for one in world.of_type(ADD_ON)
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
        made = world.find(SECURITY_GROUP, name)
        rules += made.properties.get("SecurityGroupIngress", []) if made else []
    return any(
        _is_https(rule) and ("CidrIp" in rule or rule.get("SourceSecurityGroupId") in groups)
        for rule in rules
    )


def _is_https(rule: Json) -> bool:
    if str(rule.get("IpProtocol")) == "-1":
        return True
    return int(rule.get("FromPort", 0)) <= _HTTPS <= int(rule.get("ToPort", 0))
