"""Nodes of Amazon EKS and AWS PCS on a Capacity Block know when to drain, and their launch template agrees."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Annotations, Match

from cdk_gpu_clusters import (
    Capacity,
    ConfigError,
    GpuFleet,
    GpuLaunchTemplate,
    NodeRole,
    NodeUserData,
    Orchestrator,
)
from cdk_gpu_clusters.node.gpunode.drain import Ending, Endings
from cdk_gpu_clusters.node.gpunode.node import this_node
from cdk_gpu_clusters.rules.fleet import BLOCK_DRAIN
from stack_fixtures import Site
from user_data import user_data
from watched_node import Clock

EKS, PCS = Orchestrator.EKS_MANAGED, Orchestrator.PCS
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z")
ULTRASERVER = Capacity.ultraserver_block(
    "arn:aws:resource-groups:us-east-1:123456789012:group/Ultra", ends_at="2026-12-15T11:30Z"
)


def text_of(site: Site, capacity: Capacity | None, orchestrator: Orchestrator = EKS) -> str:
    return NodeUserData(
        site.stack,
        "Nodes",
        instance_type="p5.48xlarge",
        orchestrator=orchestrator,
        role=NodeRole(site.stack, "Role"),
        slurm_version="25.11" if orchestrator is PCS else None,
        capacity=capacity,
    ).text


def settings(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("GPU_")]
    return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}


def launch(site: Site, text: str, capacity: Capacity | None) -> None:
    group = ec2.SecurityGroup.from_security_group_id(site.stack, "Given", "sg-0123456789abcdef0")
    GpuLaunchTemplate(
        site.stack,
        "Template",
        instance_type="p5.48xlarge",
        orchestrator=EKS,
        efa=False,
        security_groups=[group],
        capacity=capacity,
        user_data=text,
    )


@pytest.mark.parametrize("orchestrator", [EKS, PCS])
@pytest.mark.parametrize(
    ("capacity", "moment"), [(BLOCK, "2026-12-15T10:50:00Z"), (ULTRASERVER, "2026-12-15T10:20:00Z")]
)
def test_the_end_of_the_block_less_its_drain_is_told_to_the_node(
    site: Site, orchestrator: Orchestrator, capacity: Capacity, moment: str
) -> None:
    assert settings(text_of(site, capacity, orchestrator))["GPU_DRAIN_AT"] == moment


@pytest.mark.parametrize("capacity", [None, Capacity.on_demand(), Capacity.spot()])
def test_capacity_without_an_end_says_none(site: Site, capacity: Capacity | None) -> None:
    found = settings(text_of(site, capacity))
    assert "GPU_DRAIN_AT" not in found
    assert found["GPU_DRAIN_DEADLINE"] == "90"


def test_the_checkpoint_has_the_time_until_ec2_terminates_and_no_more(site: Site) -> None:
    seconds = int(settings(text_of(site, BLOCK))["GPU_DRAIN_DEADLINE"])
    believed, poll, marked, jobs = 60, 5, 5, 15
    assert 90 < believed + poll + marked + seconds + jobs <= BLOCK_DRAIN.total_seconds()


def test_a_fleet_on_a_block_is_told_by_its_group_alone(site: Site) -> None:
    """A block that is extended moves the schedule of the group; a moment in its nodes would end running work."""
    GpuFleet(
        site.stack,
        "Trainers",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="p5.48xlarge",
        node_count=2,
        capacity=BLOCK,
    )
    assert "GPU_DRAIN_AT" not in user_data(site.resources())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    return clock


def test_the_node_drains_at_that_moment(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = settings(text_of(site, BLOCK))
    (tmp_path / "etc/gpu-cluster").mkdir(parents=True)
    lines = "".join(f"{name}='{value}'\n" for name, value in told.items() if "${" not in value)
    (tmp_path / "etc/gpu-cluster/node.env").write_text(lines)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("GPU_CLUSTER_IMDS", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)
    endings = Endings(this_node(), clock)
    drain_at = datetime.fromisoformat("2026-12-15T10:50:00+00:00").timestamp()
    clock.now = drain_at - 1
    assert endings.find() is None
    clock.now = drain_at
    assert endings.find() is None, "a clock that jumps ends no node"
    clock.now = drain_at + 60
    assert endings.find() == Ending("capacity-block-end")


@pytest.mark.parametrize("capacity", [BLOCK, Capacity.on_demand()])
def test_user_data_and_launch_template_of_one_capacity_agree(site: Site, capacity: Capacity) -> None:
    launch(site, text_of(site, capacity), capacity)
    Annotations.from_stack(site.stack).has_no_warning("*", Match.string_like_regexp(".*GPU-UD-010.*"))


def test_a_block_that_the_nodes_do_not_know_of_is_warned_of(site: Site) -> None:
    launch(site, text_of(site, None), BLOCK)
    words = Match.string_like_regexp("GPU-UD-010: .*the nodes do not know when .*2026-12-15T10:50:00Z.*")
    Annotations.from_stack(site.stack).has_warning("/Site/Template", words)


def test_nodes_that_would_drain_at_another_time_are_refused(site: Site) -> None:
    later = Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-16T11:30Z")
    text = text_of(site, BLOCK)
    with pytest.raises(ConfigError, match=r"GPU-UD-010: .*2026-12-15T10:50:00Z.*2026-12-16T10:50:00Z"):
        launch(site, text, later)


def test_user_data_of_the_users_own_are_left_alone(site: Site) -> None:
    launch(site, "#!/bin/sh\necho GPU\n", BLOCK)
    Annotations.from_stack(site.stack).has_no_warning("*", Match.string_like_regexp(".*GPU-UD-010.*"))
