"""Real Ray on booted nodes of a fleet: it trains, loses a worker, and then its head, and does what docs/jobs.md says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cdk_gpu_clusters import RayNodes
from gpu_clusters_emulator.permissions import private_address
from nodebox.lab import Lab, fleet
from nodebox.namespace import NetworkNamespace
from nodebox.node import Node
from nodebox.ray import ray_folder

# A line through points, fitted by gradient descent: each GPU has one half of the points. It keeps its step in a
# checkpoint, and goes on from there.
PROGRAM = """
import json, os, sys, time
from pathlib import Path
import ray

steps, file = int(sys.argv[1]), Path("/fsx/checkpoint.json")
ray.init(address="auto", log_to_driver=False)


@ray.remote(num_gpus=1, max_retries=-1)
def gradient(slope, part):
    points = [(x / 10, 3 * x / 10) for x in range(part, 20, 2)]
    time.sleep(0.5)
    return sum(2 * x * (slope * x - y) for x, y in points) / len(points), ray.util.get_node_ip_address()


state = json.loads(file.read_text()) if file.exists() else {"step": 0, "slope": 0.0, "nodes": []}
print("from step", state["step"], flush=True)
while state["step"] < steps:
    found = ray.get([gradient.remote(state["slope"], part) for part in (0, 1)])
    state["slope"] -= 0.3 * sum(one for one, _ in found) / 2
    state["nodes"] = sorted({*state["nodes"], *(node for _, node in found)})
    state["step"] += 1
    file.with_suffix(".new").write_text(json.dumps(state))
    file.with_suffix(".new").rename(file)
print("done", json.dumps(state), flush=True)
"""
ALIVE = """
import json, ray
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
print(json.dumps([one["NodeManagerAddress"] for one in ray.nodes() if one["Alive"]]))
"""
# The usual times are for real clusters: nobody waits for 30 s and 60 s here.
FASTER = {"GPU_RAY_QUIET_SECONDS": "3", "RAY_gcs_rpc_server_reconnect_timeout_s": "20"}
AS_USER = "runuser -u gpu-job -- env HOME=/tmp"


class RayFleet:
    """Two booted nodes with Ray, in one network and with a folder that they share."""

    def __init__(self, lab: Lab, made: ExitStack) -> None:
        shared = lab.directory()
        shared.chmod(0o777)
        (shared / "train.py").write_text(PROGRAM)
        (shared / "alive.py").write_text(ALIVE)
        lan = NetworkNamespace()
        made.callback(lan.close)
        deployed = lab.cloud.deploy(fleet("g6.xlarge", node_count=2, ray=RayNodes()))
        binds = {"/opt/ray": ray_folder(), "/fsx": shared}
        self.checkpoint = shared / "checkpoint.json"
        self.nodes: dict[str, Node] = {}
        for number in (1, 2):
            node = made.enter_context(lab.instance(deployed, gpu="L4-24GB", gpu_count=1, binds=binds, variables=FASTER))
            address = private_address(node.instance_id)
            node.network.join(lan, address, number)
            # Ray looks its own name up, which a network without DNS answers late.
            node.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
            node.write("/etc/hosts", f"127.0.0.1 localhost\n{address} {node.name} ip-{address.replace('.', '-')}\n")
            node.power_on()
            self.nodes[address] = node

    def head(self) -> str | None:
        """Address of the head that all nodes know, and that is the only one."""
        told = {node.run("sed -n s/^RAY_OF=//p /run/gpu-ray.env", check=False).stdout.strip() for node in self}
        return told.pop() if len(told) == 1 and "" not in told else None

    def is_complete(self) -> bool:
        """Whether both nodes are in one cluster."""
        head = self.head()
        if head is None:
            return False
        done = self.nodes[head].run(f"{AS_USER} timeout 20 /opt/ray/bin/python /fsx/alive.py", check=False)
        return done.returncode == 0 and sorted(json.loads(done.stdout.splitlines()[-1])) == sorted(self.nodes)

    def complete(self) -> tuple[Node, Node]:
        """The head and the worker, once both are in one cluster."""
        try:
            next(iter(self)).eventually(self.is_complete)
        except AssertionError:
            raise AssertionError("\n\n".join(node.last_words() for node in self)) from None
        head = self.head()
        assert head is not None
        (worker,) = [node for address, node in self.nodes.items() if address != head]
        return self.nodes[head], worker

    def step(self) -> int:
        """How far the training is."""
        return int(json.loads(self.checkpoint.read_text())["step"]) if self.checkpoint.exists() else 0

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())


@pytest.fixture(scope="module")
def ray_fleet(lab: Lab) -> Iterator[RayFleet]:
    with ExitStack() as made:
        booted = RayFleet(lab, made)
        for node in booted:
            node.ready()
            node.in_service()
        yield booted


def train(node: Node, steps: int) -> None:
    """Start the program beside the test."""
    node.run(
        f"systemd-run --unit=train-{steps} --uid=gpu-job --setenv=HOME=/tmp /opt/ray/bin/python /fsx/train.py {steps}"
    )


def trained(node: Node, steps: int) -> bool:
    return any(entry.text.startswith("done") for entry in node.journal(f"train-{steps}"))


def test_ray_trains_on_all_nodes_and_loses_a_worker_and_its_head(ray_fleet: RayFleet) -> None:
    head, worker = ray_fleet.complete()
    assert head.unit("gpu-ray", "User") == "gpu-job"
    assert "gpu-job" in head.run("ps -o user= -C gcs_server").stdout
    listening = head.run("ss -ltnH 'sport = :8265'").stdout.split()
    assert [word for word in listening if word.endswith(":8265")] == ["127.0.0.1:8265"], "only a session reaches it"

    train(head, 12)
    head.eventually(lambda: ray_fleet.step() > 1)
    worker.run("systemctl kill --signal=KILL gpu-ray")
    head.eventually(lambda: trained(head, 12))
    result = json.loads(ray_fleet.checkpoint.read_text())
    assert (result["step"], result["nodes"]) == (12, sorted(ray_fleet.nodes))
    assert abs(result["slope"] - 3) < 0.01
    assert ray_fleet.complete() == (head, worker), "the worker joins again, and the head stays"

    train(head, 1000)
    head.eventually(lambda: ray_fleet.step() > 13)
    head.reboot()
    head.ready()
    new_head, _ = ray_fleet.complete()
    reached = ray_fleet.step()
    assert not trained(head, 1000), "a program on the head ends with it"
    train(new_head, reached + 3)
    new_head.eventually(lambda: trained(new_head, reached + 3))
    first = next(entry.text for entry in new_head.journal(f"train-{reached + 3}") if entry.text.startswith("from step"))
    assert int(first.split()[-1]) == reached
    assert ray_fleet.step() == reached + 3
