"""A request of plain values becomes one plan with all findings, and nothing is raised."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import BLOCK_DRAIN_SECONDS, SPOT_DRAIN_SECONDS, Topic, plan_fleet
from cdk_gpu_clusters.fleet.profile import (
    BATCH,
    EC2,
    EKS_MANAGED,
    EKS_SELF_MANAGED,
    HYPERPOD_EKS,
    HYPERPOD_SLURM,
    PCS,
    PROFILES,
)
from cdk_gpu_clusters.fleet.request import Field, FleetRequest, ImageRequest, ReservationFacts, SubnetFacts
from cdk_gpu_clusters.node.storage import LustreMount
from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import GroupOrigin, PlacementStrategy

HERE = SubnetFacts(name="Net/a", zone="us-east-1a", ipv4_block="10.0.0.0/24")
TRAINERS = FleetRequest(
    name="trainers", instance_type="p5.48xlarge", minimum=2, maximum=2, region="us-east-1", subnets=(HERE,)
)
BLOCK = CapacityTerms(
    kind=CapacityKind.CAPACITY_BLOCK,
    reservation_id="cr-0123456789abcdef0",
    ends_at=datetime(2026, 12, 15, 11, 30, tzinfo=UTC),
)
RESERVED = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id="cr-0123456789abcdef0")


def ids(request: FleetRequest) -> set[str]:
    return {finding.id for finding in plan_fleet(request).findings}


def test_every_orchestrator_has_a_profile() -> None:
    assert set(PROFILES) == set(Orchestrator)
    assert all(profile.orchestrator is orchestrator for orchestrator, profile in PROFILES.items())


def test_an_unknown_type_is_the_one_finding_and_decides_the_rest_away() -> None:
    plan = plan_fleet(replace(TRAINERS, instance_type="p9.huge", maximum=0))
    assert list(plan.found) == [Topic.TYPE]
    for read in (lambda: plan.instance_type, lambda: plan.interfaces):
        with pytest.raises(ConfigError):
            read()
    assert plan.addresses_per_node == 1


def test_a_layout_that_is_missing_hides_no_other_fault() -> None:
    request = replace(
        TRAINERS, interface_policy=InterfacePolicy.MAXIMUM_ENA_BANDWIDTH, efa=False, minimum=3, terms=BLOCK
    )
    plan = plan_fleet(replace(request, maximum=65))
    assert plan.interfaces_or_none is None
    assert {finding.id for finding in plan.findings} >= {"GPU-EFA-021", "GPU-CAP-013"}


@pytest.mark.parametrize(
    ("changes", "unknown", "finding"),
    [
        ({"maximum": 0}, Field.NODES, "GPU-FLT-001"),
        ({"drain_timeout_seconds": 9000}, Field.TIMEOUTS, "GPU-FLT-005"),
        ({"terms": CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK)}, Field.CAPACITY, "GPU-CAP-001"),
        ({"instance_type": "g6.xlarge", "efa": True}, Field.EFA, "GPU-EFA-025"),
        ({"mig": MigLayout(["9g.90gb"]), "efa": False}, Field.MIG, "GPU-MIG-002"),
        ({"placement": PlacementStrategy.SPREAD}, Field.PLACEMENT, "GPU-PLC-004"),
        ({"is_public": True}, Field.NETWORK, "GPU-FLT-003"),
        ({"subnets": ()}, Field.NETWORK, "GPU-FLT-002"),
    ],
)
def test_a_rule_that_reads_an_unknown_part_is_left_out(changes: dict[str, Any], unknown: Field, finding: str) -> None:
    request = replace(TRAINERS, **changes)
    assert finding in ids(request)
    assert finding not in ids(replace(request, unknown=frozenset({unknown})))


@pytest.mark.parametrize(
    ("changes", "origin", "strategy"),
    [
        ({}, GroupOrigin.NEW, PlacementStrategy.CLUSTER),
        ({"placement": PlacementStrategy.NONE}, GroupOrigin.NONE, None),
        ({"terms": BLOCK}, GroupOrigin.NONE, None),
        ({"group_strategy": PlacementStrategy.CLUSTER}, GroupOrigin.GIVEN, None),
        (
            {"terms": RESERVED, "reservation": ReservationFacts(has_placement_group=True)},
            GroupOrigin.RESERVATION,
            PlacementStrategy.CLUSTER,
        ),
        (
            {
                "terms": RESERVED,
                "reservation": ReservationFacts(has_placement_group=True),
                "placement": PlacementStrategy.CLUSTER,
            },
            GroupOrigin.RESERVATION,
            PlacementStrategy.CLUSTER,
        ),
        (
            {
                "terms": RESERVED,
                "reservation": ReservationFacts(has_placement_group=True),
                "placement": PlacementStrategy.NONE,
            },
            GroupOrigin.NONE,
            None,
        ),
        (
            {"terms": RESERVED, "reservation": ReservationFacts(is_for_fleet=True)},
            GroupOrigin.RESERVATION,
            PlacementStrategy.CLUSTER,
        ),
        (
            {"instance_type": "g6.xlarge", "serves_models": True},
            GroupOrigin.NEW,
            PlacementStrategy.SPREAD,
        ),
        (
            {"instance_type": "g6.xlarge", "serves_models": True, "profile": EKS_MANAGED},
            GroupOrigin.NONE,
            None,
        ),
    ],
)
def test_the_placement_follows_from_request_and_capacity(
    changes: dict[str, Any], origin: GroupOrigin, strategy: PlacementStrategy | None
) -> None:
    plan = plan_fleet(replace(TRAINERS, **changes))
    assert (plan.placement.origin, plan.placement.strategy) == (origin, strategy)
    assert plan.new_placement is (strategy if origin is GroupOrigin.NEW else None)


def test_only_an_orchestrator_without_hooks_lets_a_node_drain_itself() -> None:
    on_ec2 = plan_fleet(replace(TRAINERS, terms=BLOCK))
    assert (on_ec2.drain_at, on_ec2.drain_deadline_seconds) == (None, 240)
    on_eks = plan_fleet(replace(TRAINERS, terms=BLOCK, profile=EKS_MANAGED))
    assert (on_eks.drain_at, on_eks.drain_deadline_seconds) == (
        datetime(2026, 12, 15, 10, 50, tzinfo=UTC),
        BLOCK_DRAIN_SECONDS,
    )
    ends = replace(TRAINERS, terms=replace(RESERVED, ends_at=datetime(2026, 12, 15, 11, 30, tzinfo=UTC)))
    assert plan_fleet(replace(ends, profile=EKS_MANAGED)).drain_at is None
    on_pcs = plan_fleet(replace(ends, profile=PCS))
    assert (on_pcs.drain_at, on_pcs.drain_deadline_seconds) == (
        datetime(2026, 12, 15, 11, 15, tzinfo=UTC),
        BLOCK_DRAIN_SECONDS,
    )
    assert plan_fleet(replace(TRAINERS, profile=PCS)).drain_at is None
    spot = CapacityTerms(kind=CapacityKind.SPOT)
    assert {
        plan_fleet(replace(TRAINERS, terms=spot, profile=profile)).drain_deadline_seconds
        for profile in PROFILES.values()
    } == {SPOT_DRAIN_SECONDS}


def test_the_image_is_chosen_as_the_profile_says() -> None:
    systems = {
        profile.orchestrator: plan_fleet(replace(TRAINERS, profile=profile)).operating_system
        for profile in PROFILES.values()
    }
    assert systems == {
        EC2.orchestrator: "al2023",
        EKS_MANAGED.orchestrator: "al2023",
        EKS_SELF_MANAGED.orchestrator: None,
        PCS.orchestrator: "ubuntu-24.04",
        BATCH.orchestrator: "al2023",
        # SageMaker chooses an image of its own.
        HYPERPOD_EKS.orchestrator: None,
        HYPERPOD_SLURM.orchestrator: None,
    }
    own = plan_fleet(replace(TRAINERS, image=ImageRequest(is_own=True)))
    assert (own.image, own.kernel) == (None, None)


def test_a_node_mounts_over_efa_only_if_it_has_efa() -> None:
    node = NodeRequest(mounts=(LustreMount(mount_point="/fsx", dns_name="d", mount_name="m", efa=True),))
    with_efa = node_settings(plan_fleet(TRAINERS), node)
    without = node_settings(plan_fleet(replace(TRAINERS, efa=False)), node)
    assert [one.line().endswith(" efa") for one in (*with_efa.mounts, *without.mounts)] == [True, False]
    assert with_efa.lustre_efa is not None
    assert without.lustre_efa is None
    assert (with_efa.launch_hook_name, with_efa.orchestrator) == ("node-ready", "ec2")


ENDING = CapacityTerms(kind=CapacityKind.ON_DEMAND, ends_at=datetime(2027, 1, 1, tzinfo=UTC))
OPEN = CapacityTerms(kind=CapacityKind.ON_DEMAND)


@pytest.mark.parametrize(
    ("terms", "bounds", "least", "fewest"),
    [
        (RESERVED, (4, 4), 0, 4),  # or no operator could set less than 4, and each deployment would set 4
        (RESERVED, (2, 4), 2, 2),
        (ENDING, (4, 4), 0, 4),
        (ENDING, (2, 4), 0, 2),  # or a deployment after the end would launch 2
        (OPEN, (4, 4), 4, 4),
        (OPEN, (2, 4), 2, 2),
    ],
)
def test_the_template_has_no_least_size_that_a_state_machine_would_fight(
    terms: CapacityTerms, bounds: tuple[int, int], least: int, fewest: int
) -> None:
    plan = plan_fleet(replace(TRAINERS, minimum=bounds[0], maximum=bounds[1], terms=terms))
    assert (plan.minimum, plan.fewest) == (least, fewest)


def test_the_fewest_nodes_are_those_of_the_smallest_block() -> None:
    end = datetime(2027, 1, 1, tzinfo=UTC)
    blocks = tuple(BlockTerms(reservation_id=f"cr-{nodes}", ends_at=end, node_count=nodes) for nodes in (2, 4))
    terms = CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, blocks=blocks, ends_at=end)
    assert plan_fleet(replace(TRAINERS, minimum=4, maximum=4, terms=terms)).fewest == 2
