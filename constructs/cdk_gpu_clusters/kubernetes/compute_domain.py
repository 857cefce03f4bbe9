"""ComputeDomains: memory of GPUs that the pods of one job or server share over the NVLink of an UltraServer.

NVIDIA's DRA driver starts an IMEX daemon on each node that runs a pod of the job, and gives the pod a channel. GPUs
come from the device plugin as everywhere else.

Sources: Amazon EKS user guide, "Use P6e-GB200 UltraServers with Amazon EKS" @ 00e3293; kubernetes-sigs/
dra-driver-nvidia-gpu v0.4.1, crds, docs and cmd; kubernetes-sigs/kueue v0.19.2, docs, "Dynamic Resource Allocation"
(read 2026-11-27).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.kubernetes.gpu_pod import PodClaim
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, kubernetes_object

_API = "resource.nvidia.com/v1beta1"
#: The label of nodes that reach each other by NVLink: part or all of an UltraServer. GPU feature discovery sets it when
#: the GPUs of a node have joined the fabric.
CLIQUE_LABEL = "nvidia.com/gpu.clique"
#: The device class of a channel.
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
#: What the queues of this library call a channel: Kueue admits no pod with a claim whose class has no name of its own.
CHANNEL_RESOURCE = "nvidia.com/compute-domain-channel"
_CHANNEL_SUFFIX = "-channel"

ULTRASERVERS = define_rule(
    "GPU-IMEX-001",
    "a ComputeDomain is of nodes in UltraServers with NVIDIA GPUs",
    source='Amazon EKS user guide, "Use P6e-GB200 UltraServers with Amazon EKS": IMEX is of multi-node NVLink',
)
DOMAIN_SIZE = define_rule(
    "GPU-IMEX-002",
    "a ComputeDomain is no wider than an UltraServer",
    source="Amazon EC2 user guide, UltraServers: 9 or 18 instances; kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, "
    "cmd/compute-domain-controller/main.go: 18 nodes of an IMEX domain",
)
DOMAINS_VERSION = define_rule(
    "GPU-IMEX-003",
    "ComputeDomains need Kubernetes 1.34 or later",
    source="kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, docs/prerequisites.md: 1.34.2; kubernetes-sigs/kueue "
    "v0.19.2, docs, Set Up Dynamic Resource Allocation: 1.34 (read 2026-11-27)",
)
ONE_SERVER = define_rule(
    "GPU-IMEX-004",
    "a ComputeDomain is of one server",
    source="kubernetes-sigs/dra-driver-nvidia-gpu issue 934 (open, 2026-03-10): no ComputeDomain of its own for each "
    "replica of a LeaderWorkerSet; kubernetes-sigs/lws v0.10.0, api/leaderworkerset/v1: one template for all groups",
)
_SINCE = (1, 34)


def in_ultraservers(pool: NodePool) -> bool:
    """Whether the GPUs of a group are connected over its nodes, by the NVLink of UltraServers.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> in_ultraservers(node_pool("rack", instance_type="p6e-gb200.36xlarge", node_count=18))
        True
    """
    return connects_nodes(pool.instance_type)


def connects_nodes(record: InstanceType) -> bool:
    """Whether NVLink connects the GPUs of several instances of a type."""
    accelerator = record.accelerator
    return accelerator is not None and accelerator.kind is AcceleratorKind.GPU and bool(record.ultraservers)


def domain_nodes(pool: NodePool) -> int:
    """Most nodes of a group that one UltraServer can hold; 0 outside of UltraServers.

    A group of 18 nodes may be one UltraServer or two of 9: no label shows it before they run, so the larger one counts.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> [domain_nodes(node_pool("rack", instance_type="p6e-gb200.36xlarge", node_count=n)) for n in (9, 18, 36)]
        [9, 18, 18]
    """
    if not in_ultraservers(pool):
        return 0
    sizes = [server.instance_count for server in pool.instance_type.ultraservers]
    return max((size for size in sizes if size <= pool.node_count), default=min(sizes))


def compute_domain(name: str, *, namespace: str) -> KubernetesObject:
    """The ComputeDomain of a job or server; the driver makes the ResourceClaimTemplate that its pods name.

    It counts no nodes: `numNodes` gates nothing since IMEX daemons find each other by name, and is deprecated.

    Args:
        name: Name of the job.
        namespace: Its namespace.

    Example:
        >>> compute_domain("llama", namespace="default")["spec"]["channel"]["resourceClaimTemplate"]["name"]
        'llama-channel'
    """
    # Both have defaults in the CRD, which are the API server's to add.
    channel = {"resourceClaimTemplate": {"name": f"{name}{_CHANNEL_SUFFIX}"}, "allocationMode": "Single"}
    return kubernetes_object(_API, "ComputeDomain", name, {"numNodes": 0, "channel": channel}, namespace=namespace)


def channel_claim(name: str) -> PodClaim:
    """The claim of a pod on a channel of its job's domain.

    Args:
        name: Name of the job.
    """
    return PodClaim(name="compute-domain-channel", template=f"{name}{_CHANNEL_SUFFIX}")


def domain_affinity(labels: Mapping[str, str]) -> dict[str, Any]:
    """The field of a pod that keeps all pods of a job in one NVLink domain, where no queue does.

    Args:
        labels: Labels that all of its pods have, and no others.
    """
    term = {
        "labelSelector": {"matchLabels": dict(labels)},
        "topologyKey": CLIQUE_LABEL,
    }
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@check
def check_compute_domain(pool: NodePool, node_count: int, *, path: str = "node_count") -> Iterator[Finding]:
    """Find a domain on nodes without an NVLink between them, or one that no UltraServer can hold.

    Args:
        pool: Group of the nodes.
        node_count: How many of them the job takes.
        path: The parameter that holds this number.
    """
    if not in_ultraservers(pool):
        yield ULTRASERVERS.finding(
            cause="NVLink does not connect these nodes to each other",
            got=pool.instance_type.name,
            allowed="a group of P6e nodes",
            fix="leave compute_domain out: NCCL uses EFA between the nodes",
            path="compute_domain",
        )
        return
    most = domain_nodes(pool)
    if node_count > most:
        yield DOMAIN_SIZE.finding(
            cause="the pods of a domain share memory over the NVLink of one UltraServer, and no further",
            got=f"{node_count} nodes",
            allowed=f"1 to {most} nodes",
            fix="take the nodes of one UltraServer, or leave compute_domain out: NCCL then uses EFA between all nodes",
            path=path,
        )


@check
def check_one_server(nodes: int, nodes_per_server: int, servers: int | None) -> Iterator[Finding]:
    """Find a model with several servers, which would be in one domain: all groups have one pod template.

    Args:
        nodes: Nodes of the group.
        nodes_per_server: Nodes of each server.
        servers: How many; as many as the nodes allow if None.

    Example:
        >>> [one.id for one in check_one_server(18, 9, None)]
        ['GPU-IMEX-004']
    """
    count = nodes // max(1, nodes_per_server) if servers is None else servers
    if count > 1:
        yield ONE_SERVER.finding(
            cause="all groups of a LeaderWorkerSet have one pod template, and so would share one domain",
            got=f"{count} servers of {nodes_per_server} nodes each",
            allowed="1 server",
            fix="write servers=1, and a model for each further server; or leave compute_domain out",
            path="servers",
        )


@check
def check_domains_version(kubernetes_version: str) -> Iterator[Finding]:
    """Find a version of Kubernetes that knows no claims of channels.

    Args:
        kubernetes_version: Version of the cluster, such as `1.35`.
    """
    if tuple(int(part) for part in kubernetes_version.split(".")[:2]) < _SINCE:
        yield DOMAINS_VERSION.finding(
            cause="the claims of their channels are of resource.k8s.io/v1, which the cluster does not know",
            got=f"Kubernetes {kubernetes_version}",
            allowed=", ".join(one.version for one in kubernetes_versions() if one.minor >= _SINCE),
            fix="take a later Kubernetes version, or leave compute_domains out",
            path="compute_domains",
        )
