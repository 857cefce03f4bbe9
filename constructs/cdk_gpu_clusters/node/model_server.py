"""Model servers on a node: their settings, units, and the HAProxy in front of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cdk_gpu_clusters.node.settings import UserDataPart
from cdk_gpu_clusters.node.software import NodeFile, installed_text
from cdk_gpu_clusters.rules.inference import keep_alive_seconds
from cdk_gpu_clusters.rules.model_servers import DeviceKind, ServerPlan

#: Default folder for weights from S3, on the root volume.
DEFAULT_WEIGHTS_PATH = "/opt/gpu-cluster/model"

#: The path of the load balancer's health check of the node. It is not forwarded to a server.
NODE_HEALTH_PATH = "/.node/health"
#: A POST of this path, on the port of the balancer's state, makes the node answer its health check with 503.
NODE_DRAIN_PATH = "/drain"

_PROGRAM = "/usr/local/libexec/gpu-cluster/model-servers"
_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/model-servers.sh": (_PROGRAM, 0o755),
    "files/gpu-model-servers.service": ("/etc/systemd/system/gpu-model-servers.service", 0o644),
    "files/gpu-model-server@.service": ("/etc/systemd/system/gpu-model-server@.service", 0o644),
    "files/gpu-model-balancer.service": ("/etc/systemd/system/gpu-model-balancer.service", 0o644),
}
_END = "END_OF_MODEL_SERVER_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """All settings of the model servers of one node. Texts other than the health path may be CDK tokens.

    Attributes:
        image: Container image of every server.
        plan: The servers, with their devices and ports.
        container_port: Port on which a server listens inside its container.
        health_path: Path that a healthy server answers with a status of 200 to 299.
        command: Arguments of the container; empty for the image's own.
        environment: Variables of every server that are not secret.
        secrets: Variable to ARN of a secret or parameter, and the field of a JSON secret or an empty text.
        registry_login: ARN of a secret with `username` and `password` of the image's registry; empty for none.
        weights_path: Folder of the node that every server sees read-only at the same path; empty for none.
        weights_uri: `s3://bucket/prefix` to copy into that folder at boot; empty if the folder has them already.
        cache_path: Folder of the local disks that every server may write at the same path; empty for none.
        shared_memory_gib: Size of a container's /dev/shm; None for Docker's 64 MiB.
        minimum_servers: Servers that must be up for the node to be healthy.
        idle_timeout_seconds: How long a request or a stream may be silent. Any data restarts it.
        drain_seconds: How long running requests get when the node drains.
        requests_per_server: Concurrent requests per server; others wait in HAProxy. None: no limit.
    """

    image: str
    plan: ServerPlan
    container_port: int
    health_path: str
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    registry_login: str = ""
    weights_path: str = ""
    weights_uri: str = ""
    cache_path: str = ""
    shared_memory_gib: int | None = None
    minimum_servers: int = 1
    idle_timeout_seconds: int = 300
    drain_seconds: int = 300
    requests_per_server: int | None = None


def model_server_files(settings: ServerSettings) -> tuple[NodeFile, ...]:
    """The program, the units and the balancer's configuration, all known at synthesis.

    Example:
        >>> from cdk_gpu_clusters.rules.model_servers import plan_servers
        >>> files = model_server_files(ServerSettings(
        ...     image="vllm/vllm-openai:v0.11.0", plan=plan_servers("g5.2xlarge"),
        ...     container_port=8000, health_path="/health",
        ... ))
        >>> files[-1].path
        '/etc/gpu-cluster/haproxy.cfg'
    """
    calls = {"/etc/gpu-cluster/ready.d/model-servers": "ready", "/etc/gpu-cluster/on-drain": "drain"}
    head = '#!/bin/sh\nexec "${GPU_CLUSTER_ROOT:-}'
    files = (
        *((path, installed_text(name), mode) for name, (path, mode) in _FILES.items()),
        *((path, f'{head}{_PROGRAM}" {command}\n', 0o755) for path, command in calls.items()),
        ("/etc/gpu-cluster/haproxy.cfg", render_haproxy(settings), 0o644),
    )
    # Not early: the script of model_server_part is the first that needs them.
    return tuple(NodeFile(path=path, text=text, mode=mode, early=False) for path, text, mode in files)


def model_server_part(settings: ServerSettings) -> UserDataPart:
    """The script that writes the settings, which may hold CDK tokens, and starts the model servers.

    No secret is in it: the node fetches secrets when a server starts.
    """
    lines = [
        "#!/bin/sh",
        "set -e",
        *_written("model-servers.env", _assignments(settings)),
        *_written("model-server.environment", (f"{name}={value}" for name, value in settings.environment.items())),
        # --no-block: they wait for drivers and MIG, which must not wait for this script.
        "systemctl enable gpu-model-servers && systemctl start --no-block gpu-model-servers",
    ]
    return UserDataPart(content_type="text/x-shellscript", body="\n".join([*lines, ""]))


def _written(name: str, lines: Iterable[str]) -> list[str]:
    return [f"cat >/etc/gpu-cluster/{name} <<'{_END}'", *lines, _END]


def _assignments(settings: ServerSettings) -> Iterable[str]:
    plan = settings.plan
    values: dict[str, object] = {
        "IMAGE": settings.image,
        "COUNT": plan.server_count,
        "KIND": plan.kind.value,
        "PORT": settings.container_port,
        "FIRST_PORT": plan.first_server_port,
        "STATS_PORT": plan.stats_port,
        "REGISTRY_LOGIN": settings.registry_login,
        "WEIGHTS_PATH": settings.weights_path,
        "WEIGHTS_URI": settings.weights_uri,
        "CACHE_PATH": settings.cache_path,
        "SHM_GIB": "" if settings.shared_memory_gib is None else settings.shared_memory_gib,
    }
    # A MIG slice has no number of its own: the node finds the ids of the slices in order.
    devices = [] if plan.kind is DeviceKind.MIG_SLICE else [",".join(map(str, ids)) for ids in plan.devices]
    arrays = {
        "DEVICES": devices,
        "SECRETS": [" ".join((name, *pair)).rstrip() for name, pair in settings.secrets.items()],
        "COMMAND": settings.command,
    }
    for name, value in values.items():
        yield f"MODEL_{name}={shlex.quote(str(value))}"
    for name, texts in arrays.items():
        yield f"MODEL_{name}=({' '.join(map(shlex.quote, texts))})"


def render_haproxy(settings: ServerSettings) -> str:
    """Write the configuration of a node's balancer.

    Requests go to the server with the fewest of them. A request is retried on another server only if no connection was
    made: one that reached a server is never sent twice. A server that is taken out keeps its running streams.

    A POST of `NODE_DRAIN_PATH` on the port of the state makes the node answer its health check with 503, while requests
    are still served: the load balancer must notice before the port closes. SIGUSR1 closes the port and lets running
    requests end, for at most `drain_seconds`. HAProxy's own directive for this, `grace`, came with 2.5, and Ubuntu
    22.04 has 2.4; the manual recommends a variable.

    Every request has a connection of its own to its server. A kept one is closed by the server at any time, by uvicorn
    after 5 s, and a request that is sent at that moment is lost (haproxy/haproxy issues 1236 and 1423).

    Source: HAProxy configuration manual of 2.4 to 3.0: the packages of Ubuntu 22.04, Debian and Amazon Linux 2023
    (amazonlinux/amazon-linux-2023 issue 843: 3.0.5).

    Example:
        >>> from cdk_gpu_clusters.rules.model_servers import plan_servers
        >>> plan = plan_servers("g5.12xlarge")
        >>> text = render_haproxy(ServerSettings(image="vllm", plan=plan, container_port=8000, health_path="/health"))
        >>> text.splitlines()[-1].strip()
        'server s3 127.0.0.1:9003'
    """
    plan, limit = settings.plan, settings.requests_per_server
    head = _TEMPLATE.format(
        drain=settings.drain_seconds,
        idle=settings.idle_timeout_seconds,
        # HAProxy's `timeout client` ends idle connections, too, however long `timeout http-keep-alive` is (measured
        # with 2.6): both have the margin.
        keep_alive=keep_alive_seconds(settings.idle_timeout_seconds),
        port=plan.port,
        node_health_path=NODE_HEALTH_PATH,
        node_drain_path=NODE_DRAIN_PATH,
        minimum=settings.minimum_servers,
        stats_port=plan.stats_port,
        health_path=settings.health_path,
        limit="" if limit is None else f" maxconn {limit}",
    )
    servers = (f"    server s{index} 127.0.0.1:{port}" for index, port in enumerate(plan.server_ports))
    return "\n".join([head.rstrip("\n"), *servers, ""])


_TEMPLATE = """\
global
    log stdout format raw daemon notice
    maxconn 8192
    hard-stop-after {drain}s
    set-var proc.draining int(0)

defaults
    mode http
    log global
    option dontlognull
    option http-no-delay
    option http-server-close
    option redispatch 1
    retries 3
    retry-on conn-failure
    timeout connect 5s
    timeout http-request 60s
    timeout queue {idle}s
    timeout client {keep_alive}s
    timeout server {idle}s
    timeout tunnel {idle}s
    timeout http-keep-alive {keep_alive}s
    timeout check 5s

frontend node
    bind *:{port}
    monitor-uri {node_health_path}
    acl too_few nbsrv(servers) lt {minimum}
    monitor fail if too_few or {{ var(proc.draining) -m int gt 0 }}
    default_backend servers

frontend state
    bind 127.0.0.1:{stats_port}
    http-request set-var(proc.draining) int(1) if METH_POST {{ path {node_drain_path} }}
    http-request return status 200 if METH_POST
    stats enable
    stats uri /

backend servers
    balance leastconn
    option httpchk
    http-check send meth GET uri {health_path} ver HTTP/1.1 hdr Host 127.0.0.1
    http-check expect status 200-299
    default-server check inter 5s fastinter 1s rise 2 fall 3 slowstart 15s{limit}
"""
