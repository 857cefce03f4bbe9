"""Scenarios and their checks: what they make, how long they may take, and what that costs at most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from inspect import getdoc
from typing import TYPE_CHECKING

from cdk_gpu_clusters.catalogue.prices import Market, newest_price, prices_of

if TYPE_CHECKING:
    from .run import Run

#: The most that one run may cost, unless a greater limit is typed as well.
DEFAULT_LIMIT_USD = Decimal(20)

# What has no price in the catalogue: NAT gateway, interface endpoints, load balancer, addresses, logs, state machines.
# More than their list prices of an hour in every Region of June 2026 together, for one network of two zones.
_SURROUNDINGS_USD_PER_HOUR = Decimal("0.40")
_HOURS_OF_MONTH = 730
_MINUTES_OF_REMOVAL = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a scenario pays for by the hour.

    Attributes:
        subject: Instance type, or another subject of the catalogue's prices.
        count: How many, or gigabytes.
        market: How it is bought.
        unit: Unit of the price.
    """

    subject: str
    count: int = 1
    market: Market = Market.ON_DEMAND
    unit: str = "instance-hour"

    def usd_per_hour(self, region: str) -> Decimal:
        """Its price.

        Raises:
            LookupError: If the catalogue has none for the Region.
        """
        named = newest_price(self.subject, region, market=self.market, unit=self.unit)
        # a price whose source names no Region holds in all of them
        found = [named] if named else [one for one in prices_of(self.subject, unit=self.unit) if not one.region]
        if not found:
            raise LookupError(f"the catalogue has no price of {self.subject} in {region}")
        return found[0].usd * self.count / (_HOURS_OF_MONTH if self.unit == "GB-month" else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One doubt, and the function that settles it.

    Attributes:
        name: Name of the function.
        run: The function; it raises `AssertionError` or another error if the doubt was right.
        doubt: Its docstring: what nobody has seen.
        pages: Pages of the documentation that have the doubt.
        minutes: How long it may take.
    """

    name: str
    run: Callable[[Run], None]
    doubt: str
    pages: tuple[str, ...]
    minutes: int


@dataclass(slots=True, kw_only=True)
class Scenario:
    """Checks in order on one cluster; if one fails, those after it are not reached.

    Attributes:
        name: Its name, also the file in `clusters`.
        parts: What it pays for by the hour.
        makes: What it makes, in words.
        cluster: Whether it deploys a cluster; the others only read.
        checks: The checks.
    """

    name: str
    makes: str
    parts: tuple[Part, ...] = ()
    cluster: bool = True
    checks: list[Check] = field(default_factory=list)

    def check(self, *pages: str, minutes: int) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
        """Make a function the next check of the scenario. A decorator."""

        def add(function: Callable[[Run], None]) -> Callable[[Run], None]:
            doubt = " ".join((getdoc(function) or "").split())
            self.checks.append(Check(name=function.__name__, run=function, doubt=doubt, pages=pages, minutes=minutes))
            return function

        return add

    @property
    def minutes(self) -> int:
        """How long it may take with the removal of what it made."""
        return sum(one.minutes for one in self.checks) + (_MINUTES_OF_REMOVAL if self.cluster else 0)

    def most_usd(self, region: str) -> Decimal:
        """The most that it can cost: all its parts for all its time."""
        if not self.cluster:
            return Decimal(0)
        hourly = sum((part.usd_per_hour(region) for part in self.parts), _SURROUNDINGS_USD_PER_HOUR)
        return (hourly * self.minutes / 60).quantize(Decimal("0.01"))


def plan_lines(scenarios: Sequence[Scenario], region: str) -> Iterable[str]:
    """What a run would do, and what it would cost at most."""
    for one in scenarios:
        yield f"{one.name}: {one.makes}; {one.minutes} min at most, {one.most_usd(region)} USD at most"
        for check in one.checks:
            yield f"  {check.name} ({check.minutes} min)"
            yield f"    {check.doubt}"
    yield f"all: {sum(one.minutes for one in scenarios)} min, {total_usd(scenarios, region)} USD at most in {region}"


def total_usd(scenarios: Iterable[Scenario], region: str) -> Decimal:
    """The most that scenarios can cost together."""
    return sum((one.most_usd(region) for one in scenarios), Decimal(0))
