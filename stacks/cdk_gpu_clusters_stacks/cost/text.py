"""Costs as text for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan.layout import Footnotes, Row, Section, lay_out

from .account import Live, Running
from .forecast import Forecast, PartCost
from .jobs import Bill, FleetBill, Share
from .money import Usd
from .orphans import Orphan

#: More jobs than this are put together in a line; JSON has all of them.
MOST_JOBS = 20
_LEFT_OUT = {
    "steps": ("row of steps", "rows of steps"),
    "without_nodes": ("row without nodes", "rows without nodes"),
    "repeated": ("row that repeats another one", "rows that repeat another one"),
    "waiting": ("workload that is not admitted", "workloads that are not admitted"),
    "ran_before": ("workload's earlier runs", "workloads' earlier runs"),
}
# What jobs are put together by, as each scheduler names it.
_GROUPS = {"slurm": ("accounts", "users"), "kueue": ("queues", "namespaces")}


def forecast_text(forecast: Forecast, *, width: int) -> str:
    """What a cluster file costs."""
    notes = Footnotes()
    sections = [Section(f"{forecast.cluster} in {forecast.region}, from {forecast.at}, if all of it is there", [])]
    sections += [
        Section(f"{part.name} ({part.purchase})", list(_part(part, forecast, notes))) for part in forecast.parts
    ]
    rows = list(_sums(forecast))
    if any(part.is_paid_in_advance for part in forecast.parts):
        rows.append(Row("in advance", [f"{_usd(forecast.in_advance)}, once{_more_blocks(forecast)}"]))
    rows += _not_counted(forecast.not_counted)
    return lay_out([*sections, Section("Together", rows), *notes.section()], width=width)


def _sums(forecast: Forecast) -> Iterator[Row]:
    """What is paid by the hour, together; an unknown part makes the sum one, too."""
    running = [part for part in forecast.parts if not part.is_paid_in_advance]
    if not running:
        yield Row("by the hour", ["nothing that has a price"])
    elif forecast.per_hour is None:
        yield Row("by the hour", ["unknown"])
    else:
        more = " + unknown" if any(part.per_hour is None for part in running) else ""
        yield Row("by the hour", [f"{_usd(forecast.per_hour)} an hour, {_usd(forecast.per_day)} a day{more}"])
        yield Row("this month", [f"{_usd(forecast.to_month_end)} to {forecast.month_ends_at}{more}"])


def _part(part: PartCost, forecast: Forecast, notes: Footnotes) -> Iterator[Row]:
    if part.per_hour is None:
        yield Row("by the hour", [f"unknown: {part.unknown['per_hour']}{notes.mark(part.prices)}"])
        return
    yield Row("by the hour", [f"{_usd(part.per_hour)} an hour, {_usd(part.per_day)} a day{notes.mark(part.prices)}"])
    if not part.is_paid_in_advance:
        until = min(part.ends_at or forecast.month_ends_at, forecast.month_ends_at)
        yield Row("this month", [f"{_usd(part.to_month_end)} to {until}"])
    elif part.in_advance is None:
        yield Row("in advance", [f"unknown: {part.unknown['in_advance']}"])
    else:
        yield Row("in advance", [f"{_usd(part.in_advance)}, once, to {part.ends_at}"])


def _more_blocks(forecast: Forecast) -> str:
    blocks = [part for part in forecast.parts if part.is_paid_in_advance]
    return " + unknown" if forecast.in_advance and any(part.in_advance is None for part in blocks) else ""


def bill_text(bill: Bill, *, width: int) -> str:
    """What jobs cost."""
    notes = Footnotes()
    sections = [Section(f"{bill.cluster} in {bill.region}, {bill.since} to {bill.until}", list(_read(bill)))]
    sections += [
        Section(f"fleet {fleet.name} ({fleet.purchase})", list(_fleet(fleet, bill.source, notes)))
        for fleet in bill.fleets
    ]
    more = " + unknown" if any(fleet.paid is None for fleet in bill.fleets) else ""
    if len(bill.fleets) > 1:
        sections.append(Section("Together", [Row("paid", [f"{_amount(bill.paid)}{more}"])]))
    return lay_out([*sections, *notes.section()], width=width)


def _read(bill: Bill) -> Iterator[Row]:
    if bill.runs is None:
        return
    rows = [count(bill.runs, "run of a job", "runs of jobs")]
    rows += [f"{count(number, *_LEFT_OUT[name])} left out" for name, number in bill.left_out.items() if number]
    yield Row("read", [", ".join(rows)])
    if bill.without_gpus:
        jobs = ", ".join(bill.without_gpus[:MOST_JOBS])
        yield Row("no GPU", [f"{count(len(bill.without_gpus), 'job')}, at no cost here: {jobs}"])


def _fleet(fleet: FleetBill, source: str | None, notes: Footnotes) -> Iterator[Row]:
    if fleet.paid is None:
        yield Row("paid", [f"unknown: {fleet.unknown['paid']}{notes.mark(fleet.prices)}"])
    else:
        most = "at most " if fleet.is_ceiling else ""
        rate = f"{fleet.node_hours:,} node hours at {most}{fleet.usd_per_node_hour} USD{notes.mark(fleet.prices)}"
        yield Row("paid", [f"{_amount(fleet.paid)}: {rate}"])
    if fleet.jobs:
        part = _part_of(fleet.allocated, fleet)
        yield Row("allocated", [f"{_amount(fleet.allocated)}{part}, {fleet.allocated_gpu_hours:,} GPU hours"])
    idle = "unknown" if fleet.idle_gpu_hours is None else f"{fleet.idle_gpu_hours:,} GPU hours"
    if fleet.jobs or fleet.tokens is None:
        yield Row("idle", [f"{_amount(fleet.idle)}{_part_of(fleet.idle, fleet)}, {idle}"])
    if fleet.tokens is not None:
        yield Row("tokens", [f"{_amount(fleet.usd_per_million_tokens)} for a million of {fleet.tokens:,}"])
    accounts, users = _GROUPS[source or "slurm"]
    for label, shares in ((accounts, fleet.accounts), (users, fleet.users), ("jobs", fleet.jobs)):
        if shares:
            yield Row(label, [count(len(shares), label.removesuffix("s"))], list(_shares(shares)))


def _part_of(usd: Decimal | None, fleet: FleetBill) -> str:
    return f" ({usd / fleet.paid:.1%})" if usd is not None and fleet.paid else ""


def _shares(shares: Sequence[Share]) -> Iterator[tuple[str, str]]:
    for one in shares[:MOST_JOBS]:
        who = f", {one.user} for {one.account}" if one.user else ""
        often = f", {one.runs} runs" if one.user and one.runs > 1 else ""
        yield one.name or "unknown", f"{_amount(one.usd)}, {one.gpu_hours:,} GPU hours{who}{often}"
    rest = shares[MOST_JOBS:]
    if rest:
        amounts = [one.usd for one in rest if one.usd is not None]
        usd = sum(amounts, Decimal("0.00")) if len(amounts) == len(rest) else None
        hours = sum((one.gpu_seconds for one in rest), Decimal(0)) / 3600
        yield f"{len(rest):,} more", f"{_amount(usd)}, {hours:,.2f} GPU hours"


def live_text(live: Live, *, width: int) -> str:
    """What runs in an account, and its bill."""
    notes = Footnotes()
    account = f"account {live.account}" if live.account else "an unknown account"
    more = " + unknown" if live.is_partial else ""
    total = "unknown" if live.per_hour is None else f"{_usd(live.per_hour)} an hour at list prices{more}"
    sections = [
        Section(f"{live.cluster} in {live.region}, {account}, {live.at}", [Row("together", [total])]),
        Section("Now", [Row("runs", [_running(one, notes) for one in live.running] or ["nothing"])]),
    ]
    if live.billed_since is not None:
        more = " + unknown" if live.billed and any(one.usd is None for one in live.services) else ""
        rows = [Row("together", [f"{_amount(live.billed)}{more}"])]
        rows += [Row("", [f"{one.name}: {_amount(one.usd)}"]) for one in live.services]
        sections.append(Section(f"Bill since {live.billed_since} (Cost Explorer, unblended)", rows))
    if live.orphans is not None:
        rows = [Row(name, list(_orphans(some))) for name, some in groupby(live.orphans, lambda one: one.cluster)]
        sections.append(Section("Bills without a cluster", rows or [Row("", ["nothing found"])]))
    if live.cannot_tell:
        rows = [Row("", [f"{what}: {why}"]) for what, why in live.cannot_tell.items()]
        sections.append(Section("Cannot tell", rows))
    return lay_out([*sections, *notes.section()], width=width)


def _running(one: Running, notes: Footnotes) -> str:
    used = "" if one.used == one.count else f", {one.used} used"
    price = "price unknown" if one.per_hour is None else f"{_usd(one.per_hour)} an hour"
    if one.is_paid_in_advance:
        price += ", paid already"
    if one.used < one.count and one.unused_per_hour is not None:
        price += f", {_usd(one.unused_per_hour)} of it unused"
    return f"{one.where}: {one.count} x {one.instance_type}{used}, {one.purchase}, {price}{notes.mark(one.prices)}"


def _orphans(orphans: Iterable[Orphan]) -> Iterator[str]:
    for one in orphans:
        yield f"{one.kind} {one.name}{f', {one.size}' if one.size else ''}"


def _not_counted(missing: Mapping[str, str]) -> Iterator[Row]:
    if missing:
        yield Row("not counted", [f"{what}: {why}" for what, why in missing.items()])


def _amount(usd: Decimal | None) -> str:
    return "unknown" if usd is None else f"{usd:,} USD"


def _usd(usd: Usd | None) -> str:
    if usd is None:
        return "unknown"
    return f"{usd.high:,} USD" if usd.low == usd.high else f"{usd.low:,} to {usd.high:,} USD"
