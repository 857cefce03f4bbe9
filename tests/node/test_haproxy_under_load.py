"""Requests through the real HAProxy while nodes leave, are replaced and fail: none of 10,000 may fail.

A second of AWS takes 80 ms here, so that two minutes of a Spot notice take 10 s. The drain of a node is its own program.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.model_server import NODE_HEALTH_PATH, model_server_files, model_server_part
from cdk_gpu_clusters.node.software import installed_text
from loopback_haproxy import free_ports, on_loopback, settings_of
from toy_balancer import Target, ToyBalancer
from toy_servers import ToyServers

# Seconds are short: what takes the cores meanwhile would look like a node that does not answer.
pytestmark = pytest.mark.alone

SECOND = 0.08
REQUESTS = 10_000
NODES, SERVERS = 3, 4
CLIENTS = 24
DELAY_SECONDS = 300
SPOT_SECONDS = 120
PROGRAM = "/usr/local/libexec/gpu-cluster/model-servers"


@dataclass
class ToyNode:
    """A node: its HAProxy in front of its servers, and its program for the drain."""

    port: int
    process: subprocess.Popen[bytes]
    servers: ToyServers
    root: Path

    async def drain(self) -> None:
        """Run the node's own `on-drain`."""
        environment = {
            **os.environ,
            "GPU_CLUSTER_ROOT": str(self.root),
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
        }
        done = await asyncio.create_subprocess_exec(
            "bash", f"{self.root}{PROGRAM}", "drain", env=environment, stdout=subprocess.DEVNULL
        )
        assert await done.wait() == 0

    def end(self) -> None:
        """What EC2 does to it at last."""
        self.process.kill()
        self.process.wait()


class Place:
    """Where nodes are launched."""

    def __init__(self, haproxy: str, folder: Path, stack: ExitStack) -> None:
        self._haproxy, self._folder, self._stack = haproxy, folder, stack
        self._count = 0

    def launch(self) -> ToyNode:
        """Start a node."""
        self._count += 1
        root = self._folder / f"node-{self._count}"
        servers = self._stack.enter_context(ToyServers(SERVERS, keep_alive_seconds=5 * SECOND))
        port, stats_port = free_ports(2)
        settings = settings_of(
            SERVERS, port=port, stats_port=stats_port, minimum_servers=SERVERS // 2, drain_seconds=DELAY_SECONDS
        )
        text = on_loopback(settings, servers.ports)
        files = {file.path: file.text for file in model_server_files(settings)} | {
            "/etc/gpu-cluster/haproxy.cfg": text,
            "/usr/local/libexec/gpu-cluster/lib.sh": installed_text("scripts/lib.sh"),
        }
        for path, content in files.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        part = model_server_part(settings).body.split("systemctl")[0]
        written = part.replace("/etc/gpu-cluster", f"{root}/etc/gpu-cluster")
        subprocess.run(["sh", "-c", written], check=True)
        command = [self._haproxy, "-db", "-f", f"{root}/etc/gpu-cluster/haproxy.cfg"]
        quiet = subprocess.DEVNULL
        process = self._stack.enter_context(subprocess.Popen(command, stdout=quiet, stderr=quiet))
        self._stack.callback(process.kill)
        self._write_tools(root, process.pid)
        return ToyNode(port, process, servers, root)

    def _write_tools(self, root: Path, pid: int) -> None:
        tools = {
            "sleep": f'exec /bin/sleep "$(awk "BEGIN {{ print $1 * {SECOND} }}")"',
            # As systemd: the unit's signal, and then the end of the process.
            "systemctl": f"kill -USR1 {pid}\nwhile [ -e /proc/{pid}/exe ]; do /bin/sleep 0.05; done",
        }
        (root / "bin").mkdir()
        for name, script in tools.items():
            (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (root / "bin" / name).chmod(0o755)


@dataclass
class Scene:
    """A load balancer, its nodes, and the place where more are launched."""

    balancer: ToyBalancer
    place: Place
    nodes: list[tuple[ToyNode, Target]]

    async def add(self) -> None:
        """Launch a node; the group waits until the load balancer calls it healthy."""
        node = self.place.launch()
        self.nodes.append((node, await self.balancer.register(node.port)))

    async def scale_in(self) -> None:
        """The group's way: deregister, and meanwhile the node sees that it will be terminated."""
        node, target = self.nodes.pop(0)
        await asyncio.gather(self.balancer.deregister(target, DELAY_SECONDS), node.drain())
        node.end()


async def _run(
    haproxy: str, folder: Path, happen: Callable[[Scene], Awaitable[None]], *, requests: int = REQUESTS
) -> Scene:
    with ExitStack() as stack:
        scene = Scene(ToyBalancer(NODE_HEALTH_PATH, second=SECOND), Place(haproxy, folder, stack), [])
        for _ in range(NODES):
            await scene.add()
        done = asyncio.Event()

        async def story() -> None:
            try:
                await asyncio.sleep(10 * SECOND)
                await happen(scene)
                await asyncio.sleep(10 * SECOND)
            finally:
                done.set()

        await asyncio.gather(scene.balancer.load(requests, CLIENTS, done), story())
        await scene.balancer.close()
        return scene


async def spot_notice(scene: Scene) -> None:
    """Nothing deregisters the node: it has two minutes, and then it is gone."""
    node, target = scene.nodes[0]
    took = asyncio.create_task(node.drain())
    await asyncio.sleep(SPOT_SECONDS * SECOND)
    assert took.done()
    node.end()
    assert not target.is_healthy


async def scale_in(scene: Scene) -> None:
    await scene.scale_in()


async def rolling_refresh(scene: Scene) -> None:
    for _ in range(len(scene.nodes)):
        await scene.add()
        await scene.scale_in()


async def failed_server(scene: Scene) -> None:
    """A server dies and is started again, and another one calls itself ill for a while.

    It dies between two requests: nobody may send again what it was working on.
    """
    servers = scene.nodes[0][0].servers
    for _ in range(3):
        async with scene.balancer.pause():
            servers.kill(0)
        await asyncio.sleep(20 * SECOND)
        servers.start(0)
        servers.ill.add(1)
        await asyncio.sleep(20 * SECOND)
        servers.ill.clear()


@pytest.mark.parametrize("happen", [spot_notice, scale_in, rolling_refresh, failed_server])
def test_no_request_fails(haproxy: str, tmp_path: Path, happen: Callable[[Scene], Awaitable[None]]) -> None:
    scene = asyncio.run(_run(haproxy, tmp_path, happen))
    assert set(scene.balancer.answers) == {200}, scene.balancer.answers
    assert scene.balancer.answers[200] >= REQUESTS


def test_the_load_sees_a_node_that_vanishes(haproxy: str, tmp_path: Path) -> None:
    """Otherwise the tests above would show nothing."""

    async def vanish(scene: Scene) -> None:
        scene.nodes[0][0].end()
        await asyncio.sleep(SECOND)

    assert set(asyncio.run(_run(haproxy, tmp_path, vanish, requests=100)).balancer.answers) > {200}
