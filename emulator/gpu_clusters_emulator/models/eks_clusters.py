"""What EKS refuses in a cluster beyond its schema.

Sources, read 2026-11-22: EKS API model (botocore 1.44.5), CreateCluster, UpdateClusterConfig, UpdateClusterVersion and
DeleteCluster; Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d), "View Amazon EKS networking
requirements for VPC and subnets", "Update existing cluster to new Kubernetes version", "Grant IAM users access to
Kubernetes with EKS access entries"; a newer copy of "Cluster API server endpoint" (IPv6 ranges). Wordings of the
service from reports: rancher/rancher issue 24380 (zones), terraform-aws-modules/terraform-aws-eks issue 3206
(CONFIG_MAP), awslabs/aws-devops-essential issue 25 (version), gruntwork-io/cloud-nuke issue 148 (node groups
attached), kubernetes-sigs/cluster-api-provider-aws issue 2176. That both endpoints may not be off is known from
clients that avoid the error only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..node_groups import version_of
from .eks_roles import role_faults
from .eks_versions import minor_of, version_faults
from .network_interfaces import group_faults, subnet_faults

if TYPE_CHECKING:
    from ..world import World

_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_VPC = "ResourcesVpcConfig"
_SERVICES = "KubernetesNetworkConfig/ServiceIpv4Cidr"
_LEAST_PREFIX, _MOST_PREFIX = 12, 24
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
_LEAST_ZONES = 2


def authentication_mode(properties: dict[str, Any]) -> str:
    """How a cluster knows its users; CONFIG_MAP is what CloudFormation and the API take for none."""
    return str(properties.get("AccessConfig", {}).get("AuthenticationMode", "CONFIG_MAP"))


def cluster_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EKS::Cluster`."""
    given = properties[_VPC]
    subnets = given.get("SubnetIds", [])
    yield from subnet_faults(subnets, world, f"{_VPC}/SubnetIds")
    yield from group_faults(given.get("SecurityGroupIds", []), subnets, world, f"{_VPC}/SecurityGroupIds")
    yield from _zone_faults(subnets, world)
    yield from version_faults(properties.get("Version"), world)
    yield from role_faults(properties["RoleArn"], "eks", "clusterRole", world, "RoleArn")
    yield from _endpoint_faults(given, properties)
    yield from _service_faults(properties.get("KubernetesNetworkConfig", {}), subnets, world)
    creator = properties.get("AccessConfig", {}).get("BootstrapClusterCreatorAdminPermissions", True)
    if authentication_mode(properties) == "CONFIG_MAP" and not creator:
        name = "bootstrapClusterCreatorAdminPermissions"
        message = f"{name} must be true if cluster authentication mode is set to CONFIG_MAP"
        yield Fault(check="cluster-access", message=message, path="AccessConfig")
    for one in properties.get("EncryptionConfig", []):
        if one.get("Resources", ["secrets"]) != ["secrets"]:
            message = f"the only supported value is secrets, got {one['Resources']}"
            yield Fault(check="cluster-encryption", message=message, path="EncryptionConfig/0/Resources")


def cluster_change_faults(
    physical_id: str, old: dict[str, Any], new: dict[str, Any], world: World
) -> Iterator[Fault]:
    """Faults of a change that EKS makes in place."""
    yield from _version_change_faults(physical_id, old.get("Version"), new.get("Version"), world)
    before, after = authentication_mode(old), authentication_mode(new)
    if _MODES.index(after) - _MODES.index(before) not in (0, 1):
        message = f"the authentication mode goes from {before} to the next of {', '.join(_MODES)} only, not to {after}"
        yield Fault(check="cluster-access", message=message, path="AccessConfig/AuthenticationMode")
    zones = [{world.zone_of_subnet(one) for one in each[_VPC]["SubnetIds"]} for each in (old, new)]
    vpcs = [{world.vpc_of_subnet(one) for one in each[_VPC]["SubnetIds"]} for each in (old, new)]
    if zones[0] != zones[1] or vpcs[0] != vpcs[1]:
        message = "other subnets of a cluster are in the same VPC and in the same Availability Zones as the first ones"
        yield Fault(check="cluster-subnets", message=message, path=f"{_VPC}/SubnetIds")


def cluster_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EKS::Cluster`."""
    cluster = world.cluster(physical_id)
    if cluster is not None and cluster.properties.get("DeletionProtection"):
        yield Fault(check="cluster-protected", message=f"deletion protection is on for {physical_id!r}")
    attached = [one.physical_id for one in world.node_groups(physical_id)]
    if attached:
        message = f"Cluster has nodegroups attached: {', '.join(attached)}"
        yield Fault(check="cluster-node-groups", message=message)


def missing_cluster_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of the cluster that a node group, add-on, access entry or pod identity is for."""
    name = properties["ClusterName"]
    if world.cluster(name) is None:
        yield Fault(
            check="cluster-missing", message=f"No cluster found for name: {name}.", path="ClusterName"
        )


def _zone_faults(subnets: list[str], world: World) -> Iterator[Fault]:
    zones = {world.zone_of_subnet(subnet) or subnet for subnet in subnets}
    if len(zones) < _LEAST_ZONES:
        message = f"Subnets specified must be in at least two different AZs, got {', '.join(sorted(zones)) or 'none'}"
        yield Fault(check="cluster-zones", message=message, path=f"{_VPC}/SubnetIds")
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}
    if len(vpcs) > 1:
        yield Fault(check="cluster-vpcs", message="the subnets are in several VPCs", path=f"{_VPC}/SubnetIds")


def _endpoint_faults(given: dict[str, Any], properties: dict[str, Any]) -> Iterator[Fault]:
    public = given.get("EndpointPublicAccess", True)
    if not public and not given.get("EndpointPrivateAccess", False):
        message = "Private and public endpoint access cannot be false"
        yield Fault(check="cluster-endpoint", message=message, path=_VPC)
    family = properties.get("KubernetesNetworkConfig", {}).get("IpFamily", "ipv4")
    wrong = [one for one in given.get("PublicAccessCidrs", []) if not _is_network(one, family)]
    if wrong:
        message = f"The following CIDRs are invalid in publicAccessCidrs: {wrong}"
        yield Fault(check="cluster-public-cidrs", message=message, path=f"{_VPC}/PublicAccessCidrs")


def _is_network(text: str, family: str) -> bool:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return False
    return network.version == 4 or family == "ipv6"


def _service_faults(given: dict[str, Any], subnets: list[str], world: World) -> Iterator[Fault]:
    text = given.get("ServiceIpv4Cidr")
    if text is None:
        return
    if given.get("IpFamily") == "ipv6":
        yield Fault(
            check="cluster-service-cidr", message="an ipv6 cluster takes no ServiceIpv4Cidr", path=_SERVICES
        )
        return
    try:
        services = ipaddress.IPv4Network(text)
    except ValueError:
        yield Fault(check="cluster-service-cidr", message=f"{text!r} is no IPv4 range", path=_SERVICES)
        return
    if not any(services.subnet_of(block) for block in _PRIVATE):
        message = f"{text} is not within {', '.join(map(str, _PRIVATE))}"
        yield Fault(check="cluster-service-cidr", message=message, path=_SERVICES)
    if not _LEAST_PREFIX <= services.prefixlen <= _MOST_PREFIX:
        message = f"the prefix is /{_LEAST_PREFIX} to /{_MOST_PREFIX}, got /{services.prefixlen}"
        yield Fault(check="cluster-service-cidr", message=message, path=_SERVICES)
    for vpc in {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}:
        made = world.find("AWS::EC2::VPC", str(vpc))
        block = made.properties.get("CidrBlock") if made else None
        if block and services.overlaps(ipaddress.IPv4Network(block)):
            message = f"{text} overlaps with {block} of {vpc}"
            yield Fault(check="cluster-service-cidr", message=message, path=_SERVICES)


def _version_change_faults(
    physical_id: str, before: str | None, after: str | None, world: World
) -> Iterator[Fault]:
    if before is None or after is None or before == after:
        return
    if minor_of(after) - minor_of(before) != 1:
        message = f"Kubernetes is updated by one minor version at a time, got {before} to {after}"
        yield Fault(check="cluster-version-step", message=message, path="Version")
    behind = [one.physical_id for one in world.node_groups(physical_id) if version_of(world, one) != before]
    if behind:
        message = f"node groups that are not at {before} yet: {', '.join(behind)}"
        yield Fault(check="cluster-version-nodes", message=message, path="Version")
