"""What runs in an account now, at list prices, and what its own bill has: read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters.catalogue.prices import Price
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.cost import Estimate, node_hour
from cdk_gpu_clusters_stacks.preflight.account import Account
from cdk_gpu_clusters_stacks.preflight.call import CALLER, INSTANCES, RESERVATIONS, Call, NoAnswer, define_call
from cdk_gpu_clusters_stacks.preflight.check import policy_of
from cdk_gpu_clusters_stacks.preflight.cluster import CLUSTER_TAG, Cluster
from cdk_gpu_clusters_stacks.preflight.run import caller_of
from cdk_gpu_clusters_stacks.preflight.unread import ODD_ANSWER
from cdk_gpu_clusters_stacks.spec import ClusterSpec
from cdk_gpu_clusters_stacks.spec.capacity import utc_text

from .forecast import PURCHASES
from .money import NOTHING, Usd, cents
from .orphans import CALLS as ORPHAN_CALLS
from .orphans import Orphan, read_orphans

#: AWS bills 0.01 US dollars for each of its requests (AWS Cost Explorer FAQs, "Cost Explorer API").
COST_AND_USAGE = define_call("ce", "get_cost_and_usage")
#: Only the account that pays may ask (AWS Billing user guide, "Using user-defined cost allocation tags").
COST_TAGS = define_call("ce", "list_cost_allocation_tags")
# Tags that services put on the instances of their groups, the most telling first: a node group of Amazon EKS and of AWS
# PCS has an Auto Scaling group or a fleet of its own.
_GROUP_TAGS = (
    ("eks:nodegroup-name", "EKS node group"),
    ("aws:pcs:compute-node-group-id", "PCS node group"),
    ("aws:autoscaling:groupName", "Auto Scaling group"),
)
#: EC2 bills an instance while it runs (EC2 user guide, "Instance lifecycle", Instance billing by state).
_RUNNING = {"Name": "instance-state-name", "Values": ["running"]}
_CURRENCY = "USD"
_METRIC = "UnblendedCost"
_GROUP = "the reservations of a resource group are not read: what they have unused is not counted"
_NO_COST = "Cost Explorer has no cost with the tag; it shows costs after a day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Instances or a reservation that bill now.

    Attributes:
        where: Their group, or the reservation.
        instance_type: Their type.
        purchase: How they are bought.
        count: How many bill: of a reservation all that it has, used or not.
        used: How many of them run instances.
        per_hour: What they cost for an hour, in cents; None if that is unknown.
        unused_per_hour: The share of `per_hour` of those that are not used; None if that is unknown.
        is_paid_in_advance: Whether they are paid once, and cost nothing by the hour.
        prices: The list prices that this rests on.
        unknown: Why the price is unknown.
    """

    where: str
    instance_type: str
    purchase: str
    count: int
    used: int
    per_hour: Usd | None
    unused_per_hour: Usd | None
    is_paid_in_advance: bool
    prices: tuple[Price, ...]
    unknown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the bill has of one service since the first of the month; None if it is in another currency."""

    name: str
    usd: Decimal | None


@dataclass(slots=True, kw_only=True)
class Live:
    """What an account has of a cluster.

    Attributes:
        cluster: Name of the cluster.
        region: Its Region.
        account: The account that was asked.
        at: When.
        running: What bills now.
        per_hour: All of it that is paid by the hour and has a price; None if nothing of it is known.
        is_partial: Whether something that bills may be missing in it.
        billed_since: First day that `services` count; None if Cost Explorer was not asked.
        services: What Cost Explorer has, by service.
        billed: All services together; None if that is unknown.
        orphans: What bills of clusters without stacks; None if it was not asked, or is unknown.
        cannot_tell: What could not be read, or is in no sum -> why.
    """

    cluster: str
    region: str
    account: str
    at: str
    running: list[Running] = field(default_factory=list)
    per_hour: Usd | None = None
    is_partial: bool = False
    billed_since: str | None = None
    services: list[Service] = field(default_factory=list)
    billed: Decimal | None = None
    orphans: list[Orphan] | None = None
    cannot_tell: dict[str, str] = field(default_factory=dict)


def policy_for_cost(*, bill: bool, orphans: bool = False) -> dict[str, Any]:
    """The smallest IAM policy with which `read_account` reads everything. All actions only read."""
    more = (*((COST_AND_USAGE, COST_TAGS) if bill else ()), *(ORPHAN_CALLS if orphans else ()))
    return policy_of((CALLER, INSTANCES, RESERVATIONS, *more), "GpuClustersCost")


def read_account(spec: ClusterSpec, account: Account, *, now: datetime, bill: bool, orphans: bool = False) -> Live:
    """Read what an account has of a cluster; nothing is changed there.

    Args:
        spec: The cluster file.
        account: The account.
        now: The time.
        bill: Also ask Cost Explorer, for which AWS bills each request.
        orphans: Also look for what still bills of clusters without stacks, in the Region of the file.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    cluster = Cluster.of(spec)
    account_id, _ = caller_of(account)
    live = Live(cluster=spec.name, region=spec.region, account=account_id, at=utc_text(now))
    reservations = _reservations(cluster, account, live)
    live.running = _reserved(live, reservations) + _instances(cluster, account, live, set(reservations))
    hourly = [one for one in live.running if not one.is_paid_in_advance]
    known = [one.per_hour for one in hourly if one.per_hour is not None]
    if known or not (hourly or live.cannot_tell):
        live.per_hour = sum(known, NOTHING)
    for one in live.running:
        if one.unknown:
            live.cannot_tell[f"{one.where}, {one.instance_type}"] = one.unknown
    live.is_partial = bool(live.cannot_tell)
    if bill:
        _read_bill(cluster, account, live, now.astimezone(UTC).date())
    if orphans:
        live.orphans = read_orphans(partial(_ask, live, account))
    return live


@contextmanager
def _reading(live: Live, call: Call) -> Iterator[None]:
    """Note an answer that lacks a member, or has another in its place, and go on behind it."""
    try:
        yield
    except ODD_ANSWER as fault:
        live.cannot_tell[call.name] = f"AWS answered in a form that is unknown here ({type(fault).__name__}: {fault})"


def _ask(live: Live, account: Account, call: Call, **parameters: Any) -> Mapping[str, Any]:
    """An answer; empty without one, which is then named."""
    try:
        return account.ask(call, **parameters)
    except NoAnswer as none:
        live.cannot_tell[call.name] = none.cause + (f"; {none.fix}" if none.fix else "")
        return {}


# Reservations and instances.


def _reservations(cluster: Cluster, account: Account, live: Live) -> dict[str, Mapping[str, Any]]:
    """The reservations and blocks that the file names, or that are made for it."""
    named = {one for fleet in cluster.fleets.values() for one in fleet.plan.terms.reservation_ids}
    for fleet in cluster.fleets.values():
        if fleet.plan.terms.reservation_group_arn:
            live.cannot_tell[fleet.plan.terms.reservation_group_arn] = _GROUP
    if not named and not any(fleet.plan.terms.kind.is_reserved for fleet in cluster.fleets.values()):
        return {}
    answer = _ask(live, account, RESERVATIONS, Filters=[{"Name": "state", "Values": ["active"]}])
    return {
        name: one
        for one in answer.get("CapacityReservations", ())
        if (name := one.get("CapacityReservationId", "")) in named or cluster.owns(one)
    }


def _reserved(live: Live, reservations: Mapping[str, Mapping[str, Any]]) -> list[Running]:
    found: list[Running] = []
    for name, one in reservations.items():
        is_block = one.get("ReservationType") == "capacity-block"
        kind = CapacityKind.CAPACITY_BLOCK if is_block else CapacityKind.RESERVATION
        with _reading(live, RESERVATIONS):
            count, zone = one["TotalInstanceCount"], one["AvailabilityZone"]
            used = count - one["AvailableInstanceCount"]
            found.append(_running(f"reservation {name}", one["InstanceType"], kind, count, used, live.region, zone))
    return found


def _instances(cluster: Cluster, account: Account, live: Live, reserved: set[str]) -> list[Running]:
    """Running instances of the cluster that no counted reservation pays for, by group."""
    tag = {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster.spec.name]}
    answer = _ask(live, account, INSTANCES, Filters=[tag, _RUNNING])
    found: Counter[tuple[str, str, CapacityKind, str]] = Counter()
    for part in answer.get("Reservations", ()):
        for one in part.get("Instances", ()):
            with _reading(live, INSTANCES):
                if one.get("CapacityReservationId") not in reserved:
                    zone = one.get("Placement", {}).get("AvailabilityZone", "")
                    found[_group(one), one["InstanceType"], _kind(one), zone] += 1
    return [
        _running(group, type_name, kind, count, count, cluster.region, zone)
        for (group, type_name, kind, zone), count in sorted(found.items())
    ]


def _group(instance: Mapping[str, Any]) -> str:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    for key, words in _GROUP_TAGS:
        if key in tags:
            return f"{words} {tags[key]}"
    return "instances without a group"


def _kind(instance: Mapping[str, Any]) -> CapacityKind:
    lifecycle = instance.get("InstanceLifecycle")
    if lifecycle == "spot":
        return CapacityKind.SPOT
    return CapacityKind.CAPACITY_BLOCK if lifecycle == "capacity-block" else CapacityKind.ON_DEMAND


def _running(where: str, type_name: str, kind: CapacityKind, count: int, used: int, region: str, zone: str) -> Running:
    record = instance_types().get(type_name)
    rate = Estimate(low=None, high=None, reason=f"{type_name} is not in the catalogue")
    if record is not None:
        if record.ultraserver_only and kind is CapacityKind.CAPACITY_BLOCK:
            kind = CapacityKind.ULTRASERVER_BLOCK
        rate = node_hour(record, kind, region=region, availability_zone=zone or None, node_count=count)
    return Running(
        where=where,
        instance_type=type_name,
        purchase=PURCHASES[kind],
        count=count,
        used=used,
        per_hour=_times(rate, count),
        unused_per_hour=_times(rate, count - used),
        is_paid_in_advance=kind.is_block,
        prices=rate.prices,
        unknown=rate.reason,
    )


def _times(rate: Estimate, count: int) -> Usd | None:
    if rate.low is None or rate.high is None:
        return None
    return Usd(cents(Fraction(rate.low) * count), cents(Fraction(rate.high) * count))


# The account's own bill.


def _read_bill(cluster: Cluster, account: Account, live: Live, today: date) -> None:
    """What Cost Explorer has of the cluster's tag since the first of the month, by service."""
    # The end of the period is exclusive (Cost Explorer API reference, DateInterval).
    live.billed_since, until = today.replace(day=1).isoformat(), (today + timedelta(days=1)).isoformat()
    answer = _ask(
        live,
        account,
        COST_AND_USAGE,
        TimePeriod={"Start": live.billed_since, "End": until},
        Granularity="MONTHLY",
        Metrics=[_METRIC],
        Filter={"Tags": {"Key": CLUSTER_TAG, "Values": [cluster.spec.name]}},
        GroupBy=[{"Type": "DIMENSION", "Key": "SERVICE"}],
    )
    if not answer:
        return
    totals: dict[str, Decimal | None] = {}
    for period in answer.get("ResultsByTime", ()):
        for group in period.get("Groups", ()):
            with _reading(live, COST_AND_USAGE):
                cost, name = group["Metrics"][_METRIC], ", ".join(group["Keys"])
                if cost["Unit"] != _CURRENCY:
                    totals[name] = None
                    live.cannot_tell[f"bill of {name}"] = f"it is in {cost['Unit']}, not in {_CURRENCY}"
                elif (sofar := totals.get(name, Decimal(0))) is not None:
                    totals[name] = sofar + Decimal(cost["Amount"])
    if not totals and COST_AND_USAGE.name not in live.cannot_tell:
        live.cannot_tell[COST_AND_USAGE.name] = f"{_NO_COST}; {_state_of_tag(account)}"
    live.services = [
        Service(name=name, usd=None if usd is None else cents(usd))
        for name, usd in sorted(totals.items(), key=lambda item: -(item[1] or 0))
    ]
    known = [service.usd for service in live.services if service.usd is not None]
    live.billed = sum(known, Decimal("0.00")) if known else None


def _state_of_tag(account: Account) -> str:
    """Whether the tag is a cost allocation tag, without which there is no cost by it."""
    as_tag = "activated as a cost allocation tag in Billing"
    try:
        tags = account.ask(COST_TAGS, TagKeys=[CLUSTER_TAG]).get("CostAllocationTags", ())
    except NoAnswer as none:
        return f"whether {CLUSTER_TAG} is {as_tag} is unknown: {none.cause}"
    if not tags:
        return f"Billing does not know {CLUSTER_TAG} yet: a new key takes up to a day, and is then to be {as_tag}"
    is_active = any(tag.get("Status") == "Active" for tag in tags)
    return f"{CLUSTER_TAG} is {as_tag}" if is_active else f"{CLUSTER_TAG} is not {as_tag}: activate it there"
