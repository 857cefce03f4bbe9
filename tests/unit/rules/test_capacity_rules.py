"""The capacity table and its faults, as the design and EC2 have them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.rules.capacity import (
    BlockTerms,
    CapacityKind,
    CapacityTerms,
    PlacementUse,
    TargetCapacityType,
    capacity_windows,
    decide_capacity,
    parse_instant,
)
from cdk_gpu_clusters.rules.capacity_checks import (
    MAX_BLOCKS_TOGETHER,
    check_capacity,
    check_ended,
    check_new_reservation,
)
from cdk_gpu_clusters.rules.interfaces import check_efa_unused
from cdk_gpu_clusters.rules.node_group import check_block_of_group
from cdk_gpu_clusters.rules.placement import (
    PlacementStrategy,
    check_efa_together,
    check_group_of_reservation,
    check_partition_count,
    check_placement,
)

START = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
END = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
GROUP_ARN = "arn:aws:resource-groups:us-east-1:123456789012:group/blocks"


def terms(kind: CapacityKind, **changes: Any) -> CapacityTerms:
    values: dict[str, Any] = {"kind": kind}
    if kind in (CapacityKind.RESERVATION, CapacityKind.CAPACITY_BLOCK):
        values["reservation_id"] = "cr-0123456789abcdef0"
    if kind is CapacityKind.ULTRASERVER_BLOCK:
        values["reservation_group_arn"] = GROUP_ARN
    if kind.is_block:
        values |= {"starts_at": START, "ends_at": END}
    return CapacityTerms(**(values | changes))


BLOCK = CapacityKind.CAPACITY_BLOCK


@pytest.mark.parametrize(
    ("kind", "market", "preference", "targets", "placement", "drain_minutes"),
    [
        (CapacityKind.ON_DEMAND, None, "none", False, PlacementUse.OWN, None),
        (CapacityKind.SPOT, "spot", None, False, PlacementUse.OWN, None),
        (CapacityKind.RESERVATION, None, None, True, PlacementUse.RESERVATION, None),
        (CapacityKind.CAPACITY_BLOCK, "capacity-block", None, True, PlacementUse.NONE, 40),
        (CapacityKind.ULTRASERVER_BLOCK, "capacity-block", None, True, PlacementUse.NONE, 70),
    ],
)
def test_each_row_of_the_capacity_table(
    kind: CapacityKind,
    market: str | None,
    preference: str | None,
    targets: bool,
    placement: PlacementUse,
    drain_minutes: int | None,
) -> None:
    decision = decide_capacity(terms(kind), efa=True)
    assert decision.market_type == market
    assert decision.reservation_preference == preference
    assert decision.targets_reservation is targets
    assert decision.placement is placement
    expected_drain = None if drain_minutes is None else timedelta(minutes=drain_minutes)
    (window,) = capacity_windows(terms(kind), 4)
    assert window.drain_at == (None if expected_drain is None else END - expected_drain)
    assert decision.terminates_before_launch is kind.is_reserved
    assert decision.placement_reason


def test_an_open_reservation_is_consumed_only_when_the_user_says_so() -> None:
    requested = terms(CapacityKind.ON_DEMAND, uses_open_reservations=True)
    assert decide_capacity(requested, efa=False).reservation_preference == "open"


def test_without_efa_no_placement_group_is_made() -> None:
    assert decide_capacity(terms(CapacityKind.ON_DEMAND), efa=False).placement is PlacementUse.NONE


def found(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings}


@pytest.mark.parametrize(
    ("requested", "type_name", "extra", "expected"),
    [
        (terms(BLOCK, ends_at=None), "p5.48xlarge", {}, {"GPU-CAP-001"}),
        (terms(BLOCK), "p5.48xlarge", {"placement": PlacementStrategy.CLUSTER}, {"GPU-CAP-002"}),
        (terms(BLOCK), "g6.xlarge", {}, {"GPU-CAP-003"}),
        (terms(BLOCK), "p6e-gb200.36xlarge", {}, {"GPU-CAP-003"}),
        (terms(CapacityKind.ULTRASERVER_BLOCK), "p5.48xlarge", {}, {"GPU-CAP-003"}),
        (terms(BLOCK, starts_at=END, ends_at=START), "p5.48xlarge", {}, {"GPU-CAP-004"}),
        (terms(BLOCK, starts_at=END), "p5.48xlarge", {}, {"GPU-CAP-004"}),
        (terms(CapacityKind.ON_DEMAND), "p6e-gb200.36xlarge", {}, {"GPU-CAP-005", "GPU-CAP-009"}),
        (terms(BLOCK, reservation_id="cr-123"), "p5.48xlarge", {}, {"GPU-CAP-006"}),
        (
            terms(CapacityKind.ULTRASERVER_BLOCK, reservation_group_arn="blocks"),
            "p6e-gb200.36xlarge",
            {},
            {"GPU-CAP-007"},
        ),
        (terms(CapacityKind.ULTRASERVER_BLOCK), "p6e-gb200.36xlarge", {"node_count": 10}, {"GPU-CAP-008"}),
        (terms(CapacityKind.ON_DEMAND), "p5.48xlarge", {}, {"GPU-CAP-009"}),
        (terms(CapacityKind.SPOT), "p6e-gb200.36xlarge", {}, {"GPU-CAP-005", "GPU-CAP-010"}),
        (terms(BLOCK, ends_at=END + timedelta(hours=1)), "p5.48xlarge", {}, {"GPU-CAP-011"}),
        (terms(BLOCK, starts_at=END - timedelta(minutes=40)), "p5.48xlarge", {}, {"GPU-CAP-012"}),
        (terms(BLOCK), "p5.48xlarge", {"node_count": 65}, {"GPU-CAP-013"}),
        (terms(BLOCK), "p4d.24xlarge", {"region": "eu-north-1"}, {"GPU-CAP-014"}),
        (
            terms(CapacityKind.RESERVATION),
            "p5.48xlarge",
            {"placement": PlacementStrategy.CLUSTER},
            {"GPU-CAP-016"},
        ),
        (terms(CapacityKind.SPOT, max_price_usd_per_hour=0.0), "p5.48xlarge", {}, {"GPU-CAP-020"}),
        (
            terms(BLOCK, reservation_id="block", ends_at=None),
            "g6.xlarge",
            {"placement": PlacementStrategy.SPREAD},
            {"GPU-CAP-001", "GPU-CAP-002", "GPU-CAP-003", "GPU-CAP-006"},
        ),
    ],
)
def test_every_fault_is_found_at_once(
    requested: CapacityTerms, type_name: str, extra: dict[str, Any], expected: set[str]
) -> None:
    findings = check_capacity(requested, instance_type(type_name), **extra)
    assert found(findings) == expected
    for finding in findings:
        assert finding.cause
        assert finding.fix


@pytest.mark.parametrize(
    ("requested", "type_name", "extra"),
    [
        (terms(BLOCK), "p5.48xlarge", {"node_count": 64, "region": "us-east-1"}),
        (terms(BLOCK, starts_at=None), "trn1.32xlarge", {}),
        (terms(BLOCK), "p5.48xlarge", {"placement": PlacementStrategy.NONE}),
        (terms(CapacityKind.ULTRASERVER_BLOCK), "p6e-gb200.36xlarge", {"node_count": 18}),
        (
            terms(CapacityKind.RESERVATION),
            "p5.48xlarge",
            {"placement": PlacementStrategy.CLUSTER, "has_reservation_group": True},
        ),
        (terms(CapacityKind.SPOT, max_price_usd_per_hour=20.0), "p5en.48xlarge", {}),
        (terms(CapacityKind.ON_DEMAND), "g6.xlarge", {}),
    ],
)
def test_what_works_has_no_findings(requested: CapacityTerms, type_name: str, extra: dict[str, Any]) -> None:
    assert check_capacity(requested, instance_type(type_name), **extra) == []


def test_scarce_types_are_advice_not_an_error() -> None:
    (finding,) = check_capacity(terms(CapacityKind.ON_DEMAND), instance_type("p5.48xlarge"))
    assert finding.severity is Severity.WARNING


def test_every_type_takes_a_block_exactly_where_ec2_sells_one() -> None:
    for record in instance_types().values():
        kind = CapacityKind.ULTRASERVER_BLOCK if record.ultraservers else BLOCK
        refused = "GPU-CAP-003" in found(check_capacity(terms(kind), record))
        assert refused is ("capacity-block" not in record.usage_classes), record.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T11:30Z", START),
        ("2026-12-01T12:30+01:00", START),
        (START, START),
    ],
)
def test_instants_are_read_as_utc(text: str | datetime, expected: datetime) -> None:
    assert parse_instant(text, name="starts_at") == expected


@pytest.mark.parametrize("text", ["2026-12-01T11:30", "soon", "", datetime(2026, 12, 1)])  # noqa: DTZ001
def test_an_instant_without_a_zone_is_refused(text: str | datetime) -> None:
    with pytest.raises(ConfigError, match=r"GPU-CAP-015.*starts_at"):
        parse_instant(text, name="starts_at")


@pytest.mark.parametrize(
    ("count", "ends_at", "unlimited", "placement", "expected"),
    [
        (4, END, False, PlacementStrategy.CLUSTER, set()),
        (1000, None, True, None, set()),
        (0, END, False, None, {"GPU-CAP-017"}),
        (1001, END, False, None, {"GPU-CAP-017"}),
        (4, None, False, None, {"GPU-CAP-018"}),
        (4, END, True, None, {"GPU-CAP-018"}),
        (4, END, False, PlacementStrategy.SPREAD, {"GPU-CAP-019"}),
        (0, END, True, PlacementStrategy.PARTITION, {"GPU-CAP-017", "GPU-CAP-018", "GPU-CAP-019"}),
    ],
)
def test_a_reservation_to_be_made(
    count: int,
    ends_at: datetime | None,
    unlimited: bool,
    placement: PlacementStrategy | None,
    expected: set[str],
) -> None:
    findings = check_new_reservation(instance_count=count, ends_at=ends_at, unlimited=unlimited, placement=placement)
    assert found(findings) == expected


@pytest.mark.parametrize(
    ("strategy", "extra", "expected"),
    [
        (PlacementStrategy.CLUSTER, {"efa": True}, set()),
        (PlacementStrategy.SPREAD, {"node_count": 7}, set()),
        (PlacementStrategy.SPREAD, {"node_count": 14, "zone_count": 2}, set()),
        (PlacementStrategy.SPREAD, {"node_count": 8}, {"GPU-PLC-003"}),
        (PlacementStrategy.PARTITION, {"efa": True}, {"GPU-PLC-004"}),
        (PlacementStrategy.NONE, {"efa": True, "node_count": 99}, set()),
    ],
)
def test_placement_of_nodes(strategy: PlacementStrategy, extra: dict[str, Any], expected: set[str]) -> None:
    findings = check_placement(instance_type("g6.12xlarge"), strategy, **extra)
    assert found(findings) == expected


@pytest.mark.parametrize(("name", "expected"), [("t3.large", {"GPU-PLC-001"}), ("g6.xlarge", set())])
def test_only_what_a_cluster_group_takes_is_reserved_in_one(name: str, expected: set[str]) -> None:
    record = instance_type(name)
    assert found(check_group_of_reservation(record)) == expected
    findings = check_new_reservation(
        instance_count=4,
        ends_at=END,
        unlimited=False,
        placement=PlacementStrategy.CLUSTER,
        instance_type=record,
    )
    assert found(findings) == expected
    outside = check_new_reservation(instance_count=4, ends_at=END, unlimited=False, instance_type=record)
    assert found(outside) == set()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"GPU-PLC-007"}),
        ({"efa": False}, set()),
        ({"is_placed": True}, set()),
        ({"is_reserved": True}, set()),
        ({"node_count": 1}, set()),
    ],
)
def test_nodes_with_efa_that_nothing_keeps_together_are_told_of(change: dict[str, Any], expected: set[str]) -> None:
    given: dict[str, Any] = {"efa": True, "is_placed": False, "is_reserved": False, "node_count": 2}
    findings = check_efa_together(**(given | change))
    assert found(findings) == expected
    assert {finding.severity for finding in findings} <= {Severity.WARNING}


@pytest.mark.parametrize(
    ("name", "efa", "placement", "expected"),
    [
        ("p5.48xlarge", False, PlacementStrategy.CLUSTER, {"GPU-EFA-034"}),
        ("p5.48xlarge", True, PlacementStrategy.CLUSTER, set()),
        ("p5.48xlarge", False, PlacementStrategy.SPREAD, set()),
        ("p5.48xlarge", False, None, set()),
        ("g6.xlarge", False, PlacementStrategy.CLUSTER, set()),
        ("m8g.48xlarge", False, PlacementStrategy.CLUSTER, set()),
    ],
)
def test_accelerated_nodes_close_together_without_efa_are_told_of(
    name: str, efa: bool, placement: PlacementStrategy | None, expected: set[str]
) -> None:
    findings = check_efa_unused(instance_type(name), efa=efa, placement=placement)
    assert found(findings) == expected
    assert {finding.severity for finding in findings} <= {Severity.WARNING}


def test_a_strategy_that_the_type_lacks_is_refused() -> None:
    from dataclasses import replace

    record = replace(instance_type("g6.12xlarge"), placement_strategies=frozenset({"partition"}))
    assert found(check_placement(record, PlacementStrategy.CLUSTER)) == {"GPU-PLC-001"}


@pytest.mark.parametrize(("count", "expected"), [(1, set()), (7, set()), (0, {"GPU-PLC-002"}), (8, {"GPU-PLC-002"})])
def test_partition_counts(count: int, expected: set[str]) -> None:
    assert found(check_partition_count(count)) == expected


def _blocks(*spans: tuple[int, int], nodes: int | None = None) -> CapacityTerms:
    """Blocks of days of December."""
    blocks = tuple(
        BlockTerms(
            reservation_id=f"cr-{number:017x}",
            starts_at=datetime(2026, 12, first, 11, 30, tzinfo=UTC),
            ends_at=datetime(2026, 12, last, 11, 30, tzinfo=UTC),
            node_count=nodes,
        )
        for number, (first, last) in enumerate(spans)
    )
    return CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, blocks=blocks, ends_at=max(one.ends_at for one in blocks))


def _twice(terms: CapacityTerms) -> CapacityTerms:
    """The id of the first block for all."""
    first = terms.blocks[0].reservation_id
    return replace(terms, blocks=tuple(replace(one, reservation_id=first) for one in terms.blocks))


@pytest.mark.parametrize(
    ("terms", "ids"),
    [
        (_blocks((1, 8), (8, 15)), []),
        (_blocks((1, 8), (10, 15)), []),
        (_blocks((1, 8), (7, 15)), ["GPU-CAP-041"]),
        (_blocks((1, 8), (7, 15), nodes=2), []),
        (_blocks((1, 8), (2, 8), (3, 8), nodes=2), ["GPU-CAP-041"]),
        (_blocks((8, 1)), ["GPU-CAP-004"]),
        (_blocks(*((day, day + 1) for day in range(1, 22))), ["GPU-CAP-042"]),
        (_blocks(*[(1, 8)] * 2, nodes=65), ["GPU-CAP-041", "GPU-CAP-041", "GPU-CAP-013"]),
        (_twice(_blocks((1, 8), (8, 15))), ["GPU-CAP-042"]),
    ],
)
def test_a_fleet_holds_all_blocks_that_run_together(terms: CapacityTerms, ids: list[str]) -> None:
    found = check_capacity(terms, instance_type("p5.48xlarge"), node_count=4)
    assert [finding.id for finding in found] == ids


_Type = TargetCapacityType


@pytest.mark.parametrize(
    ("order", "changes", "ids"),
    [
        ((_Type.ON_DEMAND_RESERVATION, _Type.INTERRUPTIBLE_RESERVATION), {}, []),
        ((_Type.ON_DEMAND_RESERVATION, _Type.ON_DEMAND), {}, []),
        ((_Type.CAPACITY_BLOCK,), {"ends_at": END}, []),
        ((_Type.CAPACITY_BLOCK,), {}, ["GPU-CAP-001"]),
        ((_Type.ON_DEMAND, _Type.ON_DEMAND_RESERVATION), {}, ["GPU-CAP-043"]),
        ((_Type.ON_DEMAND,), {}, ["GPU-CAP-043"]),
        ((_Type.ON_DEMAND_RESERVATION, _Type.ON_DEMAND_RESERVATION), {}, ["GPU-CAP-043"]),
    ],
)
def test_a_segment_has_reservations_first(order: tuple[_Type, ...], changes: dict[str, Any], ids: list[str]) -> None:
    requested = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_group_arn=GROUP_ARN, segment=order, **changes)
    found = check_capacity(requested, instance_type("p5.48xlarge"), node_count=4)
    assert [finding.id for finding in found] == ids


def test_a_segment_with_blocks_is_for_types_that_are_sold_so_and_drains_as_early_as_a_block() -> None:
    requested = CapacityTerms(
        kind=CapacityKind.RESERVATION, reservation_group_arn=GROUP_ARN, segment=(_Type.CAPACITY_BLOCK,), ends_at=END
    )
    assert [one.id for one in check_capacity(requested, instance_type("g6.xlarge"))] == ["GPU-CAP-003"]
    (window,) = capacity_windows(requested, 4)
    assert window.drain_at == END - timedelta(minutes=40)
    assert check_block_of_group(requested)[0].id == "GPU-EKS-040"


def test_one_call_groups_all_blocks_that_run_together() -> None:
    """GroupResources takes as many ARNs as the service model says."""
    shape = botocore.session.get_session().get_service_model("resource-groups").shape_for("ResourceArnList")
    assert shape.metadata["max"] == MAX_BLOCKS_TOGETHER
    most, more = (
        check_capacity(_blocks(*[(1, 8)] * count, nodes=1), instance_type("p5.48xlarge"), node_count=20)
        for count in (MAX_BLOCKS_TOGETHER, MAX_BLOCKS_TOGETHER + 1)
    )
    assert most == []
    assert {finding.id for finding in more} == {"GPU-CAP-042"}
    assert more[0].path == "capacity_blocks[0]"


def test_capacity_with_an_end_is_drained_before_it() -> None:
    """Nodes that outlive a reservation are billed on demand."""
    end = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
    for kind, minutes in (
        (CapacityKind.RESERVATION, 15),
        (CapacityKind.ON_DEMAND, 15),
        (CapacityKind.CAPACITY_BLOCK, 40),
    ):
        (window,) = capacity_windows(CapacityTerms(kind=kind, ends_at=end), 4)
        assert window.drain_at == end - timedelta(minutes=minutes)
    (window,) = capacity_windows(CapacityTerms(kind=CapacityKind.RESERVATION), 4)
    assert window.drain_at is None


@pytest.mark.parametrize(("seconds", "minutes"), [(300, 15), (600, 15), (601, 16), (7200, 125)])
def test_a_long_drain_begins_early_enough(seconds: int, minutes: int) -> None:
    """Or the nodes of a reservation would go on at the on-demand price; a block has a check instead (GPU-FLT-007)."""
    end = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
    for kind in (CapacityKind.RESERVATION, CapacityKind.SPOT, CapacityKind.ON_DEMAND):
        (window,) = capacity_windows(CapacityTerms(kind=kind, ends_at=end), 4, drain_timeout_seconds=seconds)
        assert window.drain_at is not None
        assert timedelta(minutes=minutes - 1) < end - window.drain_at <= timedelta(minutes=minutes)
    (window,) = capacity_windows(
        CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, ends_at=end), 4, drain_timeout_seconds=seconds
    )
    assert window.drain_at == end - timedelta(minutes=40)


SPOT_UNTIL = {
    "before the library": ("2020-01-01T00:00Z", ["error"]),
    "since": ("2027-01-01T00:00Z", ["warning"]),
    "to come": ("2027-06-02T00:00Z", []),
}


@pytest.mark.parametrize(("end", "severities"), SPOT_UNTIL.values(), ids=SPOT_UNTIL)
def test_capacity_that_has_ended_is_reported(end: str, severities: list[str]) -> None:
    terms = CapacityTerms(kind=CapacityKind.SPOT, ends_at=datetime.fromisoformat(end))
    found = check_ended(terms, now=datetime(2027, 6, 1, tzinfo=UTC))
    assert [(finding.id, finding.severity.value) for finding in found] == [("GPU-CAP-024", one) for one in severities]
    # Without a clock, as in a synthesis, only what cannot be deployed is found.
    assert [finding.severity.value for finding in check_ended(terms)] == [one for one in severities if one == "error"]
