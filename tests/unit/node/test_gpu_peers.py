"""`gpu-peers`, run for real against a fake account: what it lists is tested with `gpunode peers`."""

from __future__ import annotations

from typing import Any

import pytest

MEMBERS = [
    ("i-0123456789abcdef0", "10.0.10.7", "InService"),
    ("i-0aaaaaaaaaaaaaaaa", "10.0.9.200", "InService"),
    ("i-0bbbbbbbbbbbbbbbb", "10.0.1.1", "Pending:Wait"),
    ("i-0cccccccccccccccc", "10.0.10.30", "InService"),
]


@pytest.fixture
def fleet_node(node: Any) -> Any:
    node.install(accelerator_kind="gpu", accelerator_count=8)
    node.account.lifecycle = "InService"
    node.account.members = MEMBERS
    return node


def test_the_short_name_lists_the_nodes_in_service_in_the_order_of_the_network(fleet_node: Any) -> None:
    done = fleet_node.peers("--format", "mpirun", "--slots", "4")
    lines = ["10.0.10.7 slots=4", "10.0.10.30 slots=4", "10.0.9.200 slots=4"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")


def test_the_slots_are_those_of_the_fleet(fleet_node: Any) -> None:
    assert "NPROC_PER_NODE=8" in fleet_node.peers("--format", "torchrun").stdout


def test_what_ec2_does_not_tell_is_said(fleet_node: Any) -> None:
    fleet_node.account.denied = {"describe-instance-topology": 1}
    done = fleet_node.peers()
    assert (done.returncode, done.stdout.split()) == (0, ["10.0.9.200", "10.0.10.7", "10.0.10.30"])
    assert "ordered by address, not by network" in done.stderr
    assert fleet_node.peers("--format", "yaml").returncode == 64
