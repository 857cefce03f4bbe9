"""The subnets of a cluster's VPC: one pure function from the VPC's CIDR block to every subnet's block.

The VPC is divided the same way at every size, so that no later change of the zones moves a subnet::

    first half      the fleet subnet starts here; it may take the half
    third quarter   free, for subnets of your own
    last quarter    eight slots: one for each of up to seven zones, the last one for the NAT gateway
                    a zone's slot: first half control subnet, second half load-balancer subnet

A zone's slot follows from its own name (`us-east-1a` and `use1-az1` take slot 0, `us-east-1b` slot 1), never
from its place in a list. This module imports no CDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from types import MappingProxyType

from cdk_gpu_clusters.errors import Finding, Severity, define_rule, raise_for
from cdk_gpu_clusters.rules.ip_budget import LARGEST_SUBNET_PREFIX, SMALLEST_SUBNET_PREFIX

# Amazon VPC user guide, "VPC CIDR blocks": a VPC, like a subnet, is /16 at most. Elastic Load Balancing,
# "Application Load Balancers": a load balancer's subnet is /27 or larger. A zone's slot is 1/32 of the VPC
# and a load-balancer subnet half of it, so the smallest VPC that divides is /20 (4,096 addresses, /26
# halves).
LARGEST_VPC_PREFIX = LARGEST_SUBNET_PREFIX
SMALLEST_VPC_PREFIX = 20
# RFC 1918, RFC 6598 (shared address space) and RFC 2544 (benchmarking): never routed on the internet.
PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")
# Docker's default bridge, and used by some AWS services (Amazon VPC user guide, "VPC CIDR blocks").
_DOCKER_BRIDGE = IPv4Network("172.17.0.0/16")

_FLEET_BITS = 2  # the default fleet subnet is a quarter of the VPC: /18 of a /16
_SLOT_HALF_BITS = 6  # a control or load-balancer subnet is 1/64 of the VPC: /22 of a /16
_FIRST_SLOT_HALF = 48  # the last quarter starts at the 48th of 64 blocks
_ZONE_SLOTS = 7  # no Region has more than six zones; the eighth slot holds the NAT gateway's subnet
_MINIMUM_CONTROL_ZONES = 2  # Application Load Balancers and EKS control planes ask for subnets in two zones

VPC_CIDR = define_rule(
    "GPU-NET-141",
    "a VPC has one private IPv4 block of /16 to /20",
    source="Amazon VPC user guide, VPC CIDR blocks; Elastic Load Balancing, subnets of /27 or larger",
)
FLEET_PREFIX = define_rule(
    "GPU-NET-142",
    "the fleet subnet takes at most the first half of the VPC and is not smaller than /28",
    source="Amazon VPC user guide, Subnet CIDR blocks; this library's division of the VPC",
)
CONTROL_ZONES = define_rule(
    "GPU-NET-143",
    "control and load-balancer subnets are in two to seven different zones of the Region",
    source="Application Load Balancers user guide and Amazon EKS user guide: subnets in at least two zones",
)
DOCKER_BRIDGE = define_rule(
    "GPU-NET-144",
    "a VPC does not contain 172.17.0.0/16",
    source="Amazon VPC user guide, VPC CIDR blocks: used by some AWS services; Docker's default bridge",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetBlock:
    """One subnet: the `index`-th of the equal blocks of 2**`address_bits` addresses in the VPC.

    Kept apart from the addresses, so that a VPC whose block is known at deploy time only divides the same way
    (`Fn::Cidr` takes just these two numbers).
    """

    address_bits: int
    index: int

    def cidr(self, vpc: IPv4Network) -> str:
        """The block's CIDR in a VPC of the block `vpc`."""
        first = int(vpc.network_address) + (self.index << self.address_bits)
        return str(IPv4Network((first, 32 - self.address_bits)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetPlan:
    """The place of every subnet of a cluster network.

    Attributes:
        fleet: The fleet subnet.
        egress: The public subnet of the NAT gateway; kept free in a closed network.
        control: The control subnet of each zone.
        load_balancer: The load-balancer subnet of each zone.
    """

    fleet: SubnetBlock
    egress: SubnetBlock
    control: Mapping[str, SubnetBlock]
    load_balancer: Mapping[str, SubnetBlock]


def plan_subnets(cidr: str, *, fleet_subnet_prefix: int | None = None, control_zones: Sequence[str]) -> SubnetPlan:
    """Divide a VPC.

    Args:
        cidr: The VPC's IPv4 block, /16 to /20.
        fleet_subnet_prefix: Prefix length of the fleet subnet. By default a quarter of the VPC (/18 of a /16:
            16,379 addresses that instances can use).
        control_zones: Zone names, zone ids, or `Zone1`, `Zone2`, ... for zones known at deploy time only.

    Raises:
        ConfigError: With every fault of `check_subnets`.

    Example:
        >>> from ipaddress import IPv4Network
        >>> from cdk_gpu_clusters.network.subnets import plan_subnets
        >>> plan = plan_subnets("10.0.0.0/16", control_zones=["us-east-1a", "us-east-1b"])
        >>> plan.fleet.cidr(IPv4Network("10.0.0.0/16"))
        '10.0.0.0/18'
        >>> plan.control["us-east-1b"].cidr(IPv4Network("10.0.0.0/16"))
        '10.0.200.0/22'
    """
    raise_for(check_subnets(cidr, fleet_subnet_prefix=fleet_subnet_prefix, control_zones=control_zones))
    slots = {zone: slot for zone in control_zones if (slot := _zone_slot(zone)) is not None}
    vpc_bits = 32 - IPv4Network(cidr).prefixlen
    fleet_bits = vpc_bits - _FLEET_BITS if fleet_subnet_prefix is None else 32 - fleet_subnet_prefix

    def half_slot(slot: int, half: int) -> SubnetBlock:
        return SubnetBlock(address_bits=vpc_bits - _SLOT_HALF_BITS, index=_FIRST_SLOT_HALF + 2 * slot + half)

    return SubnetPlan(
        fleet=SubnetBlock(address_bits=fleet_bits, index=0),
        egress=half_slot(_ZONE_SLOTS, 0),
        control=MappingProxyType({zone: half_slot(slot, 0) for zone, slot in slots.items()}),
        load_balancer=MappingProxyType({zone: half_slot(slot, 1) for zone, slot in slots.items()}),
    )


def check_subnets(cidr: str, *, fleet_subnet_prefix: int | None = None, control_zones: Sequence[str]) -> list[Finding]:
    """Every fault in what `plan_subnets` takes: the VPC's block, the fleet subnet's size, the zones."""
    findings = [*check_vpc_cidr(cidr), *_check_control_zones(control_zones)]
    if not any(finding.id == VPC_CIDR.id for finding in findings):
        findings += _check_fleet_prefix(IPv4Network(cidr).prefixlen, fleet_subnet_prefix)
    return findings


def check_vpc_cidr(cidr: str) -> list[Finding]:
    """Faults of a VPC's IPv4 block: its form, its size, and whether it is private."""
    allowed = f"/{LARGEST_VPC_PREFIX} to /{SMALLEST_VPC_PREFIX} within {', '.join(PRIVATE_RANGES)}"

    def wrong(cause: str, fix: str) -> list[Finding]:
        return [VPC_CIDR.finding(cause=cause, got=cidr, allowed=allowed, fix=fix, path="cidr")]

    try:
        network = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError):
        return wrong("the VPC's block is not an IPv4 CIDR block", 'write it as "10.0.0.0/16"')
    except ValueError:
        first = IPv4Network(cidr, strict=False)
        return wrong("the address is not the first one of the block", f"write {first}")
    if not LARGEST_VPC_PREFIX <= network.prefixlen <= SMALLEST_VPC_PREFIX:
        return wrong(
            "the VPC's block cannot be divided into a fleet subnet and two zones of control subnets",
            f"write {network.network_address}/{LARGEST_VPC_PREFIX}, if it is free",
        )
    if not any(network.subnet_of(IPv4Network(private)) for private in PRIVATE_RANGES):
        return wrong(
            "the block holds public addresses: the internet hosts that own them could not be reached",
            "take a private block, such as 10.0.0.0/16",
        )
    if network.overlaps(_DOCKER_BRIDGE):
        return [
            DOCKER_BRIDGE.finding(
                cause="the block overlaps Docker's default bridge, so containers may not reach other nodes",
                got=cidr,
                fix="take another block, such as 10.0.0.0/16",
                path="cidr",
                severity=Severity.WARNING,
            )
        ]
    return []


def _check_fleet_prefix(vpc_prefix: int, prefix: int | None) -> list[Finding]:
    if prefix is None or vpc_prefix < prefix <= SMALLEST_SUBNET_PREFIX:
        return []
    cause = "the fleet subnet would overlap the control subnets, which take the last quarter of the VPC"
    if prefix > SMALLEST_SUBNET_PREFIX:
        cause = "the fleet subnet is smaller than EC2 allows"
    return [
        FLEET_PREFIX.finding(
            cause=cause,
            got=f"/{prefix} in a /{vpc_prefix} VPC",
            allowed=f"/{vpc_prefix + 1} to /{SMALLEST_SUBNET_PREFIX}",
            fix=f"give fleet_subnet_prefix={vpc_prefix + _FLEET_BITS}, or leave it out",
            path="fleet_subnet_prefix",
        )
    ]


def _check_control_zones(zones: Sequence[str]) -> list[Finding]:
    def wrong(cause: str, got: str, fix: str) -> Finding:
        return CONTROL_ZONES.finding(
            cause=cause,
            got=got,
            allowed="zones of the Region such as us-east-1a, or zone ids such as use1-az1",
            fix=fix,
            path="control_availability_zones",
        )

    findings = []
    if len(zones) < _MINIMUM_CONTROL_ZONES:
        fix = "name two or more zones, or leave it out for the first two of the account"
        findings.append(wrong("there are too few zones", ", ".join(zones) or "none", fix))
    owner: dict[int, str] = {}
    for zone in zones:
        slot = _zone_slot(zone)
        if slot is None:
            fix = "name an Availability Zone of the Region: control subnets cannot be in Local Zones"
            findings.append(wrong("this is not an Availability Zone", zone, fix))
        elif slot in owner:
            fix = "name each zone once, and all of them by name or all of them by id"
            findings.append(wrong("two zones take one slot", f"{owner[slot]} and {zone}", fix))
        else:
            owner[slot] = zone
    return findings


# A zone name, a zone id, and the name that a zone known at deploy time only gets from its place in the list.
_ZONE_NAME = re.compile(r"[a-z]+(?:-[a-z]+)+-\d+([a-g])")
_ZONE_NUMBER = re.compile(r"(?:[a-z]+\d+-az|Zone)([1-7])")


def _zone_slot(zone: str) -> int | None:
    """The slot that a zone takes, or None if it is no Availability Zone."""
    if named := _ZONE_NAME.fullmatch(zone):
        return ord(named.group(1)) - ord("a")
    if numbered := _ZONE_NUMBER.fullmatch(zone):
        return int(numbered.group(1)) - 1
    return None
