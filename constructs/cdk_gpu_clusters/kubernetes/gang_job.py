"""A job with one pod on each of several nodes, which start together and restart together: a JobSet, queued by Kueue.

Sources: kubernetes-sigs/jobset v0.12.0, api/jobset/v1alpha2; kubernetes-sigs/kueue v0.19.2, docs, "Run A JobSet" (read
2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.kubernetes.compute_domain import check_compute_domain, domain_affinity
from cdk_gpu_clusters.kubernetes.device_claims import DeviceClaims
from cdk_gpu_clusters.kubernetes.gpu_pod import (
    container_security,
    memory_mib,
    nccl_environment,
    placement,
    plain_variables,
    pod_claims,
    pod_resources,
    shared_memory,
    whole_node,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    DEFAULT_SERVICE_ACCOUNT,
    KubernetesObject,
    check_name,
    kubernetes_object,
)
from cdk_gpu_clusters.kubernetes.queues import DEFAULT_QUEUE, QUEUE_LABEL, check_layer, topology_annotation
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.kubernetes.volumes import claimed, volume_mount

_API = "jobset.x-k8s.io/v1alpha2"
#: Name of the job inside the set, and of its container: what Kubeflow Trainer calls them, too.
NODE = "node"
#: Torch's own default.
_PORT = 29500
#: Where a pod of an indexed job reads its index.
COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangJob:
    """What all jobs over nodes of a group have in common.

    Attributes:
        name: Name of the job.
        pool: Group of its nodes.
        node_count: How many of them.
        image: Container image.
        command: What each container runs, by the entrypoint of its image: what `docker run` takes after the image.
        environment: Variables, over those of NCCL.
        namespace: Namespace.
        queue: LocalQueue of Kueue; None: the pods start as they find room, and half a gang may wait forever.
        same_layer: Layer of the network in which all nodes share a network node; None: as near as there is room.
        compute_domain: Whether its pods share the memory of their GPUs over the NVLink of one UltraServer, by a
            ComputeDomain of its own. Needs NVIDIA's DRA driver: `cluster_software(compute_domains=True)`.
        efa: What gives its pods EFA interfaces, as in `cluster_software(efa=...)`.
        max_restarts: How often all pods start again when one has failed; the end of a node does not count.
        grace_period_seconds: How long a container has after SIGTERM; that of the group if left out.
        files: ConfigMaps to mount, by mount path.
        mounts: Mount points of the group that the containers have; all of them if left out.
        service_account: Service account of the pods, by which EKS Pod Identity gives them a role.
    """

    name: str
    pool: NodePool
    node_count: int
    image: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    namespace: str = DEFAULT_NAMESPACE
    queue: str | None = DEFAULT_QUEUE
    same_layer: int | None = None
    compute_domain: bool = False
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN
    max_restarts: int = 0
    grace_period_seconds: int | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[str] | None = None
    service_account: str = DEFAULT_SERVICE_ACCOUNT


def claims_of(job: GangJob) -> DeviceClaims:
    """What the pods of a job claim of DRA drivers."""
    return DeviceClaims(
        name=job.name, pool=job.pool, namespace=job.namespace, efa=job.efa, has_domain=job.compute_domain
    )


def job_set(job: GangJob) -> KubernetesObject:
    """The JobSet of a job.

    Its pods find each other by the headless service that the JobSet makes, also before they are ready.
    """
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": job.name},
        "failurePolicy": failure_policy(job),
        "replicatedJobs": [
            {
                "name": NODE,
                "replicas": 1,
                "template": {
                    "spec": {
                        "completionMode": "Indexed",
                        "parallelism": job.node_count,
                        "completions": job.node_count,
                        **job_policy(),
                        "template": pod_template(job, environment=rendezvous(job)),
                    }
                },
            }
        ],
    }
    return kubernetes_object(_API, "JobSet", job.name, spec, namespace=job.namespace, labels=queue_label(job.queue))


def queue_label(queue: str | None) -> dict[str, str]:
    """The label by which Kueue takes an object, nothing without a queue."""
    return {} if queue is None else {QUEUE_LABEL: queue}


def failure_policy(job: GangJob) -> dict[str, Any]:
    """All pods end before any starts again: old ranks must not hold the GPUs, or meet new ones."""
    return {
        "maxRestarts": job.max_restarts,
        "restartStrategy": "BlockingRecreate",
        "rules": [
            {
                "name": "nodeEnded",
                "action": "RestartJobSetAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["PodFailurePolicy"],
            }
        ],
    }


def job_policy() -> dict[str, Any]:
    """One failed pod fails its job; where its node ended, with a reason of its own."""
    return {
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": disrupted()}]},
    }


def disrupted() -> list[dict[str, str]]:
    """The condition of a pod whose node ended or was drained (Kubernetes documentation, "Disruptions")."""
    return [{"type": "DisruptionTarget", "status": "True"}]


def pod_template(job: GangJob, *, environment: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The pods of a job: one takes an entire node."""
    share = whole_node(job.pool)
    # A quarter of the memory: data loaders and NCCL exchange data there. This library's choice.
    shm, shm_mount = shared_memory(memory_mib(job.pool, share) // 4)
    claims, labels = claims_of(job).of_pod, {"app.kubernetes.io/name": job.name}
    points = list(job.pool.mounts) if job.mounts is None else list(job.mounts)
    stores = {point: job.pool.mounts[point] for point in points}
    return {
        "metadata": {
            "labels": labels,
            "annotations": topology_annotation(job.pool, job.same_layer, same_ultraserver=job.compute_domain),
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": _grace_period(job),
            "serviceAccountName": job.service_account,
            # A role comes by Pod Identity, with a token of its own: these pods do not talk to Kubernetes.
            "automountServiceAccountToken": False,
            **placement(job.pool),
            # Kueue keeps the pods of a queue in one UltraServer.
            **(domain_affinity(labels) if job.compute_domain and job.queue is None else {}),
            **pod_claims(claims),
            "containers": [
                {
                    "name": NODE,
                    "image": job.image,
                    # Not `command`: the image's entrypoint stays, which sets CUDA up in AWS's images.
                    "args": list(job.command),
                    "env": [
                        *environment,
                        *plain_variables({**nccl_environment(job.pool, share), **job.environment}),
                    ],
                    "resources": pod_resources(job.pool, share, claims=claims),
                    "securityContext": container_security(),
                    "volumeMounts": [
                        shm_mount,
                        *(volume_mount(volume, point) for point, volume in stores.items()),
                        *({"name": name, "mountPath": path, "readOnly": True} for path, name in job.files.items()),
                    ],
                }
            ],
            "volumes": [
                shm,
                *claimed(stores.values()),
                *({"name": name, "configMap": {"name": name}} for name in job.files.values()),
            ],
        },
    }


def _grace_period(job: GangJob) -> int:
    given = job.grace_period_seconds
    return job.pool.grace_period_seconds if given is None else given


def rendezvous(job: GangJob) -> list[dict[str, Any]]:
    """What torchrun gets from variables: every argument of it has one (PyTorch documentation, torchrun: PET_...).

    A pod's index is its rank, so that ranks that are near to each other are so in the network, too.
    """
    return [
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": COMPLETION_INDEX}}},
        *plain_variables(
            {
                "PET_NNODES": str(job.node_count),
                "PET_NPROC_PER_NODE": str(whole_node(job.pool).count),
                "PET_MASTER_ADDR": f"{job.name}-{NODE}-0-0.{job.name}",
                "PET_MASTER_PORT": str(_PORT),
            }
        ),
    ]


# kubernetes-sigs/jobset v0.12.0, pkg/webhooks/jobset_webhook.go: names of jobs and pods.
_LONGEST_POD_NAME = 63

NODE_COUNT = define_rule(
    "GPU-K8S-002",
    "a job takes one node or more, and no more than its group has",
    source="a gang that never fits waits forever",
)
WHOLE_GPUS = define_rule(
    "GPU-K8S-003",
    "jobs over several GPUs run on unsplit GPUs",
    source="NVIDIA Multi-Instance GPU user guide, application considerations: no traffic between GPU instances",
)
NVIDIA_GPUS = define_rule(
    "GPU-K8S-004",
    "NCCL and torchrun jobs run on nodes with NVIDIA GPUs",
    source="NCCL is of NVIDIA; Neuron nodes have a library of their own",
)
OVER_TCP = define_rule(
    "GPU-K8S-005",
    "jobs over several nodes have EFA",
    source="without EFA, NCCL goes over TCP: Amazon EC2 user guide, Elastic Fabric Adapter",
)
RESTARTS = define_rule(
    "GPU-K8S-017",
    "counts of restarts and seconds are not negative",
    source="kubernetes-sigs/jobset v0.12.0, api/jobset/v1alpha2: maxRestarts; Kubernetes API reference, PodSpec",
)


def check_gang_job(job: GangJob) -> list[Finding]:
    """Find what keeps a job from ever running, or lets it run slowly."""
    # A pod is called <job>-node-0-<index>-<five letters>.
    added = len(f"-{NODE}-0-{max(0, job.node_count - 1)}-abcde")
    numbers = {"max_restarts": job.max_restarts, "grace_period_seconds": _grace_period(job)}
    return [
        *check_name(job.name, longest=_LONGEST_POD_NAME - added),
        *check_name(job.namespace, path="namespace"),
        *check_name(job.service_account, path="service_account"),
        *([] if job.queue is None else check_name(job.queue, path="queue")),
        *check_nodes(job.pool, job.node_count),
        *check_gpus(job.pool),
        *check_fabric(job.pool, job.node_count),
        *check_layer(job.pool, job.same_layer, job.queue),
        *(check_compute_domain(job.pool, job.node_count) if job.compute_domain else []),
        *(
            RESTARTS.finding(cause="this cannot be", got=str(number), allowed="0 or more", path=name)
            for name, number in numbers.items()
            if number < 0
        ),
    ]


@check
def check_nodes(pool: NodePool, node_count: int) -> Iterator[Finding]:
    """Find a job that is too large for the group of its nodes, or has none."""
    if not 1 <= node_count <= pool.node_count:
        yield NODE_COUNT.finding(
            cause=f"the group {pool.name} never has room for this job",
            got=f"{node_count} nodes",
            allowed=f"1 to {pool.node_count}",
            fix="take fewer nodes, or give the group more",
            path="node_count",
        )


@check
def check_gpus(pool: NodePool) -> Iterator[Finding]:
    """Find nodes on which no job over several GPUs runs."""
    accelerator = pool.instance_type.accelerator
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        yield NVIDIA_GPUS.finding(
            cause="these nodes have no NVIDIA GPU",
            got=pool.instance_type.name,
            allowed="a group of G or P nodes",
            fix="choose another group",
            path="pool",
        )
    elif pool.mig is not None:
        yield WHOLE_GPUS.finding(
            cause="GPU instances of MIG exchange no data with each other, over NVLink or EFA",
            got=f"{pool.name}, with {pool.mig.partition}",
            allowed="a group of nodes whose GPUs are not split",
            fix="choose another group, or run one process on each slice (mig_fan_out)",
            path="pool",
        )


@check
def check_fabric(pool: NodePool, node_count: int) -> Iterator[Finding]:
    """Find several nodes that exchange data over TCP."""
    if node_count >= 2 and not pool.efa_count:
        yield OVER_TCP.finding(
            cause=f"the nodes of {pool.name} have no EFA: NCCL goes over TCP",
            got=f"{node_count} nodes without EFA",
            fix="choose a size with EFA, or give the group its EFA interfaces",
            path="pool",
            severity=Severity.WARNING,
        )
