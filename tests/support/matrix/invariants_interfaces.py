"""Invariants of the network interfaces, from the limits that EC2 publishes for each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from matrix.hardware import CARDS_FOR_IP_BANDWIDTH
from matrix.invariant import invariant
from matrix.nodes import Nodes

CARDS_PAGE = 'AWS EC2 user guide, "Maximize network bandwidth on Amazon EC2 instances with multiple network cards"'
NETWORK_INFO = "EC2 DescribeInstanceTypes, NetworkInfo"

#: What gives an interface an address; an interface that is EFA only has no IP device (the cards page;
#: aws/karpenter-provider-aws, pkg/providers/launchtemplate/launchtemplate.go).
_ADDRESS_FIELDS = (
    "AssociateCarrierIpAddress",
    "ConnectionTrackingSpecification",
    "Ipv4PrefixCount",
    "Ipv4Prefixes",
    "Ipv6AddressCount",
    "Ipv6Addresses",
    "Ipv6PrefixCount",
    "Ipv6Prefixes",
    "PrimaryIpv6",
    "PrivateIpAddress",
    "PrivateIpAddresses",
    "SecondaryPrivateIpAddressCount",
)

#: Fields of `LaunchTemplateData` that an orchestrator forbids or sets itself, as a path.
FORBIDDEN: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "ec2": {
        (
            "NetworkInterfaces",
            "SubnetId",
        ): "EC2 Auto Scaling: the group names its subnets in VPCZoneIdentifier",
    },
    "eks-managed": {
        ("NetworkInterfaces", "SubnetId"): "Amazon EKS CreateNodegroup: subnets come from the node group",
        ("IamInstanceProfile",): "Amazon EKS CreateNodegroup: the node role comes from the node group",
        ("InstanceInitiatedShutdownBehavior",): "Amazon EKS user guide, customizing with launch templates",
        ("HibernationOptions",): "Amazon EKS user guide, customizing with launch templates",
        ("InstanceRequirements",): "Amazon EKS user guide, customizing with launch templates",
        ("InstanceMarketOptions", "SpotOptions"): "Amazon EKS: spot is asked for on the node group",
    },
    "eks-self-managed": {
        (
            "NetworkInterfaces",
            "SubnetId",
        ): "EC2 Auto Scaling: the group names its subnets in VPCZoneIdentifier",
    },
    "pcs": {
        ("IamInstanceProfile",): "AWS PCS guide: the profile comes from the compute node group",
        ("HibernationOptions",): "AWS PCS guide, overview of launch templates",
        ("InstanceRequirements",): "AWS PCS guide, overview of launch templates",
        ("DisableApiTermination",): "AWS PCS guide, overview of launch templates",
        ("DisableApiStop",): "AWS PCS guide, overview of launch templates",
        (
            "InstanceMarketOptions",
            "SpotOptions",
        ): "AWS PCS guide: spot is asked for on the compute node group",
    },
    "batch": {
        ("NetworkInterfaces", "SubnetId"): "AWS Batch user guide, launch templates: ignored",
        ("IamInstanceProfile",): "AWS Batch user guide, launch templates: ignored",
        ("DisableApiTermination",): "AWS Batch user guide, launch templates: ignored",
        ("InstanceMarketOptions", "SpotOptions"): "AWS Batch user guide, launch templates: Batch controls Spot",
    },
}


@invariant("one-primary-interface", CARDS_PAGE)
def one_primary(nodes: Nodes) -> Iterator[str]:
    """There is one interface at card 0 and device 0, and it has an IP device."""
    primaries = [each for each in nodes.interfaces if (each.card, each.device) == (0, 0)]
    if len(primaries) != 1:
        yield f"{len(primaries)} interfaces at card 0 device 0"
    yield from (f"the primary interface is {each.kind}" for each in primaries if each.kind == "efa-only")


@invariant("card-exists", f"{NETWORK_INFO}.MaximumNetworkCards")
def card_exists(nodes: Nodes) -> Iterator[str]:
    """No interface stands on a card that the type does not have."""
    cards = len(nodes.hardware.cards)
    yield from (f"{each}, of {cards} cards" for each in nodes.interfaces if not 0 <= each.card < cards)


@invariant(
    "devices-fit-card",
    f"{NETWORK_INFO}.NetworkCards and .MaximumNetworkInterfaces; eksctl-io/eksctl 7520 (a device index too high)",
)
def devices_fit_card(nodes: Nodes) -> Iterator[str]:
    """Device indexes are unique on their card and below what it holds; the instance holds all; EFA-only ones count."""
    cards = nodes.hardware.cards
    for (card, device), count in Counter((each.card, each.device) for each in nodes.interfaces).items():
        if count > 1 and (card, device) != (0, 0):
            yield f"{count} interfaces at card {card} device {device}"
        if card < len(cards) and not 0 <= device < cards[card].holds:
            yield f"device {device} on card {card}, which holds {cards[card].holds}"
    if len(nodes.interfaces) > nodes.hardware.most_interfaces:
        yield f"{len(nodes.interfaces)} interfaces, at most {nodes.hardware.most_interfaces}"


@invariant("one-efa-per-card", CARDS_PAGE)
def one_efa_per_card(nodes: Nodes) -> Iterator[str]:
    """A card carries one EFA interface at most."""
    counts = Counter(each.card for each in nodes.interfaces if each.is_efa)
    yield from (f"{count} EFA interfaces on card {card}" for card, count in counts.items() if count > 1)


@invariant("card-takes-type", f"{NETWORK_INFO}.NetworkCards; aws/aws-parallelcluster 7143 (p6-b300, card 0)")
def card_takes_type(nodes: Nodes) -> Iterator[str]:
    """Each card takes the types of its interfaces."""
    cards = nodes.hardware.cards
    for each in nodes.interfaces:
        if each.card < len(cards) and each.kind not in cards[each.card].takes:
            yield f"{each}, which takes {', '.join(sorted(cards[each.card].takes))}"


@invariant("efa-as-asked", f"{NETWORK_INFO}.EfaInfo.MaximumEfaInterfaces; {CARDS_PAGE}")
def efa_as_asked(nodes: Nodes) -> Iterator[str]:
    """Nodes without EFA have no EFA interface; nodes with it have all that give the type's full bandwidth."""
    count = sum(each.is_efa for each in nodes.interfaces)
    wanted = nodes.hardware.full_efa if nodes.asked.wants_efa else frozenset({0})
    if count not in wanted:
        yield f"{count} EFA interfaces, not {' or '.join(map(str, sorted(wanted)))}"


@invariant("addresses-as-asked", f"{CARDS_PAGE}: one IP address, or one on each card that the page names")
def addresses_as_asked(nodes: Nodes) -> Iterator[str]:
    """The cards with an IP address are those of the layout that was asked for."""
    asked, hardware = nodes.asked, nodes.hardware
    cards = {each.card for each in nodes.interfaces if each.kind != "efa-only"}
    wanted: set[frozenset[int]] = {frozenset({0})}
    if asked.wants_efa and asked.layout == "maximum-ena-bandwidth":
        wanted = {frozenset({0}) | CARDS_FOR_IP_BANDWIDTH.get(hardware.name, frozenset())}
    elif asked.wants_efa and asked.layout == "efa-per-card":
        # A card that takes no `efa` gets the form without an address.
        takers = frozenset(index for index, card in enumerate(hardware.cards) if "efa" in card.takes)
        efa_cards = frozenset(each.card for each in nodes.interfaces if each.is_efa)
        wanted = {frozenset({0}) | (takers & efa_cards)}
    if frozenset(cards) not in wanted:
        yield f"addresses on cards {sorted(cards)}, layout {asked.layout}"


@invariant("groups-on-every-interface", "AWS PCS and EC2 guides: with NetworkInterfaces the groups stand there")
def groups_on_every_interface(nodes: Nodes) -> Iterator[str]:
    """Every interface names its security groups; otherwise it gets the VPC's default group."""
    yield from (f"no group on {each}" for each in nodes.interfaces if not each.entry.get("Groups"))


@invariant("no-top-level-groups", "EC2 RunInstances: no instance-level groups beside network interfaces")
def no_top_level_groups(nodes: Nodes) -> Iterator[str]:
    """Security groups never stand beside the interfaces."""
    fields = ("SecurityGroupIds", "SecurityGroups")
    yield from (f"{field} beside NetworkInterfaces" for field in fields if field in nodes.data)


@invariant("no-public-address", f"{CARDS_PAGE}; aws/aws-parallelcluster 7457")
def no_public_address(nodes: Nodes) -> Iterator[str]:
    """EC2 refuses the field beside a second interface; one interface has an address only in a public subnet."""
    for each in nodes.interfaces:
        given = each.entry.get("AssociatePublicIpAddress")
        if len(nodes.interfaces) > 1 and given is not None:
            yield f"AssociatePublicIpAddress on {each}, one of {len(nodes.interfaces)}"
        elif given and not nodes.asked.is_public:
            yield f"a public address on {each} in a private subnet"
        elif len(nodes.interfaces) == 1 and nodes.asked.is_public and not given:
            yield "no public address in a public subnet"


@invariant("no-address-on-efa-only", f"{CARDS_PAGE}; aws/karpenter-provider-aws, launchtemplate.go")
def no_address_on_efa_only(nodes: Nodes) -> Iterator[str]:
    """An interface that is EFA only has no IP device, so that the launch fails when it is given an address."""
    for each in nodes.interfaces:
        if each.kind == "efa-only":
            yield from (f"{field} on {each}" for field in _ADDRESS_FIELDS if field in each.entry)


@invariant("orchestrator-fields", "each entry of FORBIDDEN names its page")
def orchestrator_fields(nodes: Nodes) -> Iterator[str]:
    """Nothing stands in the template that the orchestrator forbids or overrides."""
    for (field, *inner), page in FORBIDDEN[nodes.asked.orchestrator].items():
        values = nodes.data.get(field, ())
        listed = values if isinstance(values, list) else [values]
        if (inner and any(inner[0] in each for each in listed)) or (not inner and field in nodes.data):
            yield f"{'.'.join((field, *inner))}: {page}"
