"""What AWS Batch takes, from both sides, against the models of AWS."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.instances import instance_type_names
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.batch import (
    DEFAULT_LIMITS_SECONDS,
    BatchAllocationStrategy,
    BlockedReason,
    allocation_strategy,
    check_accelerator,
    check_attempts,
    check_default_group,
    check_job_size,
    check_memory,
    check_private,
    check_purchase,
    check_replacement,
    check_strategy,
    check_wait_limits,
)
from cdk_gpu_clusters.rules.capacity import BlockTerms, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator, plan_interfaces

MODEL: Any = botocore.session.get_session().get_service_model("batch")
CAPACITY, SIZE = BlockedReason.INSUFFICIENT_INSTANCE_CAPACITY, BlockedReason.COMPUTE_ENVIRONMENT_MAX_RESOURCE


def ids(findings: Sequence[Finding]) -> list[str]:
    return [one.id for one in findings]


def test_the_strategies_and_the_action_are_those_of_the_service() -> None:
    assert {one.value for one in BatchAllocationStrategy} <= set(
        MODEL.shape_for("CRAllocationStrategy").metadata["enum"]
    )
    assert "CANCEL" in MODEL.shape_for("JobStateTimeLimitActionsAction").metadata["enum"]
    assert MODEL.shape_for("JobStateTimeLimitActionsState").metadata["enum"] == ["RUNNABLE"]
    assert MODEL.shape_for("UpdatePolicy").members["jobExecutionTimeoutMinutes"].metadata["max"] == 7_200


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        (DEFAULT_LIMITS_SECONDS, 0),
        ({CAPACITY: 600, SIZE: 86_400}, 0),
        ({CAPACITY: None}, 0),
        ({CAPACITY: 599}, 1),
        ({CAPACITY: 599, SIZE: 86_401}, 2),
    ],
)
def test_the_bounds_of_a_wait_are_those_of_the_schema(limits: Any, found: int) -> None:
    assert ids(check_wait_limits(limits)) == ["GPU-BAT-016"] * found
    bounds = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", "AWS::Batch::JobQueue").schema["definitions"][
        "JobStateTimeLimitAction"
    ]["properties"]["MaxTimeSeconds"]
    assert (bounds["minimum"], bounds["maximum"]) == (600, 86_400)


def test_what_runs_no_multi_node_jobs_is_refused() -> None:
    on_demand = CapacityTerms(kind=CapacityKind.ON_DEMAND)
    assert check_purchase(on_demand, is_split=False) == []
    assert ids(check_purchase(on_demand, is_split=True)) == ["GPU-BAT-011"]
    assert ids(check_purchase(on_demand, is_split=False, keeps_nodes=True)) == ["GPU-BAT-022"]
    assert ids(check_purchase(CapacityTerms(kind=CapacityKind.SPOT), is_split=True)) == ["GPU-BAT-010", "GPU-BAT-011"]
    ends = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
    blocks = tuple(BlockTerms(reservation_id=f"cr-0123456789abcdef{one}", ends_at=ends, node_count=1) for one in (0, 1))
    several = CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, blocks=blocks)
    assert ids(check_purchase(several, is_split=False)) == ["GPU-BAT-021"]


@pytest.mark.parametrize("kind", CapacityKind)
def test_the_strategy_of_each_kind_of_capacity_can_be_updated_and_fits_a_block(kind: CapacityKind) -> None:
    strategy = allocation_strategy(kind)
    replaces = strategy is BatchAllocationStrategy.BEST_FIT
    assert check_replacement(strategy.value, replaces=replaces) == []
    assert ids(check_replacement(strategy.value, replaces=not replaces)) == ["GPU-BAT-012"]
    assert check_strategy(strategy.value, is_block=kind.is_block) == []
    assert replaces is kind.is_block


def test_a_strategy_that_may_exceed_a_block_is_found() -> None:
    assert ids(check_strategy("BEST_FIT_PROGRESSIVE", is_block=True)) == ["GPU-BAT-013"]


def test_groups_and_subnets() -> None:
    assert ids(check_default_group(2, is_empty=True)) == ["GPU-BAT-024"]
    assert check_default_group(1, is_empty=True) == check_default_group(2, is_empty=False) == []
    assert (check_private(is_public=False), ids(check_private(is_public=True))) == ([], ["GPU-BAT-015"])


@pytest.mark.parametrize(("nodes", "most", "found"), [(4, 4, 0), (5, 4, 1), (0, None, 1), (1000, None, 0)])
def test_a_job_fits_its_environment(nodes: int, most: int | None, found: int) -> None:
    assert ids(check_job_size(nodes, most)) == ["GPU-BAT-017"] * found


@pytest.mark.parametrize(("attempts", "seconds", "found"), [(1, None, 0), (10, 60, 0), (0, None, 1), (11, 59, 2)])
def test_attempts(attempts: int, seconds: int | None, found: int) -> None:
    assert ids(check_attempts(attempts, seconds)) == ["GPU-BAT-018"] * found


@pytest.mark.parametrize(
    ("memory", "shared", "found"), [(1024, 1024, 0), (4095, 1, 0), (4096, 1, 1), (1024, 1025, 1), (0, 1, 2)]
)
def test_memory(memory: int, shared: int, found: int) -> None:
    assert ids(check_memory(memory, shared, 4096)) == ["GPU-BAT-019"] * found


def test_devices_that_a_job_would_not_see() -> None:
    assert check_accelerator(None, "m8g.48xlarge") == check_accelerator("gpu", "p5.48xlarge") == []
    assert ids(check_accelerator("neuron", "trn1.32xlarge")) == ["GPU-BAT-020"]


def test_every_type_with_gpus_has_room_for_the_interface_of_a_container() -> None:
    """Its default layout does; the one with the fewest addresses does not on p5, and says so."""
    kinds = [instance_type(name) for name in instance_type_names()]
    multi = [one for one in kinds if one.accelerator and one.accelerator.kind == "gpu" and one.network.efa]
    full = {one.name for one in multi if plan_interfaces(one, orchestrator=Orchestrator.BATCH).findings}
    # No ECS-optimized image has its architecture.
    assert full == {"p6e-gb200.36xlarge"}
    fewest = plan_interfaces("p5.48xlarge", policy=InterfacePolicy.MINIMUM_IP, orchestrator=Orchestrator.BATCH)
    assert ids(fewest.findings) == ["GPU-BAT-009", "GPU-BAT-008"]
    roomy = plan_interfaces("p5en.48xlarge", policy=InterfacePolicy.MINIMUM_IP, orchestrator=Orchestrator.BATCH)
    assert ids(roomy.findings) == ["GPU-BAT-008"]
