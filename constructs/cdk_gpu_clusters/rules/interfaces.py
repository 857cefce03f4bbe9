"""The network interfaces of an instance: EFA or not, the layout for each orchestrator, checks of any list."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from cdk_gpu_clusters.catalogue import InstanceType, NetworkCard
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.placement import PlacementStrategy

NO_EFA = define_rule(
    "GPU-EFA-025",
    "EFA is requested only if the instance type has it",
    source="EC2 DescribeInstanceTypes, NetworkInfo.EfaSupported",
)

EFA_USED = define_rule(
    "GPU-EFA-034",
    "accelerated nodes in a cluster placement group use EFA if their type has it",
    source="aws/aws-parallelcluster, EfaValidator; modelplaneai/modelplane 197 (a type with EFA, and no interfaces)",
)


def uses_efa(instance_type: InstanceType | str, requested: bool | None) -> bool:
    """Whether a node has EFA interfaces.

    By default accelerated types that have EFA use it, and CPU types do not: a head or preprocessing node exchanges no
    collective traffic, and EFA would tie it to one zone and one type.

    Args:
        instance_type: The type of the nodes.
        requested: The requested setting; None if it is left open.

    Example:
        >>> uses_efa("p5.48xlarge", None), uses_efa("m8g.48xlarge", None), uses_efa("g6.xlarge", True)
        (True, False, False)
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    if record.network.efa is None:
        return False
    return record.accelerator is not None if requested is None else requested


@check
def check_efa_request(instance_type: InstanceType, requested: bool | None) -> Iterator[Finding]:
    """Find EFA that is requested and not available: the traffic would go over TCP without a message."""
    if requested and instance_type.network.efa is None:
        yield NO_EFA.finding(
            cause=f"{instance_type.name} has no EFA",
            got="efa: true",
            allowed="efa: false, or a type with EFA",
            fix="remove efa, or choose a larger size of the family",
        )


@check
def check_efa_unused(
    instance_type: InstanceType, *, efa: bool, placement: PlacementStrategy | None
) -> Iterator[Finding]:
    """Find nodes that are close together, and still exchange their data over TCP.

    Args:
        instance_type: The type of the nodes.
        efa: Whether they have EFA interfaces.
        placement: Strategy of their placement group, None if they are in none.
    """
    has_it = instance_type.network.efa is not None and instance_type.accelerator is not None
    if not efa and has_it and placement is PlacementStrategy.CLUSTER:
        yield EFA_USED.finding(
            cause="nodes that are placed close together to exchange data fast exchange it over TCP, without a message",
            got=f"no EFA on {instance_type.name}",
            allowed="EFA, or no cluster placement group",
            fix="leave efa out; or acknowledge this",
            severity=Severity.WARNING,
        )


# p6e-gb200: cards (1,2), (3,4) ... share one 400 Gbps port; odd cards (1,3), (5,7) ... one GPU of 400 Gbps. Four cards
# in a row thus give 400 Gbps at most. Source: AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances
# with multiple network cards" (stored copy, mid-2026); that the even cards count against the same GPU is the cautious
# reading.
_SHARED_GBPS = {"p6e-gb200": (400.0, tuple(frozenset(range(first, first + 4)) for first in (1, 5, 9, 13)))}


def efa_gbps_of(instance_type: InstanceType, cards: Collection[int]) -> float | None:
    """The EFA bandwidth in Gbps of a node that has an EFA interface on each of `cards`.

    Args:
        instance_type: The instance type.
        cards: Indexes of the network cards that carry EFA; repeated ones count once.

    Returns:
        The sum over the cards, at most the type's ceiling; 0 without cards; None where no source gives it.
    """
    used = frozenset(cards)
    efa = instance_type.network.efa
    if not used or efa is None:
        return 0.0
    if used >= frozenset(efa.recommended_cards):
        return efa.ceiling_gbps
    per_card = {card.index: card.efa_gbps for card in instance_type.network.cards if card.index in used}
    total = _sum_with_shares(instance_type.family, per_card)
    if total is None or efa.ceiling_gbps is None:
        return total
    return min(total, efa.ceiling_gbps)


def ena_gbps_of(instance_type: InstanceType, cards: Sequence[int]) -> float | None:
    """The IP bandwidth in Gbps of a node that has an ENA interface on each of `cards`.

    Args:
        instance_type: The instance type.
        cards: Indexes of the network cards that carry an IP address.

    Returns:
        The primary card's bandwidth, or the type's maximum where every card documented for it is used; None
        for sets in between and where no source gives a number.
    """
    network = instance_type.network
    used = frozenset(cards)
    if used <= {0}:
        return network.primary_ena_gbps
    if network.extra_ena_cards and used >= {0, *network.extra_ena_cards}:
        return network.maximum_ena_gbps
    return None


def _sum_with_shares(family: str, per_card: dict[int, float | None]) -> float | None:
    limit, groups = _SHARED_GBPS.get(family, (0.0, ()))
    total = 0.0
    alone = dict(per_card)
    for group in groups:
        members = [alone.pop(card) for card in sorted(group & alone.keys())]
        known = [gbps for gbps in members if gbps is not None]
        if len(known) < len(members):
            return None
        total += min(limit, sum(known))
    known = [gbps for gbps in alone.values() if gbps is not None]
    return total + sum(known) if len(known) == len(alone) else None


# Which network interfaces an instance gets: a pure function of instance type, policy and orchestrator.
#
# The default is AWS's present recommendation: one plain interface with the node's only IP address, and an `efa-only`
# interface on every EFA card. AWS PCS gets the older form, the only one that its guide documents.
#
# Source of the layouts: AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network
# cards" (stored copy, mid-2026); for PCS the AWS PCS guide, "Multiple network interfaces", and
# awslabs/awsome-distributed-ai @ 95b939c, `add-cng-p6-b200.yaml` and `add-cng-p6-b300.yaml`.

_CARDS_PAGE = 'AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"'
NO_ENA_LAYOUT = define_rule(
    "GPU-EFA-020", "maximum ENA bandwidth is planned only if AWS documents the cards", source=_CARDS_PAGE
)
ENA_WITHOUT_EFA = define_rule("GPU-EFA-021", "maximum ENA bandwidth is documented beside EFA only", source=_CARDS_PAGE)
InterfaceType = Literal["interface", "efa", "efa-only"]


class InterfacePolicy(StrEnum):
    """What the layout of the interfaces is to give.

    Attributes:
        MINIMUM_IP: Full EFA bandwidth for one IP address per node.
        MAXIMUM_ENA_BANDWIDTH: As MINIMUM_IP, plus plain interfaces that raise IP bandwidth, one address each.
        EFA_PER_CARD: `efa` on each EFA card, one address each: the older form, documented for AWS PCS and
            in the samples of AWS for AWS Batch.
    """

    MINIMUM_IP = "minimum-ip"
    MAXIMUM_ENA_BANDWIDTH = "maximum-ena-bandwidth"
    EFA_PER_CARD = "efa-per-card"


class Orchestrator(StrEnum):
    """Who launches the instances; it decides which launch-template fields may be set. HyperPod takes no template."""

    EC2 = "ec2"
    EKS_MANAGED = "eks-managed"
    EKS_SELF_MANAGED = "eks-self-managed"
    PCS = "pcs"
    BATCH = "batch"
    HYPERPOD_EKS = "hyperpod-eks"
    HYPERPOD_SLURM = "hyperpod-slurm"

    @property
    def is_hyperpod(self) -> bool:
        """Whether SageMaker HyperPod launches the instances, and lays out their interfaces by itself."""
        return self in (Orchestrator.HYPERPOD_EKS, Orchestrator.HYPERPOD_SLURM)


@dataclass(frozen=True, slots=True, order=True)
class NetworkInterface:
    """One network interface of a launch template.

    Attributes:
        network_card_index: Network card, from 0.
        device_index: Device on that card, from 0.
        interface_type: `interface` (ENA), `efa` (ENA and EFA) or `efa-only` (EFA, no IP address).
    """

    network_card_index: int
    device_index: int
    interface_type: InterfaceType = "interface"

    @property
    def is_efa(self) -> bool:
        """Whether it carries EFA traffic."""
        return self.interface_type in ("efa", "efa-only")

    @property
    def has_ip(self) -> bool:
        """Whether it takes an IP address."""
        return self.interface_type != "efa-only"

    @property
    def is_primary(self) -> bool:
        """Whether it is at the position of the primary interface: card 0, device 0."""
        return self.network_card_index == 0 and self.device_index == 0

    def __str__(self) -> str:
        return f"{self.interface_type} at card {self.network_card_index} device {self.device_index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePlan:
    """The interfaces of one node, and what follows from them.

    Attributes:
        instance_type: The instance type's name.
        policy: The policy that was followed.
        orchestrator: Who launches the instances.
        interfaces: The interfaces, the primary first, in order of card and device.
        efa_gbps: EFA bandwidth of the node in Gbps; 0 without EFA, None where no source gives it.
        ena_gbps: IP bandwidth of the node in Gbps; None where no source gives it. EFA and IP traffic share
            the cards, so a node does not reach both numbers at once.
        ip_addresses_per_node: IPv4 addresses that one node takes from its subnet.
        may_set_subnet: Whether a subnet may be in the launch template.
        may_set_instance_profile: Whether an instance profile may be in the launch template.
        may_have_public_ip: Whether EC2 can assign a public address at launch (with one interface only).
        basis: Where the layout comes from.
        findings: What the orchestrator does not take of the layout, or does not document.
    """

    instance_type: str
    policy: InterfacePolicy
    orchestrator: Orchestrator
    interfaces: tuple[NetworkInterface, ...]
    efa_gbps: float | None
    ena_gbps: float | None
    ip_addresses_per_node: int
    may_set_subnet: bool
    may_set_instance_profile: bool
    may_have_public_ip: bool
    basis: str
    findings: tuple[Finding, ...] = ()

    @property
    def efa_count(self) -> int:
        """How many EFA devices the node has."""
        return sum(interface.is_efa for interface in self.interfaces)


def default_policy(orchestrator: Orchestrator) -> InterfacePolicy:
    """The policy that is followed where none is given: MINIMUM_IP, and EFA_PER_CARD under AWS PCS and AWS Batch.

    On some types, such as p5.48xlarge, MINIMUM_IP takes both interfaces of network card 0, of which a container of a
    multi-node job of AWS Batch needs one.
    """
    per_card = (Orchestrator.PCS, Orchestrator.BATCH)
    return InterfacePolicy.EFA_PER_CARD if orchestrator in per_card else InterfacePolicy.MINIMUM_IP


def plan_interfaces(
    instance_type: InstanceType | str,
    *,
    policy: InterfacePolicy | None = None,
    orchestrator: Orchestrator = Orchestrator.EC2,
    efa: bool = True,
) -> InterfacePlan:
    """Lay out the network interfaces of a node.

    Args:
        instance_type: The type, or its name.
        policy: What the layout is to give; `default_policy(orchestrator)` when left out.
        orchestrator: Who launches the instances.
        efa: Whether to use EFA. Without it, or on a type without EFA, the node gets one plain interface.

    Returns:
        A plan that `check_interfaces` accepts, with the findings about the orchestrator.

    Raises:
        ConfigError: If the type is not known, or the policy has no sourced layout for it.

    Example:
        >>> plan = plan_interfaces("p5.48xlarge")
        >>> len(plan.interfaces), plan.efa_gbps, plan.ip_addresses_per_node
        (33, 3200, 1)
    """
    kind = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    chosen = default_policy(orchestrator) if policy is None else policy
    page = BATCH_SAMPLES if orchestrator is Orchestrator.BATCH else PCS_PAGE
    interfaces, basis = _lay_out(kind, chosen, efa=efa, page=page)
    return InterfacePlan(
        instance_type=kind.name,
        policy=chosen,
        orchestrator=orchestrator,
        interfaces=interfaces,
        efa_gbps=efa_gbps_of(kind, [i.network_card_index for i in interfaces if i.is_efa]),
        ena_gbps=ena_gbps_of(kind, [i.network_card_index for i in interfaces if i.has_ip]),
        ip_addresses_per_node=_addresses(kind, interfaces, orchestrator),
        may_set_subnet=orchestrator is not Orchestrator.EKS_MANAGED and not orchestrator.is_hyperpod,
        may_set_instance_profile=orchestrator in (Orchestrator.EC2, Orchestrator.EKS_SELF_MANAGED),
        may_have_public_ip=len(interfaces) == 1,
        basis=basis,
        findings=tuple(_DEPARTURES[orchestrator](kind, interfaces)) if orchestrator in _DEPARTURES else (),
    )


def _addresses(kind: InstanceType, interfaces: Sequence[NetworkInterface], orchestrator: Orchestrator) -> int:
    """Addresses of a node: one for each interface that takes one, and more on EKS nodes of HyperPod.

    There the first interface holds as many addresses as the type allows: 81 on a p5 node with `efa`, of which 50 are on
    the first card (Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod"). AWS states it of
    p5; for other types it is inferred. That `efa-only` saves the others follows from EC2's own rule that such an
    interface takes no address.
    """
    pods = kind.network.ipv4_per_interface - 1 if orchestrator is Orchestrator.HYPERPOD_EKS else 0
    return sum(i.has_ip for i in interfaces) + pods


def _lay_out(
    kind: InstanceType, policy: InterfacePolicy, *, efa: bool, page: str
) -> tuple[tuple[NetworkInterface, ...], str]:
    """The interfaces in order, and where the layout comes from."""
    wants_ena = policy is InterfacePolicy.MAXIMUM_ENA_BANDWIDTH
    if not efa or kind.network.efa is None:
        if wants_ena and len(kind.network.cards) > 1:
            raise ConfigError([_ena_without_efa(kind)])
        return (NetworkInterface(0, 0),), "no EFA: one plain interface"
    if policy is InterfacePolicy.EFA_PER_CARD:
        return _efa_per_card(kind), f"one efa interface per EFA card ({page})"
    basis = kind.network.efa.recommended_layout_basis
    interfaces = _minimum_ip(kind)
    if wants_ena:
        interfaces = (*interfaces, *_extra_ena(kind))
        basis = f"{basis}, plus the cards documented for IP bandwidth"
    return tuple(sorted(interfaces)), basis


def _minimum_ip(kind: InstanceType) -> tuple[NetworkInterface, ...]:
    first, *others = _efa_cards(kind)
    on_others = tuple(NetworkInterface(card.index, 0, "efa-only") for card in others)
    if first.index != 0:
        return (NetworkInterface(0, 0), NetworkInterface(first.index, 0, "efa-only"), *on_others)
    if first.max_interfaces < 2:
        return (NetworkInterface(0, 0, "efa"), *on_others)
    return (NetworkInterface(0, 0), NetworkInterface(0, 1, "efa-only"), *on_others)


def _efa_per_card(kind: InstanceType) -> tuple[NetworkInterface, ...]:
    cards = _efa_cards(kind)
    primary = NetworkInterface(0, 0, "interface" if cards[0].index else "efa")
    return (primary, *(_older_form(card) for card in cards if card.index))


def _older_form(card: NetworkCard) -> NetworkInterface:
    """`efa` at device 1; device 0 where the card holds one interface, `efa-only` where it takes no `efa`."""
    device = 1 if card.max_interfaces > 1 else 0
    return NetworkInterface(card.index, device, "efa" if "efa" in card.interface_types else "efa-only")


def _extra_ena(kind: InstanceType) -> tuple[NetworkInterface, ...]:
    """The plain interfaces that raise IP bandwidth: at device 1, behind the card's `efa-only`."""
    if kind.network.extra_ena_cards is None:
        raise ConfigError([_no_ena_layout(kind)])
    return tuple(NetworkInterface(card, 1) for card in kind.network.extra_ena_cards)


def _efa_cards(kind: InstanceType) -> list[NetworkCard]:
    """The cards that carry one EFA interface each, lowest first."""
    chosen = kind.network.efa.recommended_cards if kind.network.efa else ()
    return [card for card in kind.network.cards if card.index in chosen]


def _ena_without_efa(kind: InstanceType) -> Finding:
    return ENA_WITHOUT_EFA.finding(
        cause=f"{kind.name} has no documented interface layout for maximum IP bandwidth without EFA",
        got=f"policy {InterfacePolicy.MAXIMUM_ENA_BANDWIDTH.value} with EFA off",
        allowed=f"policy {InterfacePolicy.MINIMUM_IP.value}, or EFA on",
        fix="leave the policy out, or switch EFA on",
        path="policy",
    )


def _no_ena_layout(kind: InstanceType) -> Finding:
    return NO_ENA_LAYOUT.finding(
        cause=f"it is unknown which cards of {kind.name} carry plain interfaces for maximum IP bandwidth",
        got=f"policy {InterfacePolicy.MAXIMUM_ENA_BANDWIDTH.value}",
        allowed=f"policy {InterfacePolicy.MINIMUM_IP.value} or {InterfacePolicy.EFA_PER_CARD.value}",
        fix=f"use policy {InterfacePolicy.MINIMUM_IP.value}: full EFA bandwidth, one IP address per node",
        path="policy",
    )


# Faults in any list of network interfaces: ours, a user's own, or one read from a template.
#
# Sources: AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards" and
# "Elastic network interfaces" (stored copies, mid-2026); EC2 DescribeInstanceTypes for each type's limits.

_TYPES = "EC2 DescribeInstanceTypes, NetworkInfo"

ONE_PRIMARY = define_rule(
    "GPU-EFA-001", "exactly one primary interface, at network card 0 and device 0", source=_CARDS_PAGE
)
PRIMARY_HAS_IP = define_rule("GPU-EFA-002", "the primary interface is not efa-only", source=_CARDS_PAGE)
ONE_EFA_PER_CARD = define_rule("GPU-EFA-003", "at most one EFA interface per network card", source=_CARDS_PAGE)
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


def check_interfaces(instance_type: InstanceType | str, interfaces: Sequence[NetworkInterface]) -> list[Finding]:
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


@check
def check_public_ip(interfaces: Sequence[NetworkInterface], *, public_ip: bool) -> Iterator[Finding]:
    """Find a public address asked for at a launch with several interfaces.

    Args:
        interfaces: The interfaces of one launch.
        public_ip: Whether any of them asks for a public address, or the subnet assigns one by itself.
    """
    if public_ip and len(interfaces) >= 2:
        yield ONE_INTERFACE_FOR_PUBLIC_IP.finding(
            cause="a node with several network interfaces cannot be given a public address at launch",
            got=f"{len(interfaces)} interfaces and a public address",
            allowed="one interface, or no public address",
            fix="use a private subnet with NAT or endpoints, or attach an Elastic IP address after launch",
        )


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


def _check_primary(interfaces: Sequence[NetworkInterface]) -> Iterator[Finding]:
    primaries = [interface for interface in interfaces if interface.is_primary]
    if len(primaries) != 1:
        yield ONE_PRIMARY.finding(
            cause="a launch needs exactly one primary interface",
            got=f"{len(primaries)} at card 0 device 0",
            allowed="1 at card 0 device 0",
            fix="put one interface at network card 0, device 0",
        )
    if any(not primary.has_ip for primary in primaries):
        yield PRIMARY_HAS_IP.finding(
            cause="the primary interface needs an IP address",
            got="efa-only at card 0 device 0",
            allowed="interface, or efa where card 0 supports EFA",
            fix="make it interface, and put efa-only at card 0 device 1 where card 0 supports EFA",
        )


def _check_cards(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> Iterator[Finding]:
    cards = {card.index: card for card in kind.network.cards}
    by_card: dict[int, list[NetworkInterface]] = defaultdict(list)
    for interface in interfaces:
        by_card[interface.network_card_index].append(interface)
    for index, on_card in sorted(by_card.items()):
        if index in cards:
            yield from _check_card(kind, cards[index], on_card)
        else:
            yield CARD_EXISTS.finding(
                cause=f"{kind.name} has no network card {index}",
                got=f"network card {index}",
                allowed=_span(cards),
                fix="move the interface to a card that exists, or remove it",
            )


def _check_card(kind: InstanceType, card: NetworkCard, on_card: Sequence[NetworkInterface]) -> Iterator[Finding]:
    where = f"network card {card.index} of {kind.name}"
    yield from (
        TYPE_ON_CARD.finding(
            cause=f"{where} does not accept {interface.interface_type}",
            got=str(interface),
            allowed=", ".join(name for name in EVERY_TYPE if name in card.interface_types),
            fix="change the type, or move the interface to another card",
        )
        for interface in on_card
        if interface.interface_type not in card.interface_types
    )
    efa = sum(interface.is_efa for interface in on_card)
    if efa > 1:
        yield ONE_EFA_PER_CARD.finding(
            cause=f"{where} carries more than one EFA interface",
            got=str(efa),
            allowed="1",
            fix="keep one; you may add a plain interface",
        )
    if len(on_card) > card.max_interfaces:
        yield CARD_TOTAL.finding(
            cause=f"{where} holds fewer interfaces than that",
            got=str(len(on_card)),
            allowed=f"at most {card.max_interfaces}",
            fix="spread the interfaces over more cards, or remove some",
        )
    yield from _check_devices(where, card, on_card)


def _check_devices(where: str, card: NetworkCard, on_card: Sequence[NetworkInterface]) -> Iterator[Finding]:
    counts = sorted(Counter(interface.device_index for interface in on_card).items())
    for device, count in counts:
        if count > 1:
            yield UNIQUE_DEVICE.finding(
                cause=f"{where} has a device index twice",
                got=f"device {device} {count} times",
                allowed="each device index once",
                fix="give each interface on the card its own device index",
            )
    for device, _ in counts:
        if not 0 <= device < card.max_interfaces:
            yield DEVICE_IN_RANGE.finding(
                cause=f"{where} has no such device index",
                got=f"device {device}",
                allowed=_span(range(card.max_interfaces)),
                fix="use a lower device index",
            )


def _check_totals(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> Iterator[Finding]:
    most_efa = kind.network.efa.max_interfaces if kind.network.efa else 0
    efa = sum(interface.is_efa for interface in interfaces)
    if efa > most_efa:
        yield EFA_TOTAL.finding(
            cause=f"{kind.name} supports {most_efa or 'no'} EFA interface{'' if most_efa == 1 else 's'}",
            got=str(efa),
            allowed=f"at most {most_efa}",
            fix="remove EFA interfaces, or use a type with more",
        )
    if len(interfaces) > kind.network.max_interfaces:
        yield INSTANCE_TOTAL.finding(
            cause=f"{kind.name} holds fewer interfaces than that",
            got=str(len(interfaces)),
            allowed=f"at most {kind.network.max_interfaces}",
            fix="remove interfaces; efa-only ones count too",
        )


def _span(indexes: Collection[int]) -> str:
    """`0`, or `0 to 31`."""
    return f"{min(indexes)} to {max(indexes)}" if len(indexes) > 1 else str(min(indexes))


#: Where AWS documents its form.
PCS_PAGE = 'AWS PCS guide, "Multiple network interfaces"; awslabs/awsome-distributed-ai @ 95b939c, PCS templates'

PCS_EFA_ONLY = define_rule("GPU-EFA-022", "efa-only under AWS PCS is not documented and not verified", source=PCS_PAGE)
PCS_SHARED_CARD = define_rule("GPU-EFA-023", "AWS PCS documents one interface per network card", source=PCS_PAGE)
PCS_DEVICE_INDEX = define_rule(
    "GPU-EFA-024", "AWS PCS documents device index 1 on every interface but the primary", source=PCS_PAGE
)


def check_pcs_interfaces(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> list[Finding]:
    """Find what departs from the form that the PCS guide documents; warnings, since no page forbids it."""
    fix = "use policy efa-per-card, or try one node and count its EFA devices"
    cards = [i.network_card_index for i in interfaces]
    efa_only = [i for i in interfaces if i.interface_type == "efa-only"]
    shared = sorted({card for card in cards if cards.count(card) > 1})
    at_0 = [i.network_card_index for i in interfaces if i.device_index == 0 and not i.is_primary]
    departures = (
        (
            PCS_EFA_ONLY,
            "AWS samples say that PCS does not carry efa-only over; no page confirms that it does",
            f"{len(efa_only)} efa-only interfaces" if efa_only else "",
            "efa, interface",
        ),
        (
            PCS_SHARED_CARD,
            "the PCS guide gives every interface its own network card",
            f"two interfaces on card {', '.join(map(str, shared))}" if shared else "",
            "one interface per card",
        ),
        (
            PCS_DEVICE_INDEX,
            "the PCS guide gives device index 0 to the primary interface alone",
            f"device index 0 on card {', '.join(map(str, at_0))}" if at_0 else "",
            "device index 1 beyond card 0",
        ),
    )
    return [
        rule.finding(cause=f"{kind.name}: {cause}", got=got, allowed=allowed, fix=fix, severity=Severity.WARNING)
        for rule, cause, got, allowed in departures
        if got
    ]


#: Where AWS shows its form: `efa` on every card.
BATCH_SAMPLES = "awslabs/awsome-distributed-ai @ 95b939c, 1.architectures/3.aws-batch"
_BATCH_NETWORK = 'AWS Batch user guide, "Compute environment considerations for MNP": an interface for each container'

BATCH_EFA_ONLY = define_rule(
    "GPU-BAT-008", "efa-only under AWS Batch is not documented and not verified", source=BATCH_SAMPLES
)
CONTAINER_INTERFACE = define_rule(
    "GPU-BAT-009",
    "A node of multi-node jobs has room for the network interface of a container",
    source=f"{_BATCH_NETWORK}; EC2 API reference, AttachNetworkInterface: network card 0 by default; "
    f"{_TYPES}.NetworkCards.MaximumNetworkInterfaces",
)


def check_batch_interfaces(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> list[Finding]:
    """Find what keeps multi-node jobs of AWS Batch from a node, or departs from the samples of AWS.

    Args:
        kind: Type of the nodes.
        interfaces: Their interfaces.

    Example:
        >>> both = [NetworkInterface(0, 0), NetworkInterface(0, 1, "efa-only")]
        >>> [finding.id for finding in check_batch_interfaces(look_up("p5.48xlarge"), both)]
        ['GPU-BAT-009', 'GPU-BAT-008']
    """
    findings = []
    first = kind.network.cards[0]
    on_first = sum(interface.network_card_index == first.index for interface in interfaces)
    if on_first >= first.max_interfaces or len(interfaces) >= kind.network.max_interfaces:
        findings.append(
            CONTAINER_INTERFACE.finding(
                cause=f"{kind.name}: the container of a multi-node job gets no network interface, and never starts",
                got=f"{on_first} of {first.max_interfaces} interfaces on card 0, "
                f"{len(interfaces)} of {kind.network.max_interfaces} in all",
                allowed="one free interface on card 0",
                fix="use policy efa-per-card",
            )
        )
    efa_only = sum(interface.interface_type == "efa-only" for interface in interfaces)
    if efa_only:
        findings.append(
            BATCH_EFA_ONLY.finding(
                cause=f"{kind.name}: samples use efa on every card; no page confirms that Batch carries efa-only over",
                got=f"{efa_only} efa-only interfaces",
                allowed="efa, interface",
                fix="use policy efa-per-card, or try one node and count its EFA devices",
                severity=Severity.WARNING,
            )
        )
    return findings


#: What a service takes less, or departs from its documented form.
_DEPARTURES = {Orchestrator.PCS: check_pcs_interfaces, Orchestrator.BATCH: check_batch_interfaces}
