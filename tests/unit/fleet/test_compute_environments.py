"""The plans of compute environments of AWS Batch, and of multi-node jobs, from plain values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.fleet.compute_environment import (
    RETRIED,
    ComputeEnvironmentRequest,
    MultiNodeJobRequest,
    plan_compute_environment,
    plan_multi_node_job,
)
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.fleet.profile import BATCH, PCS
from cdk_gpu_clusters.fleet.request import FleetRequest, SubnetFacts
from cdk_gpu_clusters.rules.batch import BatchAllocationStrategy
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.mig import MigLayout

ENDS = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)
BLOCK = CapacityTerms(kind=CapacityKind.CAPACITY_BLOCK, reservation_id="cr-0123456789abcdef0", ends_at=ENDS)
RESERVED = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id="cr-0123456789abcdef0")
HERE = SubnetFacts(name="Net/a", zone="us-east-1a", ipv4_block="10.0.0.0/22")
TRAINERS = FleetRequest(
    name="trainers", instance_type="p5.48xlarge", profile=BATCH, minimum=2, maximum=2, subnets=(HERE,)
)


@pytest.mark.parametrize(
    ("changes", "vcpus", "strategy"),
    [
        ({}, (384, 384), "BEST_FIT_PROGRESSIVE"),
        ({"minimum": 0, "maximum": 8}, (0, 1536), "BEST_FIT_PROGRESSIVE"),
        # Nodes come with jobs: before a block begins, and after it, Batch would try to launch without end.
        ({"terms": BLOCK}, (0, 384), "BEST_FIT"),
        ({"terms": RESERVED}, (0, 384), "BEST_FIT_PROGRESSIVE"),
    ],
)
def test_vcpus_are_those_of_the_nodes(changes: dict[str, object], vcpus: tuple[int, int], strategy: str) -> None:
    fleet = plan_fleet(replace(TRAINERS, **changes))  # type: ignore[arg-type]
    plan = plan_compute_environment(fleet, ComputeEnvironmentRequest())
    assert ((plan.minimum_vcpus, plan.maximum_vcpus), plan.strategy.value) == (vcpus, strategy)
    assert ([one.id for one in fleet.findings if one.severity is Severity.ERROR], plan.findings) == ([], ())
    assert plan.replaces is (strategy == "BEST_FIT")


def test_what_is_requested_is_checked() -> None:
    mig = plan_fleet(replace(TRAINERS, instance_type="p5.4xlarge", mig=MigLayout("1g.10gb"), efa=False, terms=BLOCK))
    plan = plan_compute_environment(
        mig, ComputeEnvironmentRequest(strategy=BatchAllocationStrategy.BEST_FIT_PROGRESSIVE)
    )
    assert {one.id for one in plan.findings} == {"GPU-BAT-011", "GPU-BAT-013"}


def test_a_container_takes_an_address_beside_those_of_its_node() -> None:
    small = (SubnetFacts(name="Net/a", zone="us-east-1a", ipv4_block="10.0.0.0/26"),)
    # 59 addresses.
    assert plan_fleet(TRAINERS).addresses_per_node == 33
    asked = replace(TRAINERS, instance_type="g6.12xlarge", efa=False, minimum=30, maximum=30, subnets=small)
    assert plan_fleet(asked).addresses_per_node == 2
    assert "GPU-IP-003" in {one.id for one in plan_fleet(asked).findings}
    for other in (replace(asked, minimum=29, maximum=29), replace(asked, profile=PCS)):
        assert "GPU-IP-003" not in {one.id for one in plan_fleet(other).findings}


def test_a_node_reserves_huge_pages_and_drains_itself_before_the_end_of_a_block() -> None:
    settings = node_settings(plan_fleet(replace(TRAINERS, terms=BLOCK)), NodeRequest())
    assert (settings.orchestrator, settings.huge_pages) == ("batch", 5128)
    assert settings.drain_at is not None
    assert settings.drain_at < ENDS
    plain = node_settings(plan_fleet(replace(TRAINERS, instance_type="g6.xlarge")), NodeRequest())
    assert (plain.huge_pages, plain.drain_at) == (None, None)


@pytest.mark.parametrize(
    ("name", "gpus", "devices"),
    [("p5.48xlarge", 8, 32), ("p5en.48xlarge", 8, 16), ("p4d.24xlarge", 8, 4), ("g6.12xlarge", 4, 1)],
)
def test_a_container_has_all_of_its_node(name: str, gpus: int, devices: int) -> None:
    fleet = plan_fleet(replace(TRAINERS, instance_type=name))
    job = plan_multi_node_job(
        instance_type(name), MultiNodeJobRequest(node_count=2, efa_count=fleet.interfaces.efa_count)
    )
    assert (job.gpus, job.vcpus, len(job.devices), job.findings) == (gpus, instance_type(name).vcpus, devices, ())
    assert job.devices[0] == "/dev/infiniband/uverbs0"
    assert 0 < job.shared_memory_mib < job.memory_mib < instance_type(name).memory_mib


def test_a_job_that_cannot_run_is_found_whole() -> None:
    asked = MultiNodeJobRequest(
        node_count=3, most_nodes=2, memory_mib=1, shared_memory_mib=2, attempts=11, timeout_seconds=1
    )
    plan = plan_multi_node_job(instance_type("p5.48xlarge"), asked)
    assert [one.id for one in plan.findings] == ["GPU-BAT-017", "GPU-BAT-018", "GPU-BAT-018", "GPU-BAT-019"]


def test_the_causes_of_a_retry_are_fields_of_the_service_and_leave_room_for_the_last_rule() -> None:
    model: Any = botocore.session.get_session().get_service_model("batch")
    assert all(set(cause) <= set(model.shape_for("EvaluateOnExit").members) for cause in RETRIED)
    assert len(RETRIED) + 1 <= 5, "up to 5 conditions (batch service model, EvaluateOnExit)"
