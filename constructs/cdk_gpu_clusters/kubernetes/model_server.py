"""What a model server is, as Kubernetes runs it: its container, its secrets and where its weights lie."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.kubernetes.gpu_pod import (
    NodeShare,
    container_security,
    nccl_environment,
    plain_variables,
    shared_memory,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_SERVICE_ACCOUNT, check_name
from cdk_gpu_clusters.kubernetes.volumes import claimed, store_of, volume_mount
from cdk_gpu_clusters.rules.inference import check_counts, check_idle_timeout
from cdk_gpu_clusters.rules.model_servers import (
    check_command,
    check_container_image,
    check_container_port,
    check_health_path,
    check_variables,
    check_weights,
)
from cdk_gpu_clusters.rules.secrets import OF_POD, check_container_secrets
from cdk_gpu_clusters.rules.vllm import vllm_drain_arguments, vllm_keep_alive

_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
#: Name of the container of a model server.
SERVER_CONTAINER = "server"
#: As `ModelServer.shared_memory_gib`: for servers of several accelerators.
_SHARED_MEMORY_GIB = 8

SECRET = define_rule(
    "GPU-K8S-009",
    "a secret is named by a Secret of Kubernetes and a key of it",
    source='Kubernetes documentation, "Secrets": names and keys; its value is in no manifest',
)
WEIGHTS = define_rule(
    "GPU-K8S-019",
    "weights lie on a file system that the group mounts, or come from S3",
    source="a pod sees no folder of its node",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A key of a Secret of Kubernetes in the server's namespace.

    Attributes:
        name: Name of the Secret.
        key: Its key.
    """

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """A model server as pods run it.

    Example:
        >>> ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--model", "/fsx/models/llama"]).port
        8000

    Attributes:
        image: Container image.
        command: Arguments of the container, in place of the image's own; empty for these.
        port: Port on which it listens.
        health_path: Path that it answers with a status of 200 to 299 when it can take requests.
        environment: Plain variables; no secrets, because they are in the manifest.
        secrets: Variables with the Secrets that hold their values.
        not_secret: Names of variables and options, and values, that only look like secrets.
        service_account: Service account of the pods, by which EKS Pod Identity gives them a role.
        image_pull_secret: Secret with the login to the image's registry; None for ECR and public images.
        weights_path: Folder that the server sees read-only; None if the image has the model or the server loads it.
        weights_uri: `s3://bucket/prefix` that is mounted there; None for a file system of the group.
        shared_memory_gib: Size of /dev/shm; 8 for servers of several accelerators, and the container runtime's own for
            others, if left out.
        start_seconds: How long a server may take until it first answers.
        drain_seconds: How long running requests get when it ends.
        stop_delay_seconds: How long a server that has its end before it still takes requests: Services learn of it at
            the same time as the pod. 10 seconds are this library's choice inside the cluster. Behind a gateway it is
            30: a load balancer sends requests for some 25 seconds more.
        idle_timeout_seconds: How long a load balancer in front keeps an idle connection, as `ModelGateway` has it. vLLM
            keeps it 15 seconds longer, and 120 seconds at least, by `VLLM_HTTP_TIMEOUT_KEEP_ALIVE`. A value of yours in
            `environment` wins. Servers other than vLLM need a setting of their own.
    """

    image: str
    command: Sequence[str] = ()
    port: int = 8000
    health_path: str = "/health"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretKey] = field(default_factory=dict)
    not_secret: Sequence[str] = ()
    service_account: str = DEFAULT_SERVICE_ACCOUNT
    image_pull_secret: str | None = None
    weights_path: str | None = None
    weights_uri: str | None = None
    shared_memory_gib: int | None = None
    start_seconds: int = 1800
    drain_seconds: int = 300
    stop_delay_seconds: int = 10
    idle_timeout_seconds: int = 300


def server_container(
    pool: NodePool,
    server: ServerPod,
    resources: Mapping[str, Any],
    share: NodeShare,
    *,
    probes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The container of a model server.

    Args:
        pool: Group of its nodes.
        server: The server.
        resources: What it takes of a node.
        share: The same, as numbers.
        probes: What it has in place of its port, its own probes and its `preStop`: it answers no requests.
    """
    _, mounts = server_volumes(pool, server, share, "")
    arguments = [*server.command, *vllm_drain_arguments(server.image, server.command, server.drain_seconds)]
    return {
        "name": SERVER_CONTAINER,
        "image": server.image,
        **({"args": arguments} if arguments else {}),
        "env": [
            *plain_variables({**nccl_environment(pool, share), **_kept_connections(server), **server.environment}),
            *(
                {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
                for name, secret in server.secrets.items()
            ),
        ],
        **(_own_probes(server) if probes is None else probes),
        "resources": dict(resources),
        "securityContext": container_security(),
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _kept_connections(server: ServerPod) -> dict[str, str]:
    made = vllm_keep_alive(server.image, server.idle_timeout_seconds)
    return {name: value for name, value in made.items() if name not in server.secrets}


def _own_probes(server: ServerPod) -> dict[str, Any]:
    probe = {"httpGet": {"path": server.health_path, "port": "http"}}
    return {
        "ports": [{"name": "http", "containerPort": server.port}],
        # Until it has succeeded, the others are not asked: a large model takes minutes to load.
        "startupProbe": {
            **probe,
            "periodSeconds": 10,
            "failureThreshold": max(1, server.start_seconds // 10),
        },
        "readinessProbe": {**probe, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
        # A server that is busy may be slow to answer: it starts again after a minute of silence.
        "livenessProbe": {**probe, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6},
        "lifecycle": {"preStop": {"sleep": {"seconds": server.stop_delay_seconds}}},
    }


def server_volumes(
    pool: NodePool, server: ServerPod, share: NodeShare, s3_claim: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of a server's pod, and how its container mounts them.

    Args:
        pool: Group of its nodes.
        server: The server.
        share: What the pod takes of a node.
        s3_claim: Name of the claim of its bucket.
    """
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    size_gib = server.shared_memory_gib or (_SHARED_MEMORY_GIB if share.count > 1 else 0)
    if size_gib:
        volume, mount = shared_memory(size_gib * 1024)
        volumes.append(volume)
        mounts.append(mount)
    if server.weights_path is not None and server.weights_uri is not None:
        volumes.append({"name": "weights", "persistentVolumeClaim": {"claimName": s3_claim, "readOnly": True}})
        mounts.append({"name": "weights", "mountPath": server.weights_path, "readOnly": True})
    elif server.weights_path is not None and (found := store_of(pool, server.weights_path)) is not None:
        point, store = found
        volumes += claimed([store])
        mounts.append(volume_mount(store, point, read_only=True))
    return volumes, mounts


def pod_fields(server: ServerPod) -> dict[str, Any]:
    """Fields of a server's pod that are the same wherever it runs."""
    login = server.image_pull_secret
    return {
        "serviceAccountName": server.service_account,
        # A role comes by Pod Identity, with a token of its own: servers do not talk to Kubernetes.
        "automountServiceAccountToken": False,
        # A Service named vllm would set VLLM_PORT to its address, and vLLM would not start (vllm/envs.py).
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": server.drain_seconds + server.stop_delay_seconds,
        **({} if login is None else {"imagePullSecrets": [{"name": login}]}),
    }


def check_server(pool: NodePool, server: ServerPod) -> list[Finding]:
    """Find what is wrong with a server, as far as it does not depend on how many there are."""
    return [
        *check_container_image(server.image),
        *check_command(server.command),
        *check_container_port(server.port),
        *check_health_path(server.health_path),
        *check_variables(server.environment, server.secrets),
        *check_container_secrets(server.environment, server.command, not_secret=server.not_secret, fix=OF_POD),
        *(one for name, key in server.secrets.items() for one in check_secret(name, key, path=f"secrets[{name}]")),
        *check_name(server.service_account, path="service_account"),
        *([] if server.image_pull_secret is None else check_name(server.image_pull_secret, path="image_pull_secret")),
        *check_counts(
            shared_memory_gib=server.shared_memory_gib,
            start_seconds=server.start_seconds,
            drain_seconds=server.drain_seconds,
            stop_delay_seconds=server.stop_delay_seconds,
        ),
        *check_idle_timeout(server.idle_timeout_seconds),
        *_check_weights(pool, server),
    ]


@check
def check_secret(variable: str, secret: SecretKey, *, path: str) -> Iterator[Finding]:
    """Find a secret that no Secret of Kubernetes holds.

    Args:
        variable: What gets its value.
        secret: Secret and key.
        path: Where it was given.
    """
    if not _SECRET_KEY.fullmatch(secret.key) or check_name(secret.name):
        yield SECRET.finding(
            cause=f"{variable} comes from no Secret of Kubernetes",
            got=f"{secret.name!r}, key {secret.key!r}",
            allowed="the name of a Secret, and a key of letters, digits, dots, dashes and underscores",
            fix="name a Secret of the pod's namespace; the value itself never belongs here",
            path=path,
        )


def _check_weights(pool: NodePool, server: ServerPod) -> Iterator[Finding]:
    path, uri = server.weights_path, server.weights_uri
    if path is None and uri is None:
        return
    if path is None:
        yield WEIGHTS.finding(
            cause="the bucket is mounted nowhere",
            got=f"weights_uri {uri}, and no weights_path",
            allowed="a folder such as /weights",
            fix="give weights_path",
            path="weights_path",
        )
        return
    yield from check_weights(path, uri)
    if uri is None and store_of(pool, path) is None:
        yield WEIGHTS.finding(
            cause="a pod does not see this folder",
            got=path,
            allowed=f"a folder below {', '.join(pool.mounts)}" if pool.mounts else "a folder of a mounted store",
            fix="choose another folder, add a file system to the group's mounts, or give weights_uri",
            path="weights_path",
        )
