"""What keeps a job over several nodes from running, or lets it run slowly."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.kubernetes.gang_job import NODE, GangJob
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import check_name
from cdk_gpu_clusters.kubernetes.queues import check_layer

# kubernetes-sigs/jobset v0.12.0, pkg/webhooks/jobset_webhook.go: names of jobs and pods.
_LONGEST_POD_NAME = 63

NODE_COUNT = define_rule(
    "GPU-K8S-002",
    "a job takes one node or more, and no more than its group has",
    source="a gang that never fits waits for ever",
)
WHOLE_GPUS = define_rule(
    "GPU-K8S-003",
    "jobs over several GPUs run on whole GPUs",
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
    numbers = {"max_restarts": job.max_restarts, "grace_period_seconds": job.grace_period_seconds}
    return [
        *check_name(job.name, longest=_LONGEST_POD_NAME - added),
        *check_name(job.namespace, path="namespace"),
        *check_name(job.service_account, path="service_account"),
        *([] if job.queue is None else check_name(job.queue, path="queue")),
        *_check_nodes(job),
        *check_gpus(job.pool),
        *_check_fabric(job),
        *check_layer(job.pool, job.same_layer, job.queue),
        *(
            RESTARTS.finding(cause="this cannot be", got=str(number), allowed="0 or more", path=name)
            for name, number in numbers.items()
            if number < 0
        ),
    ]


def _check_nodes(job: GangJob) -> list[Finding]:
    if 1 <= job.node_count <= job.pool.node_count:
        return []
    return [
        NODE_COUNT.finding(
            cause=f"the group {job.pool.name} never has room for this job",
            got=f"{job.node_count} nodes",
            allowed=f"1 to {job.pool.node_count}",
            fix="take fewer nodes, or give the group more",
            path="node_count",
        )
    ]


def check_gpus(pool: NodePool) -> list[Finding]:
    """Find nodes on which no job over several GPUs runs."""
    accelerator = pool.instance_type.accelerator
    if accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        return [
            NVIDIA_GPUS.finding(
                cause="these nodes have no NVIDIA GPU",
                got=pool.instance_type.name,
                allowed="a group of G or P nodes",
                fix="choose another group",
                path="pool",
            )
        ]
    if pool.mig is None:
        return []
    return [
        WHOLE_GPUS.finding(
            cause="GPU instances of MIG exchange no data with each other, over NVLink or EFA",
            got=f"{pool.name}, with {pool.mig.partition}",
            allowed="a group of nodes whose GPUs are whole",
            fix="choose another group, or run one process on each slice (mig_fan_out)",
            path="pool",
        )
    ]


def _check_fabric(job: GangJob) -> list[Finding]:
    if job.node_count < 2 or job.pool.efa_count:
        return []
    return [
        OVER_TCP.finding(
            cause=f"the nodes of {job.pool.name} have no EFA: NCCL goes over TCP",
            got=f"{job.node_count} nodes without EFA",
            fix="choose a size with EFA, or give the group its EFA interfaces",
            path="pool",
            severity=Severity.WARNING,
        )
    ]
