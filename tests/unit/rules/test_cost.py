"""What things cost: prices of the catalogue by how they are bought, ranges where the source has one, never a guess."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.catalogue.prices import prices_of
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.cost import lustre_month, node_hour, ultraserver_of
from cdk_gpu_clusters.rules.lustre import LustreSizing

P5, P5EN, GB200 = map(instance_type, ("p5.48xlarge", "p5en.48xlarge", "p6e-gb200.36xlarge"))


@pytest.mark.parametrize(
    ("kind", "usd"),
    [
        (CapacityKind.ON_DEMAND, "55.04"),
        (CapacityKind.RESERVATION, "55.04"),
        (CapacityKind.CAPACITY_BLOCK, "41.528"),
    ],
)
def test_a_node_costs_what_its_way_of_buying_costs(kind: CapacityKind, usd: str) -> None:
    found = node_hour(P5, kind, region="us-east-1")
    assert (found.low, found.high, found.is_ceiling) == (Decimal(usd), Decimal(usd), False)
    assert all(price.source and price.as_of for price in found.prices)


def test_a_source_with_a_range_gives_a_range() -> None:
    found = node_hour(P5EN, CapacityKind.CAPACITY_BLOCK, region="us-east-1")
    assert (found.low, found.high) == (Decimal("49.928"), Decimal("54.92"))
    assert [price.bound for price in found.prices] == ["low", "high"]


def test_spot_has_a_ceiling_and_no_price() -> None:
    free = node_hour(P5EN, CapacityKind.SPOT, region="us-east-1")
    assert (free.high, free.is_ceiling) == (Decimal("63.296"), True)
    limited = node_hour(P5EN, CapacityKind.SPOT, region="us-east-1", max_price_usd_per_hour=40)
    assert (limited.high, limited.is_ceiling) == (Decimal(40), True)
    assert [price.status.value for price in limited.prices] == ["snapshot"]


def test_spot_without_an_on_demand_price_is_unknown() -> None:
    found = node_hour(instance_type("m8g.4xlarge"), CapacityKind.SPOT, region="us-east-1")
    assert found.low is None
    assert found.reason.startswith("spot prices move, and their limit, the on-demand price, is unknown")


def test_an_ultraserver_costs_its_accelerators_shared_out_over_its_instances() -> None:
    one = node_hour(
        GB200,
        CapacityKind.ULTRASERVER_BLOCK,
        region="us-east-1",
        availability_zone="us-east-1-dfw-2a",
        node_count=9,
    )
    assert one.low == Decimal("10.582") * 4
    assert one.prices[0].subject == "u-p6e-gb200x36"


@pytest.mark.parametrize(
    ("nodes", "name"),
    [(9, "u-p6e-gb200x36"), (18, "u-p6e-gb200x72"), (27, "u-p6e-gb200x36"), (8, None), (0, None)],
)
def test_the_largest_ultraserver_that_the_nodes_make_up(nodes: int, name: str | None) -> None:
    found = ultraserver_of(GB200, nodes)
    assert (found.name if found else None) == name


def test_nodes_that_make_up_no_ultraserver_have_no_price() -> None:
    found = node_hour(GB200, CapacityKind.ULTRASERVER_BLOCK, region="us-east-1", node_count=8)
    assert (found.low, found.reason) == (
        None,
        "8 x p6e-gb200.36xlarge do not make up a number of UltraServers",
    )


def test_a_local_zone_has_prices_of_its_own() -> None:
    found = node_hour(P5, CapacityKind.ON_DEMAND, region="us-east-1", availability_zone="us-east-1-atl-2a")
    assert (found.low, found.reason) == (
        None,
        "no source gives the on-demand price of p5.48xlarge in us-east-1-atl-2a",
    )


@pytest.mark.parametrize("kind", CapacityKind)
def test_every_type_has_a_price_or_a_reason(kind: CapacityKind) -> None:
    for record in instance_types().values():
        found = node_hour(record, kind, region="us-east-1", node_count=9)
        assert (found.low is None) == (found.high is None) == bool(found.reason), record.name
        assert found.low is None or 0 < found.low <= (found.high or 0)


def test_storage_costs_by_its_tier() -> None:
    sizing = LustreSizing(storage_capacity_gib=2400, throughput_mb_per_s_per_tib=125)
    assert lustre_month(sizing, region="us-east-1").low == Decimal(348)
    tokyo = lustre_month(sizing, region="ap-northeast-1")
    assert (tokyo.low, tokyo.prices[0].as_of) == (Decimal("452.64"), "2022-09-03")


def test_general_knowledge_is_no_price() -> None:
    """The catalogue holds figures without a source for three tiers: nobody is shown them as a price."""
    subject = "fsx-lustre PERSISTENT_2 SSD 250 MBps/TiB"
    (bare,) = prices_of(subject, region="us-east-1")
    assert not bare.has_source
    sizing = LustreSizing(storage_capacity_gib=2400, throughput_mb_per_s_per_tib=250)
    found = lustre_month(sizing, region="us-east-1")
    assert (found.low, found.prices) == (None, ())
    assert found.reason == f"the catalogue's price of {subject} in us-east-1 has no source"


def test_intelligent_tiering_and_unknown_regions_have_no_price() -> None:
    tiering = LustreSizing(storage_type="INTELLIGENT_TIERING", throughput_capacity_mb_per_s=4000)
    assert "no source gives the prices" in lustre_month(tiering, region="us-east-1").reason
    sizing = LustreSizing(storage_capacity_gib=2400, throughput_mb_per_s_per_tib=125)
    assert "in eu-west-3" in lustre_month(sizing, region="eu-west-3").reason
