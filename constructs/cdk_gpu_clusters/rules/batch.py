"""AWS Batch: what its compute environments, job queues and multi-node jobs take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms

_GUIDE = "AWS Batch user guide"
_MNP = f'{_GUIDE}, "Compute environment considerations for MNP"'
_MODEL = "botocore 1.44.5, batch service model"

NO_SPOT = define_rule("GPU-BAT-010", "Nodes of multi-node jobs of AWS Batch are not Spot", source=_MNP)
NO_MIG = define_rule(
    "GPU-BAT-011",
    "GPUs of AWS Batch are not split with MIG",
    source="Amazon ECS developer guide, GPU workloads: the agent gives complete GPUs to containers; no page names "
    "MIG devices",
)
UPDATED_IN_PLACE = define_rule(
    "GPU-BAT-012",
    "A compute environment with the strategy BEST_FIT is replaced by an update, and others are not",
    source="CloudFormation template reference, AWS::Batch::ComputeEnvironment: ReplaceComputeEnvironment true with "
    f"BEST_FIT; {_GUIDE}, Update a compute environment",
)
MORE_THAN_BLOCK = define_rule(
    "GPU-BAT-013",
    "AWS Batch asks for no more instances than a reservation has",
    source=f"{_MODEL}: ComputeResource, maxvCpus: any strategy but BEST_FIT may exceed it by one instance",
)
PUBLIC_SUBNET = define_rule(
    "GPU-BAT-015",
    "Multi-node jobs of AWS Batch run in private subnets",
    source="AWS ParallelCluster user guide, AWS Batch scheduler: the interface of a container gets no public address",
)
WAIT_LIMIT = define_rule(
    "GPU-BAT-016",
    "A blocked job is cancelled after 10 minutes to 24 hours",
    source="CloudFormation registry schema of AWS::Batch::JobQueue (2026-10-20), JobStateTimeLimitAction",
)
JOB_SIZE = define_rule(
    "GPU-BAT-017",
    "A multi-node job has no more nodes than its compute environment",
    source=f'{_GUIDE}, "Jobs stuck in RUNNABLE due to misconfiguration": COMPUTE_ENVIRONMENT_MAX_RESOURCE',
)
RETRIES = define_rule(
    "GPU-BAT-018",
    "A job of AWS Batch starts 1 to 10 times, and an attempt may last 60 seconds or more",
    source=f'{_GUIDE}, "Automated job retries" and "Job timeouts"',
)
MEMORY = define_rule(
    "GPU-BAT-019",
    "A container of a multi-node job has less memory than its node, and its shared memory is a part of it",
    source=f'{_GUIDE}, "Compute resource memory management"; {_MODEL}: LinuxParameters, sharedMemorySize',
)
ACCELERATOR = define_rule(
    "GPU-BAT-020",
    "Containers of AWS Batch get GPUs; Neuron devices are not among what this library gives them",
    source=f"{_MODEL}: ResourceType",
)

ONE_RESERVATION = define_rule(
    "GPU-BAT-021",
    "A compute environment launches into one reservation or block, or a group of reservations",
    source="awslabs/awsome-distributed-ai @ 95b939c, 1.architectures/3.aws-batch: one target in the launch template",
)
DEFAULT_GROUP = define_rule(
    "GPU-BAT-024",
    "The default security group of the VPC lets the containers of a multi-node job reach each other",
    source=f"{_MNP}: without groups of the environment, interfaces of containers have the default group of the VPC",
)
UPDATES = define_rule(
    "GPU-BAT-022",
    "AWS Batch replaces the nodes of a changed environment",
    source=f'{_GUIDE}, "Update a compute environment in AWS Batch"',
)
RESERVED_NAMES = define_rule(
    "GPU-BAT-025",
    "Variables of a job do not begin with AWS_BATCH",
    source=f"{_MODEL}: ContainerProperties, environment",
)


class BlockedReason(str, Enum):
    """Why a job blocks its queue: the reasons of AWS Batch for which it can cancel the job.

    Source: AWS Batch user guide, "Automatic remediation with jobStateTimeLimitActions".

    Attributes:
        INSUFFICIENT_INSTANCE_CAPACITY: EC2 has no such instances, or the reservation has none left.
        COMPUTE_ENVIRONMENT_MAX_RESOURCE: The job needs more nodes than any environment of the queue may have.
        JOB_RESOURCE_REQUIREMENT: No instance of an environment can hold what the job requests.
    """

    INSUFFICIENT_INSTANCE_CAPACITY = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
    COMPUTE_ENVIRONMENT_MAX_RESOURCE = "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE"
    JOB_RESOURCE_REQUIREMENT = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"


class BatchAllocationStrategy(str, Enum):
    """How AWS Batch adds instances of one type on demand.

    Attributes:
        BEST_FIT: It never has more vCPUs than its most. An update replaces the environment.
        BEST_FIT_PROGRESSIVE: It may have one instance more. An update replaces the instances only.
    """

    BEST_FIT = "BEST_FIT"
    BEST_FIT_PROGRESSIVE = "BEST_FIT_PROGRESSIVE"


SHORTEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 600, 86_400
MOST_ATTEMPTS, SHORTEST_ATTEMPT_SECONDS = 10, 60
#: A misconfigured job never starts: an hour is for somebody to see it. Capacity may come: as long as Batch waits.
DEFAULT_LIMITS_SECONDS: Mapping[BlockedReason, int] = MappingProxyType(
    {
        reason: LONGEST_WAIT_SECONDS if reason is BlockedReason.INSUFFICIENT_INSTANCE_CAPACITY else 3_600
        for reason in BlockedReason
    }
)


def allocation_strategy(kind: CapacityKind) -> BatchAllocationStrategy:
    """The strategy for a way to buy: one that never asks for more than a reservation has.

    Args:
        kind: How the nodes are bought.

    Example:
        >>> allocation_strategy(CapacityKind.CAPACITY_BLOCK).value, allocation_strategy(CapacityKind.ON_DEMAND).value
        ('BEST_FIT', 'BEST_FIT_PROGRESSIVE')
    """
    return BatchAllocationStrategy.BEST_FIT if kind.is_block else BatchAllocationStrategy.BEST_FIT_PROGRESSIVE


@check
def check_purchase(terms: CapacityTerms, *, is_split: bool, keeps_nodes: bool = False) -> Iterator[Finding]:
    """Find nodes that run no multi-node jobs, or that an environment cannot have.

    Args:
        terms: How they are bought.
        is_split: Whether their GPUs are split with MIG.
        keeps_nodes: Whether a changed environment was requested to keep its running nodes.
    """
    if terms.blocks or terms.segment:
        yield ONE_RESERVATION.finding(
            cause="a compute environment launches from one launch template, with one target",
            got=f"{len(terms.blocks)} Capacity Blocks" if terms.blocks else "several types of reservations",
            allowed="one reservation, one block, or a group of reservations of one type",
            fix="make an environment for each, and put them into one queue",
            path="capacity",
        )
    if keeps_nodes:
        yield UPDATES.finding(
            cause="nothing keeps AWS Batch from replacing the nodes of an environment that a deployment changes",
            got="update_policy NEVER_REPLACE",
            allowed="UpdatePolicy.ROLLING, which is nearest to what AWS Batch does",
            fix="leave update_policy out; pin the image, and change the environment when its nodes may be replaced",
            path="update_policy",
        )
    if terms.kind is CapacityKind.SPOT:
        yield NO_SPOT.finding(
            cause="AWS Batch runs no multi-node job on Spot Instances: every job waits without end",
            got="Spot",
            allowed="on demand, a reservation, a Capacity Block",
            fix="leave the capacity out, or use AWS PCS or EC2 fleets for Spot",
            path="capacity",
        )
    if is_split:
        yield NO_MIG.finding(
            cause="the ECS agent gives complete GPUs to containers, and knows no MIG devices",
            got="a MIG layout",
            allowed="GPUs that are not split",
            fix="remove mig, or use Amazon EKS or AWS PCS for MIG",
            path="mig",
        )


@check
def check_replacement(strategy: str, *, replaces: bool) -> Iterator[Finding]:
    """Find environments whose updates fail, or replace them although they need not.

    Args:
        strategy: Their allocation strategy.
        replaces: Whether CloudFormation replaces them if their instances must be replaced.
    """
    is_best_fit = strategy == BatchAllocationStrategy.BEST_FIT.value
    if is_best_fit == replaces:
        return
    yield UPDATED_IN_PLACE.finding(
        cause="AWS Batch does not update the instances of an environment with BEST_FIT, and the deployment fails"
        if is_best_fit
        else "an update of the template, image or subnets replaces the environment, with its running jobs",
        got=f"{strategy} with ReplaceComputeEnvironment {str(replaces).lower()}",
        allowed="true with BEST_FIT, false with others",
        fix=f"set ReplaceComputeEnvironment to {str(is_best_fit).lower()}",
        severity=Severity.ERROR if is_best_fit else Severity.WARNING,
    )


@check
def check_strategy(strategy: str, *, is_block: bool) -> Iterator[Finding]:
    """Find environments that ask for an instance more than their Capacity Block has.

    Args:
        strategy: Their allocation strategy.
        is_block: Whether they launch into a Capacity Block.
    """
    if is_block and strategy != BatchAllocationStrategy.BEST_FIT.value:
        yield MORE_THAN_BLOCK.finding(
            cause="Batch may ask for one instance more than MaxvCpus allow, which the block does not have; "
            "the job at the head of the queue then waits as if there were no capacity",
            got=strategy,
            allowed=BatchAllocationStrategy.BEST_FIT.value,
            fix="use BEST_FIT on a Capacity Block",
            severity=Severity.WARNING,
        )


@check
def check_default_group(most_nodes: int, *, is_empty: bool) -> Iterator[Finding]:
    """Find containers that cannot reach each other: each has the default security group of the VPC.

    Args:
        most_nodes: The most nodes of the environment; a single node reaches no other.
        is_empty: Whether the app removes the rules of that group.
    """
    if is_empty and most_nodes > 1:
        yield DEFAULT_GROUP.finding(
            cause="each container of a multi-node job is in the default security group of the VPC, whose rules the app "
            "removes: the nodes of a job would never find each other",
            got="restrict_default_security_group=True, or the feature flag "
            "@aws-cdk/aws-ec2:restrictDefaultSecurityGroup",
            allowed="a default group whose members reach each other, as EC2 makes it",
            fix="give the Vpc restrict_default_security_group=False, or make the network with ClusterNetwork",
            path="vpc",
        )


@check
def check_private(*, is_public: bool) -> Iterator[Finding]:
    """Find containers that cannot reach the internet.

    Args:
        is_public: Whether a subnet of the environment is public.
    """
    if is_public:
        yield PUBLIC_SUBNET.finding(
            cause="the interface of a container gets no public address: in a public subnet it reaches nothing "
            "outside the network",
            got="a public subnet",
            allowed="private subnets with NAT or endpoints",
            fix="use private subnets",
            path="vpc_subnets",
            severity=Severity.WARNING,
        )


@check
def check_wait_limits(limits: Mapping[BlockedReason, int | None]) -> Iterator[Finding]:
    """Find times after which AWS Batch cannot cancel a job.

    Args:
        limits: Seconds by reason; None for no end.
    """
    for reason, seconds in limits.items():
        if seconds is not None and not SHORTEST_WAIT_SECONDS <= seconds <= LONGEST_WAIT_SECONDS:
            yield WAIT_LIMIT.finding(
                cause=f"AWS Batch does not take this time for {reason.value}",
                got=f"{seconds} s",
                allowed=f"{SHORTEST_WAIT_SECONDS} to {LONGEST_WAIT_SECONDS} s, or None for no end",
                fix="choose a time between 10 minutes and 24 hours",
                path="blocked_limits",
            )


@check
def check_job_size(node_count: int, most_nodes: int | None) -> Iterator[Finding]:
    """Find jobs that never start.

    Args:
        node_count: Nodes of the job.
        most_nodes: The most nodes of its environment; None if unknown.
    """
    if node_count < 1 or (most_nodes is not None and node_count > most_nodes):
        yield JOB_SIZE.finding(
            cause="the job needs more nodes than its compute environment may have, and blocks the queue"
            if node_count >= 1
            else "a job needs a node",
            got=str(node_count),
            allowed="1 or more" if most_nodes is None else f"1 to {most_nodes}",
            fix="use fewer nodes, or a larger environment",
            path="node_count",
        )


@check
def check_attempts(attempts: int, timeout_seconds: int | None) -> Iterator[Finding]:
    """Find retries and time-outs that AWS Batch refuses.

    Args:
        attempts: How often the job may start.
        timeout_seconds: How long an attempt may last; None for no end.
    """
    if not 1 <= attempts <= MOST_ATTEMPTS:
        yield RETRIES.finding(
            cause="AWS Batch does not take this number of attempts",
            got=str(attempts),
            allowed=f"1 to {MOST_ATTEMPTS}",
            fix="choose a number between them",
            path="attempts",
        )
    if timeout_seconds is not None and timeout_seconds < SHORTEST_ATTEMPT_SECONDS:
        yield RETRIES.finding(
            cause="AWS Batch ends no attempt earlier",
            got=f"{timeout_seconds} s",
            allowed=f"{SHORTEST_ATTEMPT_SECONDS} s or more",
            fix="choose a longer time, or leave it out",
            path="timeout",
        )


@check
def check_variable_names(names: Iterable[str]) -> Iterator[Finding]:
    """Find variables that AWS Batch keeps for itself."""
    for name in names:
        if name.startswith("AWS_BATCH"):
            yield RESERVED_NAMES.finding(
                cause="AWS Batch sets variables with such names itself",
                got=name,
                allowed="names that do not begin with AWS_BATCH",
                fix="choose another name",
                path=f"environment.{name}",
            )


@check
def check_memory(memory_mib: int, shared_memory_mib: int, node_memory_mib: int) -> Iterator[Finding]:
    """Find containers that no node can hold, and shared memory that ends a container when it is used.

    Args:
        memory_mib: Memory of the container.
        shared_memory_mib: Of that, what `/dev/shm` may take.
        node_memory_mib: Memory of the instance type.
    """
    if not 0 < memory_mib < node_memory_mib:
        yield MEMORY.finding(
            cause="kernel, huge pages and the ECS agent need memory too: no node can hold the container",
            got=f"{memory_mib:,} MiB",
            allowed=f"less than {node_memory_mib:,} MiB",
            fix="request less, or leave it out for half of the node's memory",
            path="memory_mib",
        )
    if not 0 < shared_memory_mib <= memory_mib:
        yield MEMORY.finding(
            cause="what is in /dev/shm counts as memory of the container, which ends when it has too much",
            got=f"{shared_memory_mib:,} MiB",
            allowed=f"1 to {memory_mib:,} MiB",
            fix="request less, or leave it out for a quarter of the memory",
            path="shared_memory_mib",
        )


@check
def check_accelerator(kind: str | None, type_name: str) -> Iterator[Finding]:
    """Find nodes whose devices a job would not get.

    Args:
        kind: Kind of the accelerators; None for nodes without.
        type_name: Type of the nodes.
    """
    if kind not in (None, "gpu"):
        yield ACCELERATOR.finding(
            cause=f"containers on {type_name} would not see its devices",
            got=f"{kind} devices",
            allowed="GPUs, or none",
            fix="use EC2 fleets, Amazon EKS or AWS PCS for Trainium and Inferentia",
            path="instance_type",
        )
