"""What each job costs: the price of a fleet's nodes in a period, split by the GPUs that jobs held, and the idle rest.

A node costs the same whether jobs run on it or not. Its price is split by GPU time. A MIG instance counts for its share
of the memory of a GPU: the fraction of memory that NVIDIA's MIG user guide has for its profile ("Supported MIG
Profiles"), such as 4/8 for 3g.20gb. Whatever no job held is idle, also slices that a layout leaves free. Allocated and
idle add up to what is paid, to the cent.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.catalogue.prices import Price
from cdk_gpu_clusters.rules.cost import Estimate
from cdk_gpu_clusters.rules.gres import gpu_type, gres_counts, is_type_of_split_node
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE, MigPlan
from cdk_gpu_clusters_stacks.plan.rates import reserved_node_seconds
from cdk_gpu_clusters_stacks.spec import ClusterSpec
from cdk_gpu_clusters_stacks.spec.capacity import utc_text
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets

from .accounting import PLACES, RESOURCES, Accounting, NoAccounting, Run
from .forecast import PURCHASES
from .money import SECONDS_PER_HOUR, cents, price_of_seconds, split

_SCALES = "the fleet scales: give the hours of its nodes with --node-hours"
_RANGE = "its list price is a range: give its price with --usd-per-node-hour"
_NO_GPUS = {
    # Slurm accounts GPUs only if a setting names them (slurm.conf(5), AccountingStorageTRES).
    "slurm": "no job has gres/gpu in AllocTRES, so its GPUs are unknown; set AccountingStorageTRES to gres/gpu",
    # Kueue counts only resources that a ClusterQueue covers (Kueue documentation, "Resource groups").
    "kueue": "no workload has GPUs in resourceUsage; add nvidia.com/gpu to coveredResources of its ClusterQueue",
}
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the caller knows better than the cluster file, each by the name of a fleet.

    Attributes:
        nodes: Names of its nodes in Slurm; without them, all that its name begins, or all if there is one fleet.
        node_seconds: Seconds of its nodes that are paid for in the period.
        usd_per_node_hour: Price of a node by the hour.
        tokens: Tokens that it processed in the period.
    """

    nodes: Mapping[str, Sequence[str]]
    node_seconds: Mapping[str, int]
    usd_per_node_hour: Mapping[str, Decimal]
    tokens: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a job, a user or an account holds of a fleet.

    Attributes:
        name: JobID, user or account.
        user, account: Of a job; empty for others.
        runs: How often it ran: more than once if it was requeued.
        gpu_seconds: Time of GPUs; a MIG instance counts by its share.
        gpu_hours: The same in hours, to a hundredth.
        usd: What it costs, in cents; None if the price of the fleet is unknown.
    """

    name: str
    user: str
    account: str
    runs: int
    gpu_seconds: Decimal
    gpu_hours: Decimal
    usd: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetBill:
    """What a fleet costs in a period, and who held it.

    Attributes:
        name: The fleet.
        purchase: How it is bought.
        usd_per_node_hour: Price of a node; None if it is unknown.
        is_ceiling: Whether the price is the most that Spot nodes can cost.
        node_hours: Hours of its nodes that are paid for; None if they are unknown.
        paid: What is paid, in cents; None if the hours or the price are unknown.
        jobs: Each job, the one with the most GPU time first.
        users: The same by user.
        accounts: The same by account.
        allocated: All jobs together; None if the price is unknown.
        allocated_gpu_hours: The same as time of GPUs.
        idle: What no job held; None if the hours are unknown.
        idle_gpu_hours: The same as time of GPUs.
        tokens: Tokens that it processed; None if they are not given.
        usd_per_million_tokens: What a million of them costs, to a hundredth of a cent.
        prices: The list prices that this rests on.
        unknown: Fields above that are None -> why.
    """

    name: str
    purchase: str
    usd_per_node_hour: Decimal | None
    is_ceiling: bool
    node_hours: Decimal | None
    paid: Decimal | None
    jobs: tuple[Share, ...]
    users: tuple[Share, ...]
    accounts: tuple[Share, ...]
    allocated: Decimal | None
    allocated_gpu_hours: Decimal
    idle: Decimal | None
    idle_gpu_hours: Decimal | None
    tokens: int | None
    usd_per_million_tokens: Decimal | None
    prices: tuple[Price, ...]
    unknown: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What the jobs of a cluster cost in a period.

    Attributes:
        cluster: Name of the cluster.
        region: Its Region.
        since: Start of the period.
        until: Its end.
        fleets: The training fleets with GPUs, if there are jobs, and fleets with jobs or tokens.
        paid: All fleets together whose price is known; None if none is.
        without_gpus: Jobs that held no GPU: they cost nothing here, and their nodes count as idle.
        source: What accounted the jobs: `slurm` or `kueue`; None without jobs.
        runs: How many runs of jobs were read; None without jobs.
        left_out: What the accounting has that is no run, by kind (`Accounting.left_out`).
    """

    cluster: str
    region: str
    since: str
    until: str
    fleets: tuple[FleetBill, ...]
    paid: Decimal | None
    without_gpus: tuple[str, ...]
    source: str | None
    runs: int | None
    left_out: Mapping[str, int]


def bill_jobs(spec: ClusterSpec, accounting: Accounting | None, given: Given, since: datetime, until: datetime) -> Bill:
    """Split what fleets cost in a period among the jobs that held them.

    Args:
        spec: The cluster file.
        accounting: The jobs; None to look only at fleets with tokens.
        given: What the caller knows better.
        since: Start of the period. A job that began earlier counts from here on.
        until: End of the period. A job that runs on counts up to here.

    Raises:
        NoAccounting: If the jobs do not fit the fleets, with all faults.
    """
    views = {view.name: view for view in planned_fleets(spec)}
    faults = [f"{name} is no fleet of the file: {', '.join(views)}" for name in _named(given) if name not in views]
    named = Counter(node for nodes in given.nodes.values() for node in nodes)
    faults += [f"--nodes names {node} {number} times" for node, number in named.items() if number > 1]
    if faults:
        raise NoAccounting(faults)
    runs, source = ((), "slurm") if accounting is None else (accounting.runs, accounting.source)
    if runs and not any(run.gpus for run in runs):
        raise NoAccounting([_NO_GPUS[source]])
    by_fleet = _by_fleet(runs, source, views, given, (since, until), faults)
    wanted = [
        name
        for name, view in views.items()
        if name in by_fleet or name in given.tokens or (accounting is not None and _takes_jobs(view))
    ]
    fleets = []
    for name in wanted:
        try:
            fleets.append(_bill(views[name], by_fleet.get(name, {}), runs, given, spec.region, since, until))
        except NoAccounting as wrong:
            faults += wrong.faults
    if faults:
        raise NoAccounting(faults)
    known = [fleet.paid for fleet in fleets if fleet.paid is not None]
    return Bill(
        cluster=spec.name,
        region=spec.region,
        since=utc_text(since),
        until=utc_text(until),
        fleets=tuple(fleets),
        paid=sum(known, Decimal("0.00")) if known else None,
        without_gpus=tuple(dict.fromkeys(run.job for run in runs if not run.gpus and _overlap(run, since, until))),
        source=None if accounting is None else accounting.source,
        runs=None if accounting is None else len(runs),
        left_out={} if accounting is None else accounting.left_out,
    )


def _named(given: Given) -> Iterable[str]:
    return dict.fromkeys([*given.nodes, *given.node_seconds, *given.usd_per_node_hour, *given.tokens])


def _takes_jobs(view: PlannedFleet) -> bool:
    """Whether it is a fleet for jobs on GPUs: without a job, all of it is idle."""
    accelerator = view.plan.instance_type.accelerator
    is_gpu = accelerator is not None and accelerator.kind is AcceleratorKind.GPU
    return is_gpu and isinstance(view.spec, FleetSpec)


# Which fleet a run held, and how much of it.


def _by_fleet(
    runs: Sequence[Run],
    source: str,
    views: Mapping[str, PlannedFleet],
    given: Given,
    period: tuple[datetime, datetime],
    faults: list[str],
) -> dict[str, dict[int, int]]:
    """Fleet -> number of a run -> what it held of the fleet, in GPU slices times seconds."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for number, run in enumerate(runs):
        seconds = _overlap(run, *period)
        if not run.gpus or not seconds:
            continue
        fleets = {_fleet_of(node, views, given) for node in run.nodes}
        if None in fleets:
            strange = [node for node in run.nodes if _fleet_of(node, views, given) is None]
            place = PLACES[source]
            faults.append(
                f"job {run.job}: {strange[0]} is a {place} of no fleet; name the {place}s of a fleet with --nodes"
            )
        elif len(fleets) > 1:
            names = ", ".join(sorted(map(str, fleets)))
            faults.append(f"job {run.job} ran on several fleets ({names}), and AllocTRES has its GPUs only together")
        else:
            (name,) = fleets
            if name is not None:
                try:
                    found[name][number] = _slices(run, views[name]) * seconds
                except ValueError as fault:
                    faults.append(f"job {run.job}: {RESOURCES[source]} {fault}")
    return found


def _fleet_of(node: str, views: Mapping[str, PlannedFleet], given: Given) -> str | None:
    """The fleet of a node or a flavor: by the names that are given, by its name, or the only one there is."""
    for name, nodes in given.nodes.items():
        if node in nodes:
            return name
    rest = [name for name in views if name not in given.nodes]
    for name in rest:
        if node == name or re.fullmatch(_names_of_nodes(views[name]), node):
            return name
    return rest[0] if len(views) == 1 and rest else None


def _names_of_nodes(view: PlannedFleet) -> str:
    """Pattern of the names that the service gives to nodes of a fleet."""
    name = re.escape(view.name)
    if view.profile.joins_parallelcluster:
        # <queue>-st-<compute resource>-<number>, or -dy-; several blocks are a compute resource each
        # (aws/aws-parallelcluster-node @ 49004b7, slurm_plugin/slurm_resources.py: parse_nodename).
        return rf"{name}-(st|dy)-{name}(-\d+)?-\d+"
    # AWS PCS names nodes after their compute node group: compute-1-[1-4] (user guide, "List queues and nodes").
    group = re.escape(view.compute_node_group.name) if view.profile.joins_slurm else name
    return rf"{group}-\w+"


def _overlap(run: Run, since: datetime, until: datetime) -> int:
    """Seconds of a run in the period."""
    start, end = int(since.timestamp()), int(until.timestamp())
    return max(min(run.start + run.seconds, end) - max(run.start, start), 0)


def _slices(run: Run, view: PlannedFleet) -> int:
    """The parts of GPUs that a run held.

    Raises:
        ValueError: If the accounting does not have them.
    """
    mig, total = view.plan.mig, run.gpus.get("")
    typed = {name: number for name, number in run.gpus.items() if name}
    if mig is None:
        return sum(typed.values()) if total is None else total
    if not typed and total:
        types = list(gres_counts(view.plan.instance_type, mig))
        if len(types) > 1:
            raise ValueError(
                f"has {total} GPUs without their types, and nodes of {view.name} have {', '.join(types)}; "
                "add gres/gpu:TYPE of each to AccountingStorageTRES"
            )
        typed = {types[0]: total}
    elif total is not None and sum(typed.values()) != total:
        raise ValueError(f"has types of only {sum(typed.values())} of {total} GPUs")
    whole = gpu_type(view.plan.instance_type)
    return sum(number * _slices_of_type(name, mig, whole) for name, number in typed.items())


def _slices_of_type(text: str, mig: MigPlan, whole: str) -> int:
    """The memory slices of a type of Slurm, such as `a100_3g.20gb`, or of a resource of Kubernetes.

    All profiles of the GPU count, because the layout can be another one than at the time of the job.
    """
    sizes = {one.name: one.memory_slices for one in mig.gpu.profiles.values()} | {whole: mig.gpu.memory_slices}
    resources = {one.resource_name: one.memory_slices for one in mig.gpu.profiles.values()}
    found = (resources | {WHOLE_GPU_RESOURCE: mig.gpu.memory_slices}).get(text)
    if found is None:
        found = next((size for name, size in sizes.items() if is_type_of_split_node(text, name)), None)
    if found is None:
        raise ValueError(f"has the type {text}, which is neither {whole} nor a MIG profile of {mig.gpu.key}")
    return found


# The bill of a fleet.


def _bill(
    view: PlannedFleet,
    held: Mapping[int, int],
    runs: Sequence[Run],
    given: Given,
    region: str,
    since: datetime,
    until: datetime,
) -> FleetBill:
    accelerator, unknown = view.plan.instance_type.accelerator, {}
    if held and (accelerator is None or accelerator.kind is not AcceleratorKind.GPU):
        raise NoAccounting([f"nodes of {view.name} have no GPUs, by which jobs are billed"])
    rate, price, why = _price(view, given, region)
    if price is None:
        unknown["usd_per_node_hour"] = why
    seconds = _node_seconds(view, given, since, until)
    if seconds is None:
        unknown["node_hours"] = _SCALES
    gpus = sum(gres_counts(view.plan.instance_type, None).values()) if accelerator else 0
    parts = 1 if view.plan.mig is None else view.plan.mig.gpu.memory_slices
    allocated = sum(held.values())
    whole = None if seconds is None else seconds * gpus * parts
    if whole is not None and allocated > whole:
        raise NoAccounting([_too_much(view.name, allocated, whole, parts)])
    paid = None if price is None or seconds is None else price_of_seconds(price, seconds)
    if paid is None:
        unknown["paid"] = "; ".join(unknown.values())
    jobs, idle = _shares(runs, held, whole, paid, price, gpus * parts, parts)
    tokens = given.tokens.get(view.name)
    per_million = None if paid is None or not tokens else _per_million(paid, tokens)
    return FleetBill(
        name=view.name,
        purchase=PURCHASES[view.plan.terms.kind],
        usd_per_node_hour=price,
        is_ceiling=view.name not in given.usd_per_node_hour and rate.is_ceiling,
        node_hours=None if seconds is None else _hours(seconds),
        paid=paid,
        jobs=tuple(sorted(jobs, key=lambda one: -one.gpu_seconds)),
        users=tuple(_together(jobs, lambda one: one.user)),
        accounts=tuple(_together(jobs, lambda one: one.account)),
        allocated=_sum(jobs),
        allocated_gpu_hours=_hours(Fraction(allocated, parts)),
        idle=idle,
        idle_gpu_hours=None if whole is None else _hours(Fraction(whole - allocated, parts)),
        tokens=tokens,
        usd_per_million_tokens=per_million,
        prices=() if view.name in given.usd_per_node_hour else rate.prices,
        unknown=unknown,
    )


def _price(view: PlannedFleet, given: Given, region: str) -> tuple[Estimate, Decimal | None, str]:
    """The list price of a node, the price that its bill uses, and why there is none."""
    rate = view.node_hour(region)
    if view.name in given.usd_per_node_hour:
        return rate, given.usd_per_node_hour[view.name], ""
    if rate.low is None:
        return rate, None, rate.reason
    return rate, rate.low if rate.low == rate.high else None, _RANGE


def _node_seconds(view: PlannedFleet, given: Given, since: datetime, until: datetime) -> int | None:
    """Seconds of nodes that are paid for; None for a fleet that scales, whose nodes only the account knows."""
    if view.name in given.node_seconds:
        return given.node_seconds[view.name]
    least, most = view.paid_nodes
    return reserved_node_seconds(view.plan.terms, most, since=since, until=until) if least == most else None


def _too_much(name: str, allocated: int, whole: int, parts: int) -> str:
    held, there = (_hours(Fraction(number, parts)) for number in (allocated, whole))
    return (
        f"jobs held {held} GPU hours of {name}, but its nodes have {there} in the period; "
        "check --from, --to and --node-hours, and that times without a zone are UTC"
    )


def _shares(
    runs: Sequence[Run],
    held: Mapping[int, int],
    whole: int | None,
    paid: Decimal | None,
    price: Decimal | None,
    slices_per_node: int,
    parts: int,
) -> tuple[list[Share], Decimal | None]:
    """What each job costs, and what is idle."""
    jobs: dict[str, list[int]] = defaultdict(list)
    for number in held:
        jobs[runs[number].job].append(number)
    weights = [sum(held[number] for number in numbers) for numbers in jobs.values()]
    amounts: Sequence[Decimal | None] = [None] * len(weights)
    idle = None
    if paid is not None and whole:
        shares_of_paid = split(paid, [*weights, whole - sum(weights)])
        amounts, idle = shares_of_paid[:-1], shares_of_paid[-1]
    elif paid is not None:
        idle = paid
    elif price is not None:
        amounts = [cents(Fraction(price) * weight / slices_per_node / SECONDS_PER_HOUR) for weight in weights]
    shares = [
        Share(
            name=job,
            user=runs[numbers[0]].user,
            account=runs[numbers[0]].account,
            runs=len(numbers),
            gpu_seconds=Decimal(weight) / parts,
            gpu_hours=_hours(Fraction(weight, parts)),
            usd=amount,
        )
        for (job, numbers), weight, amount in zip(jobs.items(), weights, amounts, strict=True)
    ]
    return shares, idle


def _together(jobs: Iterable[Share], name_of: Callable[[Share], str]) -> Iterator[Share]:
    """The shares of jobs by user or account, the one with the most GPU time first."""
    groups: dict[str, list[Share]] = defaultdict(list)
    for job in jobs:
        groups[name_of(job)].append(job)
    found = []
    for name, some in groups.items():
        seconds = sum((job.gpu_seconds for job in some), Decimal(0))
        found.append(
            Share(
                name=name,
                user="",
                account="",
                runs=sum(job.runs for job in some),
                gpu_seconds=seconds,
                gpu_hours=_hours(Fraction(seconds)),
                usd=_sum(some),
            )
        )
    yield from sorted(found, key=lambda one: -one.gpu_seconds)


def _sum(shares: Iterable[Share]) -> Decimal | None:
    """All amounts together; None if one is unknown."""
    amounts = [share.usd for share in shares]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal("0.00")) if len(known) == len(amounts) else None


def _hours(seconds: int | Fraction) -> Decimal:
    """Hours of seconds, to a hundredth."""
    return cents(Fraction(seconds) / SECONDS_PER_HOUR)


def _per_million(paid: Decimal, tokens: int) -> Decimal:
    """To a hundredth of a cent."""
    return cents(Fraction(paid) * 100 * _MILLION / tokens).scaleb(-2)
