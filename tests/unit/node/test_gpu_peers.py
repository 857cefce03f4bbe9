"""gpu-peers, run for real against a fake account."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ([], ["10.0.9.200", "10.0.10.7", "10.0.10.30"]),
        (["--own-first"], ["10.0.10.7", "10.0.9.200", "10.0.10.30"]),
        (["--format", "imex"], ["10.0.9.200", "10.0.10.7", "10.0.10.30"]),
        (["--format", "mpirun"], ["10.0.9.200 slots=8", "10.0.10.7 slots=8", "10.0.10.30 slots=8"]),
        (
            ["--format", "mpirun", "--slots", "4"],
            ["10.0.9.200 slots=4", "10.0.10.7 slots=4", "10.0.10.30 slots=4"],
        ),
        (["--rdzv-endpoint"], ["10.0.9.200:29500"]),
        (["--rdzv-endpoint", "--port", "1234"], ["10.0.9.200:1234"]),
        (
            ["--format", "torchrun"],
            ["MASTER_ADDR=10.0.9.200", "MASTER_PORT=29500", "NNODES=3", "NODE_RANK=1", "NPROC_PER_NODE=8"],
        ),
    ],
    ids=" ".join,
)
def test_formats_list_the_nodes_in_service_in_numeric_order(
    fleet_node: Any, arguments: list[str], lines: list[str]
) -> None:
    done = fleet_node.peers(*arguments)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")


def test_json_marks_the_own_node(fleet_node: Any) -> None:
    peers = json.loads(fleet_node.peers("--format", "json").stdout)
    assert [(peer["private_ip"], peer["own"]) for peer in peers] == [
        ("10.0.9.200", False), ("10.0.10.7", True), ("10.0.10.30", False)
    ]  # fmt: skip
    assert peers[1]["instance_id"] == "i-0123456789abcdef0"


def test_files_are_replaced_in_one_step(fleet_node: Any) -> None:
    fleet_node.write("etc/gpu-cluster/hosts", "old\n")
    assert fleet_node.peers("--write").stdout == ""
    folder = fleet_node.root / "etc/gpu-cluster"
    assert (folder / "hosts").read_text().startswith("10.0.9.200 slots=8\n10.0.10.7 slots=8\n")
    imex = fleet_node.root / "etc/nvidia-imex/nodes_config.cfg"
    fleet_node.peers("--format", "imex", "--output", str(imex))
    assert imex.read_text() == "10.0.9.200\n10.0.10.7\n10.0.10.30\n"
    assert sorted(file.name for file in folder.iterdir()) == ["hosts", "node.env"]


def test_wait_until_the_fleet_is_complete(fleet_node: Any) -> None:
    fleet_node.account.members = MEMBERS[:1]
    fleet_node.account.arrivals = MEMBERS[1:]
    done = fleet_node.peers("--wait", "3")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert len(fleet_node.account.made("describe-auto-scaling-groups")) == 3


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--wait", "5", "--timeout", "0"], 75, "3 of 5 nodes of trainers-asg in service"),
        (["--format", "yaml"], 64, "unknown format yaml"),
        (["--wait", "all"], 64, "all is not a number"),
        (["--slots"], 64, "--slots needs a value"),
        (["--all"], 64, "unknown argument --all"),
        (["--own-first", "--format", "torchrun"], 64, "all nodes must see the same order"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said(
    fleet_node: Any, arguments: list[str], status: int, message: str
) -> None:
    done = fleet_node.peers(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


def test_node_that_is_not_in_service_has_no_rank_and_leaves_files_alone(fleet_node: Any) -> None:
    fleet_node.account.members = MEMBERS[1:]
    done = fleet_node.peers("--format", "torchrun", "--output", str(fleet_node.root / "ranks"))
    assert (done.returncode, "has no rank" in done.stderr) == (69, True)
    assert not (fleet_node.root / "ranks").exists()


def test_node_outside_any_group_has_no_peers(fleet_node: Any) -> None:
    fleet_node.account.group = None
    done = fleet_node.peers()
    assert (done.returncode, "not in an Auto Scaling group" in done.stderr) == (69, True)


def test_denied_call_is_an_error_not_an_empty_fleet(fleet_node: Any) -> None:
    fleet_node.account.denied = {"describe-auto-scaling-groups": 1}
    done = fleet_node.peers()
    assert (done.returncode, done.stdout) == (254, "")
    assert "AccessDenied" in done.stderr


def test_help_fits_a_terminal(fleet_node: Any) -> None:
    done = fleet_node.peers("--help")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 120
