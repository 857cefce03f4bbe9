"""Whether a subnet has room for the nodes and for everything beside them.

Source of the numbers: AWS VPC user guide, "Subnet CIDR blocks": a subnet is /16 to /28, and AWS keeps five
addresses of each (the first four and the last).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for

_SUBNETS_PAGE = 'AWS VPC user guide, "Subnet CIDR blocks"'

VALID_CIDR = define_rule("GPU-IP-001", "a subnet's range is an IPv4 CIDR block", source=_SUBNETS_PAGE)
CIDR_BOUNDS = define_rule("GPU-IP-002", "a subnet is /16 to /28", source=_SUBNETS_PAGE)
ENOUGH_ADDRESSES = define_rule(
    "GPU-IP-003",
    "a subnet has an address for every interface that takes one",
    source=f"{_SUBNETS_PAGE}; arithmetic",
)
VALID_DEMAND = define_rule("GPU-IP-004", "a demand for addresses is made of integers from 0", source="arithmetic")

RESERVED_ADDRESSES = 5
LARGEST_SUBNET_PREFIX = 16
SMALLEST_SUBNET_PREFIX = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class IpDemand:
    """What one user of a subnet takes from it.

    Attributes:
        nodes: The most nodes that run at a time.
        addresses_per_node: IPv4 addresses of one node, as in `InterfacePlan.ip_addresses_per_node`.
        interface_endpoints: Interface endpoints with a network interface in this subnet, one address each.
        other: Addresses of NAT gateways, load balancers, file systems, pods and all else.
        rolling_nodes: Nodes that run beside the others while these are being replaced.
        name: The fleet's name, for messages.
    """

    nodes: int
    addresses_per_node: int = 1
    interface_endpoints: int = 0
    other: int = 0
    rolling_nodes: int = 0
    name: str = ""

    @property
    def beside_nodes(self) -> int:
        """Addresses that do not depend on the number of nodes."""
        return self.interface_endpoints + self.other

    @property
    def addresses(self) -> int:
        """All addresses together."""
        return (self.nodes + self.rolling_nodes) * self.addresses_per_node + self.beside_nodes


def usable_addresses(cidr: str) -> int:
    """How many addresses of a subnet can be given to interfaces.

    Args:
        cidr: The subnet's IPv4 CIDR block.

    Raises:
        ConfigError: If it is not one, or not /16 to /28.

    Example:
        >>> usable_addresses("10.0.0.0/24")
        251
    """
    raise_for(_check_cidr(cidr))
    return _usable(IPv4Network(cidr).prefixlen)


def smallest_prefix_for(addresses: int) -> int | None:
    """The prefix length of the smallest subnet that has room for so many addresses.

    Args:
        addresses: Addresses of nodes, endpoints and all else, without the five that AWS keeps.

    Returns:
        16 to 28, or None where even a /16 is too small.

    Example:
        >>> smallest_prefix_for(16 * 32)
        22
    """
    prefixes = range(SMALLEST_SUBNET_PREFIX, LARGEST_SUBNET_PREFIX - 1, -1)
    return next((prefix for prefix in prefixes if _usable(prefix) >= addresses), None)


def nodes_that_fit(cidr: str, demand: IpDemand, *, taken: int = 0) -> int | None:
    """How many nodes a subnet has room for at a time, with everything else in the demand.

    Args:
        cidr: The subnet's IPv4 CIDR block.
        demand: The demand, whose `nodes` is not read.
        taken: Addresses that others take.

    Returns:
        The number of nodes; None where a node takes no address, so that any number fits.

    Raises:
        ConfigError: If the CIDR block is not valid.
    """
    if demand.addresses_per_node == 0:
        return None
    free = usable_addresses(cidr) - taken - demand.beside_nodes
    return max(0, free // demand.addresses_per_node - demand.rolling_nodes)


def check_ip_budget(cidr: str, demands: Sequence[IpDemand]) -> list[Finding]:
    """Find a subnet that is too small for the addresses that it needs.

    Args:
        cidr: The subnet's IPv4 CIDR block, a plain string.
        demands: What takes addresses from it.

    Returns:
        Findings that say how many nodes would fit, and which prefix would be large enough.

    Example:
        >>> [f.id for f in check_ip_budget("10.0.0.0/24", [IpDemand(nodes=8, addresses_per_node=32)])]
        ['GPU-IP-003']
    """
    findings = [*_check_cidr(cidr), *_check_demands(demands)]
    if findings:
        return findings
    needed = sum(demand.addresses for demand in demands)
    usable = usable_addresses(cidr)
    if needed <= usable:
        return []
    return [
        ENOUGH_ADDRESSES.finding(
            cause=f"the subnet needs {needed} addresses ({_sum_of(demands)}) and has {usable}",
            got=cidr,
            allowed=f"at most {usable} addresses: {_nodes_that_fit(cidr, demands)}",
            fix=_larger(needed),
        )
    ]


@check
def _check_cidr(cidr: str) -> Iterator[Finding]:
    try:
        network = IPv4Network(cidr)
    except ValueError as error:
        yield VALID_CIDR.finding(
            cause=f"the subnet's range is not an IPv4 CIDR block ({error})",
            got=cidr,
            allowed="four numbers and a prefix, with no host bits, such as 10.0.0.0/22",
            fix="correct the range",
        )
        return
    if not LARGEST_SUBNET_PREFIX <= network.prefixlen <= SMALLEST_SUBNET_PREFIX:
        yield CIDR_BOUNDS.finding(
            cause="a subnet cannot have this size",
            got=cidr,
            allowed=f"/{LARGEST_SUBNET_PREFIX} to /{SMALLEST_SUBNET_PREFIX}",
            fix="choose a prefix within these bounds",
        )


def _check_demands(demands: Sequence[IpDemand]) -> list[Finding]:
    return [
        VALID_DEMAND.finding(
            cause=f"a demand for addresses has a number below 0{f' ({demand.name})' if demand.name else ''}",
            got=f"{field} {getattr(demand, field)}",
            allowed="0 or more",
            fix="correct the number",
        )
        for demand in demands
        for field in ("nodes", "addresses_per_node", "interface_endpoints", "other", "rolling_nodes")
        if getattr(demand, field) < 0
    ]


def _usable(prefix: int) -> int:
    return int(2 ** (32 - prefix)) - RESERVED_ADDRESSES


def _sum_of(demands: Sequence[IpDemand]) -> str:
    """`16 nodes x 32, 3 endpoints, 1 other`."""
    parts = []
    for demand in demands:
        if demand.addresses_per_node == 0:
            continue
        who = f"{demand.name}: " if demand.name else ""
        rolling = f" + {demand.rolling_nodes} while replacing" if demand.rolling_nodes else ""
        parts.append(f"{who}{demand.nodes} nodes{rolling} x {demand.addresses_per_node}")
    endpoints = sum(demand.interface_endpoints for demand in demands)
    named = [demand for demand in demands if demand.addresses_per_node == 0 and demand.name and demand.other]
    other = sum(demand.other for demand in demands if demand not in named)
    parts += [f"{endpoints} endpoints"] if endpoints else []
    parts += [f"{demand.name}: {demand.other}" for demand in named]
    parts += [f"{other} other"] if other else []
    return ", ".join(parts)


def _nodes_that_fit(cidr: str, demands: Sequence[IpDemand]) -> str:
    """How many nodes of each demand fit while the others keep theirs."""
    total = sum(demand.addresses for demand in demands)
    parts = []
    for demand in demands:
        fit = nodes_that_fit(cidr, demand, taken=total - demand.addresses)
        if fit is not None:
            who = f" of {demand.name}" if demand.name else ""
            parts.append(f"{fit} nodes{who} fit")
    return " or ".join(parts) or "no node takes an address"


def _larger(needed: int) -> str:
    prefix = smallest_prefix_for(needed)
    if prefix is None:
        return "no subnet is large enough: use fewer nodes, or interfaces that take fewer addresses"
    return f"use a /{prefix} or larger, fewer nodes, or interfaces that take fewer addresses"
