"""What each job costs: a month by hand to the cent, and sums that add up for any jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters_stacks.cost import Bill, Given, NoAccounting, bill_jobs, read_accounting
from cdk_gpu_clusters_stacks.cost.money import cents, price_of_seconds, split
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from cost_month import CLUSTER, HEADING, IDLE, JOBS, NODES, NOVEMBER, PAID, SACCT

BLOCK = "capacity: {{ capacity_block: cr-0123456789abcdef0, starts_at: {start}, ends_at: {end} }}"
RESERVED = "capacity: { reservation: cr-0123456789abcdef0 }"


@cache
def cluster(text: str = CLUSTER) -> ClusterSpec:
    with TemporaryDirectory() as folder:
        file = Path(folder, "cluster.yaml")
        file.write_text(text, encoding="utf-8")
        return load_cluster(file)


def of(
    *,
    nodes: Mapping[str, Sequence[str]] = NODES,
    node_seconds: Mapping[str, int] | None = None,
    usd_per_node_hour: Mapping[str, Decimal] | None = None,
    tokens: Mapping[str, int] | None = None,
) -> Given:
    return Given(
        nodes=nodes,
        node_seconds=node_seconds or {},
        usd_per_node_hour=usd_per_node_hour or {},
        tokens=tokens or {},
    )


def month(text: str = SACCT, given: Given | None = None, spec: ClusterSpec | None = None) -> Bill:
    return bill_jobs(spec or cluster(), read_accounting(text), given or of(), *NOVEMBER)


def assert_adds_up(bill: Bill) -> None:
    for fleet in bill.fleets:
        assert fleet.paid is not None
        assert fleet.idle is not None
        assert sum((job.usd or 0 for job in fleet.jobs), fleet.idle) == fleet.paid
        for together in (fleet.users, fleet.accounts):
            assert sum(one.usd or 0 for one in together) == fleet.allocated == fleet.paid - fleet.idle
            held = sum(one.gpu_seconds for one in together)
            assert held == sum(job.gpu_seconds for job in fleet.jobs)
            assert cents(Fraction(held) / 3600) == fleet.allocated_gpu_hours
    assert bill.paid == sum(fleet.paid or 0 for fleet in bill.fleets)


def test_a_month_equals_the_sum_by_hand() -> None:
    bill = month()
    fleets = {fleet.name: fleet for fleet in bill.fleets}
    assert {name: fleet.paid for name, fleet in fleets.items()} == PAID
    assert {name: fleet.idle for name, fleet in fleets.items()} == IDLE
    assert {job.name: job.usd for fleet in bill.fleets for job in fleet.jobs} == JOBS
    assert {one.name: one.usd for one in fleets["trainers"].users} == {
        "ana": JOBS["100"] + JOBS["103"],
        "bob": JOBS["101"],
        "cid": JOBS["102"],
    }
    assert {one.name: one.usd for one in fleets["slices"].accounts} == {"vision": JOBS["200"] + JOBS["201"]}
    assert bill.paid == Decimal("284571.04")
    assert_adds_up(bill)


def test_a_requeued_job_is_one_job_with_both_of_its_runs() -> None:
    (job,) = (job for fleet in month().fleets for job in fleet.jobs if job.name == "101")
    assert (job.runs, job.gpu_hours, job.user, job.account) == (2, Decimal("960.00"), "bob", "vision")


def test_the_two_months_of_a_job_are_all_of_it() -> None:
    december = bill_jobs(cluster(), read_accounting(SACCT), of(), NOVEMBER[1], datetime(2027, 1, 1, tzinfo=UTC))
    hours = {job.name: job.gpu_hours for fleet in december.fleets for job in fleet.jobs}
    assert hours == {"103": Decimal(6 * 64)}


def test_a_fleet_without_a_job_is_idle_as_a_whole() -> None:
    bill = month(HEADING)
    assert [(fleet.name, fleet.idle, fleet.jobs) for fleet in bill.fleets] == [
        (name, usd, ()) for name, usd in PAID.items()
    ]


def test_a_job_without_gpus_costs_nothing_and_is_named() -> None:
    bill = month(f"{SACCT}7|ana|nlp|COMPLETED|2026-11-02T00:00:00|60|cpu=8,node=1|login-1")
    assert bill.without_gpus == ("7",)
    assert {job.name for fleet in bill.fleets for job in fleet.jobs} == set(JOBS)


def test_accounting_that_has_no_gpus_at_all_is_refused() -> None:
    with pytest.raises(NoAccounting, match="set AccountingStorageTRES to gres/gpu"):
        month(f"{HEADING}\n7|ana|nlp|COMPLETED|2026-11-02T00:00:00|60|cpu=8,node=1|t-1")


def test_nodes_of_pcs_are_known_by_the_name_of_their_group() -> None:
    row = "7|ana|nlp|COMPLETED|2026-11-02T00:00:00|3600|gres/gpu=8,node=1|trainers-7642-3"
    bill = month(f"{HEADING}\n{row}", of(nodes={}))
    assert {fleet.name: [job.name for job in fleet.jobs] for fleet in bill.fleets} == {"trainers": ["7"], "slices": []}


@pytest.mark.parametrize("node", ["trainers-st-trainers-3", "trainers-dy-trainers-1", "trainers-st-trainers-2-1"])
def test_nodes_of_parallelcluster_are_known_by_their_queue(node: str) -> None:
    head = "version: 1\nname: lab\nregion: us-east-1\norchestrator: parallelcluster\n"
    fleets = (
        "{ trainers: { instance_type: p5.48xlarge, nodes: 4 }, trainers-st: { instance_type: p5.48xlarge, nodes: 1 } }"
    )
    text = f"{head}network: {{ availability_zone: us-east-1a }}\ntraining:\n  fleets: {fleets}\n"
    row = f"7|ana|nlp|COMPLETED|2026-11-02T00:00:00|3600|gres/gpu=8,node=1|{node}"
    bill = month(f"{HEADING}\n{row}", of(nodes={}), cluster(text))
    assert [fleet.name for fleet in bill.fleets if fleet.jobs] == ["trainers"]


def test_of_a_block_the_hours_in_the_period_are_paid() -> None:
    block = BLOCK.format(start="2026-11-25T11:30Z", end="2026-12-09T11:30Z")
    bill = month(HEADING, spec=cluster(CLUSTER.replace(RESERVED, block)))
    trainers = bill.fleets[0]
    assert trainers.node_hours == Decimal("132.5") * 16  # 25 November 11:30 to the end of the month
    assert trainers.paid == Decimal("25016.00")  # 2,120 h x 11.80 USD, by the Capacity Blocks pricing page


def test_your_own_price_and_hours_go_before_those_of_the_file() -> None:
    given = of(usd_per_node_hour={"slices": Decimal(10)}, node_seconds={"slices": 3600 * 500})
    slices = month(given=given).fleets[1]
    assert (slices.paid, slices.prices) == (Decimal("5000.00"), ())
    assert_adds_up(month(given=given))


def test_hours_of_a_fleet_that_scales_are_unknown() -> None:
    scaling = CLUSTER.replace(": pcs", ": ec2").replace("      nodes: 2\n", "      min_nodes: 1\n      max_nodes: 2\n")
    slices = month(spec=cluster(scaling)).fleets[1]
    assert (slices.node_hours, slices.paid, slices.idle, slices.idle_gpu_hours) == (None, None, None, None)
    assert "--node-hours" in slices.unknown["paid"]
    assert {job.name: job.usd for job in slices.jobs} == {"200": Decimal("137.24"), "201": Decimal("27.45")}


def test_an_unknown_price_is_not_zero() -> None:
    nowhere = CLUSTER.replace("p4d.24xlarge", "p5e.48xlarge").split("    slices:")[0]
    bill = month(SACCT.split("\n200|")[0], of(nodes={"trainers": NODES["trainers"]}), cluster(nowhere))
    (trainers,) = bill.fleets
    assert (trainers.usd_per_node_hour, trainers.paid, trainers.idle, trainers.allocated) == (None, None, None, None)
    assert {job.usd for job in trainers.jobs} == {None}
    assert trainers.unknown["usd_per_node_hour"]
    assert trainers.allocated_gpu_hours == 5960
    assert bill.paid is None


def test_a_spot_price_is_the_most_that_can_be_paid() -> None:
    spot = CLUSTER.replace(": pcs", ": ec2").replace("{ reservation: cr-0123456789abcdef0 }", "spot")
    trainers = month(HEADING, of(nodes={}), cluster(spot)).fleets[0]
    assert (trainers.is_ceiling, trainers.paid) == (True, PAID["trainers"])


def test_a_price_that_is_a_range_is_unknown() -> None:
    block = BLOCK.format(start="2026-11-25T11:30Z", end="2026-12-09T11:30Z")
    ranged = CLUSTER.split("    slices:")[0].replace(RESERVED, block).replace("p4d.24xlarge", "p5en.48xlarge")
    (trainers,) = month(HEADING, of(nodes={}), cluster(ranged)).fleets
    assert (trainers.usd_per_node_hour, trainers.paid) == (None, None)
    assert "--usd-per-node-hour" in trainers.unknown["usd_per_node_hour"]


def test_a_million_tokens() -> None:
    bill = bill_jobs(cluster(), None, of(tokens={"slices": 1_000_000_000}), *NOVEMBER)
    (slices,) = bill.fleets
    assert slices.usd_per_million_tokens == Decimal("31.619")


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("gres/gpu=2,node=2|t-1,s-1", "job 7 ran on several fleets (slices, trainers)"),
        ("gres/gpu=2,node=1|x-1", "job 7: x-1 is a node of no fleet; name the nodes of a fleet with --nodes"),
        ("gres/gpu=2,node=1|s-1", "job 7: AllocTRES has 2 GPUs without their types, and nodes of slices have"),
        ("gres/gpu:1g.5gb=1,gres/gpu=2,node=1|s-1", "job 7: AllocTRES has types of only 1 of 2 GPUs"),
        ("gres/gpu:9g.99gb=1,gres/gpu=1,node=1|s-1", "9g.99gb, which is neither a100 nor a MIG profile of A100-40GB"),
        ("gres/gpu:h100=1,gres/gpu=1,node=1|s-1", "job 7: AllocTRES has the type h100, which is neither a100 nor"),
        ("gres/gpu=20000,node=1|t-1", "jobs held 2000000.00 GPU hours of trainers, but its nodes have 92160.00"),
    ],
)
def test_jobs_that_do_not_fit_the_fleets(row: str, fault: str) -> None:
    with pytest.raises(NoAccounting) as raised:
        month(f"{HEADING}\n7|a|b|COMPLETED|2026-11-02T00:00:00|360000|{row}")
    assert any(fault in one for one in raised.value.faults), raised.value.faults


def test_a_fleet_that_is_not_in_the_file() -> None:
    with pytest.raises(NoAccounting, match="trainer is no fleet of the file: trainers, slices"):
        month(given=of(tokens={"trainer": 5}))


def test_a_node_that_is_given_to_two_fleets() -> None:
    with pytest.raises(NoAccounting, match="--nodes names s-1 2 times"):
        month(given=of(nodes={"trainers": ("t-1", "s-1"), "slices": ("s-1", "s-2")}))


# Any jobs.

AMOUNTS = st.integers(0, 10**12).map(lambda number: Decimal(number) / 100)


@given(AMOUNTS, st.lists(st.integers(0, 10**9), min_size=1, max_size=30).filter(any))
def test_shares_add_up_and_are_within_a_cent(whole: Decimal, weights: list[int]) -> None:
    shares = split(whole, weights)
    assert sum(shares) == whole
    for share, weight in zip(shares, weights, strict=True):
        assert abs(Fraction(share) - Fraction(whole) * weight / sum(weights)) < Fraction(1, 100)
        assert weight or not share


@given(st.integers(1, 10**7), st.integers(0, 10**10))
def test_a_price_is_rounded_once(micro_usd: int, seconds: int) -> None:
    price = Decimal(micro_usd).scaleb(-5)
    exact = Fraction(price) * seconds / 3600
    assert abs(Fraction(price_of_seconds(price, seconds)) - exact) <= Fraction(1, 200)


RUNS = st.lists(
    st.tuples(
        st.integers(1, 12),  # job
        st.sampled_from(["ana", "bob", "cid"]),
        st.sampled_from(["nlp", "vision"]),
        st.integers(-100_000, 2_700_000),  # start, in seconds since 1 November
        st.integers(0, 300_000),  # seconds
        st.integers(1, 8),  # GPUs
        st.integers(1, 16),  # node
    ),
    max_size=25,
)


@settings(deadline=timedelta(seconds=5))
@given(RUNS, st.decimals("0.01", "200", places=5), st.booleans())
def test_allocated_and_idle_are_what_is_paid(
    runs: list[tuple[int, str, str, int, int, int, int]], price: Decimal, on_slices: bool
) -> None:
    base = int(NOVEMBER[0].timestamp())
    rows = [HEADING]
    for job, user, account, start, seconds, gpus, node in runs:
        kind, name = ("gres/gpu:1g.5gb", f"s-{node % 2 + 1}") if on_slices else ("gres/gpu", f"t-{node}")
        rows.append(f"{job}|{user}|{account}|COMPLETED|{base + start}|{seconds}|{kind}={gpus}|{name}")
    given = of(usd_per_node_hour={"trainers": price, "slices": price})
    bill = month("\n".join(rows), given)
    assert_adds_up(bill)
    for fleet in bill.fleets:
        assert fleet.paid == cents(Fraction(price) * (16 if fleet.name == "trainers" else 2) * 720)


HOST_LISTS = st.from_regex(r"[ts]-(\[\d-\d(,\d+)?\]|\d)(,[ts]-\d)?", fullmatch=True)
COUNTS = st.from_regex(r"gres/gpu(:(a100|1g\.5gb|\dg\.\d))?=\d{1,30}(,gres/gpu=\d)?", fullmatch=True)


@given(HOST_LISTS | st.text("ts[]-,0123", max_size=12), COUNTS | st.text("gres/pu:=,019", max_size=12))
def test_any_nodes_and_counts_are_billed_or_refused(nodes: str, counts: str) -> None:
    with suppress(NoAccounting):
        assert_adds_up(month(f"{HEADING}\n7|a|b|COMPLETED|2026-11-02T00:00:00|60|{counts}|{nodes}"))
