"""Prices: dated, sourced, and never a guess."""

import re
from decimal import Decimal

import pytest

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue.prices import Market, PriceStatus, _prices, newest_price, prices_of
from cdk_gpu_clusters.catalogue.regions import regions

DATE = re.compile(r"\d{4}-\d\d(-\d\d)?|(\d{4}-\d\d|\.\.)/\d{4}-\d\d|undated")


def test_every_price_has_date_source_and_verification() -> None:
    assert len(_prices()) > 200
    for price in _prices():
        assert DATE.fullmatch(price.as_of), price
        assert price.source, price
        assert price.verification, price
        assert price.usd > 0, price


def test_subjects_and_places_are_known() -> None:
    ultraservers = {u.name for record in instance_types().values() for u in record.ultraservers}
    places = {"", "*", *regions(), *(zone for r in regions().values() for zone in r.local_zones)}
    for price in _prices():
        if price.market not in (Market.STORAGE, Market.CONTROL_PLANE):
            assert price.subject in instance_types() or price.subject in ultraservers, price
        assert price.region in places, price


@pytest.mark.parametrize(
    ("subject", "region", "market", "usd", "as_of"),
    [
        ("p5.48xlarge", "us-east-1", "on-demand", "55.04", "2026-09-19"),
        ("p5.48xlarge", "us-gov-west-1", "on-demand", "66.048", "2026-07-20"),
        ("p5.48xlarge", "ap-south-1", "on-demand", "66.048", "2025-10/2026-06"),
        ("p5.48xlarge", "us-east-2", "capacity-block", "41.528", "2026-07-01"),
        ("p4d.24xlarge", "us-east-1", "on-demand", "21.957642", "2026-09-19"),
        ("g4dn.xlarge", "us-east-1", "on-demand", "0.526", "2026-07-20"),
    ],
)
def test_the_newest_current_price(subject: str, region: str, market: str, usd: str, as_of: str) -> None:
    price = newest_price(subject, region, market=market)
    assert price is not None
    assert (price.usd, price.as_of, price.status) == (Decimal(usd), as_of, PriceStatus.CURRENT)


@pytest.mark.parametrize(
    ("subject", "region", "market"),
    [
        ("p5e.48xlarge", "us-east-1", "on-demand"),  # the API lists on-demand, no source gives a price
        ("trn2.48xlarge", "us-east-2", "on-demand"),
        ("p5.48xlarge", "us-east-1", "spot"),  # a snapshot is not a price
        ("p5en.48xlarge", "us-east-2", "capacity-block"),  # a range over Regions is not a price
        ("p5.48xlarge", "mars-north-1", "on-demand"),
    ],
)
def test_what_no_source_gives_is_none(subject: str, region: str, market: str) -> None:
    assert newest_price(subject, region, market=market) is None


def test_old_prices_are_kept_and_flagged() -> None:
    old = [p for p in prices_of("p5.48xlarge", current_only=False) if p.status is PriceStatus.HISTORICAL]
    assert Decimal("98.32") in {price.usd for price in old}
    assert not set(old) & set(prices_of("p5.48xlarge"))


def test_a_range_shows_both_bounds() -> None:
    found = prices_of("p5en.48xlarge", market=Market.CAPACITY_BLOCK, unit="instance-hour")
    assert {price.bound: price.usd for price in found} == {"low": Decimal("49.928"), "high": Decimal("54.92")}


def test_an_instance_hour_of_a_block_is_its_accelerator_hours() -> None:
    for name, record in instance_types().items():
        for hour in prices_of(name, market=Market.CAPACITY_BLOCK, unit="accelerator-hour"):
            (whole,) = [
                price
                for price in prices_of(name, market=Market.CAPACITY_BLOCK, unit="instance-hour")
                if price.bound == hour.bound
            ]
            assert record.accelerator is not None
            assert whole.usd == hour.usd * record.accelerator.count, name


def test_newest_first_and_vague_dates_last() -> None:
    dates = [price.as_of for price in prices_of("p5.48xlarge", market=Market.ON_DEMAND)]
    assert dates[0] == "2026-09-19"
    assert dates[-1] == "2025-10/2026-06"
