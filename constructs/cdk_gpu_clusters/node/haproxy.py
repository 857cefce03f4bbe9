"""The configuration of HAProxy on a node: one port for many model servers. Imports no CDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Where a load balancer asks whether the node takes requests; no server ever sees it.
NODE_HEALTH_PATH = "/.node/health"

# A client that keeps a connection must close it before the server does, or requests are lost in between (AWS
# Application Load Balancer guide, "HTTP 502": keep-alive longer than the idle time-out).
_KEEP_ALIVE_MARGIN_SECONDS = 15

_TEMPLATE = """\
global
    log stdout format raw daemon notice
    maxconn 8192
    hard-stop-after {drain}s

defaults
    mode http
    log global
    option dontlognull
    option http-no-delay
    option redispatch 1
    retries 3
    retry-on conn-failure
    timeout connect 5s
    timeout http-request 60s
    timeout queue {idle}s
    timeout client {idle}s
    timeout server {idle}s
    timeout tunnel {idle}s
    timeout http-keep-alive {keep_alive}s
    timeout check 5s

frontend node
    bind {address}:{port}
    monitor-uri {node_health_path}
    acl too_few nbsrv(servers) lt {minimum}
    monitor fail if too_few
    default_backend servers

frontend state
    bind 127.0.0.1:{stats_port}
    stats enable
    stats uri /

backend servers
    balance leastconn
    option httpchk
    http-check send meth GET uri {health_path} ver HTTP/1.1 hdr Host 127.0.0.1
    http-check expect status 200-299
    default-server check inter {interval}s fastinter 1s rise {rise} fall {fall} slowstart {slowstart}s{limit}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancer:
    """What HAProxy on a node is told.

    Attributes:
        port: Where it takes requests and the load balancer's health checks.
        server_ports: Port of each model server on 127.0.0.1.
        health_path: Path that a healthy server answers with a status of 200 to 299.
        address: Address of `port`; every IPv4 address if left out.
        stats_port: Where it shows its state, on loopback only.
        minimum_servers: Servers that must be up for the node to call itself healthy.
        idle_timeout_seconds: How long a request or a stream may be silent. Any data starts it again.
        drain_seconds: How long running requests get when the node drains.
        interval_seconds: Time between two checks of a server.
        rise: Good checks in a row that bring a server up.
        fall: Bad checks in a row that take it out.
        slow_start_seconds: How long a server that came up takes to its full share.
        requests_per_server: Requests that a server gets at once, the others wait in HAProxy; None: no limit.
    """

    port: int
    server_ports: Sequence[int]
    health_path: str
    address: str = "*"
    stats_port: int = 8404
    minimum_servers: int = 1
    idle_timeout_seconds: int = 300
    drain_seconds: int = 300
    interval_seconds: int = 5
    rise: int = 2
    fall: int = 3
    slow_start_seconds: int = 15
    requests_per_server: int | None = None


def render_haproxy(balancer: Balancer) -> str:
    """Write the configuration of a node's balancer.

    Requests go to the server with the fewest of them. A request is tried again, on another server, only where no
    connection was made: one that reached a server is never sent twice. A server that is taken out keeps its running
    streams. SIGUSR1 closes the port and lets running requests end, for at most `drain_seconds`.

    Source: HAProxy 2.4 to 2.8 configuration manual; Amazon Linux 2023, Ubuntu and Debian package versions of these.

    Example:
        >>> text = render_haproxy(Balancer(port=8080, server_ports=[9000, 9001], health_path="/health"))
        >>> text.splitlines()[-1].strip()
        'server s1 127.0.0.1:9001'
    """
    limit = "" if balancer.requests_per_server is None else f" maxconn {balancer.requests_per_server}"
    head = _TEMPLATE.format(
        drain=balancer.drain_seconds,
        idle=balancer.idle_timeout_seconds,
        keep_alive=balancer.idle_timeout_seconds + _KEEP_ALIVE_MARGIN_SECONDS,
        address=balancer.address,
        port=balancer.port,
        node_health_path=NODE_HEALTH_PATH,
        minimum=balancer.minimum_servers,
        stats_port=balancer.stats_port,
        health_path=balancer.health_path,
        interval=balancer.interval_seconds,
        rise=balancer.rise,
        fall=balancer.fall,
        slowstart=balancer.slow_start_seconds,
        limit=limit,
    )
    servers = (f"    server s{index} 127.0.0.1:{port}" for index, port in enumerate(balancer.server_ports))
    return "\n".join([head.rstrip("\n"), *servers, ""])
