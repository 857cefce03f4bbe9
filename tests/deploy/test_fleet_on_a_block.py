"""The life of a fleet on a Capacity Block, with a clock that is moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters import Capacity, ClusterNetwork, GpuFleet, RootVolume
from cdk_gpu_clusters.compute.reconcile import MANUAL, SIZE_TAG
from cdk_gpu_clusters.rules.capacity import BlockTerms, parse_instant
from cdk_gpu_clusters.testing import InProcessEmulator

BLOCK = "cr-0123456789abcdef0"
START, END = "2026-12-01T11:30Z", "2026-12-15T11:30Z"
BEFORE, DURING, AFTER = "2026-11-21T08:00Z", "2026-12-05T00:00Z", "2026-12-16T00:00Z"
NODES = 4
NEXT, NEXT_END = "cr-0aaaaaaaaaaaaaaaa", "2026-12-26T11:30Z"

Stack = Callable[..., dict[str, Any]]


def _block() -> dict[str, Any]:
    return {
        "id": BLOCK,
        "instance_type": "p5.48xlarge",
        "availability_zone": "us-east-1a",
        "count": NODES,
        "kind": "capacity-block",
        "starts_at": START,
        "ends_at": END,
    }


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": BEFORE, "reservations": [_block()]}) as made:
        yield made


@pytest.fixture
def stack(app_factory: Any) -> Stack:
    """A training stack; options go to the fleet."""

    def make(
        *, block: str = BLOCK, starts_at: str | None = START, ends_at: str = END, nodes: int = NODES, **options: Any
    ) -> dict[str, Any]:
        made = cdk.Stack(app_factory(), "Training")
        network = ClusterNetwork(made, "Network", availability_zone="us-east-1a")
        GpuFleet(
            made,
            "Trainers",
            vpc=network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
            instance_type="p5.48xlarge",
            node_count=nodes,
            capacity=Capacity.capacity_block(block, starts_at=starts_at, ends_at=ends_at),
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


def reconciled(account: InProcessEmulator) -> list[dict[str, Any]]:
    """The runs that compared the group with its block."""
    return [one for one in account.history()["executions"] if "Reconcile" in one["logical_id"]]


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
    assert {one["status"] for one in reconciled(account)} == {"SUCCEEDED"}


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


@pytest.mark.parametrize(("moment", "nodes"), [(BEFORE, 0), (DURING, NODES), (AFTER, 0)])
def test_a_redeploy_keeps_the_size(account: InProcessEmulator, stack: Stack, moment: str, nodes: int) -> None:
    account.deploy(stack())
    if moment != BEFORE:
        account.move_clock(moment)
    assert size(account) == nodes
    account.deploy(another_version(stack))
    assert size(account) == nodes


def tag(account: InProcessEmulator, *, manual: bool) -> None:
    """Keep a size of one's own, or give it back to the fleet."""
    scaling = account.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    one = {"ResourceId": group["AutoScalingGroupName"], "ResourceType": "auto-scaling-group", "Key": SIZE_TAG}
    if manual:
        scaling.create_or_update_tags(Tags=[{**one, "Value": MANUAL, "PropagateAtLaunch": False}])
    else:
        scaling.delete_tags(Tags=[one])


def test_an_operators_own_size_is_kept_until_the_drain(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    tag(account, manual=True)
    resize(account, 3)
    account.deploy(another_version(stack))
    account.move_clock("2026-12-05T01:00Z")
    assert size(account) == 3
    account.move_clock("2026-12-15T10:51Z")
    assert size(account) == 0


def test_the_fleet_takes_its_size_back_when_the_operator_gives_it_back(
    account: InProcessEmulator, stack: Stack
) -> None:
    account.deploy(stack())
    account.move_clock(DURING)
    tag(account, manual=True)
    resize(account, 3)
    tag(account, manual=False)
    account.move_clock("2026-12-05T00:06Z")
    assert size(account) == NODES


def test_a_suspended_launch_is_resumed_when_its_cause_is_gone(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack())
    scaling = account.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    scaling.suspend_processes(AutoScalingGroupName=group["AutoScalingGroupName"], ScalingProcesses=["Launch"])
    account.move_clock("2026-12-01T11:36Z")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert not group["SuspendedProcesses"]
    assert len(group["Instances"]) == NODES


def test_a_block_that_is_deployed_while_it_runs_grows_at_once(account: InProcessEmulator, stack: Stack) -> None:
    """Also if the fleet exists: a deployed change is an event, and no delivery comes any more."""
    account.deploy(stack())
    account.move_clock("2026-12-20T00:00Z")
    account.seed({"reservations": [{**_block(), "id": NEXT, "starts_at": "2026-12-19T11:30Z", "ends_at": NEXT_END}]})
    account.deploy(stack(block=NEXT, starts_at=None, ends_at=NEXT_END))
    assert size(account) == NODES


def test_a_fleet_that_is_enlarged_during_its_block_grows(account: InProcessEmulator, stack: Stack) -> None:
    account.deploy(stack(nodes=2))
    account.move_clock(DURING)
    assert size(account) == 2
    account.deploy(stack())
    assert size(account) == NODES


def test_the_schedules_stand_in_for_lost_events(account: InProcessEmulator, stack: Stack) -> None:
    account.seed({"block_event_names": ["Lost", "Lost too"]})
    account.deploy(stack())
    account.move_clock("2026-12-01T11:31Z")
    assert size(account) == NODES
    account.move_clock("2026-12-15T10:56Z")
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


def test_each_of_two_blocks_is_filled_and_drained_at_its_own_end(account: InProcessEmulator, app_factory: Any) -> None:
    """They overlap by a day, so the fleet has the nodes of both for a day."""
    second_start, second_end = "2026-12-14T11:30Z", "2026-12-21T11:30Z"
    first = {**_block(), "count": 2}
    second = {**first, "id": NEXT, "starts_at": second_start, "ends_at": second_end}
    account.seed({"reservations": [first, second]})
    made = cdk.Stack(app_factory(), "Training")
    network = ClusterNetwork(made, "Network", availability_zone="us-east-1a")
    blocks = [
        BlockTerms(reservation_id=name, node_count=2, starts_at=instant(start), ends_at=instant(end))
        for name, start, end in ((BLOCK, START, END), (NEXT, second_start, second_end))
    ]
    GpuFleet(
        made,
        "Trainers",
        vpc=network.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        instance_type="p5.48xlarge",
        node_count=NODES,
        capacity=Capacity.capacity_blocks(blocks),
    )
    account.deploy(dict(Template.from_stack(made).to_json()))
    sizes = {}
    for moment in ("2026-12-14T11:00Z", "2026-12-14T11:40Z", "2026-12-15T10:56Z", "2026-12-15T11:40Z", second_end):
        account.move_clock(moment)
        account.make_nodes_ready()
        sizes[moment] = size(account)
    assert list(sizes.values()) == [2, 4, 2, 2, 0], sizes
    left = {one["CapacityReservationId"] for one in running(account)}
    assert left == set()


def instant(text: str) -> datetime:
    return parse_instant(text, name="moment")


def running(account: InProcessEmulator) -> list[dict[str, Any]]:
    found = account.client("ec2").describe_instances()["Reservations"]
    return [one for reservation in found for one in reservation["Instances"]]
