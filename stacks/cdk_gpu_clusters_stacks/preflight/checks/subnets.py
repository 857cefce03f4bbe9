"""Existing VPCs and subnets: that they exist, as in the file, with room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.plan import SubnetUse

from ..answer import NoAnswer
from ..call import INTERFACES, SUBNETS, VPC_ATTRIBUTE, VPCS
from ..check import Check, Inquiry, Verdict, failed, passed, warned
from ..cluster import Cluster

_SUBNETS = 'Amazon VPC user guide, "Subnet CIDR blocks"'

VPC_THERE = define_rule(
    "GPU-PRE-071", "the VPC is there and available", source="EC2 API reference, DescribeVpcs"
)
VPC_NAMES = define_rule(
    "GPU-PRE-072",
    "the VPC resolves names and gives host names",
    source='Amazon VPC user guide, "DNS attributes for your VPC"; FSx and interface endpoints are reached by name',
)
SUBNETS_THERE = define_rule(
    "GPU-PRE-073",
    "the subnets are there, in the VPC of the file",
    source="EC2 API reference, DescribeSubnets",
)
SUBNET_ZONES = define_rule(
    "GPU-PRE-074",
    "the subnets are in the zones that the file gives",
    source="EC2 API reference, DescribeSubnets",
)
SUBNET_RANGE = define_rule("GPU-PRE-075", "the subnet has the range that the file gives", source=_SUBNETS)
FLEET_ADDRESSES = define_rule(
    "GPU-PRE-076",
    "the fleets' subnets have a free address for every interface that takes one",
    source=_SUBNETS,
)
SERVICE_ADDRESSES = define_rule(
    "GPU-PRE-077",
    "the subnets of load balancers have free addresses for them and for the nodes there",
    source='Application Load Balancers user guide, "Subnets for your load balancer": eight free addresses in each',
)

_NO_VPC = "the network is made here"


def _vpc(cluster: Cluster) -> Mapping[str, str]:
    network = cluster.existing_network
    return {} if network is None else {"network.vpc_id": network.vpc_id}


def _vpc_there(vpc_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    found = next((vpc for vpc in inquiry.ask(VPCS)["Vpcs"] if vpc["VpcId"] == vpc_id), None)
    if found is None:
        yield failed(f"there is no {vpc_id} in {inquiry.cluster.region}", fix="correct id, Region or profile")
    elif found.get("State") != "available":
        yield failed(f"{vpc_id} is {found.get('State')}", fix="wait until it is available")
    else:
        yield passed(f"{vpc_id}: {found.get('CidrBlock')}")


def _vpc_names(vpc_id: str, inquiry: Inquiry) -> Iterator[Verdict]:
    attributes = {
        "enableDnsSupport": ("EnableDnsSupport", "--enable-dns-support"),
        "enableDnsHostnames": ("EnableDnsHostnames", "--enable-dns-hostnames"),
    }
    for attribute in attributes:
        inquiry.start(VPC_ATTRIBUTE, VpcId=vpc_id, Attribute=attribute)
    for attribute, (key, option) in attributes.items():
        answer = inquiry.ask(VPC_ATTRIBUTE, VpcId=vpc_id, Attribute=attribute)
        if not answer[key].get("Value"):
            yield failed(
                f"{attribute} of {vpc_id} is off",
                fix=f"aws ec2 modify-vpc-attribute --vpc-id {vpc_id} {option} '{{\"Value\":true}}'",
            )


def found_subnets(inquiry: Inquiry) -> Mapping[str, Mapping[str, Any]]:
    """The subnets of the Region by id; one answer serves all checks."""
    return {subnet["SubnetId"]: subnet for subnet in inquiry.ask(SUBNETS)["Subnets"]}


def found_subnet(subnet_id: str, inquiry: Inquiry) -> Mapping[str, Any]:
    """One subnet.

    Raises:
        NoAnswer: If it is not there.
    """
    found = found_subnets(inquiry).get(subnet_id)
    if found is None:
        raise NoAnswer(f"{subnet_id} is not there", fix="see GPU-PRE-073")
    return found


def _subnets(cluster: Cluster) -> Mapping[str, tuple[str, str]]:
    return cluster.subnets


def _subnet_there(named: tuple[str, str], inquiry: Inquiry) -> Iterator[Verdict]:
    network, found = inquiry.cluster.existing_network, found_subnets(inquiry).get(named[0])
    if found is None:
        yield failed(
            f"there is no {named[0]} in {inquiry.cluster.region}", fix="correct id, Region or profile"
        )
    elif network is not None and found["VpcId"] != network.vpc_id:
        yield failed(
            f"{named[0]} is in {found['VpcId']}, not in {network.vpc_id}", fix="name subnets of one VPC"
        )
    elif found.get("State") != "available":
        yield failed(f"{named[0]} is {found.get('State')}", fix="choose an available subnet")


def _subnet_zone(named: tuple[str, str], inquiry: Inquiry) -> Iterator[Verdict]:
    subnet_id, zone = named
    found = found_subnet(subnet_id, inquiry)
    here = f"{found.get('AvailabilityZone')} ({found.get('AvailabilityZoneId')})"
    if inquiry.cluster.is_zone(zone, found):
        yield passed(f"{subnet_id} in {here}")
    else:
        yield failed(f"{subnet_id} lies in {here}, not in {zone}", fix="correct the zone or the subnet")


def _ranged(cluster: Cluster) -> Mapping[str, tuple[str, str]]:
    network = cluster.existing_network
    if network is None or network.cidr is None:
        return {}
    return {"network.cidr": (network.subnet_ids[0], network.cidr)}


def _range(named: tuple[str, str], inquiry: Inquiry) -> Iterator[Verdict]:
    found = found_subnet(named[0], inquiry)["CidrBlock"]
    if found != named[1]:
        yield failed(f"{named[0]} has {found}, the file has {named[1]}", fix=f"cidr: {found}")


def _of_role(role: str, key: str) -> Callable[[Cluster], Mapping[str, SubnetUse]]:
    """Existing subnets of a role that contain something, by their keys in the file."""

    def subjects(cluster: Cluster) -> Mapping[str, SubnetUse]:
        return {
            f"network.{key}" if role == "fleet" else f"network.{key}.{one.availability_zone}": one
            for one in cluster.plan.network.subnets
            if one.role == role and one.subnet_ids and one.uses
        }

    return subjects


def _service(cluster: Cluster) -> Mapping[str, SubnetUse]:
    private, public = _of_role("load-balancer", "service_subnets"), _of_role("public", "public_subnets")
    return {**private(cluster), **public(cluster)}


def _addresses(use: SubnetUse, inquiry: Inquiry) -> Iterator[Verdict]:
    most = use.used_addresses
    free = sum(found_subnet(one, inquiry)["AvailableIpAddressCount"] for one in use.subnet_ids)
    if free < most:
        free += _own_addresses(use.subnet_ids, inquiry)
    said, fix = f"{free} free addresses, {most} needed at most", "free addresses, or choose a larger subnet"
    if free < _least(use, inquiry.cluster):
        yield failed(said, fix=fix)
    elif free < most:
        yield warned(f"{said}: enough for the least number of nodes", fix=fix)
    else:
        yield passed(said)


def _least(use: SubnetUse, cluster: Cluster) -> float:
    """Addresses with every fleet at its least number of nodes."""
    sizes = {fleet.name: fleet.spec for fleet in cluster.fleets.values()}
    return sum(
        one.addresses * sizes[one.of].minimum_nodes / sizes[one.of].maximum_nodes
        if one.kind == "nodes"
        else one.addresses
        for one in use.uses
    )


def _own_addresses(subnet_ids: Sequence[str], inquiry: Inquiry) -> int:
    """Addresses that nodes of the cluster have already."""
    return sum(
        len(interface.get("PrivateIpAddresses", ()))
        for interface in inquiry.ask(INTERFACES)["NetworkInterfaces"]
        if interface.get("SubnetId") in subnet_ids and inquiry.cluster.owns(interface)
    )


CHECKS = (
    Check(rule=VPC_THERE, calls=(VPCS,), subjects=_vpc, judge=_vpc_there, unless=_NO_VPC),
    Check(rule=VPC_NAMES, calls=(VPC_ATTRIBUTE,), subjects=_vpc, judge=_vpc_names, unless=_NO_VPC),
    Check(rule=SUBNETS_THERE, calls=(SUBNETS,), subjects=_subnets, judge=_subnet_there, unless=_NO_VPC),
    Check(rule=SUBNET_ZONES, calls=(SUBNETS,), subjects=_subnets, judge=_subnet_zone, unless=_NO_VPC),
    Check(
        rule=SUBNET_RANGE,
        calls=(SUBNETS,),
        subjects=_ranged,
        judge=_range,
        unless="the file names no range of an existing subnet",
    ),
    Check(
        rule=FLEET_ADDRESSES,
        calls=(SUBNETS, INTERFACES),
        subjects=_of_role("fleet", "subnet_ids"),
        judge=_addresses,
        unless=_NO_VPC,
    ),
    Check(
        rule=SERVICE_ADDRESSES,
        calls=(SUBNETS, INTERFACES),
        subjects=_service,
        judge=_addresses,
        unless="nothing uses existing service subnets",
    ),
)
