"""Reservations and Capacity Blocks that the cluster file names: state, fit and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from cdk_gpu_clusters.errors import Rule, define_rule
from cdk_gpu_clusters_stacks.spec import capacity_terms
from cdk_gpu_clusters_stacks.spec.capacity import placement_group_of

from ..call import INSTANCES, PLACEMENT_GROUPS, Absent, Call
from ..check import Check, Inquiry, Judge, Verdict, failed, passed, warned
from ..cluster import Cluster, words
from ..resources import (
    RESERVATION_CALLS,
    Found,
    Reserved,
    every_reservation,
    found_of,
    members_of,
    reserved,
    target_of,
    unneeded,
    utc,
)

_ODCR = 'AWS EC2 user guide, "On-Demand Capacity Reservations"'
_BLOCKS = 'AWS EC2 user guide, "Capacity Blocks for ML"'

THERE = define_rule(
    "GPU-PRE-051",
    "the reservation, or the resource group with reservations in it, is there",
    source="EC2 API reference, DescribeCapacityReservations; Resource Groups API reference, ListGroupResources",
)
RIGHT_KIND = define_rule(
    "GPU-PRE-052",
    "a Capacity Block is used as a block, an On-Demand Capacity Reservation as a reservation",
    source=f"{_BLOCKS}: launches into one name the market type capacity-block",
)
RIGHT_STATE = define_rule("GPU-PRE-053", "the reservation is active, or a block that is still to start", source=_ODCR)
RIGHT_TYPE = define_rule("GPU-PRE-054", "the reservation holds the fleet's instance type", source=_ODCR)
RIGHT_ZONE = define_rule("GPU-PRE-055", "the reservation lies in the fleet's zone", source=_ODCR)
RIGHT_PLATFORM = define_rule("GPU-PRE-056", "the reservation is for Linux/UNIX with default tenancy", source=_ODCR)
ROOM = define_rule("GPU-PRE-057", "the reservation has a free instance for every node", source=_ODCR)
RIGHT_GROUP = define_rule(
    "GPU-PRE-058", "the file names the placement group that the reservation was made in", source=_ODCR
)
GROUP_FITS = define_rule(
    "GPU-PRE-059",
    "the placement group that the file names is there and has the strategy cluster",
    source="EC2 API reference, DescribePlacementGroups",
)

# States on the way to active: a block that is paid for, or is being delivered.
_COMING = frozenset({"scheduled", "payment-pending", "pending", "delayed"})
_PLATFORM = "Linux/UNIX"


def _there(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        wanted = members_of(target, inquiry)
    except Absent as absent:
        yield failed(f"{target.target}: {absent.cause}", fix="correct the ARN, or --profile")
        return
    if not wanted:
        yield failed(f"{target.target} has no reservation in it", fix="add reservations to the group")
        return
    seen = {one["CapacityReservationId"]: one for one in every_reservation(inquiry)}
    missing = [one for one in wanted if one not in seen]
    if missing:
        yield failed(
            f"the account sees no {words(missing)} in {inquiry.cluster.region}",
            fix="correct id, Region or profile; a shared one is seen only once its owner has shared it",
        )
    else:
        owners = sorted({str(seen[one].get("OwnerId", "?")) for one in wanted})
        yield passed(f"{words(wanted)} of account {words(owners)}")


def _kind(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in found_of(target, inquiry):
        block = one.get("ReservationType", "default") == "capacity-block"
        if block != target.is_block:
            what = "a Capacity Block" if block else "an On-Demand Capacity Reservation"
            right = "capacity_block or ultraserver_block" if block else "reservation or reservation_group"
            yield failed(f"{one['CapacityReservationId']} is {what}", fix=f"name it as {right}")


def _state(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in found_of(target, inquiry):
        said = f"{one['CapacityReservationId']} is {one['State']}"
        if one["State"] == "active":
            yield passed(said)
        elif one["State"] in _COMING and target.is_block:
            yield passed(f"{said}: the fleet grows when it is delivered")
        elif one["State"] in _COMING:
            yield warned(said, fix="wait until it is active, or the first launches fail")
        else:
            yield failed(said, fix="name a reservation that is active")


def _type(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    wanted = target.fleet.type.name
    for one in found_of(target, inquiry):
        if one["InstanceType"] != wanted:
            yield failed(
                f"{one['CapacityReservationId']} holds {one['InstanceType']}, the fleet has {wanted}",
                fix=f"name a reservation of {wanted}, or change instance_type",
            )


def _zone(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    zone = inquiry.cluster.spec.network.availability_zone
    for one in found_of(target, inquiry):
        if not inquiry.cluster.is_zone(zone, one):
            here = one.get("AvailabilityZone") or one.get("AvailabilityZoneId")
            yield failed(
                f"{one['CapacityReservationId']} lies in {here}, the fleet's subnet in {zone}",
                fix=f"put the network into {here}",
            )


def _platform(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in found_of(target, inquiry):
        platform, tenancy = one.get("InstancePlatform"), one.get("Tenancy", "default")
        if (platform, tenancy) != (_PLATFORM, "default"):
            yield failed(
                f"{one['CapacityReservationId']} is for {platform} with tenancy {tenancy}",
                fix=f"reserve {_PLATFORM} with default tenancy: the launch template asks for these",
            )


def _room(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    found = found_of(target, inquiry)
    sharing = [fleet for fleet in inquiry.cluster.fleets.values() if target_of(fleet.spec) == target.target]
    least = sum(fleet.spec.minimum_nodes for fleet in sharing)
    most = sum(fleet.spec.maximum_nodes for fleet in sharing)
    free = sum(_free(one) for one in found)
    if free < most and any(one["State"] == "active" for one in found):
        free += _own_nodes(found, inquiry)
    said = f"{free} of {sum(one['TotalInstanceCount'] for one in found)} for {most} nodes"
    fix = "lower the number of nodes, enlarge the reservation, or end what else runs in it"
    if free < least:
        yield failed(said, fix=fix)
    elif free < most:
        yield warned(f"{said}: enough for the least number", fix=fix)
    else:
        yield passed(said)


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


def _not_block(cluster: Cluster) -> Mapping[str, Reserved]:
    return reserved(cluster, lambda one: not one.is_block)


def _group(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    named = _placement_group(target)
    for one in found_of(target, inquiry):
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


def _placement_group(target: Reserved) -> str | None:
    return placement_group_of(target.fleet.spec.capacity)


def _named_groups(cluster: Cluster) -> Mapping[str, str]:
    named = {where: _placement_group(one) for where, one in reserved(cluster).items()}
    return {f"{where}.placement_group": name for where, name in named.items() if name}


def _group_fits(name: str, inquiry: Inquiry) -> Iterator[Verdict]:
    wanted = [{"Name": "group-name", "Values": [name]}]
    found = inquiry.ask(PLACEMENT_GROUPS, Filters=wanted)["PlacementGroups"]
    if not found:
        yield failed(f"there is no placement group {name}", fix="correct the name")
    elif found[0].get("State") != "available" or found[0].get("Strategy") != "cluster":
        yield failed(
            f"{name} is {found[0].get('State')}, strategy {found[0].get('Strategy')}",
            fix="name an available group of the strategy cluster",
        )


_NONE = "no fleet launches into an existing reservation"


def _check(rule: Rule, judge: Judge[Reserved], *calls: Call) -> Check[Reserved]:
    return Check(
        rule=rule,
        calls=(*RESERVATION_CALLS, *calls),
        subjects=reserved,
        judge=judge,
        unless=_NONE,
        unneeded=unneeded,
    )


RESERVATIONS_CHECKS = (
    _check(THERE, _there),
    _check(RIGHT_KIND, _kind),
    _check(RIGHT_STATE, _state),
    _check(RIGHT_TYPE, _type),
    _check(RIGHT_ZONE, _zone),
    _check(RIGHT_PLATFORM, _platform),
    _check(ROOM, _room, INSTANCES),
    Check(
        rule=RIGHT_GROUP,
        calls=RESERVATION_CALLS,
        subjects=_not_block,
        judge=_group,
        unless="no fleet launches into an existing On-Demand Capacity Reservation",
        unneeded=unneeded,
    ),
    Check(
        rule=GROUP_FITS,
        calls=(PLACEMENT_GROUPS,),
        subjects=_named_groups,
        judge=_group_fits,
        unless="the file names no placement group",
    ),
)


# Starts and ends of reservations and blocks, against the file and the clock.

NOT_OVER = define_rule(
    "GPU-PRE-061",
    "the reservation does not end within a day",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations": instances run on, new ones do not start',
)
BLOCK_START = define_rule("GPU-PRE-062", "the block starts at the time in the file", source=_BLOCKS)
BLOCK_END = define_rule(
    "GPU-PRE-063",
    "the block ends at the time in the file",
    source=f"{_BLOCKS}: EC2 terminates instances from 30 minutes before the end",
)

_SOON = timedelta(days=1)
# The file is to the minute.
_SAME = timedelta(minutes=1)


def _not_over(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    for one in found_of(target, inquiry):
        end, name = one.get("EndDate"), one["CapacityReservationId"]
        if end is None:
            yield passed(f"{name} has no end")
        elif end <= inquiry.now:
            yield failed(f"{name} ended at {utc(end)}", fix="name a reservation that runs")
        elif end - inquiry.now < _SOON:
            yield warned(f"{name} ends at {utc(end)}, within a day", fix="extend it, or name one that runs longer")
        else:
            yield passed(f"{name} ends at {utc(end)}")


def _blocks(cluster: Cluster) -> Mapping[str, Reserved]:
    return reserved(cluster, lambda one: one.is_block)


def _start(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    said = capacity_terms(target.fleet.spec.capacity).starts_at
    for one in found_of(target, inquiry):
        start, name = one.get("StartDate"), one["CapacityReservationId"]
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


def _end(target: Reserved, inquiry: Inquiry) -> Iterator[Verdict]:
    said = capacity_terms(target.fleet.spec.capacity).ends_at
    for one in found_of(target, inquiry):
        end, name = one.get("EndDate"), one["CapacityReservationId"]
        if end is None or said is None or abs(end - said) < _SAME:
            continue
        cause, fix = f"{name} ends at {utc(end)}, the file has {utc(said)}", f"ends_at: {utc(end)}"
        if said > end:
            yield failed(f"{cause}: EC2 would end the nodes before they are drained", fix=fix)
        else:
            yield warned(f"{cause}: paid time would go unused", fix=fix)


_NO_BLOCK = "no fleet launches into a Capacity Block"

RESERVATION_TIMES_CHECKS = (
    Check(
        rule=NOT_OVER,
        calls=RESERVATION_CALLS,
        subjects=reserved,
        judge=_not_over,
        unless="no fleet launches into an existing reservation",
        unneeded=unneeded,
    ),
    Check(
        rule=BLOCK_START,
        calls=RESERVATION_CALLS,
        subjects=_blocks,
        judge=_start,
        unless=_NO_BLOCK,
        unneeded=unneeded,
    ),
    Check(
        rule=BLOCK_END,
        calls=RESERVATION_CALLS,
        subjects=_blocks,
        judge=_end,
        unless=_NO_BLOCK,
        unneeded=unneeded,
    ),
)
