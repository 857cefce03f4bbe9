"""`gpunode peers`: formats, the order of the network, waiting, and what cannot be done."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import cli
from cdk_gpu_clusters.node.gpunode.node import Aws, AwsError, Metadata, Node, Settings
from cdk_gpu_clusters.node.gpunode.topology import peers

OWN = "i-0123456789abcdef0"
NEAR, FAR = "i-0aaaaaaaaaaaaaaaa", "i-0cccccccccccccccc"
MEMBERS = {
    OWN: ("10.0.10.7", "InService"),
    NEAR: ("10.0.9.200", "InService"),
    "i-0bbbbbbbbbbbbbbbb": ("10.0.1.1", "Pending:Wait"),
    FAR: ("10.0.10.30", "InService"),
}
UNAUTHORIZED = "An error occurred (UnauthorizedOperation) when calling the DescribeInstanceTopology operation"


class Account(Aws):
    """The AWS account that the node sees."""

    def __init__(self) -> None:
        super().__init__("us-east-2")
        self.group = "trainers-asg"
        self.members = dict(MEMBERS)
        self.arrivals: dict[str, tuple[str, str]] = {}
        self.above: dict[str, list[str]] = {}
        self.late: Counter[str] = Counter()
        self.faults: dict[str, list[str]] = {}
        self.calls: list[tuple[str, ...]] = []

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        self.calls.append((operation, *arguments))
        if self.faults.get(operation):
            raise AwsError(self.faults[operation].pop(0))
        return getattr(self, operation.replace("-", "_"))(arguments)

    def describe_auto_scaling_instances(self, _: tuple[str, ...]) -> dict[str, Any]:
        row = {"AutoScalingGroupName": self.group, "LifecycleState": "InService"}
        return {"AutoScalingInstances": [row] if self.group else []}

    def describe_auto_scaling_groups(self, _: tuple[str, ...]) -> list[str]:
        if self.arrivals:
            name = next(iter(self.arrivals))
            self.members[name] = self.arrivals.pop(name)
        return [name for name, (_, state) in self.members.items() if state == "InService"]

    def describe_instances(self, _: tuple[str, ...]) -> list[list[str]]:
        return [[address, name] for name, (address, _) in self.members.items()]

    def describe_instance_topology(self, arguments: tuple[str, ...]) -> list[list[Any]]:
        asked = arguments[1 : arguments.index("--query")]
        assert len(asked) <= 100
        rows = [[name, self.above[name]] for name in asked if name in self.above and self.late[name] <= 0]
        self.late.subtract(asked)
        return rows

    def made(self, operation: str) -> int:
        return sum(call[0] == operation for call in self.calls)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """A node of a fleet in an account."""
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    made = Account()
    made.above = {OWN: ["nn-1", "nn-3"], NEAR: ["nn-1", "nn-2"], FAR: ["nn-1", "nn-2"]}
    node = Node(Settings({"slots": "8"}), Metadata(), OWN, made)
    monkeypatch.setattr(peers, "this_node", lambda: node)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return made


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    try:
        status = cli.main(["peers", *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    said = capsys.readouterr()
    return status, said.out.splitlines(), said.err


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ([], ["10.0.9.200", "10.0.10.30", "10.0.10.7"]),
        (["--order", "address"], ["10.0.9.200", "10.0.10.7", "10.0.10.30"]),
        (["--own-first"], ["10.0.10.7", "10.0.9.200", "10.0.10.30"]),
        (["--format", "imex"], ["10.0.9.200", "10.0.10.30", "10.0.10.7"]),
        (
            ["--format", "slurm"],
            [
                "SwitchName=nn-2 Nodes=ip-10-0-9-200,ip-10-0-10-30",
                "SwitchName=nn-3 Nodes=ip-10-0-10-7",
                "SwitchName=nn-1 Switches=nn-2,nn-3",
            ],
        ),
        (["--format", "mpirun"], ["10.0.9.200 slots=8", "10.0.10.30 slots=8", "10.0.10.7 slots=8"]),
        (
            ["--format", "mpirun", "--slots", "4"],
            ["10.0.9.200 slots=4", "10.0.10.30 slots=4", "10.0.10.7 slots=4"],
        ),
        (["--rdzv-endpoint"], ["10.0.9.200:29500"]),
        (["--rdzv-endpoint", "--port", "1234"], ["10.0.9.200:1234"]),
        (
            ["--format", "torchrun"],
            ["MASTER_ADDR=10.0.9.200", "MASTER_PORT=29500", "NNODES=3", "NODE_RANK=2", "NPROC_PER_NODE=8"],
        ),
    ],
    ids=" ".join,
)
def test_formats_list_the_nodes_in_service_with_neighbours_beside_each_other(
    account: Account, capsys: pytest.CaptureFixture[str], arguments: list[str], lines: list[str]
) -> None:
    assert run(capsys, *arguments) == (0, lines, "")


def test_slurm_has_a_switch_of_nodes_below_one_of_switches_where_types_have_fewer_layers(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.above = {OWN: ["nn-1", "nn-3", "nn-4"], NEAR: ["nn-1", "nn-3", "nn-4"], FAR: ["nn-1", "nn-3"]}
    _, lines, _ = run(capsys, "--format", "slurm")
    switches = {switch.partition("=")[2]: below for switch, below in map(str.split, lines)}
    # Slurm knows a switch once, with nodes or with switches.
    assert len(switches) == len(lines)
    assert switches == {
        "nn-4": "Nodes=ip-10-0-9-200,ip-10-0-10-7",
        "nn-3-nodes": "Nodes=ip-10-0-10-30",
        "nn-3": "Switches=nn-4,nn-3-nodes",
        "nn-1": "Switches=nn-3",
    }


def test_json_marks_the_own_node_and_names_its_network(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    status, [line], _ = run(capsys, "--format", "json")
    rows = json.loads(line)
    assert (status, [row["own"] for row in rows]) == (0, [False, False, True])
    assert rows[2] == {
        "private_ip": "10.0.10.7",
        "instance_id": OWN,
        "own": True,
        "network_nodes": ["nn-1", "nn-3"],
    }


def test_order_does_not_depend_on_the_order_of_the_answers(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(capsys)
    account.members = dict(reversed(account.members.items()))
    account.above = dict(reversed(account.above.items()))
    assert run(capsys) == first


def test_large_fleets_are_asked_about_in_batches(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    """EC2 takes 100 ids at a time."""
    account.members = {f"i-{n:017x}": (f"10.0.{n // 250}.{n % 250}", "InService") for n in range(250)}
    account.above = {name: ["nn-1", f"nn-{n % 2}"] for n, name in enumerate(account.members)}
    status, lines, _ = run(capsys)
    assert (status, len(lines), account.made("describe-instance-topology")) == (0, 250, 3)
    assert lines[:2] == ["10.0.0.0", "10.0.0.2"]
    assert lines[125] == "10.0.0.1"


@pytest.mark.parametrize(
    "fault",
    [
        UNAUTHORIZED,
        "An error occurred (UnsupportedOperation): The functionality is not supported in this region",
        "aws: error: argument operation: Invalid choice, valid choices are:",
    ],
)
def test_what_no_node_may_ask_leaves_the_order_of_addresses(
    account: Account, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    account.faults = {"describe-instance-topology": [fault]}
    status, lines, warning = run(capsys)
    assert (status, lines) == (0, ["10.0.9.200", "10.0.10.7", "10.0.10.30"])
    assert warning.startswith("gpu-peers: ordered by address, not by network: ")


def test_a_type_without_topology_leaves_the_order_of_addresses(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.above = {}
    status, lines, warning = run(capsys)
    assert (status, lines) == (0, ["10.0.9.200", "10.0.10.7", "10.0.10.30"])
    assert "EC2 reports no topology of these instances" in warning
    assert account.made("describe-instance-topology") == 1


def test_a_failure_that_passes_gives_no_list_rather_than_another_order(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other nodes may be answered, and their rank 0 would be another one."""
    throttled = "An error occurred (RequestLimitExceeded) when calling the DescribeInstanceTopology operation"
    account.faults = {"describe-instance-topology": [throttled] * 2}
    status, lines, words = run(capsys)
    assert (status, lines, "RequestLimitExceeded" in words) == (75, [], True)
    status, lines, _ = run(capsys, "--wait", "3")
    assert (status, lines) == (0, ["10.0.9.200", "10.0.10.30", "10.0.10.7"])


def test_an_instance_that_ec2_tells_of_late_is_waited_for(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.late[FAR] = 1
    assert run(capsys)[1] == ["10.0.9.200", "10.0.10.30", "10.0.10.7"]
    account.late[FAR] = 99
    status, lines, warning = run(capsys)
    assert (status, lines) == (0, ["10.0.9.200", "10.0.10.7", "10.0.10.30"])
    assert FAR in warning


def test_files_are_replaced_in_one_step(account: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hosts = tmp_path / "etc/gpu-cluster/hosts"
    hosts.parent.mkdir(parents=True)
    hosts.write_text("old\n")
    assert run(capsys, "--write") == (0, [], "")
    assert hosts.read_text() == "10.0.9.200 slots=8\n10.0.10.30 slots=8\n10.0.10.7 slots=8\n"
    imex = tmp_path / "etc/nvidia-imex/nodes_config.cfg"
    assert run(capsys, "--format", "imex", "--output", str(imex))[0] == 0
    assert imex.read_text() == "10.0.9.200\n10.0.10.30\n10.0.10.7\n"
    assert [file.name for folder in (hosts.parent, imex.parent) for file in folder.iterdir()] == [
        hosts.name,
        imex.name,
    ]


def test_wait_until_the_fleet_is_complete(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.members = {OWN: MEMBERS[OWN]}
    account.arrivals = {name: MEMBERS[name] for name in (NEAR, FAR)}
    status, lines, _ = run(capsys, "--wait", "3")
    assert (status, len(lines), account.made("describe-auto-scaling-groups")) == (0, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--wait", "5", "--timeout", "0"], 75, "3 of 5 nodes in service"),
        (["--format", "yaml"], 64, "invalid choice: 'yaml'"),
        (["--wait", "all"], 64, "all is not a number"),
        (["--slots"], 64, "expected one argument"),
        (["--all"], 64, "--all"),
        (["--own-first", "--format", "slurm"], 64, "all nodes must see the same order"),
        (["--own-first", "--format", "torchrun"], 64, "all nodes must see the same order"),
        (["--own-first", "--rdzv-endpoint"], 64, "all nodes must see the same order"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_said(
    account: Account,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    ended, lines, words = run(capsys, *arguments)
    assert (ended, lines, message in words) == (status, [], True)


def test_node_that_is_not_in_service_has_no_rank_and_leaves_files_alone(
    account: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del account.members[OWN]
    ranks = tmp_path / "ranks"
    status, _, words = run(capsys, "--format", "torchrun", "--output", str(ranks))
    assert (status, "has no rank" in words, ranks.exists()) == (69, True, False)


def test_node_outside_any_group_has_no_peers(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.group = ""
    status, lines, words = run(capsys)
    assert (status, lines, "not in an Auto Scaling group" in words) == (69, [], True)


def test_denied_call_is_an_error_not_an_empty_fleet(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.faults = {"describe-auto-scaling-groups": ["An error occurred (AccessDenied)"]}
    status, lines, words = run(capsys)
    assert (status, lines, "AccessDenied" in words) == (75, [], True)


def test_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = run(capsys, "--help")
    assert (status, max(map(len, lines)) <= 120) == (0, True)
