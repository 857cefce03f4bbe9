"""Reservations and Capacity Blocks that the cluster file names: state, fit and times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityTerms
from cdk_gpu_clusters_stacks.spec.capacity import placement_group_of
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import GROUP_MEMBERS, INSTANCES, PLACEMENT_GROUPS, RESERVATIONS, Absent, NoAnswer
from ..check import Inquiry, Subjects, Verdict, define_check, failed, passed, warned
from ..cluster import Cluster, utc, words

_ODCR = 'AWS EC2 user guide, "On-Demand Capacity Reservations"'
_BLOCKS = 'AWS EC2 user guide, "Capacity Blocks for ML"'
_NONE = "no fleet launches into an existing reservation"
_NO_BLOCK = "no fleet launches into a Capacity Block"
_CALLS = (RESERVATIONS, GROUP_MEMBERS)


def _times_of(fleet: PlannedFleet, reservation_id: str) -> BlockTerms | CapacityTerms:
    """What the file has of a reservation that a fleet launches into."""
    terms = fleet.plan.terms
    return next((block for block in terms.blocks if block.reservation_id == reservation_id), terms)


def _is_over(times: BlockTerms | CapacityTerms, inquiry: Inquiry) -> bool:
    return isinstance(times, BlockTerms) and times.ends_at <= inquiry.now


# States on the way to active: a block that is paid for, or is being delivered.
_COMING = frozenset({"scheduled", "payment-pending", "pending", "delayed"})
_PLATFORM = "Linux/UNIX"

Found = Mapping[str, Any]


def _target_of(fleet: PlannedFleet) -> str | None:
    """ARN of the resource group, or ids of the reservations, that a fleet launches into; None if none exists yet."""
    terms = fleet.plan.terms
    return terms.reservation_group_arn or ", ".join(terms.reservation_ids) or None


def _fleets(wanted: Callable[[PlannedFleet], bool]) -> Subjects[PlannedFleet]:
    """Fleets that launch into what exists already, by the key of their capacity."""
    return lambda cluster: {
        f"{where}.capacity": fleet
        for where, fleet in cluster.fleets.items()
        if _target_of(fleet) is not None and wanted(fleet)
    }


_reserved = _fleets(lambda _: True)
_blocks = _fleets(lambda fleet: fleet.plan.terms.kind.is_block)


def _members_of(fleet: PlannedFleet, inquiry: Inquiry) -> tuple[str, ...]:
    """Ids of the reservations that a fleet launches into; of several blocks those that are not over.

    Raises:
        Absent: If the resource group does not exist.
    """
    terms = fleet.plan.terms
    if terms.reservation_group_arn is None:
        return tuple(one for one in terms.reservation_ids if not _is_over(_times_of(fleet, one), inquiry))
    answer = inquiry.ask(GROUP_MEMBERS, Group=terms.reservation_group_arn)
    listed = [item.get("Identifier", {}) for item in answer.get("Resources", ())]
    listed += answer.get("ResourceIdentifiers", ())
    arns = [str(one.get("ResourceArn", "")) for one in listed]
    return tuple(dict.fromkeys(arn.rpartition("/")[2] for arn in arns if ":capacity-reservation/" in arn))


def _every_reservation(inquiry: Inquiry) -> list[Found]:
    """Every reservation that the account sees in the Region, shared ones too; one answer serves all checks."""
    return list(inquiry.ask(RESERVATIONS)["CapacityReservations"])


def _found_of(fleet: PlannedFleet, inquiry: Inquiry) -> list[Found]:
    """The reservations that a fleet launches into.

    Raises:
        NoAnswer: If there is none.
    """
    inquiry.start(RESERVATIONS)
    try:
        wanted = _members_of(fleet, inquiry)
    except Absent as absent:
        raise NoAnswer(f"{_target_of(fleet)} does not exist", fix="see GPU-PRE-051") from absent
    seen = [one for one in _every_reservation(inquiry) if one["CapacityReservationId"] in wanted]
    if not seen:
        raise NoAnswer(f"the account sees no reservation of {_target_of(fleet)}", fix="see GPU-PRE-051")
    return seen


@define_check(
    "GPU-PRE-051",
    "the reservation, or the resource group with reservations in it, is there",
    source="EC2 API reference, DescribeCapacityReservations; Resource Groups API reference, ListGroupResources",
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _there(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    try:
        wanted = _members_of(fleet, inquiry)
    except Absent as absent:
        return failed(f"{_target_of(fleet)}: {absent.cause}", fix="correct the ARN, or --profile")
    if not wanted and fleet.plan.terms.blocks:
        return failed(f"{_target_of(fleet)} are over", fix="see GPU-PRE-060")
    if not wanted:
        return failed(f"{_target_of(fleet)} has no reservation in it", fix="add reservations to the group")
    seen = {one["CapacityReservationId"]: one for one in _every_reservation(inquiry)}
    missing = [one for one in wanted if one not in seen]
    if missing:
        return failed(
            f"the account sees no {words(missing)} in {inquiry.cluster.region}",
            fix="correct id, Region or profile; a shared one is seen only once its owner has shared it",
        )
    owners = sorted({str(seen[one].get("OwnerId", "?")) for one in wanted})
    return passed(f"{words(wanted)} of account {words(owners)}")


@define_check(
    "GPU-PRE-052",
    "a Capacity Block is used as a block, an On-Demand Capacity Reservation as a reservation",
    source=f"{_BLOCKS}: launches into one name the market type capacity-block",
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _right_kind(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        block = one.get("ReservationType", "default") == "capacity-block"
        if block != fleet.plan.terms.kind.is_block:
            what = "a Capacity Block" if block else "an On-Demand Capacity Reservation"
            right = (
                "capacity_block, capacity_blocks or ultraserver_block" if block else "reservation or reservation_group"
            )
            yield failed(f"{one['CapacityReservationId']} is {what}", fix=f"name it as {right}")


@define_check(
    "GPU-PRE-053",
    "the reservation is active, or a block that is still to start",
    source=_ODCR,
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _right_state(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        said = f"{one['CapacityReservationId']} is {one['State']}"
        if one["State"] == "active":
            yield passed(said)
        elif one["State"] in _COMING and fleet.plan.terms.kind.is_block:
            yield passed(f"{said}: the fleet grows when it is delivered")
        elif one["State"] in _COMING:
            yield warned(said, fix="wait until it is active, or the first launches fail")
        else:
            yield failed(said, fix="name a reservation that is active")


@define_check(
    "GPU-PRE-054",
    "the reservation holds the fleet's instance type",
    source=_ODCR,
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _right_type(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    wanted = fleet.plan.instance_type.name
    for one in _found_of(fleet, inquiry):
        if one["InstanceType"] != wanted:
            yield failed(
                f"{one['CapacityReservationId']} holds {one['InstanceType']}, the fleet has {wanted}",
                fix=f"name a reservation of {wanted}, or change instance_type",
            )


@define_check(
    "GPU-PRE-055",
    "the reservation lies in the fleet's zone",
    source=_ODCR,
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _right_zone(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    zone = inquiry.cluster.spec.network.availability_zone
    for one in _found_of(fleet, inquiry):
        if not inquiry.cluster.is_zone(zone, one):
            here = one.get("AvailabilityZone") or one.get("AvailabilityZoneId")
            yield failed(
                f"{one['CapacityReservationId']} lies in {here}, the fleet's subnet in {zone}",
                fix=f"put the network into {here}",
            )


@define_check(
    "GPU-PRE-056",
    "the reservation is for Linux/UNIX with default tenancy",
    source=_ODCR,
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _right_platform(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        platform, tenancy = one.get("InstancePlatform"), one.get("Tenancy", "default")
        if (platform, tenancy) != (_PLATFORM, "default"):
            yield failed(
                f"{one['CapacityReservationId']} is for {platform} with tenancy {tenancy}",
                fix=f"reserve {_PLATFORM} with default tenancy: the launch template asks for these",
            )


@define_check(
    "GPU-PRE-057",
    "the reservation has a free instance for every node",
    source=_ODCR,
    calls=(*_CALLS, INSTANCES),
    subjects=_reserved,
    unless=_NONE,
)
def _room(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    found = _found_of(fleet, inquiry)
    if fleet.plan.terms.blocks:
        nodes = {one.reservation_id: one.node_count for one in fleet.plan.windows}
        for one in found:
            bought = nodes[one["CapacityReservationId"]]
            yield _room_of([one], bought, bought, inquiry)
        return
    sharing = [one.spec for one in inquiry.cluster.fleets.values() if _target_of(one) == _target_of(fleet)]
    least = sum(spec.minimum_nodes for spec in sharing)
    most = sum(spec.maximum_nodes for spec in sharing)
    yield _room_of(found, least, most, inquiry)


def _room_of(found: list[Found], least: int, most: int, inquiry: Inquiry) -> Verdict:
    free = sum(_free(one) for one in found)
    if free < most and any(one["State"] == "active" for one in found):
        free += _own_nodes(found, inquiry)
    said = f"{free} of {sum(one['TotalInstanceCount'] for one in found)} for {most} nodes"
    fix = "lower the number of nodes, enlarge the reservation, or end what else runs in it"
    if free < least:
        return failed(said, fix=fix)
    if free < most:
        return warned(f"{said}: enough for the least number", fix=fix)
    return passed(said)


def _free(one: Found) -> int:
    """Instances for the fleet; before it is active none is available, though all will be."""
    return int(one["AvailableInstanceCount"] if one["State"] == "active" else one["TotalInstanceCount"])


def _own_nodes(found: list[Found], inquiry: Inquiry) -> int:
    ids = [one["CapacityReservationId"] for one in found]
    answer = inquiry.ask(INSTANCES, Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}])
    return sum(
        instance.get("CapacityReservationId") in ids and inquiry.cluster.owns(instance)
        for reservation in answer["Reservations"]
        for instance in reservation["Instances"]
    )


@define_check(
    "GPU-PRE-058",
    "the file names the placement group that the reservation was made in",
    source=_ODCR,
    calls=_CALLS,
    subjects=_fleets(lambda fleet: not fleet.plan.terms.kind.is_block),
    unless="no fleet launches into an existing On-Demand Capacity Reservation",
)
def _right_group(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    named = placement_group_of(fleet.spec.capacity)
    for one in _found_of(fleet, inquiry):
        name = str(one.get("PlacementGroupArn", "")).rpartition("/")[2] or None
        reservation = one["CapacityReservationId"]
        if named == name:
            yield passed(f"{reservation}: {name or 'none'}")
        elif named is None:
            yield warned(
                f"{reservation} was made in {name}, the file names none: the nodes are not placed close together",
                fix=f"placement_group: {name}",
            )
        else:
            yield failed(
                f"{reservation} was made in {name or 'no placement group'}, the file names {named}",
                fix=f"placement_group: {name or 'none'}",
            )


def _named_groups(cluster: Cluster) -> Mapping[str, str]:
    named = {where: placement_group_of(fleet.spec.capacity) for where, fleet in _reserved(cluster).items()}
    return {f"{where}.placement_group": name for where, name in named.items() if name}


@define_check(
    "GPU-PRE-059",
    "the placement group that the file names is there and has the strategy cluster",
    source="EC2 API reference, DescribePlacementGroups",
    calls=(PLACEMENT_GROUPS,),
    subjects=_named_groups,
    unless="the file names no placement group",
)
def _group_fits(name: str, inquiry: Inquiry) -> Verdict | None:
    wanted = [{"Name": "group-name", "Values": [name]}]
    found = inquiry.ask(PLACEMENT_GROUPS, Filters=wanted)["PlacementGroups"]
    if not found:
        return failed(f"there is no placement group {name}", fix="correct the name")
    state, strategy = found[0].get("State"), found[0].get("Strategy")
    if (state, strategy) == ("available", "cluster"):
        return None
    return failed(f"{name} is {state}, strategy {strategy}", fix="name an available group of the strategy cluster")


# Starts and ends of reservations and blocks, against the file and the clock.

_SOON = timedelta(days=1)
# The file is to the minute.
_SAME = timedelta(minutes=1)


@define_check(
    "GPU-PRE-060",
    "the end of the capacity in the file is not past",
    source="design: a fleet whose capacity is over never has nodes",
    calls=(),
    subjects=lambda cluster: {
        f"{where}.capacity": fleet for where, fleet in cluster.fleets.items() if fleet.plan.terms.ends_at is not None
    },
    unless="no capacity in the file has an end",
)
def _end_ahead(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    terms, now = fleet.plan.terms, inquiry.now
    over = [one.reservation_id for one in terms.blocks if one.ends_at <= now]
    if terms.ends_at is not None and terms.ends_at <= now:
        return failed(
            f"the last end in the file is {utc(terms.ends_at)}, and it is {utc(now)}: no node would be launched",
            fix="name capacity that ends later, or remove the fleet",
        )
    if over:
        return passed(f"{words(over)} is over: remove it at the next edit")
    return passed(f"the last end in the file is {'' if terms.ends_at is None else utc(terms.ends_at)}")


@define_check(
    "GPU-PRE-061",
    "the reservation does not end within a day",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations": instances run on, new ones do not start',
    calls=_CALLS,
    subjects=_reserved,
    unless=_NONE,
)
def _not_over(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        end, name = one.get("EndDate"), one["CapacityReservationId"]
        if end is None:
            yield passed(f"{name} has no end")
        elif end <= inquiry.now:
            yield failed(f"{name} ended at {utc(end)}", fix="name a reservation that runs")
        elif end - inquiry.now < _SOON:
            yield warned(f"{name} ends at {utc(end)}, within a day", fix="extend it, or name one that runs longer")
        else:
            yield passed(f"{name} ends at {utc(end)}")


@define_check(
    "GPU-PRE-062",
    "the block starts at the time in the file",
    source=_BLOCKS,
    calls=_CALLS,
    subjects=_blocks,
    unless=_NO_BLOCK,
)
def _block_start(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        start, name = one.get("StartDate"), one["CapacityReservationId"]
        said = _times_of(fleet, name).starts_at
        if start is None or (said is not None and abs(start - said) < _SAME):
            yield passed(f"{name} starts at {'an unknown time' if start is None else utc(start)}")
        elif said is None and start <= inquiry.now:
            yield passed(f"{name} runs since {utc(start)}")
        elif said is None:
            yield failed(
                f"{name} starts at {utc(start)}, in the file it has started already",
                fix=f"starts_at: {utc(start)}",
            )
        else:
            yield warned(f"{name} starts at {utc(start)}, the file has {utc(said)}", fix=f"starts_at: {utc(start)}")


@define_check(
    "GPU-PRE-063",
    "the block ends at the time in the file",
    source=f"{_BLOCKS}: EC2 terminates instances from 30 minutes before the end",
    calls=_CALLS,
    subjects=_blocks,
    unless=_NO_BLOCK,
)
def _block_end(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        end, name = one.get("EndDate"), one["CapacityReservationId"]
        said = _times_of(fleet, name).ends_at
        if end is None or said is None or abs(end - said) < _SAME:
            continue
        cause, fix = f"{name} ends at {utc(end)}, the file has {utc(said)}", f"ends_at: {utc(end)}"
        if said > end:
            yield failed(f"{cause}: EC2 would end the nodes before they are drained", fix=fix)
        else:
            yield warned(f"{cause}: paid time would go unused", fix=fix)


# UltraServers: a reservation can be active, and refuse launches.


@define_check(
    "GPU-PRE-064",
    "EC2 can launch into the reservation of an UltraServer",
    source="EC2 API reference, CapacityReservation: LaunchStatus (botocore 1.43.106)",
    calls=_CALLS,
    subjects=_fleets(lambda fleet: fleet.plan.terms.kind.is_block),
    unless=_NO_BLOCK,
)
def _launchable(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in _found_of(fleet, inquiry):
        status, name = one.get("LaunchStatus"), one["CapacityReservationId"]
        if status == "unlaunchable" and one["State"] == "active":
            yield failed(
                f"{name} is active, and EC2 reports it as unlaunchable",
                fix="wait for EC2's repair of the UltraServer, or open a case with AWS Support",
            )
        elif status == "unlaunchable":
            yield passed(f"{name} is {one['State']}, and not launchable yet")
        elif status is not None:
            yield passed(f"{name} is {status}")
