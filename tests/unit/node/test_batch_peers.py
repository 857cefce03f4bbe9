"""`gpu-peers` in the containers of a multi-node job of AWS Batch: processes that find each other, and run ranks."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.topology import peers as peers_command
from cdk_gpu_clusters.node.gpunode.topology.batch_job import BatchJob, NotMetError, batch_job, meet
from cdk_gpu_clusters.node.software import late_files
from cdk_gpu_clusters.orchestration.batch.multi_node_job import SOFTWARE_PATHS

# From there a connection comes from 127.0.0.1: the two nodes have different addresses.
MAIN = "127.0.0.5"

# A rank of a job, as the variables of torchrun describe it: all ranks add their numbers at rank 0.
RANK = """
import os, sys, time
from multiprocessing.connection import Client, Listener
node, per_node, nodes = (int(os.environ[name]) for name in ("NODE_RANK", "NPROC_PER_NODE", "NNODES"))
rank, world = node * per_node + int(sys.argv[1]), per_node * nodes
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with Listener(where, backlog=world) as listener:
        others = [listener.accept() for _ in range(world - 1)]
    total = sum(other.recv() for other in others)
    for other in others:
        other.send(total)
else:
    for _ in range(200):
        try:
            other = Client(where)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    other.send(rank)
    total = other.recv()
print(f"rank {rank} of {world}: {total}")
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a container has of its node: the paths that the job definition mounts, and nothing else."""
    folder = tmp_path_factory.mktemp("container")
    for file in late_files():
        if file.path in SOFTWARE_PATHS or file.path.startswith(f"{SOFTWARE_PATHS[0]}/"):
            path = folder / file.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
            path.chmod(file.mode)
    return folder


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind((MAIN, 0))
        found: int = probe.getsockname()[1]
        return found


def variables(index: int, count: int = 2, *, attempt: int = 1, main: int = 0) -> dict[str, str]:
    """What Batch sets in a container (AWS Batch user guide, "Environment variables" of multi-node parallel jobs)."""
    address = {} if index == main else {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": MAIN}
    return {
        "AWS_BATCH_JOB_ID": f"4c7599ae-0a82-49aa-ba5a-4727fcce14a8#{index}",
        "AWS_BATCH_JOB_ATTEMPT": str(attempt),
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(main),
        "AWS_BATCH_JOB_NODE_INDEX": str(index),
        "AWS_BATCH_JOB_NUM_NODES": str(count),
        **address,
    }


def container(root: Path, script: str, own: Mapping[str, str], port: int) -> subprocess.Popen[str]:
    """A container with a script: no settings of a node, no metadata service."""
    environment = {
        "PATH": f"{root}/usr/local/bin:{os.environ['PATH']}",
        "GPU_CLUSTER_ROOT": str(root),
        "GPU_CLUSTER_PYTHON": sys.executable,
        "GPU_PEERS_PORT": str(port),
        "GPU_CLUSTER_IMDS": "http://127.0.0.1:9",
        "GPU_SLOTS": "2",
        **own,
    }
    command = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_containers_find_each_other_and_run_ranks(root: Path, port: int, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK, encoding="utf-8")
    script = f"""
    gpu-peers --format json --output {tmp_path}/peers-$AWS_BATCH_JOB_NODE_INDEX
    eval "$(gpu-peers --format torchrun --port {port})"
    export MASTER_ADDR MASTER_PORT NNODES NODE_RANK NPROC_PER_NODE
    {sys.executable} {tmp_path}/rank.py 0 & {sys.executable} {tmp_path}/rank.py 1
    wait $!
    """
    nodes = [container(root, script, variables(index), port) for index in (1, 0)]
    outputs = [node.communicate(timeout=60) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    lines = sorted(line for output, _ in outputs for line in output.splitlines())
    assert lines == [f"rank {rank} of 4: 6" for rank in range(4)]
    listed = [json.loads((tmp_path / f"peers-{index}").read_text()) for index in (0, 1)]
    assert [[row["private_ip"] for row in rows] for rows in listed] == [[MAIN, "127.0.0.1"]] * 2
    assert [[row["own"] for row in rows] for rows in listed] == [[True, False], [False, True]]


def test_a_node_that_does_not_come_ends_the_others_with_the_status_of_a_retry(root: Path, port: int) -> None:
    main = container(root, "gpu-peers --timeout 1", variables(0, 3), port)
    other = container(root, "gpu-peers --timeout 1", variables(1, 3), port)
    for node, words in ((main, "of 3 nodes are there"), (other, "has not named the others")):
        _, errors = node.communicate(timeout=30)
        assert node.returncode == os.EX_TEMPFAIL
        assert words in errors


@pytest.mark.parametrize(("arguments", "seconds"), [([], 30 * 60), (["--timeout", "7"], 7), (["--timeout", "0"], 0)])
def test_a_job_waits_for_images_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], seconds: float
) -> None:
    """Batch starts the other containers after the main one, and only then they fetch their image."""
    waited: list[float] = []

    def met(_: BatchJob, *, timeout_seconds: float) -> list[str]:
        waited.append(timeout_seconds)
        return [MAIN]

    monkeypatch.setattr(peers_command, "batch_job", lambda: BatchJob("job/1", 0, 1, ""))
    monkeypatch.setattr(peers_command, "meet", met)
    parser = argparse.ArgumentParser()
    peers_command.add_peers(parser.add_subparsers())
    given = parser.parse_args(["peers", *arguments])
    assert given.run(given) == 0
    assert waited == [seconds]


def test_formats(root: Path, port: int) -> None:
    alone = variables(0, 1)
    done = container(root, "gpu-peers --format mpirun; gpu-peers --rdzv-endpoint", alone, port).communicate(timeout=30)
    assert done == ("127.0.0.1 slots=2\n127.0.0.1:29500\n", "")
    wrong = container(root, "gpu-peers --format slurm", alone, port)
    assert "no topology" in wrong.communicate(timeout=30)[1]
    assert wrong.returncode == os.EX_USAGE


def test_the_main_node_is_rank_0_whatever_its_index() -> None:
    jobs = [batch_job(variables(index, 4, main=2)) for index in range(4)]
    assert [job.rank for job in jobs if job] == [2, 3, 0, 1]
    assert [job.main_address for job in jobs if job] == [MAIN, MAIN, "", MAIN]
    assert {job.attempt for job in jobs if job} == {"4c7599ae-0a82-49aa-ba5a-4727fcce14a8/1"}
    assert batch_job({"PATH": "/bin", "AWS_BATCH_JOB_ID": "single-node"}) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"AWS_BATCH_JOB_NODE_INDEX": "2"},
        {"AWS_BATCH_JOB_NODE_INDEX": "one"},
        {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": ""},
        {"GPU_PEERS_PORT": "x"},
    ],
)
def test_variables_that_contradict_each_other_are_named(changes: dict[str, str]) -> None:
    with pytest.raises(NotMetError, match="variables of AWS Batch"):
        batch_job({**variables(1), **changes})


def test_a_node_that_is_gone_before_it_gets_the_addresses_ends_the_main_node_too(port: int) -> None:
    """Its connection goes with its container."""
    found: list[str] = []

    def wait() -> None:
        with pytest.raises(NotMetError) as fault:
            meet(BatchJob("job/1", 0, 3, "", port), timeout_seconds=30)
        found.append(str(fault.value))

    main = threading.Thread(target=wait)
    main.start()
    gone = _connected(port)
    gone.sendall(b'{"attempt":"job/1","rank":2}\n')
    gone.close()
    assert meet(BatchJob("job/1", 1, 3, MAIN, port), timeout_seconds=30) == [MAIN, "127.0.0.1", "127.0.0.1"]
    main.join(timeout=30)
    assert found == ["all 3 nodes were there; rank 2 does not answer any more"]


def test_connections_that_wait_are_not_idle(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For EC2, that begins before 350 seconds."""
    seen: list[tuple[int, int]] = []

    class Seen(socket.socket):
        def sendall(self, data: Any, flags: int = 0) -> None:
            options = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
            seen.append(tuple(self.getsockopt(*option) for option in options))  # type: ignore[arg-type]
            super().sendall(data, flags)

    monkeypatch.setattr(socket, "socket", Seen)
    main = threading.Thread(target=lambda: meet(BatchJob("job/1", 0, 2, "", port), timeout_seconds=30))
    main.start()
    meet(BatchJob("job/1", 1, 2, MAIN, port), timeout_seconds=30)
    main.join(timeout=30)
    assert len(seen) == 3
    assert {(alive, idle < 350) for alive, idle in seen} == {(1, True)}


def _connected(port: int) -> socket.socket:
    for _ in range(200):
        with suppress(ConnectionRefusedError):
            return socket.create_connection((MAIN, port), timeout=5)
        time.sleep(0.05)
    raise AssertionError("the main node does not listen")


def test_guests_of_another_attempt_and_strangers_are_left_out(port: int) -> None:
    main = BatchJob("job/2", 0, 2, "", port)
    found: list[list[str]] = []
    server = threading.Thread(target=lambda: found.append(meet(main, timeout_seconds=30)))
    server.start()
    with pytest.raises(NotMetError):
        meet(BatchJob("job/1", 1, 2, MAIN, port), timeout_seconds=2)
    for said in (
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"attempt":"job/2","rank":9}\n',
        b"[]\n",
        b'{"attempt":"job/2","rank":"1"}\n',
    ):
        with socket.create_connection((MAIN, port), timeout=5) as stranger:
            stranger.sendall(said)
    assert meet(BatchJob("job/2", 1, 2, MAIN, port), timeout_seconds=30) == [MAIN, "127.0.0.1"]
    server.join(timeout=30)
    assert found == [[MAIN, "127.0.0.1"]]
