"""The plan of a compute node group of AWS PCS, from plain values."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.fleet.compute_node_group import (
    PURCHASE_OPTIONS,
    ComputeNodeGroupPlan,
    ComputeNodeGroupRequest,
    PurchaseOption,
    check_static_or_dynamic,
    plan_compute_node_group,
)
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import Topic, plan_fleet
from cdk_gpu_clusters.fleet.profile import EC2, PCS, OrchestratorProfile
from cdk_gpu_clusters.fleet.request import FleetRequest
from cdk_gpu_clusters.node.lifecycle_scripts import LifecycleScript, LifecycleStage, OnError
from cdk_gpu_clusters.node.user_data import node_environment
from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.pcs import SettingsLevel, check_pcs_name

TRAINERS = FleetRequest(name="trainers", instance_type="p5.48xlarge", profile=PCS, minimum=2, maximum=2)
ENDS = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
BLOCK = CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, reservation_id="cr-0123456789abcdef0", ends_at=ENDS)


@pytest.mark.parametrize("profile", [PCS, EC2])
def test_only_pcs_limits_a_boot_to_half_an_hour(profile: OrchestratorProfile) -> None:
    """The default fits, and its checks end minutes before PCS gives up, so that a failed boot is reported."""
    usual = replace(TRAINERS, profile=profile)
    assert plan_fleet(usual).about(Topic.TIMEOUTS) == []
    assert plan_fleet(usual).boot_deadline_seconds == 1500
    longer = plan_fleet(replace(usual, ready_timeout_seconds=3600))
    assert [one.id for one in longer.about(Topic.TIMEOUTS)] == (["GPU-PCS-038"] if profile is PCS else [])


def group(fleet: FleetRequest = TRAINERS, **options: Any) -> ComputeNodeGroupPlan:
    given = {"key": "Trainers", "slurm_version": "26.05", **options}
    return plan_compute_node_group(plan_fleet(fleet), ComputeNodeGroupRequest(**given))


def ids(plan: ComputeNodeGroupPlan) -> list[str]:
    return [one.id for one in plan.findings]


def test_every_kind_of_capacity_is_a_purchase_option_that_pcs_has() -> None:
    assert set(PURCHASE_OPTIONS) == set(CapacityKind)
    model = botocore.session.get_session().get_service_model("pcs")
    assert {one.value for one in PurchaseOption} <= set(model.shape_for("PurchaseOption").metadata["enum"])


@pytest.mark.parametrize(
    ("changes", "scales"),
    [
        ({}, False),
        ({"minimum": 0, "maximum": 8}, True),
        ({"minimum": 0, "maximum": 8, "terms": CapacityTerms(kind=CapacityKind.SPOT)}, True),
        # Of user data alone, the group is not known.
        ({"minimum": None}, False),
        # The group is static while the block runs, and nobody may take a name when it ends.
        ({"minimum": 0, "maximum": 8, "terms": BLOCK}, False),
        ({"minimum": 0, "maximum": 8, "profile": EC2}, False),
    ],
)
def test_a_node_knows_whether_slurm_powers_its_name_up_again(changes: dict[str, Any], scales: bool) -> None:
    settings = node_settings(plan_fleet(replace(TRAINERS, **changes)), NodeRequest())
    assert settings.scales is scales
    assert node_environment(settings).get("GPU_SCALES") == ("1" if scales else None)


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({}, (2, 2)),
        ({"minimum": 0, "maximum": 8}, (0, 8)),
        ({"terms": BLOCK}, (2, 2)),
        ({"terms": BLOCK, "minimum": 0, "maximum": 8}, (8, 8)),
        ({"terms": CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id="cr-0", ends_at=ENDS)}, (2, 2)),
    ],
)
def test_a_group_on_a_block_is_static(changes: dict[str, Any], size: tuple[int, int]) -> None:
    plan = group(replace(TRAINERS, **changes))
    assert (plan.minimum, plan.maximum) == size


@pytest.mark.parametrize(
    ("changes", "features"),
    [
        ({}, "p5.48xlarge,efa,gpu"),
        ({"efa": False}, "p5.48xlarge,gpu"),
        ({"instance_type": "m7i.xlarge"}, "m7i.xlarge"),
        ({"instance_type": "trn2.48xlarge"}, "trn2.48xlarge,efa,neuron"),
    ],
)
def test_jobs_can_ask_for_what_a_node_is(changes: dict[str, Any], features: str) -> None:
    assert group(replace(TRAINERS, **changes)).slurm_settings["Features"] == features


def test_slices_are_declared_twice_and_whole_gpus_not_at_all() -> None:
    """AWS PCS user guide, "Configuring custom GRES settings": Gres and the records have to agree."""
    assert "Gres" not in group().slurm_settings
    assert group().gres_records == ()
    split = replace(TRAINERS, instance_type="p4d.24xlarge", efa=False, mig=MigLayout(["3g.20gb", "3g.20gb"]))
    plan = group(split)
    assert plan.slurm_settings["Gres"] == "gpu:3g.20gb:16"
    assert [dict(one) for one in plan.gres_records] == [{"AutoDetect": "nvml"}]
    assert ids(plan) == []


def test_slices_before_the_topology_of_pcs_need_the_sockets() -> None:
    split = replace(TRAINERS, instance_type="p4d.24xlarge", efa=False, mig=MigLayout(["1g.5gb"] * 7))
    assert "GPU-PCS-033" in ids(group(split, slurm_version="25.11"))
    assert ids(group(split, slurm_version="25.11", slurm_settings={"Sockets": "2"})) == []


@pytest.mark.parametrize(("keeps_nodes", "expected"), [(True, ["GPU-PCS-062"]), (False, [])])
def test_nothing_keeps_the_nodes_of_a_changed_group(keeps_nodes: bool, expected: list[str]) -> None:
    assert ids(group(keeps_nodes=keeps_nodes)) == expected


@given(key=st.text(min_size=1, max_size=60), kind=st.sampled_from(["p5.48xlarge", "g6.xlarge"]))
def test_a_name_that_follows_is_one_that_pcs_takes(key: str, kind: str) -> None:
    plan = group(replace(TRAINERS, instance_type=kind), key=key)
    assert check_pcs_name(plan.name, SettingsLevel.NODE_GROUP) == []
    assert re.search(r"-[0-9a-f]{4}$", plan.name)


def test_a_name_differs_by_key_and_type() -> None:
    names = {
        group(replace(TRAINERS, instance_type=kind), key=key).name
        for kind in ("p5.48xlarge", "p5en.48xlarge")
        for key in ("a-very-long-name-of-trainers-1", "a-very-long-name-of-trainers-2")
    }
    assert len(names) == 4


@pytest.mark.parametrize(("bounds", "found"), [((1, 2), True), ((0, 2), False), ((2, 2), False), ((None, 2), False)])
def test_a_group_is_static_or_scales_from_zero(bounds: tuple[int | None, int], *, found: bool) -> None:
    assert bool(check_static_or_dynamic(*bounds)) is found


@pytest.mark.parametrize(
    "terms",
    [
        replace(BLOCK, blocks=(BlockTerms(reservation_id="cr-0", ends_at=ENDS),)),
        CapacityTerms(kind=CapacityKind.SPOT, max_price_usd_per_hour=9.0),
    ],
)
def test_capacity_that_a_group_cannot_take_is_found(terms: CapacityTerms) -> None:
    assert "GPU-PCS-061" in ids(group(replace(TRAINERS, terms=terms)))
    assert "GPU-PCS-061" not in ids(group(replace(TRAINERS, terms=BLOCK)))


def test_scripts_are_checked_by_stage() -> None:
    script = LifecycleScript(name="check", stage=LifecycleStage.NODE_BOOTSTRAPPED, content="#!/bin/sh\n")
    other = replace(script, stage=LifecycleStage.NODE_READY)
    assert ids(group(scripts=(script, other))) == [], "a name is unique in its stage"
    assert ids(group(scripts=(script, script))) == ["GPU-PCS-023"]
    plan = group(scripts=(replace(script, on_error=OnError.CONTINUE),))
    assert [(one.id, one.severity) for one in plan.findings] == [("GPU-PCS-025", Severity.WARNING)]
