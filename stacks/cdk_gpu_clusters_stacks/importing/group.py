"""A group of equal nodes of another tool, in plain values, and the fleet of the cluster file that it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from cdk_gpu_clusters.catalogue.instances import InstanceType, instance_type
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator, plan_interfaces

from ._rules import NAME
from .draft import Change, Draft, Note
from .foreign import Part

_RESERVATION = re.compile(r"cr-([0-9a-f]{8}|[0-9a-f]{17})")
_GROUP_ARN = re.compile(r"arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/[A-Za-z0-9._/-]+")
_LONGEST_NAME = 40


class Market(Enum):
    """How nodes are bought."""

    ON_DEMAND = "on demand"
    SPOT = "spot"
    BLOCK = "Capacity Block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The root volume of a node, as the file has it; None is the default of its tool.

    Attributes:
        size_gib: Size.
        iops: Operations a second.
        throughput_mib_per_s: Throughput.
        kind: Such as `gp3`.
        encrypted: Whether it is encrypted.
        part: Where it is in the file.
    """

    size_gib: int | None = None
    iops: int | None = None
    throughput_mib_per_s: int | None = None
    kind: str | None = None
    encrypted: bool | None = None
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Equal nodes with accelerators.

    Attributes:
        name: Name of the fleet.
        part: Where the group is in the file.
        instance_type: Their type.
        type_part: Where the type is.
        minimum: Least nodes.
        maximum: Most nodes.
        desired: Nodes at first, where the tool has such a number.
        counts: Where the numbers are.
        market: How they are bought.
        market_part: Where that is.
        spot_price: Most dollars an hour, and where that is.
        reservation: Where the id of a reservation or block is.
        reservation_group: Where the ARN of a resource group of reservations is.
        placement_group: Where the name of an existing placement group is.
        placed: Whether the tool puts the nodes into a cluster placement group.
        efa: Whether they have EFA.
        efa_part: Where that is.
        interfaces: Their network interfaces as the tool lays them out, as in a launch template.
        volume: Their root volume.
    """

    name: str
    part: Part
    instance_type: InstanceType
    type_part: Part
    minimum: int
    maximum: int
    desired: int | None = None
    counts: Part
    market: Market = Market.ON_DEMAND
    market_part: Part
    spot_price: tuple[float, Part] | None = None
    reservation: Part | None = None
    reservation_group: Part | None = None
    placement_group: Part | None = None
    placed: bool = False
    efa: bool = False
    efa_part: Part
    interfaces: Sequence[Mapping[str, object]] = field(default=())
    volume: Volume

    @property
    def is_reserved(self) -> bool:
        """Whether their capacity is reserved."""
        return self.reservation is not None or self.reservation_group is not None

    @property
    def addresses(self) -> int:
        """IPv4 addresses that a node takes from its subnet."""
        return sum(one.get("InterfaceType") != "efa-only" for one in self.interfaces)


def accelerated(part: Part, *, prefix: str = "") -> InstanceType | None:
    """The type of nodes with accelerators; None for other types, and for those that the catalogue has not.

    Args:
        part: The type.
        prefix: What the tool writes before the names of EC2.
    """
    if part.is_placeholder:
        part.refuse_placeholder("an instance type, such as p5.48xlarge")
        return None
    try:
        found = instance_type((part.text() or "").removeprefix(prefix))
    except ConfigError:
        return None
    return found if found.accelerator is not None else None


def fleet_name(text: str) -> str:
    """A name as stacks have it: small letters, digits and hyphens, a letter first.

    Example:
        >>> fleet_name("1_GPU Queue")
        'n-1-gpu-queue'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    named = plain if plain[:1].isalpha() else f"n-{plain}".rstrip("-")
    return named[:_LONGEST_NAME].rstrip("-")


def is_spot(base: Part, above: Part) -> bool:
    """Whether the shares of On-Demand Instances make a group Spot. A mix is neither: its shares stay unread.

    Args:
        base: On-Demand Instances that come first; none by default.
        above: Percentage of On-Demand Instances above them; 100 by default (EC2 Auto Scaling API reference,
            InstancesDistribution).
    """
    first, percentage = base.value or 0, 100 if above.value is None else above.value
    if percentage == 100 or (first, percentage) == (0, 0):
        base.skip()
        above.skip()
    return (first, percentage) == (0, 0)


#: What becomes of a number of nodes at first.
NO_DESIRED = "a fleet has a fixed number of nodes, or scales from its least number"
#: What becomes of the shares of a mix.
NO_MIX = "a fleet is Spot or On-Demand, and this mix becomes On-Demand: write another fleet with `capacity: spot`"


def refuse_equal_names(groups: Iterable[Group]) -> None:
    """Report groups whose names differ in what a fleet's name cannot have."""
    seen: dict[str, Group] = {}
    for group in groups:
        if group.name in seen:
            group.part.refuse(
                NAME,
                cause=f"its fleet would have the name of that in {seen[group.name].part.place.rsplit(':', 1)[0]}",
                got=group.name,
                allowed="names that differ in letters and digits, within 40 characters",
                fix="rename one of the two in a copy of the file",
            )
        seen.setdefault(group.name, group)


def laid_out(
    kind: InstanceType, *, policy: InterfacePolicy, efa: bool, orchestrator: Orchestrator = Orchestrator.EC2
) -> list[dict[str, object]]:
    """The network interfaces of a node as a tool lays them out.

    Args:
        kind: The type.
        policy: Whether cards get `efa` interfaces, with an address each, or `efa-only`.
        efa: Whether they have EFA.
        orchestrator: Who launches the nodes.
    """
    efa = efa and kind.supports_efa
    try:
        plan = plan_interfaces(kind, policy=policy if efa else None, efa=efa, orchestrator=orchestrator)
    except ConfigError:
        plan = plan_interfaces(kind, efa=efa, orchestrator=orchestrator)
    return [
        {
            "NetworkCardIndex": one.network_card_index,
            "DeviceIndex": one.device_index,
            "InterfaceType": one.interface_type,
        }
        for one in plan.interfaces
    ]


# Write a group into the cluster file.


def write_tags(draft: Draft, tags: Part, *above: str) -> None:
    """Write tags that are a list of `Key` and `Value`.

    Args:
        draft: The cluster file.
        tags: The list.
        above: Where they go.
    """
    for tag in tags.items():
        name, value = tag["Key"].text(), tag["Value"].text()
        if name:
            draft.put(*above, "tags", name, value=value or "", of=tag)


def write_nodes(draft: Draft, group: Group) -> None:
    """Write the type of a fleet, and how many nodes it has.

    Args:
        draft: The cluster file.
        group: The nodes.
    """
    key = ("training", "fleets", group.name)
    draft.put(*key, "instance_type", value=group.instance_type.name, of=group.type_part)
    draft.origins[key] = group.part
    if group.minimum == group.maximum or group.market is Market.BLOCK:
        count = max(1, group.maximum if group.desired is None else group.desired)
        draft.put(*key, "nodes", value=count, of=group.counts)
        if group.minimum != group.maximum:
            text = f"{group.minimum} to {group.maximum} nodes become {count}: a block is paid for up front"
            draft.note(Change.REPLACED, text, group.counts)
    else:
        draft.put(*key, "min_nodes", value=group.minimum, of=group.counts)
        draft.put(*key, "max_nodes", value=group.maximum, of=group.counts)


def write_efa(draft: Draft, group: Group) -> None:
    """Write whether the nodes of a fleet have EFA, where their type can."""
    if group.instance_type.supports_efa:
        draft.put("training", "fleets", group.name, "efa", value=group.efa, of=group.efa_part)
    elif group.efa:
        draft.note(Change.LOST, f"{group.instance_type.name} has no EFA", group.efa_part)


def write_fleet(
    draft: Draft, group: Group, *, no_spot_price: str = "", orchestrator: Orchestrator = Orchestrator.EC2
) -> None:
    """Write a fleet.

    Args:
        draft: The cluster file.
        group: The nodes.
        no_spot_price: Why the orchestrator takes no price limit of Spot; empty if it takes one.
        orchestrator: Who launches the nodes of the fleet.
    """
    key = ("training", "fleets", group.name)
    write_nodes(draft, group)
    write_capacity(draft, group, no_spot_price)
    _write_placement(draft, key, group)
    write_efa(draft, group)
    _write_volume(draft, (*key, "root_volume"), group.volume)
    note_addresses(draft, group, orchestrator, theirs=group.addresses)


def write_capacity(draft: Draft, group: Group, no_spot_price: str = "") -> None:
    """Write where the nodes of a fleet come from; nothing for On-Demand Instances, which are the default.

    Args:
        draft: The cluster file.
        group: The nodes.
        no_spot_price: Why the orchestrator takes no price limit of Spot; empty if it takes one.
    """
    key = ("training", "fleets", group.name, "capacity")
    if group.market is Market.SPOT:
        price = group.spot_price
        if price is not None and no_spot_price:
            draft.note(Change.LOST, no_spot_price, price[1])
            price = None
        options = {} if price is None else {"max_price_usd_per_hour": price[0]}
        draft.put(*key, value={"spot": options}, of=group.market_part if price is None else price[1])
        return
    if group.market is Market.BLOCK:
        _write_id(draft, (*key, "capacity_block"), group.reservation, "the id of your Capacity Block")
        draft.fill(*key, "starts_at", value="2030-01-01T11:30Z", why="when your block starts, in UTC")
        draft.fill(*key, "ends_at", value="2030-01-15T11:30Z", why="when your block ends, in UTC")
        return
    if group.reservation is not None:
        _write_id(draft, (*key, "reservation"), group.reservation, "the id of your reservation, in this zone")
    elif group.reservation_group is not None:
        text = group.reservation_group.text() or ""
        path = (*key, "reservation_group")
        if _GROUP_ARN.fullmatch(text):
            draft.put(*path, value=text, of=group.reservation_group)
        else:
            arn = "arn:aws:resource-groups:us-east-1:111122223333:group/my-reservations"
            draft.fill(*path, value=arn, why="the ARN of your resource group", of=group.reservation_group)
    if group.is_reserved and group.placement_group is not None:
        named = group.placement_group
        named.skip()
        if named.is_placeholder:
            why = was(named, "the placement group that your reservation was made in")
            draft.fill(*key, "placement_group", value="none", why=why, of=named)
        else:
            draft.put(*key, "placement_group", value=str(named.value), of=named)


def _write_id(draft: Draft, path: tuple[str, ...], part: Part | None, what: str) -> None:
    text = (part.text() if part is not None and not isinstance(part.value, Mapping) else None) or ""
    if _RESERVATION.fullmatch(text):
        draft.put(*path, value=text, of=part)
        return
    if part is not None:
        part.skip()
    draft.fill(*path, value="cr-0123456789abcdef0", why=was(part, what), of=part)


def was(part: Part | None, what: str) -> str:
    """What is to be filled in, and what the file has in its place."""
    if part is None or not part.exists:
        return what
    value = next(iter(part.value)) if isinstance(part.value, Mapping) and part.value else part.value
    return f"{what} (the file has {value})"


def _write_placement(draft: Draft, key: tuple[str, ...], group: Group) -> None:
    """The placement group, where it is not the reservation's own."""
    if group.is_reserved or group.market is Market.BLOCK:
        if group.placed and group.placement_group is None:
            text = "reserved capacity is launched into its own placement group, or into none: the tool's is left out"
            draft.notes.append(Note(Change.REPLACED, group.part.name, text, group.part.place))
        return
    if group.placement_group is not None:
        draft.note(
            Change.REPLACED,
            "the fleet gets a cluster placement group of its own; nodes in the old group and in this one are not near "
            "each other",
            group.placement_group,
        )
    wanted = "cluster" if group.placed or group.placement_group is not None else "none"
    draft.put(*key, "placement", value=wanted, of=group.part)


def _write_volume(draft: Draft, key: tuple[str, ...], volume: Volume) -> None:
    values = {"size_gib": volume.size_gib, "iops": volume.iops, "throughput_mib_per_s": volume.throughput_mib_per_s}
    for name, value in values.items():
        if value is not None:
            draft.put(*key, name, value=value, of=volume.part)
    if volume.kind not in (None, "gp3"):
        text = f"the root volume is gp3, not {volume.kind}"
        draft.notes.append(Note(Change.REPLACED, volume.part.name, text, volume.part.place))
    if volume.encrypted is not True:
        draft.notes.append(Note(Change.BETTER, volume.part.name, "the root volume is encrypted", volume.part.place))


def note_addresses(draft: Draft, group: Group, orchestrator: Orchestrator, *, theirs: int) -> None:
    """Say how many addresses of the subnet a node takes, where that changes.

    Args:
        draft: The cluster file.
        group: The nodes.
        orchestrator: Who launches the nodes of the fleet.
        theirs: Addresses of a node today.
    """
    efa = group.efa and group.instance_type.supports_efa
    ours = plan_interfaces(group.instance_type, efa=efa, orchestrator=orchestrator).ip_addresses_per_node
    name, part = group.instance_type.name, group.efa_part
    if ours < theirs:
        text = (
            f"a node of {name} takes {theirs} addresses of the subnet, with `efa` interfaces; here it takes {ours}, "
            "with the same bandwidth of EFA"
        )
        draft.notes.append(Note(Change.BETTER, part.name, text, part.place))
    elif 0 < theirs < ours:
        text = (
            f"a node of {name} takes {ours} addresses of the subnet, with `efa` interfaces, and took {theirs}: see "
            "whether the subnet has them"
        )
        draft.notes.append(Note(Change.REPLACED, part.name, text, part.place))
