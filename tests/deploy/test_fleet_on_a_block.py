"""The life of a real fleet on a Capacity Block, with a clock that is moved: no deploy ever resizes a live group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import Capacity, ClusterNetwork, GpuFleet, RootVolume
from cdk_gpu_clusters.testing import InProcessEmulator

BLOCK = "cr-0123456789abcdef0"
START, END = "2026-12-01T11:30Z", "2026-12-15T11:30Z"
BEFORE, DURING, AFTER = "2026-11-21T08:00Z", "2026-12-05T00:00Z", "2026-12-16T00:00Z"
NODES = 4

Stack = Callable[..., dict[str, Any]]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    block = {
        "id": BLOCK,
        "instance_type": "p5.48xlarge",
        "availability_zone": "us-east-1a",
        "count": NODES,
        "kind": "capacity-block",
        "starts_at": START,
        "ends_at": END,
    }
    with InProcessEmulator(seed={"now": BEFORE, "reservations": [block]}) as made:
        yield made


@pytest.fixture
def stack(app_factory: Any) -> Stack:
    """A training stack; options go to the fleet."""

    def make(*, starts_at: str | None = START, **options: Any) -> dict[str, Any]:
        made = cdk.Stack(app_factory(), "Training")
        network = ClusterNetwork(made, "Network", availability_zone="us-east-1a")
        GpuFleet(
            made,
            "Trainers",
            vpc=network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
            instance_type="p5.48xlarge",
            node_count=NODES,
            capacity=Capacity.capacity_block(BLOCK, starts_at=starts_at, ends_at=END),
            **options,
        )
        return dict(Template.from_stack(made).to_json())

    return make


def size(account: InProcessEmulator) -> int:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    desired: int = group["DesiredCapacity"]
    return desired


def resize(account: InProcessEmulator, nodes: int) -> None:
    scaling = account.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    scaling.set_desired_capacity(AutoScalingGroupName=group["AutoScalingGroupName"], DesiredCapacity=nodes)


def another_version(stack: Stack) -> dict[str, Any]:
    """The same stack with a new launch-template version."""
    return stack(root_volume=RootVolume(size_gib=300))


def test_a_fleet_deployed_before_its_block_grows_and_drains_with_it(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    assert size(account) == 0
    account.move_clock(START)
    assert size(account) == NODES
    account.move_clock("2026-12-15T10:49Z")
    assert size(account) == NODES
    account.move_clock("2026-12-15T10:51Z")
    assert size(account) == 0
    assert {one["status"] for one in account.history()["executions"]} == {"SUCCEEDED"}


def test_a_fleet_deployed_during_its_block_grows_at_once(account: InProcessEmulator, stack: Stack) -> None:
    account.move_clock(DURING)
    account.deploy(stack())
    assert size(account) == NODES


def test_a_block_that_runs_already_needs_no_start(account: InProcessEmulator, stack: Stack) -> None:
    account.move_clock(DURING)
    account.deploy(stack(starts_at=None))
    assert size(account) == NODES


def test_a_fleet_deployed_after_its_block_stays_empty(account: InProcessEmulator, stack: Stack) -> None:
    account.move_clock(AFTER)
    account.deploy(stack())
    assert size(account) == 0
    account.move_clock("2027-12-16T00:00Z")  # the yearly schedules come round
    assert size(account) == 0


@pytest.mark.parametrize(("moment", "nodes"), [(BEFORE, 0), (DURING, NODES), (AFTER, 0)])
def test_a_redeploy_never_resizes_the_group(account: InProcessEmulator, stack: Stack, moment: str, nodes: int) -> None:
    account.deploy(stack())
    if moment != BEFORE:
        account.move_clock(moment)
    assert size(account) == nodes
    account.deploy(another_version(stack))
    assert size(account) == nodes


def test_an_operators_own_size_is_kept(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    resize(account, 3)
    account.deploy(another_version(stack))
    account.emit(
        {
            "source": "aws.ec2",
            "detail-type": "Capacity Block Delivered",
            "detail": {"capacity-reservation-id": BLOCK, "end-date": END},
        }
    )
    assert size(account) == 3


def test_the_schedules_stand_in_for_lost_events(account: InProcessEmulator, stack: Stack) -> None:
    account.seed({"block_event_names": ["Lost", "Lost too"]})
    account.deploy(stack())
    account.move_clock("2026-12-01T11:31Z")
    assert size(account) == NODES
    account.move_clock("2026-12-15T10:51Z")
    assert size(account) == 0


def test_another_blocks_events_change_nothing(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.emit(
        {
            "source": "aws.ec2",
            "detail-type": "Capacity Block Delivered",
            "detail": {"capacity-reservation-id": "cr-0aaaaaaaaaaaaaaaa", "end-date": END},
        }
    )
    assert size(account) == 0


def test_an_early_warning_does_not_drain_a_block_in_use(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    account.emit(
        {
            "source": "aws.ec2",
            "detail-type": "Capacity Block Expiration Warning",
            "detail": {"capacity-reservation-id": BLOCK, "end-date": END},
        }
    )
    assert size(account) == NODES
