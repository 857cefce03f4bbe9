"""Which placement group a fleet goes into: every combination of wish, capacity and group, as the fleet construct had it."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms, decide_capacity
from cdk_gpu_clusters.rules.placement import (
    GroupOrigin,
    choose_placement,
    reservation_is_placed,
    spread_of_servers,
)
from cdk_gpu_clusters.rules.placement import PlacementStrategy as Request

NONE, NEW, GIVEN, RESERVED = GroupOrigin


@pytest.mark.parametrize(
    ("kind", "efa", "options", "origin", "strategy"),
    [
        (CapacityKind.ON_DEMAND, True, {}, NEW, Request.CLUSTER),
        (CapacityKind.ON_DEMAND, False, {}, NONE, None),
        (CapacityKind.SPOT, True, {}, NEW, Request.CLUSTER),
        (CapacityKind.SPOT, True, {"requested": Request.NONE}, NONE, None),
        (CapacityKind.SPOT, False, {"requested": Request.SPREAD}, NEW, Request.SPREAD),
        (CapacityKind.SPOT, True, {"is_given": True}, GIVEN, None),
        (CapacityKind.RESERVATION, True, {}, NONE, None),
        (CapacityKind.RESERVATION, True, {"has_reservation_group": True}, RESERVED, Request.CLUSTER),
        (
            CapacityKind.RESERVATION,
            True,
            {"has_reservation_group": True, "requested": Request.CLUSTER},
            RESERVED,
            Request.CLUSTER,
        ),
        (
            CapacityKind.RESERVATION,
            True,
            {"has_reservation_group": True, "requested": Request.NONE},
            NONE,
            None,
        ),
        (
            CapacityKind.RESERVATION,
            True,
            {"has_reservation_group": True, "requested": Request.SPREAD},
            NEW,
            Request.SPREAD,
        ),
        (CapacityKind.RESERVATION, True, {"has_reservation_group": True, "is_given": True}, GIVEN, None),
        (CapacityKind.CAPACITY_BLOCK, True, {}, NONE, None),
        (CapacityKind.ULTRASERVER_BLOCK, True, {}, NONE, None),
    ],
)
def test_where_the_group_comes_from(
    kind: CapacityKind, efa: bool, options: dict[str, object], origin: GroupOrigin, strategy: Request | None
) -> None:
    choice = choose_placement(decide_capacity(CapacityTerms(kind=kind), efa=efa), **options)  # type: ignore[arg-type]
    assert (choice.origin, choice.strategy) == (origin, strategy)
    assert choice.reason


def test_a_reason_names_the_group_that_is_made() -> None:
    spot = decide_capacity(CapacityTerms(kind=CapacityKind.SPOT), efa=True)
    assert choose_placement(spot).reason == "cluster placement group: nodes exchange EFA traffic"
    assert choose_placement(spot, requested=Request.SPREAD).reason == "spread placement group, as asked for"
    assert choose_placement(spot, requested=Request.NONE).reason == "no placement group, as asked for"


@pytest.mark.parametrize(
    ("requested", "efa", "placed"),
    [(None, True, True), (None, False, False), (Request.CLUSTER, False, True), (Request.NONE, True, False)],
)
def test_a_reservation_is_made_in_a_group_where_the_nodes_exchange_efa_traffic(
    requested: Request | None, efa: bool, placed: bool
) -> None:
    assert reservation_is_placed(requested, efa=efa) is placed


@pytest.mark.parametrize(
    ("kind", "nodes", "zones", "expected"),
    [
        (CapacityKind.ON_DEMAND, 7, 1, Request.SPREAD),
        (CapacityKind.ON_DEMAND, 8, 1, None),
        (CapacityKind.ON_DEMAND, 14, 2, Request.SPREAD),
        (CapacityKind.SPOT, 15, 2, None),
        (CapacityKind.RESERVATION, 2, 2, None),
        (CapacityKind.ON_DEMAND, 0, 2, None),
    ],
)
def test_servers_stand_apart_where_ec2_can_hold_them_apart(
    kind: CapacityKind, nodes: int, zones: int, expected: Request | None
) -> None:
    assert spread_of_servers(instance_type("g6.xlarge"), kind, node_count=nodes, zone_count=zones) is expected
