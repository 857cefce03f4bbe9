"""What Elastic Load Balancing refuses in a load balancer.

Sources: Elastic Load Balancing API, CreateLoadBalancer (two subnets in two zones for an Application Load Balancer, one
subnet for each zone; names), ModifyLoadBalancerAttributes, DeleteLoadBalancer (deletion protection); user guide,
"Application Load Balancers" (a /27 at least, eight free addresses) and "Enable access logs" (bucket policy, SSE-S3
only). Stored copies of 2026.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..documented_attributes import documented_attributes
from ..faults import Fault
from ..world import LOAD_BALANCER, SUBNET
from .log_buckets import log_bucket_faults
from .network_interfaces import group_faults, subnet_faults

if TYPE_CHECKING:
    from ..world import World

_LONGEST_PREFIX = 27
_ZONES_OF_AN_APPLICATION = 2
_KINDS_BY_PROTOCOL = {"HTTP": "Application", "HTTPS": "Application", "GENEVE": "Gateway"}
_NAME = re.compile(r"(?!internal-)(?!-)[a-zA-Z0-9-]{1,32}(?<!-)")


def kind_of(properties: dict[str, Any]) -> str:
    """`Application`, `Network` or `Gateway`."""
    return str(properties.get("Type", "application")).capitalize()


def kind_of_targets(properties: dict[str, Any]) -> str:
    """Which kind of load balancer the group is for, by its protocol; a Lambda function has none."""
    if properties.get("TargetType") == "lambda":
        return "Application"
    return _KINDS_BY_PROTOCOL.get(properties.get("Protocol", ""), "Network")


def subnets_of(properties: dict[str, Any]) -> list[str]:
    """Its subnets, given plainly or as mappings."""
    mapped = [one["SubnetId"] for one in properties.get("SubnetMappings", [])]
    return [*properties.get("Subnets", []), *mapped]


def load_balancer_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::LoadBalancer`."""
    name = properties.get("Name")
    if name is not None and not _NAME.fullmatch(name):
        yield Fault(
            check="balancer-name",
            message=f"a name has up to 32 letters, digits and inner hyphens, and no internal- first, got {name!r}",
            path="Name",
        )
    subnets = subnets_of(properties)
    yield from subnet_faults(subnets, world, "Subnets")
    yield from _zone_faults(properties, subnets, world)
    yield from _vpc_faults(properties, subnets, world)
    yield from group_faults(properties.get("SecurityGroups", []), subnets, world, "SecurityGroups")
    given = properties.get("LoadBalancerAttributes", [])
    yield from attribute_faults("LoadBalancerAttribute", "LoadBalancerAttributes", given, kind_of(properties))
    yield from log_bucket_faults(given, world)


def attribute_faults(shape: str, path: str, given: list[dict[str, Any]], kind: str) -> Iterator[Fault]:
    """Faults of key-value attributes, of load balancers and of target groups."""
    known = documented_attributes("elbv2", shape)
    for one in given:
        key, value = str(one.get("Key", "")), str(one.get("Value", ""))
        message = ""
        if key not in known:
            message = f"the attribute {key!r} is not recognized"
        elif not known[key].fits(kind):
            message = f"the attribute {key!r} is not supported by {kind} Load Balancers"
        elif wrong := known[key].message(value):
            message = f"{key} {wrong}"
        if message:
            yield Fault(check="balancer-attribute", message=message, path=path)


def settings_after(before: dict[str, str], given: list[dict[str, Any]]) -> dict[str, str]:
    """The attributes after a template: those that it does not name keep their values, as the API has it."""
    return before | {str(one["Key"]): str(one.get("Value", "")) for one in given}


def load_balancer_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::ElasticLoadBalancingV2::LoadBalancer`."""
    found = world.find(LOAD_BALANCER, physical_id)
    if found is not None and found.settings.get("deletion_protection.enabled") == "true":
        yield Fault(
            check="deletion-protection",
            message=f"the load balancer {physical_id!r} cannot be deleted because deletion protection is enabled",
        )


def _zone_faults(properties: dict[str, Any], subnets: list[str], world: World) -> Iterator[Fault]:
    zones = [world.zone_of_subnet(subnet) for subnet in subnets]
    named = Counter(zone for zone in zones if zone)
    for zone, count in named.items():
        if count > 1:
            yield Fault(
                check="balancer-zones",
                message=f"a load balancer has one subnet in a zone; {count} are in {zone}",
                path="Subnets",
            )
    if kind_of(properties) == "Application" and len(subnets) < _ZONES_OF_AN_APPLICATION:
        yield Fault(
            check="balancer-zones",
            message=f"at least two subnets in two different Availability Zones must be specified, got {len(subnets)}",
            path="Subnets",
        )


def _vpc_faults(properties: dict[str, Any], subnets: list[str], world: World) -> Iterator[Fault]:
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}
    if len(vpcs) > 1:
        yield Fault(
            check="balancer-vpc", message="all subnets of a load balancer are in one VPC", path="Subnets"
        )
    for subnet in subnets:
        made = world.find(SUBNET, subnet)
        cidr = made.properties.get("CidrBlock") if made else None
        if cidr and ipaddress.ip_network(cidr).prefixlen > _LONGEST_PREFIX:
            yield Fault(
                check="balancer-addresses",
                message=f"not enough IP space available in {subnet}: a /{_LONGEST_PREFIX} at least, got {cidr}",
                path="Subnets",
            )
    if properties.get("Scheme", "internet-facing") == "internet-facing":
        for vpc in sorted(filter(None, vpcs)):
            if not _has_internet_gateway(vpc, world):
                yield Fault(
                    check="balancer-scheme", message=f"the VPC {vpc} has no internet gateway", path="Scheme"
                )


def _has_internet_gateway(vpc: str, world: World) -> bool:
    attachments = world.of_type("AWS::EC2::VPCGatewayAttachment")
    return any(
        one.properties.get("VpcId") == vpc and "InternetGatewayId" in one.properties for one in attachments
    )
