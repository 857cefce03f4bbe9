"""A model that needs several nodes for one server: a LeaderWorkerSet, whose groups start and restart together.

Sources: kubernetes-sigs/lws v0.10.0, api/leaderworkerset/v1; vLLM documentation, "Parallelism and Scaling", running
vLLM with MultiProcessing (stored copy of 2026); kubernetes-sigs/kueue v0.19.2, docs, "Run LeaderWorkerSet" (read
2026-11-22).

Workers are ready when their leader is. That holds up no start (kubernetes-sigs/lws @ 060ab4d): workers are made before
the leader is ready (api/leaderworkerset/v1, `LeaderCreated`), all pods of a group at once (pkg/controllers,
`ParallelPodManagement`), and its headless service names pods that are not ready (pkg/utils/controller). A rollout
counts a group when its leader and its workers are ready. Its webhook gives each container LWS_LEADER_ADDRESS
(pkg/utils/pod). Kubernetes puts variables into commands and arguments of a container, but not into probes
(Kubernetes API reference, Container, ExecAction): the command reads its environment itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import image as image_of
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.compute_domain import check_compute_domain, check_one_server, domain_affinity
from cdk_gpu_clusters.kubernetes.device_claims import DeviceClaims
from cdk_gpu_clusters.kubernetes.gang_job import NODE_COUNT, check_gpus, queue_label
from cdk_gpu_clusters.kubernetes.gpu_pod import placement, pod_claims, pod_resources, whole_node
from cdk_gpu_clusters.kubernetes.model_deployment import ALWAYS_EVICT_UNHEALTHY, service
from cdk_gpu_clusters.kubernetes.model_server import (
    ServerPod,
    check_server,
    pod_fields,
    server_container,
    server_volumes,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    KubernetesObject,
    check_name,
    metadata,
)
from cdk_gpu_clusters.kubernetes.queues import check_layer, topology_annotation
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.kubernetes.volumes import s3_volume

EFA_IMAGE = define_rule(
    "GPU-K8S-023",
    "a server over several nodes with EFA has an image with EFA's libraries",
    source="vllm-project/vllm issue 55635 and pull request 55783 (open, 2026-09): the project's image has none; "
    "aws/deep-learning-containers @ e0ecede, docker/vllm/Dockerfile.amzn2023: AWS's image has them (EFA 1.47.0)",
)

_API = "leaderworkerset.x-k8s.io/v1"
_SET = "leaderworkerset.sigs.k8s.io/name"
_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
#: LeaderWorkerSet makes a service of its own name, in which pods find each other.
LEADER = "-leader"
#: Ends with 0 if the leader answers as kubelet wants it (200 to 399), without a proxy. Images with vLLM have python3
#: (vllm-project/vllm, docker/Dockerfile; aws/deep-learning-containers, docker/vllm/Dockerfile.amzn2023).
_ASK_LEADER = """\
import http.client, os, sys
leader = http.client.HTTPConnection(os.environ["LWS_LEADER_ADDRESS"], int(sys.argv[1]), timeout=4)
leader.request("GET", sys.argv[2])
sys.exit(not 200 <= leader.getresponse().status < 400)
"""
_GROUP = "kueue.x-k8s.io/podset-group-name"
#: Names of stateful sets get a hash of ten letters and a number behind them, in labels of 63 characters at most.
_LONGEST_NAME = 63 - len("-0123456789-99")


def multi_node_model(
    name: str,
    pool: NodePool,
    server: ServerPod,
    *,
    nodes_per_server: int,
    servers: int | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = None,
    same_layer: int | None = None,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
    compute_domain: bool = False,
) -> list[KubernetesObject]:
    """A LeaderWorkerSet of vLLM servers over several entire nodes each, with the Service of their leaders and a budget.

    Behind the server's own arguments are those by which vLLM splits the model: every layer over the GPUs of a node,
    the layers over the nodes. A group restarts when one of its pods does; a new version takes the place of one
    group at a time. A drain takes one group at a time, too, or the groups of as many nodes as an update of the node
    group replaces at once. Workers are ready when their leader is, so that a group that does not serve never holds up
    a drain; the image must have `python3`, as every image with vLLM has.

    Args:
        name: Name of the LeaderWorkerSet; its Service is called `<name>-leader`.
        pool: Group of their nodes.
        server: A vLLM server, without arguments about parallelism.
        nodes_per_server: Nodes of each server.
        servers: How many; as many as the nodes allow if left out.
        namespace: Namespace.
        queue: LocalQueue of Kueue, so that a group never waits for half of its nodes; None for none.
        same_layer: Layer of the network, from 1 at the top, in which all nodes of a server must share a network node.
            Kueue places them: it takes a queue.
        efa: What gives its pods EFA interfaces, as in `cluster_software(efa=...)`.
        compute_domain: Whether the pods of its one server share the memory of their GPUs over the NVLink of one
            UltraServer, by a ComputeDomain. Needs NVIDIA's DRA driver: `cluster_software(compute_domains=True)`.

    Raises:
        ConfigError: GPU-K8S-001 to -004, -009, -015, -019, GPU-IMEX-001, -002 and -004, and those of a server
            (GPU-INF), all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("large", instance_type="p5.48xlarge", node_count=4)
        >>> server = ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--model", "/models/large"])
        >>> objects = multi_node_model("large", pool, server, nodes_per_server=2)
        >>> [one["kind"] for one in objects], objects[0]["spec"]["replicas"]
        (['LeaderWorkerSet', 'Service', 'PodDisruptionBudget'], 2)
    """
    raise_for(
        [
            *check_name(namespace, path="namespace"),
            *([] if queue is None else check_name(queue, path="queue")),
            *check_multi_node(name, pool, nodes_per_server, servers=servers, compute_domain=compute_domain),
            *check_layer(pool, same_layer, queue),
            *check_server(pool, server),
        ]
    )
    count = servers or pool.node_count // nodes_per_server
    claims = DeviceClaims(name=name, pool=pool, namespace=namespace, efa=efa, has_domain=compute_domain)
    claim = f"{name}-weights"
    weights = [] if server.weights_uri is None else s3_volume(claim, server.weights_uri, namespace=namespace)
    near = topology_annotation(pool, same_layer, same_ultraserver=compute_domain) if queue is not None else {}
    told = {**near, _GROUP: "server"} if near else {}
    return [
        *weights,
        *claims.objects,
        {
            "apiVersion": _API,
            "kind": "LeaderWorkerSet",
            "metadata": metadata(name, namespace=namespace, labels=queue_label(queue)),
            "spec": {
                "replicas": count,
                "rolloutStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
                },
                "leaderWorkerTemplate": {
                    "size": nodes_per_server,
                    "restartPolicy": "RecreateGroupOnPodRestart",
                    "leaderTemplate": _template(server, claims, nodes_per_server, told, is_leader=True),
                    "workerTemplate": _template(server, claims, nodes_per_server, told, is_leader=False),
                },
            },
        },
        service(f"{name}{LEADER}", {_SET: name, _WORKER: "0"}, namespace),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(name, namespace=namespace),
            "spec": {
                "maxUnavailable": _pods_away(pool, nodes_per_server),
                "unhealthyPodEvictionPolicy": ALWAYS_EVICT_UNHEALTHY,
                "selector": {"matchLabels": {_SET: name}},
            },
        },
    ]


def _pods_away(pool: NodePool, nodes_per_server: int) -> int:
    """Pods that evictions may make unavailable: one, whose group then restarts, so that its other pods are not ready.

    If an update empties several nodes at once, these may be of as many groups: the pods of all but one of these, and
    the first of the last. Each pod has an entire node.
    """
    nodes = max(1, pool.drained_percent * pool.node_count // 100)
    return (nodes - 1) * nodes_per_server + 1


@check
def check_multi_node(
    name: str, pool: NodePool, nodes_per_server: int, *, servers: int | None = None, compute_domain: bool = False
) -> Iterator[Finding]:
    """Find servers over several nodes that never start on a group, or cannot have a domain there.

    Args:
        name: Name of the LeaderWorkerSet.
        pool: Group of the nodes.
        nodes_per_server: Nodes of each server.
        servers: How many; as many as the nodes allow if left out.
        compute_domain: Whether a ComputeDomain is asked for.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("large", instance_type="p5.48xlarge", node_count=4)
        >>> [one.id for one in check_multi_node("large", pool, 5)]
        ['GPU-K8S-002']
    """
    yield from check_name(name, longest=_LONGEST_NAME)
    yield from check_gpus(pool)
    yield from _check_nodes(pool, nodes_per_server, servers)
    if compute_domain:
        yield from check_compute_domain(pool, nodes_per_server, path="nodes_per_server")
        yield from check_one_server(pool.node_count, nodes_per_server, servers)


@check
def check_efa_image(pool: NodePool, image: str) -> Iterator[Finding]:
    """Find an image with which NCCL exchanges data between nodes over TCP, while the pods hold the EFA devices.

    Args:
        pool: Group of the nodes.
        image: Container image of the server.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("large", instance_type="p5.48xlarge", node_count=4)
        >>> [one.id for one in check_efa_image(pool, "vllm/vllm-openai:v0.21.0")]
        ['GPU-K8S-023']
    """
    name = image.partition("@")[0].rpartition("/")
    if pool.efa_count and name[0].rpartition("/")[2] == "vllm" and name[2].partition(":")[0] == "vllm-openai":
        yield EFA_IMAGE.finding(
            cause="this image has no libfabric and no aws-ofi-nccl, so the nodes exchange data over TCP",
            got=image,
            allowed="an image with both",
            fix=f"use {image_of('vllm-aws').reference} on x86_64, or add the EFA installer to the image",
            path="server.image",
            severity=Severity.WARNING,
        )


def _template(
    server: ServerPod, claims: DeviceClaims, nodes: int, annotations: dict[str, str], *, is_leader: bool
) -> dict[str, Any]:
    name, pool = claims.name, claims.pool
    share = whole_node(pool)
    shared = {
        "--tensor-parallel-size": str(share.count),
        "--pipeline-parallel-size": str(nodes),
        "--nnodes": str(nodes),
        # Kubernetes puts in what LeaderWorkerSet tells each pod.
        "--node-rank": "$(LWS_WORKER_INDEX)",
        "--master-addr": "$(LWS_LEADER_ADDRESS)",
    }
    words = [word for pair in shared.items() for word in pair] + ([] if is_leader else ["--headless"])
    told = replace(server, command=[*server.command, *words])
    resources = pod_resources(pool, share, claims=claims.of_pod)
    container = server_container(pool, told, resources, share, probes=None if is_leader else _worker_probes(server))
    volumes, _ = server_volumes(pool, server, share, f"{name}-weights")
    return {
        "metadata": {
            "labels": {"app.kubernetes.io/name": name},
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {
            **pod_fields(server),
            **placement(pool),
            # Kueue keeps the pods of a queue in one UltraServer.
            **(domain_affinity({_SET: name}) if claims.has_domain and not annotations else {}),
            **pod_claims(claims.of_pod),
            "containers": [container],
            **({"volumes": volumes} if volumes else {}),
        },
    }


def _worker_probes(server: ServerPod) -> dict[str, Any]:
    """A worker is ready when its leader is: a budget then counts no pod of a group that does not serve as healthy."""
    command = ["python3", "-I", "-c", _ASK_LEADER, str(server.port), server.health_path]
    probe = {"exec": {"command": command}, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 3}
    return {"readinessProbe": probe}


def _check_nodes(pool: NodePool, nodes_per_server: int, servers: int | None) -> Iterator[Finding]:
    wanted = nodes_per_server * (1 if servers is None else servers)
    if nodes_per_server >= 2 and (servers is None or servers >= 1) and wanted <= pool.node_count:
        return
    yield NODE_COUNT.finding(
        cause=f"the group {pool.name} never has room for these servers, or they need no LeaderWorkerSet",
        got=f"{'some' if servers is None else servers} servers of {nodes_per_server} nodes each",
        allowed=f"2 nodes or more each, {pool.node_count} in all",
        fix="take fewer nodes, give the group more, or use model_deployment for servers of one node",
        path="nodes_per_server",
    )
