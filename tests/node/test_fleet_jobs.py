"""Jobs on all nodes of a fleet: booted nodes whose ranks talk to each other over TCP, started by `gpu-clusters run`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from gpu_clusters_emulator.permissions import private_address
from nodebox.agent import Agent
from nodebox.cloud import ACCOUNT, REGION
from nodebox.lab import Lab, fleet
from nodebox.namespace import NetworkNamespace
from nodebox.node import Node

# A ring: each rank sends its number to the next and adds what it gets, as NCCL's all-reduce does. It counts its steps in
# checkpoints, and goes on from the newest.
PROGRAM = """
import os, socket, sys, time
from pathlib import Path

rank, count = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
master, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
steps, folder = int(sys.argv[1]), Path(os.environ["CHECKPOINT_DIR"])
newest = os.environ.get("RESUME_FROM_CHECKPOINT", "")
first = int(newest.rpartition("-")[2]) if newest else 0
print(f"rank {rank} of {count} as {os.getuid()} in attempt {os.environ['GPU_JOB_ATTEMPT']} from step {first}", flush=True)


def connect():
    for _ in range(100):
        try:
            return socket.create_connection((master, port), timeout=30)
        except OSError:
            time.sleep(0.1)
    sys.exit("the master does not answer")


if rank == 0:
    server = socket.create_server(("", port))
    peers = [server.accept()[0] for _ in range(count - 1)]
else:
    peers = [connect()]
for step in range(first + 1, steps + 1):
    if rank == 0:
        total = sum(int(peer.recv(64) or sys.exit("a peer is gone")) for peer in peers)
        for peer in peers:
            peer.send(str(total).encode())
        made = folder / f"step-{step}"
        made.mkdir()
        (made / ".complete").touch()
    else:
        peers[0].send(str(rank).encode())
        total = int(peers[0].recv(64) or sys.exit("the master is gone"))
    assert total == sum(range(count)), total
    time.sleep(0.2)
print(f"rank {rank}: sum {total} in step {steps}", flush=True)
"""


class Cluster:
    """A fleet of booted nodes in one network, and a person with the command."""

    def __init__(self, lab: Lab, tmp_path: Path) -> None:
        self.lab, self.made = lab, ExitStack()
        # What FSx for Lustre is to a fleet: a folder that all nodes share.
        self.shared = tmp_path / "fsx"
        self.shared.mkdir(mode=0o755)
        self._lan, self._count = NetworkNamespace(), 0
        self.made.callback(self._lan.close)
        self.fleet = lab.cloud.deploy(fleet("g6.xlarge", node_count=2, environment={"CHECKPOINT_DIR": "/fsx/ring"}))
        self.name = self.fleet.group_name
        self.nodes = [self.boot(), self.boot()]

    def boot(self) -> Node:
        """Boot an instance that waits for its launching hook."""
        self._count += 1
        node = self.made.enter_context(
            self.lab.instance(self.fleet, gpu="L4-24GB", gpu_count=1, binds={"/fsx": self.shared})
        )
        node.network.join(self._lan, private_address(node.instance_id), self._count)
        node.write("/etc/gpu-cluster/mounts", "/fsx fs-0.fsx.us-east-1.amazonaws.com abcd1234 rw\n")
        node.power_on()
        self.made.enter_context(Agent(node))
        return node

    def ready(self) -> None:
        for node in self.nodes:
            node.ready()
            node.in_service()

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.lab.cloud.account.endpoint_url,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_REGION": REGION,
            "PATH": "/usr/bin:/bin",
            "PYTHONUTF8": "1",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def start(self, *arguments: str) -> Terminal:
        return Terminal(self.command(*arguments), self.environment, self.shared.with_name("terminal"))


class Terminal:
    """A command that runs beside the test; what it prints is in a file."""

    def __init__(self, command: list[str], environment: dict[str, str], file: Path) -> None:
        self._file = file
        with file.open("w") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)

    @property
    def output(self) -> str:
        return self._file.read_text()

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)


def _has_no_process(node: Node, words: str) -> bool:
    return words not in node.run("ps -e -o args=").stdout


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(lab, tmp_path_factory.mktemp("cluster"))
    with made.made:
        made.ready()
        yield made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "ring.py").write_text(PROGRAM)
    return folder


def words_of(cluster: Cluster, done: subprocess.CompletedProcess[str]) -> str:
    nodes = "\n".join(node.last_words() for node in cluster.nodes)
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}\n{nodes}"


def test_a_job_runs_on_both_nodes_as_a_user_without_rights(cluster: Cluster, program: Path) -> None:
    done = cluster.run("run", cluster.name, "--no-container", "--files", str(program), "--", "python3", "ring.py", "3")
    assert done.returncode == 0, words_of(cluster, done)
    for rank in (0, 1):
        assert f"rank {rank} of 2 as 59100 in attempt 1 from step 0" in done.stdout
        assert f"| rank {rank}: sum 1 in step 3" in done.stdout
    hosts = {line.partition(" | ")[0] for line in done.stdout.splitlines()}
    assert hosts == {f"ip-{private_address(node.instance_id).replace('.', '-')}" for node in cluster.nodes}
    assert cluster.run("jobs", "list", cluster.name).stdout.splitlines()[1].split()[1] == "done"


def test_a_failed_job_has_the_status_of_its_ranks(cluster: Cluster) -> None:
    done = cluster.run(
        "run", cluster.name, "--no-container", "--max-restarts", "1", "--", "sh", "-c",
        "setsid sleep 4321 & exit $((4 + NODE_RANK))",
    )  # fmt: skip
    assert done.returncode in (4, 5), words_of(cluster, done)
    assert "attempt 2" in done.stdout
    # As torchrun leaves its workers, each in a session of its own.
    for node in cluster.nodes:
        node.eventually(partial(_has_no_process, node, "sleep 4321"))


def test_a_job_is_stopped_from_another_terminal(cluster: Cluster) -> None:
    terminal = cluster.start("run", cluster.name, "--no-container", "--", "sleep", "1000")
    end = time.monotonic() + 400
    while "attempt" not in cluster.run("jobs", "list", cluster.name).stdout:
        assert time.monotonic() < end, cluster.run("jobs", "list", cluster.name).stdout
        time.sleep(1)
    second = cluster.run("run", cluster.name, "--no-container", "--", "true")
    assert second.returncode == 2
    assert "takes one job at a time" in second.stderr
    assert cluster.run("jobs", "stop", cluster.name).returncode == 0
    assert terminal.wait(300) == 130, terminal.output
    for node in cluster.nodes:
        node.eventually(partial(_has_no_process, node, "sleep 1000"))


def test_a_node_is_lost_and_the_job_goes_on_from_its_checkpoint(cluster: Cluster, program: Path) -> None:
    for old in cluster.shared.glob("ring/*"):
        (old / ".complete").unlink()
        old.rmdir()
    arguments = ("--no-container", "--max-restarts", "0", "--files", str(program), "--", "python3", "ring.py", "100")
    terminal = cluster.start("run", cluster.name, *arguments)
    end = time.monotonic() + 400
    # Output that a lost node has not sent yet is lost with it.
    while len(list(cluster.shared.glob("ring/*/.complete"))) < 10 or terminal.output.count("from step 0") < 2:
        assert time.monotonic() < end, terminal.output
        time.sleep(0.5)
    lost = cluster.nodes[1]
    lost.power_off()
    cluster.fleet.lose(lost.instance_id)
    cluster.nodes[1] = cluster.boot()
    cluster.ready()
    status = terminal.wait(600)
    output = terminal.output
    assert status == 0, f"{output}\n{cluster.nodes[0].last_words()}\n{cluster.nodes[1].last_words()}"
    steps = [int(line.rpartition(" ")[2]) for line in output.splitlines() if " from step " in line]
    assert steps[:2] == [0, 0]
    assert all(step >= 10 for step in steps[-2:])
    assert output.count("sum 1 in step 100") == 2


def test_attach_and_logs_show_a_job_of_another_terminal(cluster: Cluster) -> None:
    detached = cluster.run("run", cluster.name, "--no-container", "--detach", "--", "sh", "-c", "echo hello $NODE_RANK")
    job = detached.stdout.strip()
    attached = cluster.run("jobs", "attach", cluster.name)
    assert attached.returncode == 0, words_of(cluster, attached)
    assert {"hello 0", "hello 1"} <= {line.partition(" | ")[2] for line in attached.stdout.splitlines()}
    assert set(cluster.run("jobs", "logs", cluster.name, job).stdout.splitlines()) == set(attached.stdout.splitlines())
    (newest, *_) = json.loads(cluster.run("jobs", "list", cluster.name, "--json").stdout)["jobs"]
    assert (newest["job_id"], newest["state"]) == (job, "done")
