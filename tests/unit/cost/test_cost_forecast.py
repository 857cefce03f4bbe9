"""What a cluster file costs: the same parts as the plan, each exact to the cent, and what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cost import Forecast, forecast_cost
from cdk_gpu_clusters_stacks.cost.forecast import end_of_month, parts_of
from cdk_gpu_clusters_stacks.cost.money import Usd
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets
from cost_month import CLUSTER
from pages import REPOSITORY

EXAMPLES = sorted(path.name for path in (REPOSITORY / "examples").glob("*.yaml"))
START = datetime(2026, 11, 1, tzinfo=UTC)


def forecast(folder: Path, text: str, at: datetime = START) -> Forecast:
    (folder / "cluster.yaml").write_text(text, encoding="utf-8")
    return forecast_cost(load_cluster(folder / "cluster.yaml"), at)


def even(amount: str) -> Usd:
    return Usd(Decimal(amount), Decimal(amount))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_parts_are_those_of_the_plan(name: str) -> None:
    spec = load_cluster(REPOSITORY / "examples" / name)
    plan = plan_cluster(spec)
    parts = list(parts_of(spec, plan, planned_fleets(spec)))
    known = [part for part in parts if part.usd_per_hour is not None]
    assert [part.name for part in known] == [item.removesuffix(", at most") for item in plan.cost.includes]
    assert {part.name: part.unknown for part in parts if part.usd_per_hour is None}.items() <= plan.cost.missing.items()
    low, high = (sum(part.usd_per_hour[index] for part in known if part.usd_per_hour) for index in (0, 1))
    hour = plan.cost.usd_per_hour
    if hour is None:
        assert not known
    else:  # the plan rounds each of them to a hundredth of a cent
        assert float(low) == pytest.approx(hour.low, abs=0.0001 * len(known))
        assert float(high) == pytest.approx(hour.high, abs=0.0001 * len(known))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_sums_are_those_of_the_lines(name: str) -> None:
    found = forecast_cost(load_cluster(REPOSITORY / "examples" / name), START)
    running = [part for part in found.parts if not part.is_paid_in_advance]
    for field in ("per_hour", "per_day", "to_month_end"):
        amounts = [getattr(part, field) for part in running if getattr(part, field) is not None]
        total = getattr(found, field)
        assert total == (Usd(sum(one.low for one in amounts), sum(one.high for one in amounts)) if amounts else None)
    unknown = {part.name for part in found.parts if part.unknown}
    assert unknown <= set(found.not_counted)
    assert "root volumes" in found.not_counted


def test_a_reservation_by_hand(tmp_path: Path) -> None:
    found = forecast(tmp_path, CLUSTER)
    trainers, slices, login = found.parts
    # 16 and 2 nodes at 21.957642 USD: for an hour, for 24 hours, for the 720 hours of November.
    assert (trainers.per_hour, trainers.per_day, trainers.to_month_end) == tuple(
        map(even, ("351.32", "8431.73", "252952.04"))
    )
    assert (slices.per_hour, slices.per_day, slices.to_month_end) == tuple(map(even, ("43.92", "1053.97", "31619.00")))
    assert (login.per_hour, login.to_month_end) == (None, None)
    assert found.to_month_end == even("284571.04")
    assert "m7i.large" in found.not_counted["login nodes"]


def test_a_part_with_an_end_costs_to_its_end(tmp_path: Path) -> None:
    text = CLUSTER.replace("cr-0123456789abcdef0", "cr-0123456789abcdef0, ends_at: 2026-11-11T00:00Z")
    trainers = forecast(tmp_path, text).parts[0]
    assert trainers.to_month_end == even("84317.35")  # 16 x 240 h x 21.957642 = 84,317.34528
    assert forecast(tmp_path, text, datetime(2026, 11, 20, tzinfo=UTC)).parts[0].to_month_end == even("0.00")


def test_a_block_is_paid_once_and_is_in_no_other_sum() -> None:
    found = forecast_cost(load_cluster(REPOSITORY / "examples/p5-capacity-block.yaml"), START)
    (trainers,) = found.parts
    assert trainers.in_advance == found.in_advance == even("223254.53")  # 16 x 336 h x 41.528 = 223,254.528
    assert (trainers.to_month_end, found.per_hour, found.to_month_end) == (None, None, None)


def test_a_block_without_a_start_has_no_price(tmp_path: Path) -> None:
    text = (REPOSITORY / "examples/p5-capacity-block.yaml").read_text("utf-8")
    found = forecast(tmp_path, "".join(line for line in text.splitlines(keepends=True) if "starts_at" not in line))
    assert found.in_advance is None
    assert found.not_counted["fleet trainers"] == "the block runs already: the file has no starts_at"


def test_a_store_and_a_control_plane_cost_for_the_hours_of_a_month(tmp_path: Path) -> None:
    text = (REPOSITORY / "examples/eks-p5-capacity-block.yaml").read_text("utf-8")
    found = forecast(tmp_path, text.replace("throughput_mb_per_s_per_tib: 250", "throughput_mb_per_s_per_tib: 125"))
    parts = {part.name: part for part in found.parts}
    # 38,400 GB x 0.145 USD a month of 730 h; November has 720 h: 5,568 x 720 / 730 = 5,491.726
    assert parts["store corpus"].to_month_end == even("5491.73")
    assert parts["control plane, in standard support"].to_month_end == even("72.00")  # 720 h x 0.10 USD
    assert found.month_ends_at == "2026-12-01T00:00Z"


@pytest.mark.parametrize(
    ("at", "end"),
    [
        ("2026-12-31T23:59:59+00:00", "2027-01-01T00:00:00+00:00"),
        ("2026-12-31T23:30:00-01:00", "2027-02-01T00:00:00+00:00"),
        ("2028-02-29T00:00:00+00:00", "2028-03-01T00:00:00+00:00"),
    ],
)
def test_months_are_in_utc(at: str, end: str) -> None:
    assert end_of_month(datetime.fromisoformat(at)).isoformat() == end
