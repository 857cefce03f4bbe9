"""Faults in any list of network interfaces: ours, a user's own, or one read from a template.

Sources: AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"
and "Elastic network interfaces" (stored copies, mid-2026); EC2 DescribeInstanceTypes for each type's limits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from cdk_gpu_clusters.catalogue import InstanceType, NetworkCard
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.interfaces import NetworkInterface

_CARDS_PAGE = (
    'AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"'
)
_TYPES = "EC2 DescribeInstanceTypes, NetworkInfo"

ONE_PRIMARY = define_rule(
    "GPU-EFA-001", "exactly one primary interface, at network card 0 and device 0", source=_CARDS_PAGE
)
PRIMARY_HAS_IP = define_rule("GPU-EFA-002", "the primary interface is not efa-only", source=_CARDS_PAGE)
ONE_EFA_PER_CARD = define_rule(
    "GPU-EFA-003", "at most one EFA interface per network card", source=_CARDS_PAGE
)
EFA_TOTAL = define_rule(
    "GPU-EFA-004",
    "no more EFA interfaces than the type supports",
    source=f"{_TYPES}.EfaInfo.MaximumEfaInterfaces",
)
TYPE_ON_CARD = define_rule(
    "GPU-EFA-005",
    "each network card accepts the type of the interfaces on it",
    source=f"{_TYPES}.NetworkCards",
)
CARD_EXISTS = define_rule(
    "GPU-EFA-006", "the instance type has the network card", source=f"{_TYPES}.MaximumNetworkCards"
)
CARD_TOTAL = define_rule(
    "GPU-EFA-007",
    "no more interfaces on a card than it holds, efa-only included",
    source=f"{_TYPES}.NetworkCards.MaximumNetworkInterfaces",
)
INSTANCE_TOTAL = define_rule(
    "GPU-EFA-008",
    "no more interfaces than the instance type holds, efa-only included",
    source=f"{_TYPES}.MaximumNetworkInterfaces",
)
UNIQUE_DEVICE = define_rule(
    "GPU-EFA-009", "device indexes are unique per network card", source='AWS EC2 user guide, "Network cards"'
)
DEVICE_IN_RANGE = define_rule(
    "GPU-EFA-010",
    "a device index is below the number of interfaces that its card holds",
    source="eksctl-io/eksctl 7520 (the API refused a higher index); EC2 DescribeInstanceTypes",
)
ONE_INTERFACE_FOR_PUBLIC_IP = define_rule(
    "GPU-EFA-011", "EC2 assigns no public address to a launch with several interfaces", source=_CARDS_PAGE
)
NO_ADDRESS_ON_EFA_ONLY = define_rule(
    "GPU-EFA-012",
    "an efa-only interface takes no IP address",
    source=f"{_CARDS_PAGE}; aws/karpenter-provider-aws, designs/efa-for-static-capacity.md",
)

EVERY_TYPE = ("interface", "efa", "efa-only")


def check_interfaces(
    instance_type: InstanceType | str, interfaces: Sequence[NetworkInterface]
) -> list[Finding]:
    """Find every fault in a list of network interfaces.

    Args:
        instance_type: The type that is launched with them, or its name.
        interfaces: The interfaces, in any order.

    Returns:
        The findings, empty when EC2 would accept the list.

    Raises:
        ConfigError: If the instance type is not known.

    Example:
        >>> [finding.id for finding in check_interfaces("p6-b300.48xlarge", [NetworkInterface(0, 0, "efa")])]
        ['GPU-EFA-005']
    """
    kind = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    return [
        *_check_primary(interfaces),
        *_check_cards(kind, interfaces),
        *_check_totals(kind, interfaces),
    ]


def check_public_ip(interfaces: Sequence[NetworkInterface], *, public_ip: bool) -> list[Finding]:
    """Find a public address asked for at a launch with several interfaces.

    Args:
        interfaces: The interfaces of one launch.
        public_ip: Whether any of them asks for a public address, or the subnet assigns one by itself.
    """
    if not public_ip or len(interfaces) < 2:
        return []
    return [
        ONE_INTERFACE_FOR_PUBLIC_IP.finding(
            cause="a node with several network interfaces cannot be given a public address at launch",
            got=f"{len(interfaces)} interfaces and a public address",
            allowed="one interface, or no public address",
            fix="use a private subnet with NAT or endpoints, or attach an Elastic IP address after launch",
        )
    ]


def check_addresses(addressed: Iterable[NetworkInterface]) -> list[Finding]:
    """Find addresses, address counts or prefixes that are asked for on `efa-only` interfaces.

    Args:
        addressed: The interfaces that carry any IPv4 or IPv6 address, count or prefix setting.
    """
    return [
        NO_ADDRESS_ON_EFA_ONLY.finding(
            cause="an efa-only interface has no IP device, so the launch fails when it is given an address",
            got=str(interface),
            allowed="addresses on interface and efa only",
            fix="remove the address settings from this interface",
        )
        for interface in addressed
        if not interface.has_ip
    ]


def _check_primary(interfaces: Sequence[NetworkInterface]) -> list[Finding]:
    primaries = [interface for interface in interfaces if interface.is_primary]
    findings = []
    if len(primaries) != 1:
        findings.append(
            ONE_PRIMARY.finding(
                cause="a launch needs exactly one primary interface",
                got=f"{len(primaries)} at card 0 device 0",
                allowed="1 at card 0 device 0",
                fix="put one interface at network card 0, device 0",
            )
        )
    if any(not primary.has_ip for primary in primaries):
        findings.append(
            PRIMARY_HAS_IP.finding(
                cause="the primary interface needs an IP address",
                got="efa-only at card 0 device 0",
                allowed="interface, or efa where card 0 supports EFA",
                fix="make it interface, and put efa-only at card 0 device 1 where card 0 supports EFA",
            )
        )
    return findings


def _check_cards(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> list[Finding]:
    cards = {card.index: card for card in kind.network.cards}
    findings = []
    by_card: dict[int, list[NetworkInterface]] = defaultdict(list)
    for interface in interfaces:
        by_card[interface.network_card_index].append(interface)
    for index, on_card in sorted(by_card.items()):
        if index in cards:
            findings += _check_card(kind, cards[index], on_card)
        else:
            findings.append(
                CARD_EXISTS.finding(
                    cause=f"{kind.name} has no network card {index}",
                    got=f"network card {index}",
                    allowed=_span(cards),
                    fix="move the interface to a card that exists, or remove it",
                )
            )
    return findings


def _check_card(kind: InstanceType, card: NetworkCard, on_card: Sequence[NetworkInterface]) -> list[Finding]:
    where = f"network card {card.index} of {kind.name}"
    findings = [
        TYPE_ON_CARD.finding(
            cause=f"{where} does not accept {interface.interface_type}",
            got=str(interface),
            allowed=", ".join(name for name in EVERY_TYPE if name in card.interface_types),
            fix="change the type, or move the interface to another card",
        )
        for interface in on_card
        if interface.interface_type not in card.interface_types
    ]
    efa = sum(interface.is_efa for interface in on_card)
    if efa > 1:
        findings.append(
            ONE_EFA_PER_CARD.finding(
                cause=f"{where} carries more than one EFA interface",
                got=str(efa),
                allowed="1",
                fix="keep one; a plain interface may stand beside it",
            )
        )
    if len(on_card) > card.max_interfaces:
        findings.append(
            CARD_TOTAL.finding(
                cause=f"{where} holds fewer interfaces than that",
                got=str(len(on_card)),
                allowed=f"at most {card.max_interfaces}",
                fix="spread the interfaces over more cards, or remove some",
            )
        )
    return findings + _check_devices(where, card, on_card)


def _check_devices(where: str, card: NetworkCard, on_card: Sequence[NetworkInterface]) -> list[Finding]:
    counts = Counter(interface.device_index for interface in on_card)
    findings = [
        UNIQUE_DEVICE.finding(
            cause=f"{where} has a device index twice",
            got=f"device {device} {count} times",
            allowed="each device index once",
            fix="give each interface on the card its own device index",
        )
        for device, count in sorted(counts.items())
        if count > 1
    ]
    findings += [
        DEVICE_IN_RANGE.finding(
            cause=f"{where} has no such device index",
            got=f"device {device}",
            allowed=_span(range(card.max_interfaces)),
            fix="use a lower device index",
        )
        for device in sorted(counts)
        if not 0 <= device < card.max_interfaces
    ]
    return findings


def _check_totals(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> list[Finding]:
    findings = []
    most_efa = kind.network.efa.max_interfaces if kind.network.efa else 0
    efa = sum(interface.is_efa for interface in interfaces)
    if efa > most_efa:
        findings.append(
            EFA_TOTAL.finding(
                cause=f"{kind.name} supports {most_efa or 'no'} EFA interface{'' if most_efa == 1 else 's'}",
                got=str(efa),
                allowed=f"at most {most_efa}",
                fix="remove EFA interfaces, or use a type with more",
            )
        )
    if len(interfaces) > kind.network.max_interfaces:
        findings.append(
            INSTANCE_TOTAL.finding(
                cause=f"{kind.name} holds fewer interfaces than that",
                got=str(len(interfaces)),
                allowed=f"at most {kind.network.max_interfaces}",
                fix="remove interfaces; efa-only ones count too",
            )
        )
    return findings


def _span(indexes: Collection[int]) -> str:
    """`0`, or `0 to 31`."""
    return f"{min(indexes)} to {max(indexes)}" if len(indexes) > 1 else str(min(indexes))
