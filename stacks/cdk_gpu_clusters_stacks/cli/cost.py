"""`gpu-clusters cost`: what a cluster costs, by its file, by what runs, by its bill, and for each job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import MAXYEAR, UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cdk_gpu_clusters_stacks import terminal

from . import output
from .account import Profile, account_of
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.cost import Accounting, Given, Live
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

app = new_app()
ValueT = TypeVar("ValueT")
_LEAST, _MOST = Decimal("0.0001"), Decimal(1_000_000_000_000)
_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%MZ"]


@app.command(
    epilog=examples(
        "gpu-clusters cost cluster.yaml",
        "gpu-clusters cost cluster.yaml --live --bill",
        "gpu-clusters cost cluster.yaml --jobs sacct.txt --from 2026-11-01 --to 2026-12-01",
        then="Exit status: 0; 2 for a file, an option or credentials that cannot be used.",
    )
)
def cost(
    file: output.ClusterFile,
    jobs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Split the cost among the jobs in this output of sacct, or of kubectl get workloads; "
            "- is standard input.",
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--from", metavar="TIME", formats=_FORMATS, help="Start of the period of jobs and tokens, in UTC."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--to", metavar="TIME", formats=_FORMATS, help="End of the period, in UTC. Default: now."),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(metavar="FLEET=NUMBER", help="Tokens of a fleet in the period: show what a million costs."),
    ] = None,
    nodes: Annotated[
        list[str] | None, typer.Option(metavar="FLEET=HOSTS", help="Names of a fleet's nodes in Slurm: gpu-[1-16].")
    ] = None,
    node_hours: Annotated[
        list[str] | None,
        typer.Option(metavar="FLEET=HOURS", help="Hours of a fleet's nodes in the period, if the fleet scales."),
    ] = None,
    usd_per_node_hour: Annotated[
        list[str] | None,
        typer.Option(metavar="FLEET=USD", help="Your price of a node for an hour, in place of the list price."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Ask the account what runs now.")] = False,
    bill: Annotated[
        bool, typer.Option("--bill", help="With --live: also ask Cost Explorer, which bills 0.01 USD a request.")
    ] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="With --live: also find what bills of clusters without stacks.")
    ] = False,
    profile: Profile = None,
    print_policy: Annotated[
        bool, typer.Option("--print-policy", help="With --live: print the IAM policy that it needs, and ask nothing.")
    ] = False,
    at: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", formats=_FORMATS, help="Time that the forecast starts, in UTC. Default: now."),
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Show what a cluster costs at list prices: by the hour, by the day, to the end of the month, and for its blocks.

    With --live: what runs now. With --jobs: what each job, user and account cost, and what was idle.
    """
    of_period = (jobs, since, until, tokens, nodes, node_hours, usd_per_node_hour)
    has_period = any(one is not None for one in of_period)
    if sum((live or bill or orphans or print_policy or profile is not None, has_period, at is not None)) > 1:
        output.refuse("cost: give options of --live, of --jobs and --tokens, or --at, but not of several")
    if (bill or orphans or print_policy or profile is not None) and not live:
        output.refuse("cost: --bill, --orphans, --print-policy and --profile need --live")
    if has_period and jobs is None and tokens is None:
        output.refuse("cost: --from, --to, --nodes, --node-hours and --usd-per-node-hour need --jobs or --tokens")
    if str(file) == output.STREAM and jobs is not None and str(jobs) == output.STREAM:
        output.refuse("cost: only one of the cluster file and --jobs can be standard input")
    spec = output.read(file, as_json=as_json)
    if live:
        _live(spec, profile, bill=bill, orphans=orphans, print_policy=print_policy, as_json=as_json)
    elif has_period:
        given = _given(tokens or (), nodes or (), node_hours or (), usd_per_node_hour or ())
        _period(spec, None if jobs is None else _accounting(jobs), given, since, until, as_json=as_json)
    else:
        _forecast(spec, at, as_json=as_json)


def _now() -> datetime:
    return datetime.now(UTC)


def _forecast(spec: ClusterSpec, at: datetime | None, *, as_json: bool) -> None:
    from cdk_gpu_clusters_stacks.cost import forecast_cost
    from cdk_gpu_clusters_stacks.cost.text import forecast_text

    if at is not None and at.year == MAXYEAR:
        output.refuse(f"cost: the month of --at must end before the year {MAXYEAR + 1}")
    found = forecast_cost(spec, _now() if at is None else at.replace(tzinfo=UTC))
    if as_json:
        output.write_document(output.as_json(found))
    else:
        output.write_headed(forecast_text(found, width=terminal.text_width()))


# What runs.


def _live(
    spec: ClusterSpec, profile: str | None, *, bill: bool, orphans: bool, print_policy: bool, as_json: bool
) -> None:
    from cdk_gpu_clusters_stacks.cost import policy_for_cost
    from cdk_gpu_clusters_stacks.cost.text import live_text

    if print_policy:
        output.write_json(policy_for_cost(bill=bill, orphans=orphans))
        return
    found = _ask(spec, profile, bill=bill, orphans=orphans)
    if as_json:
        output.write_document(output.as_json(found))
    else:
        output.write_headed(live_text(found, width=terminal.text_width()))


def _ask(spec: ClusterSpec, profile: str | None, *, bill: bool, orphans: bool) -> Live:
    from cdk_gpu_clusters_stacks.cost import read_account

    with account_of(spec, profile, command="cost") as account, terminal.steps(f"asking {spec.region}"):
        return read_account(spec, account, now=_now(), bill=bill, orphans=orphans)


# Jobs and tokens of a period.


def _period(
    spec: ClusterSpec,
    accounting: Accounting | None,
    given: Given,
    since: datetime | None,
    until: datetime | None,
    *,
    as_json: bool,
) -> None:
    from cdk_gpu_clusters_stacks.cost import NoAccounting, bill_jobs
    from cdk_gpu_clusters_stacks.cost.text import bill_text

    if since is None:
        output.refuse("cost: --jobs and --tokens need --from, the start of the period, such as 2026-11-01")
    start, end = since.replace(tzinfo=UTC), _now().replace(microsecond=0)
    end = end if until is None else until.replace(tzinfo=UTC)
    if end <= start:
        output.refuse("cost: the period ends before it starts; check --from and --to")
    try:
        found = bill_jobs(spec, accounting, given, start, end)
    except NoAccounting as wrong:
        output.refuse_all("cost", wrong.faults)
    if as_json:
        output.write_document(output.as_json(found))
    else:
        output.write_headed(bill_text(found, width=terminal.text_width()))


def _accounting(file: Path) -> Accounting:
    from cdk_gpu_clusters_stacks.cost import NoAccounting, read_accounting

    try:
        return read_accounting(output.read_text(file))
    except NoAccounting as wrong:
        output.refuse_all(str(file), wrong.faults)


def _given(
    tokens: Sequence[str], nodes: Sequence[str], node_hours: Sequence[str], usd_per_node_hour: Sequence[str]
) -> Given:
    from cdk_gpu_clusters_stacks.cost import Given, expand_host_list

    faults: list[str] = []
    given = Given(
        tokens=_by_fleet("--tokens", tokens, _whole_number, faults),
        nodes=_by_fleet("--nodes", nodes, expand_host_list, faults),
        node_seconds=_by_fleet("--node-hours", node_hours, lambda text: round(_decimal(text) * 3600), faults),
        usd_per_node_hour=_by_fleet("--usd-per-node-hour", usd_per_node_hour, _decimal, faults),
    )
    if faults:
        output.refuse_all("cost", faults)
    return given


def _by_fleet(option: str, texts: Sequence[str], read: Callable[[str], ValueT], faults: list[str]) -> dict[str, ValueT]:
    """The values of an option by fleet; a fault for each that cannot be used."""
    found: dict[str, ValueT] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            faults.append(f"{option} {text}: give the name of a fleet, =, and its value")
        elif name in found:
            faults.append(f"{option} {text}: the option has a value for {name} already; give one for each fleet")
        else:
            try:
                found[name] = read(value)
            except ValueError as fault:
                faults.append(f"{option} {text}: {value!r} {fault}")
    return found


def _whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("is no number of tokens, such as 1250000")
    return int(text)


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text.replace(",", ""))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not _LEAST <= value <= _MOST:
        raise ValueError(f"is no number from {_LEAST} to {_MOST:,}, such as 41.528")
    return value
