"""The balancer's configuration of a node, on loopback."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

from cdk_gpu_clusters.node.model_server import ServerSettings, render_haproxy
from cdk_gpu_clusters.rules.model_servers import DeviceKind, ServerPlan


def listens(port: int) -> bool:
    """Whether something listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def settings_of(count: int, *, port: int = 8080, stats_port: int = 8404, **options: Any) -> ServerSettings:
    """The settings of a node with that many model servers."""
    plan = ServerPlan(
        kind=DeviceKind.GPU, devices=((0,),) * count, port=port, stats_port=stats_port, first_server_port=9000
    )
    return ServerSettings(
        **{"image": "vllm", "plan": plan, "container_port": 8000, "health_path": "/health", **options}
    )


def on_loopback(settings: ServerSettings, ports: list[int]) -> str:
    """The configuration with quick checks, in front of servers on ports of their own, closed to other machines."""
    text = render_haproxy(settings)
    quick = {"bind *:": "bind 127.0.0.1:", "inter 5s ": "inter 1s ", "slowstart 15s": "slowstart 1s"}
    servers = {
        f" 127.0.0.1:{given}\n": f" 127.0.0.1:{port}\n"
        for given, port in zip(settings.plan.server_ports, ports, strict=True)
    }
    for old, new in {**quick, **servers}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
