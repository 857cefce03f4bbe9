"""`gpu-clusters capacity`: what EC2 offers now, waiting for it, and buying it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import count as numbers_from
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cdk_gpu_clusters.catalogue.instances import instance_type
from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.rules.capacity_checks import check_block_request, check_plan_request, hours_of
from cdk_gpu_clusters.rules.hyperpod import check_hyperpod_name, check_training_plan, ml_name
from cdk_gpu_clusters_stacks import terminal
from cdk_gpu_clusters_stacks.offers import PRICE_CURRENCY, BlockOffer, CapacityRequest, Market, Problem

from . import complete, output
from .account import Profile
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.offers import Ec2Clients

_SEARCH = "--type p5.48xlarge --count 16 --duration 14d"

app = new_app(
    help="Capacity on offer: search, wait for and buy Capacity Blocks. Needs AWS credentials.\n\n"
    + examples(
        f"gpu-clusters capacity search {_SEARCH} --regions us-east-1,us-west-2",
        f"gpu-clusters capacity buy cb-0123456789abcdef0 {_SEARCH} --regions us-east-1",
    ),
)
_Type = Annotated[str, typer.Option("--type", help="Instance type.", autocompletion=complete.instance_types)]
_Count = Annotated[int, typer.Option("--count", min=1, help="Number of instances.")]
_Duration = Annotated[str, typer.Option("--duration", metavar="DURATION", help="Such as 14d, 4w or 24h.")]
_Regions = Annotated[
    str | None,
    typer.Option(
        "--regions",
        help="With commas between. Default: all that the catalogue knows for the type.",
        autocompletion=complete.regions,
    ),
]
_UTC = "in UTC where no offset is written"
_Start = Annotated[datetime | None, typer.Option("--starts-after", help=f"Earliest start of a block, {_UTC}.")]
_End = Annotated[datetime | None, typer.Option("--ends-before", help=f"Latest end of a block, {_UTC}.")]


@app.command(epilog=examples(f"gpu-clusters capacity search {_SEARCH}"))
def search(
    type_name: _Type,
    count: _Count,
    duration: _Duration,
    regions: _Regions = None,
    starts_after: _Start = None,
    ends_before: _End = None,
    training_plans: Annotated[
        bool, typer.Option("--training-plans", help="Also training plans, which SageMaker HyperPod uses.")
    ] = False,
    profile: Profile = None,
    as_json: output.Json = False,
) -> None:
    """Show Capacity Blocks, on-demand zones and spot prices of many Regions side by side."""
    request = _request(type_name, count, duration, starts_after, ends_before, of_plan=training_plans)
    asked = _regions(request, regions)
    plans: list[BlockOffer] = []
    problems: list[Problem] = []
    if training_plans:
        _check_plans(request)
        plans, problems = _plans(request, asked, _clients(profile, asked, service="sagemaker"))
    market = _market(request, asked, _clients(profile, asked))
    market = replace(market, problems=(*market.problems, *problems))
    if as_json:
        found = {"training_plans": output.as_json(plans)} if training_plans else {}
        output.write_document({**output.as_json(market), **found})
    else:
        write_market(market)
        if training_plans:
            output.write("\n")
            write_plans(plans)
    output.leave(0 if market.blocks or market.zones or plans else 1)


@app.command(epilog=examples(f"gpu-clusters capacity watch {_SEARCH} --max-price 240000 --hours 48"))
def watch(
    type_name: _Type,
    count: _Count,
    duration: _Duration,
    regions: _Regions = None,
    starts_after: _Start = None,
    ends_before: _End = None,
    max_price: Annotated[
        str | None, typer.Option(metavar="PRICE", help="Wait for a block that costs at most so many USD.")
    ] = None,
    hours: Annotated[float, typer.Option(min=0, max=24 * 365, help="Give up after so many hours.")] = 24,
    profile: Profile = None,
    as_json: output.Json = False,
) -> None:
    """Ask again and again, at longer and longer intervals, until a Capacity Block is on offer."""
    from cdk_gpu_clusters_stacks.offers import watch_blocks

    request = _request(type_name, count, duration, starts_after, ends_before)
    limit = None if max_price is None else _price(max_price)
    asked = _regions(request, regions)
    clients = _clients(profile, asked)

    def look() -> Market:
        return _market(request, asked, clients)

    def tell(seconds: float) -> None:
        output.write(f"no block yet; asking again in {round(seconds)} s\n", stderr=True)

    found = watch_blocks(look, most_seconds=hours * 3600, max_price=limit, sleep=time.sleep, on_wait=tell)
    if as_json:
        output.write_json([output.as_json(one) for one in found])
    elif found:
        write_blocks(found)
    if not found:
        output.stop(f"no block in {hours:g} hours")


@app.command(
    epilog=examples(
        f"gpu-clusters capacity buy cb-0123456789abcdef0 {_SEARCH} --regions us-east-1",
        then="The full price is charged at once, and a block cannot be cancelled.",
    )
)
def buy(
    offering: Annotated[str, typer.Argument(help="Id of the offering, as `search` shows it.")],
    type_name: _Type,
    count: _Count,
    duration: _Duration,
    regions: Annotated[str, typer.Option("--regions", help="The Region of the offering.")],
    starts_after: _Start = None,
    ends_before: _End = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needs --max-price.")] = False,
    max_price: Annotated[str | None, typer.Option(metavar="PRICE", help="Buy nothing that costs more, in USD.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name tag of the reservation.")] = None,
    profile: Profile = None,
) -> None:
    """Buy a Capacity Block, after its price was typed once more. No deployment ever does this."""
    from cdk_gpu_clusters_stacks.offers import blocks_in, cluster_file_lines, faults_of_purchase

    limit = _limit("buy", max_price, yes=yes)
    request = _request(type_name, count, duration, starts_after, ends_before)
    region = _one_region("buy", request, regions)
    clients = _clients(profile, [region])
    with _refusals(), terminal.steps(f"asking {region}"):
        blocks, problems = blocks_in(request, region, clients)
    offer = _chosen(offering, blocks, problems, request, region)
    write_blocks([offer])
    _agree(offer, limit, yes=yes)
    reservations = _buy(offer, _clients(profile, [region], attempts=1), name)
    for one in reservations:
        output.write(f"bought {one.get('CapacityReservationId')} ({one.get('State')})\n", stderr=True)
    if faults := faults_of_purchase(offer, reservations):
        output.stop(f"bought, but not as it was offered: {'; '.join(faults)}. Ask AWS Support, and use it by hand")
    if len(reservations) < len(offer.segments):
        count = len(offer.segments)
        output.write(f"EC2 makes {count} reservations: look at those of {offer.region} for the rest\n", stderr=True)
    output.write(cluster_file_lines(offer, reservations))


@app.command(
    "buy-plan",
    epilog=examples(
        f"gpu-clusters capacity buy-plan tpo-0123456789abcdef0 {_SEARCH} --regions us-east-1 --name research",
        then="The full price is charged at once, and a plan cannot be given back.",
    ),
)
def buy_training_plan(
    offering: Annotated[str, typer.Argument(help="Id of the offering, as `search --training-plans` shows it.")],
    type_name: _Type,
    count: _Count,
    duration: _Duration,
    regions: Annotated[str, typer.Option("--regions", help="The Region of the offering.")],
    name: Annotated[str, typer.Option("--name", help="Name of the training plan.")],
    starts_after: _Start = None,
    ends_before: _End = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needs --max-price.")] = False,
    max_price: Annotated[str | None, typer.Option(metavar="PRICE", help="Buy nothing that costs more, in USD.")] = None,
    profile: Profile = None,
) -> None:
    """Buy a training plan for HyperPod, after its price was typed once more. No deployment ever does this."""
    from cdk_gpu_clusters_stacks.training_plans import faults_of_plan, plans_in

    limit = _limit("buy-plan", max_price, yes=yes)
    request = _request(type_name, count, duration, starts_after, ends_before, of_plan=True)
    _check_plans(request)
    raise_for(check_hyperpod_name(name, path="--name"))
    region = _one_region("buy-plan", request, regions)
    clients = _clients(profile, [region], service="sagemaker")
    with _refusals(), terminal.steps(f"asking {region}"):
        plans, problems = plans_in(request, region, clients)
    offer = _chosen(offering, plans, problems, request, region)
    write_plans([offer])
    _agree(offer, limit, yes=yes)
    arn = _buy_plan(offer, _clients(profile, [region], attempts=1, service="sagemaker"), name)
    output.write(f"bought {arn}\n", stderr=True)
    if faults := faults_of_plan(offer, arn):
        output.stop(f"bought, but not as it was offered: {'; '.join(faults)}. Ask AWS Support, and use it by hand")
    output.write(f'capacity=TrainingPlan.from_arn("{arn}")\n')


def _limit(command: str, max_price: str | None, *, yes: bool) -> Decimal | None:
    """The most that may be paid; required where no one is asked."""
    if yes and max_price is None:
        output.refuse(f"capacity {command}: --yes needs --max-price")
    return None if max_price is None else _price(max_price)


def _one_region(command: str, request: CapacityRequest, regions: str) -> str:
    (region, *more) = _regions(request, regions)
    if more:
        output.refuse(f"capacity {command}: give the one Region of the offering")
    return region


def _chosen(
    offering: str, offers: Sequence[BlockOffer], problems: Sequence[Problem], request: CapacityRequest, region: str
) -> BlockOffer:
    """The offer of an id; stops if there is none, or if it is not what was asked for."""
    from cdk_gpu_clusters_stacks.offers import faults_of_offer

    offer = next((one for one in offers if one.id == offering), None)
    if offer is None:
        reasons = "; ".join(one.reason for one in problems) or "search again: offerings change"
        output.stop(f"{offering} is not on offer in {region}: {reasons}")
    if faults := faults_of_offer(offer, request):
        output.stop(f"not bought: {offering} is not what was asked for: {'; '.join(faults)}")
    return offer


def _buy_plan(offer: BlockOffer, clients: Ec2Clients, name: str) -> str:
    from cdk_gpu_clusters_stacks.training_plans import PURCHASE, buy_plan

    with _refusals():
        try:
            return buy_plan(offer, clients, name=name)
        except Exception as error:  # noqa: BLE001 - every failure is said in words
            _stop_purchase(error, offer, PURCHASE, "training plans")


def _check_plans(request: CapacityRequest) -> None:
    """Refuse a type for which no training plan is sold."""
    name = ml_name(request.instance_type)
    family = name.split(".")[1]
    raise_for(check_training_plan(None, name, families={family}, path="--type"))


def _plans(request: CapacityRequest, regions: list[str], clients: Ec2Clients) -> tuple[list[BlockOffer], list[Problem]]:
    from cdk_gpu_clusters_stacks.training_plans import search_plans

    with _refusals(), terminal.steps("asking SageMaker"):
        return search_plans(request, regions, clients)


def _agree(offer: BlockOffer, limit: Decimal | None, *, yes: bool) -> None:
    """Stop if the offer costs too much, or its price is not typed."""
    if limit is not None and not offer.costs_at_most(limit):
        output.stop(f"it costs {offer.price} {offer.currency}, which is not within {limit} {PRICE_CURRENCY}")
    if not yes:
        _confirm(offer)


def _stop_purchase(error: Exception, offer: BlockOffer, action: str, what: str) -> NoReturn:
    """Say that nothing was bought, or that it may have been."""
    from cdk_gpu_clusters_stacks.offers import is_refusal, problem_of

    reason = problem_of(error, region=offer.region, action=action).reason
    if is_refusal(error):
        output.stop(f"not bought: {reason}")
    output.stop(
        f"no answer: {reason}. It may have been bought: look at the {what} of {offer.region} before you try again"
    )


def _buy(offer: BlockOffer, clients: Ec2Clients, name: str | None) -> list[dict[str, Any]]:
    from cdk_gpu_clusters_stacks.offers import buy_block

    with _refusals():
        try:
            return buy_block(offer, clients, cluster=name)
        except Exception as error:  # noqa: BLE001 - every failure is said in words
            _stop_purchase(error, offer, "ec2:PurchaseCapacityBlock", "Capacity Reservations")


def _confirm(offer: BlockOffer) -> None:
    price = f"{offer.price} {offer.currency}"
    answer = output.ask(f"This charges {price} at once and cannot be undone. Type the price to buy it", "")
    if answer.replace(",", "").strip() not in (price, str(offer.price)):
        output.stop("not bought: the price was not typed")


def _price(text: str) -> Decimal:
    try:
        price = Decimal(text.replace(",", "").removesuffix(f" {PRICE_CURRENCY}"))
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or price <= 0:
        output.refuse(f"capacity: {text!r} is no price, such as 240000")
    return price


def _request(
    type_name: str,
    count: int,
    duration: str,
    starts_after: datetime | None,
    ends_before: datetime | None,
    *,
    of_plan: bool = False,
) -> CapacityRequest:
    check = check_plan_request if of_plan else check_block_request
    raise_for(check(instance_type(type_name), count=count, duration=duration))
    if instance_type(type_name).ultraserver_only:
        output.refuse(f"capacity: EC2 sells {type_name} as UltraServers, which this does not ask for")
    start, end = starts_after and _in_utc(starts_after), ends_before and _in_utc(ends_before)
    if start and end and end <= start:
        output.refuse("capacity: --ends-before is not after --starts-after")
    return CapacityRequest(
        instance_type=type_name,
        count=count,
        hours=hours_of(duration) or 0,
        starts_after=start,
        ends_before=end,
    )


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _regions(request: CapacityRequest, text: str | None) -> list[str]:
    """The Regions to ask: those given, or those that the catalogue knows to offer the type."""
    if text is not None:
        named = [region for part in text.split(",") if (region := part.strip())]
        return named or output.refuse("capacity: --regions names no Region")
    known = instance_type(request.instance_type)
    found = list(dict.fromkeys([*known.regions, *known.capacity_block_regions]))
    if not found:
        output.refuse(f"capacity: the catalogue knows no Region with {request.instance_type}: give --regions")
    return found


def _clients(profile: str | None, regions: Sequence[str], *, attempts: int = 6, service: str = "ec2") -> Ec2Clients:
    from cdk_gpu_clusters_stacks.aws_session import NoSession, open_session, require_answer
    from cdk_gpu_clusters_stacks.offers import ec2_clients

    try:
        with terminal.steps("looking for credentials"):
            session = open_session(profile)
            require_answer(session, regions)
    except NoSession as fault:
        output.refuse(f"capacity: {fault}")
    return ec2_clients(session, attempts=attempts, service=service)


@contextmanager
def _refusals() -> Iterator[None]:
    """One line and exit status 2 where there are no credentials."""
    from cdk_gpu_clusters_stacks.offers import NoCredentials

    try:
        yield
    except NoCredentials as fault:
        output.refuse(f"capacity: {fault}")


def _market(request: CapacityRequest, regions: list[str], clients: Ec2Clients) -> Market:
    from cdk_gpu_clusters_stacks.offers import calls_of, search_market

    answers, total = numbers_from(1), calls_of(regions)
    with _refusals(), terminal.progress("asking EC2") as on_done:
        return search_market(
            request, regions, clients, now=datetime.now(UTC), on_answer=lambda: on_done(next(answers), total)
        )


# Offers as tables.


def write_market(market: Market) -> None:
    """Print what is on offer, side by side; what could not be asked goes to standard error."""
    request = market.request
    output.write(f"{request.count} x {request.instance_type} for {request.hours} hours\n\n")
    if market.blocks:
        write_blocks(market.blocks)
    else:
        output.write("no Capacity Block is on offer\n")
    if market.zones:
        output.write("\n")
        output.write_table(
            ("market", "Region", "zone", "USD/h each", "USD in all", "score", "price"),
            (
                (
                    one.market,
                    one.region,
                    one.zone,
                    _usd(one.usd_per_hour),
                    _usd(one.total_usd(request)),
                    "-" if one.spot_score is None else f"{one.spot_score}/10",
                    one.price_source,
                )
                for one in market.zones
            ),
            right=("USD/h each", "USD in all", "score"),
        )
        output.write("\nAn offer of a zone is no promise of room; spot is taken back with two minutes' notice.\n")
        if any(one.spot_score is not None for one in market.zones):
            output.write("EC2 scores a single instance type low everywhere: compare zones by the score, no more.\n")
    for problem in market.problems:
        output.write(f"{problem.region}: {problem.action}: {problem.reason}\n", stderr=True)


def write_blocks(blocks: Sequence[BlockOffer]) -> None:
    """Print Capacity Blocks, each with its segments if it has several."""
    _write_offers("Capacity Block", blocks)


def write_plans(plans: Sequence[BlockOffer]) -> None:
    """Print training plans, each with its reserved capacities if it has several."""
    if plans:
        _write_offers("training plan", plans)
    else:
        output.write("no training plan is on offer\n")


def _write_offers(title: str, blocks: Sequence[BlockOffer]) -> None:
    output.write_table(
        (title, "Region", "zone", "starts", "ends", "price", "each hour"),
        (row for one in blocks for row in _rows(one)),
        right=("price", "each hour"),
    )


def _rows(one: BlockOffer) -> Iterator[tuple[str, ...]]:
    price, each = f"{one.price:,} {one.currency}", f"{one.price_per_instance_hour:.3f}"
    times = f"{one.starts_at:%Y-%m-%d %H:%MZ}", f"{one.ends_at:%Y-%m-%d %H:%MZ}"
    if len(one.segments) == 1:
        yield one.id, one.region, one.zone, *times, price, each
        return
    yield one.id, one.region, f"{len(one.segments)} segments", *times, price, each
    for part in one.segments:
        times = f"{part.starts_at:%Y-%m-%d %H:%MZ}", f"{part.ends_at:%Y-%m-%d %H:%MZ}"
        yield f"  {part.count} x {part.instance_type}", "", part.zone, *times, "", ""


def _usd(amount: Decimal | None) -> str:
    return "unknown" if amount is None else f"{amount:,.2f}"
