"""Which network interfaces an instance gets: a pure function of instance type, policy and orchestrator.

The default is AWS's present recommendation: one plain interface with the node's only IP address, and an
`efa-only` interface on every EFA card. AWS PCS gets the older form, the only one that its guide documents.

Source of the layouts: AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple
network cards" (stored copy, mid-2026); for PCS the AWS PCS guide, "Multiple network interfaces", and
awslabs/awsome-distributed-ai @ 95b939c, `add-cng-p6-b200.yaml` and `add-cng-p6-b300.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from cdk_gpu_clusters.catalogue import InstanceType, NetworkCard
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule
from cdk_gpu_clusters.rules.interface_bandwidth import efa_gbps_of, ena_gbps_of
from cdk_gpu_clusters.rules.pcs_interfaces import PCS_PAGE, check_pcs_interfaces

_CARDS_PAGE = (
    'AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"'
)
NO_ENA_LAYOUT = define_rule(
    "GPU-EFA-020", "maximum ENA bandwidth is planned only where AWS documents the cards", source=_CARDS_PAGE
)
ENA_WITHOUT_EFA = define_rule(
    "GPU-EFA-021", "maximum ENA bandwidth is documented beside EFA only", source=_CARDS_PAGE
)
InterfaceType = Literal["interface", "efa", "efa-only"]


class InterfacePolicy(StrEnum):
    """What the layout of the interfaces is to give.

    Attributes:
        MINIMUM_IP: Full EFA bandwidth for one IP address per node.
        MAXIMUM_ENA_BANDWIDTH: As MINIMUM_IP, plus plain interfaces that raise IP bandwidth, one address each.
        EFA_PER_CARD: `efa` on each EFA card, one address each: the older form, documented for AWS PCS.
    """

    MINIMUM_IP = "minimum-ip"
    MAXIMUM_ENA_BANDWIDTH = "maximum-ena-bandwidth"
    EFA_PER_CARD = "efa-per-card"


class Orchestrator(StrEnum):
    """Who launches the instances; it decides which launch-template fields may be set."""

    EC2 = "ec2"
    EKS_MANAGED = "eks-managed"
    EKS_SELF_MANAGED = "eks-self-managed"
    PCS = "pcs"

    @property
    def is_eks(self) -> bool:
        """Whether the nodes join a cluster of Amazon EKS."""
        return self in (Orchestrator.EKS_MANAGED, Orchestrator.EKS_SELF_MANAGED)


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
        """Whether it stands where the primary interface stands: card 0, device 0."""
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
        may_set_subnet: Whether a subnet may stand in the launch template.
        may_set_instance_profile: Whether an instance profile may stand in the launch template.
        may_have_public_ip: Whether EC2 can assign a public address at launch (with one interface only).
        basis: Where the layout comes from.
        findings: Warnings about the layout; errors are raised instead.
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
    """The policy that is followed where none is given: MINIMUM_IP, and EFA_PER_CARD under AWS PCS."""
    return InterfacePolicy.EFA_PER_CARD if orchestrator is Orchestrator.PCS else InterfacePolicy.MINIMUM_IP


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
        A plan that `check_interfaces` accepts. Its `findings` hold warnings.

    Raises:
        ConfigError: If the type is not known, or the policy has no sourced layout for it.

    Example:
        >>> plan = plan_interfaces("p5.48xlarge")
        >>> len(plan.interfaces), plan.efa_gbps, plan.ip_addresses_per_node
        (33, 3200, 1)
    """
    kind = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    chosen = default_policy(orchestrator) if policy is None else policy
    interfaces, basis = _lay_out(kind, chosen, efa=efa)
    return InterfacePlan(
        instance_type=kind.name,
        policy=chosen,
        orchestrator=orchestrator,
        interfaces=interfaces,
        efa_gbps=efa_gbps_of(kind, [i.network_card_index for i in interfaces if i.is_efa]),
        ena_gbps=ena_gbps_of(kind, [i.network_card_index for i in interfaces if i.has_ip]),
        ip_addresses_per_node=sum(i.has_ip for i in interfaces),
        may_set_subnet=orchestrator is not Orchestrator.EKS_MANAGED,
        may_set_instance_profile=orchestrator in (Orchestrator.EC2, Orchestrator.EKS_SELF_MANAGED),
        may_have_public_ip=len(interfaces) == 1,
        basis=basis,
        findings=tuple(check_pcs_interfaces(kind, interfaces)) if orchestrator is Orchestrator.PCS else (),
    )


def _lay_out(
    kind: InstanceType, policy: InterfacePolicy, *, efa: bool
) -> tuple[tuple[NetworkInterface, ...], str]:
    """The interfaces in order, and where the layout comes from."""
    wants_ena = policy is InterfacePolicy.MAXIMUM_ENA_BANDWIDTH
    if not efa or kind.network.efa is None:
        if wants_ena and len(kind.network.cards) > 1:
            raise ConfigError([_ena_without_efa(kind)])
        return (NetworkInterface(0, 0),), "no EFA: one plain interface"
    if policy is InterfacePolicy.EFA_PER_CARD:
        return _efa_per_card(kind), f"one efa interface per EFA card ({PCS_PAGE})"
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
        cause=f"no source says which cards of {kind.name} carry plain interfaces for maximum IP bandwidth",
        got=f"policy {InterfacePolicy.MAXIMUM_ENA_BANDWIDTH.value}",
        allowed=f"policy {InterfacePolicy.MINIMUM_IP.value} or {InterfacePolicy.EFA_PER_CARD.value}",
        fix=f"use policy {InterfacePolicy.MINIMUM_IP.value}: full EFA bandwidth, one IP address per node",
        path="policy",
    )
