"""What AWS Batch adds to a fleet: the plans of a compute environment, and of a multi-node job on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.nccl import awsvpc_variables, nccl_variables
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.rules.batch import (
    BatchAllocationStrategy,
    allocation_strategy,
    check_accelerator,
    check_attempts,
    check_default_group,
    check_job_size,
    check_memory,
    check_private,
    check_purchase,
    check_replacement,
    check_strategy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEnvironmentRequest:
    """What is requested of a compute environment, beyond a fleet.

    Attributes:
        strategy: Allocation strategy; None: that of the capacity.
        keeps_nodes: Whether a changed environment was requested to keep its running nodes.
        empties_default_group: Whether the app removes the rules of the VPC's default security group.
    """

    strategy: BatchAllocationStrategy | None = None
    keeps_nodes: bool = False
    empties_default_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEnvironmentPlan:
    """What was decided about a compute environment.

    Attributes:
        strategy: Allocation strategy.
        replaces: Whether an update that replaces instances replaces the environment, since Batch cannot do it in place.
        minimum_vcpus: Least vCPUs: 0 where nodes come with jobs.
        maximum_vcpus: Most vCPUs: those of all nodes, exactly.
        findings: What is wrong with the environment, beyond the fleet.
    """

    strategy: BatchAllocationStrategy
    replaces: bool
    minimum_vcpus: int
    maximum_vcpus: int
    findings: tuple[Finding, ...]


def plan_compute_environment(fleet: FleetPlan, request: ComputeEnvironmentRequest) -> ComputeEnvironmentPlan:
    """Decide what a compute environment is made of.

    On reserved capacity the nodes come with the jobs, even for a fixed number of them: outside the time of a block
    Batch would try to launch without end.

    Args:
        fleet: The plan of its fleet, with a known type.
        request: What is requested of it.

    Raises:
        ConfigError: The findings of the fleet, if its type is not known.

    Example:
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.profile import BATCH
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> fleet = plan_fleet(
        ...     FleetRequest(name="train", instance_type="p5.48xlarge", profile=BATCH, minimum=0, maximum=2)
        ... )
        >>> plan_compute_environment(fleet, ComputeEnvironmentRequest()).maximum_vcpus
        384
    """
    kind = fleet.terms.kind
    strategy = request.strategy or allocation_strategy(kind)
    replaces = strategy is BatchAllocationStrategy.BEST_FIT
    accelerator = fleet.instance_type.accelerator
    return ComputeEnvironmentPlan(
        strategy=strategy,
        replaces=replaces,
        minimum_vcpus=fleet.minimum * fleet.instance_type.vcpus,
        maximum_vcpus=fleet.maximum * fleet.instance_type.vcpus,
        findings=(
            *check_purchase(fleet.terms, is_split=fleet.request.mig is not None, keeps_nodes=request.keeps_nodes),
            *check_strategy(strategy.value, is_block=kind.is_block),
            *check_replacement(strategy.value, replaces=replaces),
            *check_default_group(fleet.maximum, is_empty=request.empties_default_group),
            *check_private(is_public=fleet.request.is_public),
            *check_accelerator(None if accelerator is None else accelerator.kind.value, fleet.instance_type.name),
        ),
    )


#: awslabs/awsome-distributed-ai @ 95b939c, 1.architectures/3.aws-batch, p6-b200: half of the node's memory, and these
#: limits.
_SHARE_OF_MEMORY = 2
_SHARE_OF_SHARED_MEMORY = 4
ULIMITS: Mapping[str, int] = {"memlock": -1, "stack": 67_108_864, "nofile": 1_024_000}
#: What `gpu-peers` exits with if nodes have not come in time: EX_TEMPFAIL.
NOT_YET = 75
#: Failures of the main node's host, of the ECS agent, or of a start, that of an image included, by the field of
#: `EvaluateOnExit`: another attempt may not have them. What the job itself does is not among them. Sources: AWS Batch
#: user guide, "Automated job retries"; AWS Compute Blog, "Introducing retry strategies for AWS Batch";
#: nextflow-io/nextflow 5099.
RETRIED: tuple[Mapping[str, str], ...] = (
    {"onStatusReason": "Host EC2*"},
    {"onReason": "AGENT*"},
    {"onStatusReason": "Task failed to start*"},
    {"onExitCode": str(NOT_YET)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiNodeJobRequest:
    """What is requested of a multi-node job.

    Attributes:
        node_count: Nodes.
        most_nodes: The most nodes of its environment; None if unknown.
        efa_count: EFA devices of a node.
        memory_mib: Memory of a container; None: half of the node's.
        shared_memory_mib: Size of `/dev/shm`; None: a quarter of that memory.
        attempts: How often it may start.
        timeout_seconds: How long an attempt may last; None for no end.
    """

    node_count: int
    most_nodes: int | None = None
    efa_count: int = 0
    memory_mib: int | None = None
    shared_memory_mib: int | None = None
    attempts: int = 1
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiNodeJobPlan:
    """What was decided about a multi-node job.

    Attributes:
        vcpus: vCPUs of a container: all of the node's.
        gpus: GPUs of a container: all of the node's.
        memory_mib: Memory of a container.
        shared_memory_mib: Size of `/dev/shm`.
        devices: Devices of EFA, by path.
        variables: NCCL's and libfabric's variables, since a container does not see those of its node.
        findings: What is wrong with it.
    """

    vcpus: int
    gpus: int
    memory_mib: int
    shared_memory_mib: int
    devices: tuple[str, ...]
    variables: Mapping[str, str]
    findings: tuple[Finding, ...]


def plan_multi_node_job(kind: InstanceType, request: MultiNodeJobRequest) -> MultiNodeJobPlan:
    """Decide what a multi-node job requests of each node: all of it, since one container runs there.

    Args:
        kind: Type of the nodes.
        request: What is requested.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> job = plan_multi_node_job(instance_type("p5.48xlarge"), MultiNodeJobRequest(node_count=2, efa_count=32))
        >>> job.gpus, len(job.devices), job.devices[-1]
        (8, 32, '/dev/infiniband/uverbs31')
    """
    memory = kind.memory_mib // _SHARE_OF_MEMORY if request.memory_mib is None else request.memory_mib
    shared = memory // _SHARE_OF_SHARED_MEMORY if request.shared_memory_mib is None else request.shared_memory_mib
    accelerator = kind.accelerator
    has_gpus = accelerator is not None and accelerator.kind.value == "gpu"
    return MultiNodeJobPlan(
        vcpus=kind.vcpus,
        gpus=accelerator.logical_count if accelerator is not None and has_gpus else 0,
        memory_mib=memory,
        shared_memory_mib=shared,
        devices=tuple(f"/dev/infiniband/uverbs{number}" for number in range(request.efa_count)),
        variables={
            one.name: one.value
            for one in (*nccl_variables(), *awsvpc_variables())
            if has_gpus and one.is_for(family=kind.family, efa=request.efa_count > 0)
        },
        findings=(
            *check_job_size(request.node_count, request.most_nodes),
            *check_attempts(request.attempts, request.timeout_seconds),
            *check_memory(memory, shared, kind.memory_mib),
        ),
    )
