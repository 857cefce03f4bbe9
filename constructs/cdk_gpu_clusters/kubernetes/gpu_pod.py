"""What every pod on GPU nodes has: where it runs, its share of a node, and NCCL's variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.nccl import nccl_variables
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE, MigStrategy

#: What AWS's device plugin calls an EFA interface (Amazon EKS user guide, "Run machine learning training on Amazon EKS
#: with EFA").
EFA_RESOURCE = "vpc.amazonaws.com/efa"
#: What AWS's DRA driver calls an EFA interface (Amazon EKS user guide, "Manage EFA devices on Amazon EKS" @ 43d79bd).
EFA_CLASS = "efa.networking.k8s.aws"
#: What Kubernetes calls huge pages of 2 MiB.
HUGE_PAGES_RESOURCE = "hugepages-2Mi"
_SHM = "shared-memory"
#: What the claim of a pod on EFA interfaces is called in it.
EFA_CLAIM = "efa"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """What a pod takes of a node.

    Attributes:
        resource: Name of its accelerators in Kubernetes.
        count: How many of them; 0 for a pod without.
        part: Part of the node's CPU and memory that goes with them.
        efa_count: EFA interfaces.
    """

    resource: str
    count: int
    part: Fraction
    efa_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim of a pod on devices of a DRA driver.

    Attributes:
        name: Its name inside the pod.
        template: The ResourceClaimTemplate that each pod has a claim of.
    """

    name: str
    template: str


def whole_node(pool: NodePool) -> NodeShare:
    """All that a node of a group with unsplit accelerators has.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> share = whole_node(node_pool("trainers", instance_type="p5.48xlarge", node_count=16))
        >>> share.resource, share.count, share.efa_count
        ('nvidia.com/gpu', 8, 32)
    """
    ((resource, count),) = pool.resources.items() or ((WHOLE_GPU_RESOURCE, 0),)
    return NodeShare(resource=resource, count=count, part=Fraction(1), efa_count=pool.efa_count)


def device_part(pool: NodePool, resource: str) -> Fraction:
    """Part of a node's CPU and memory that goes with one of its devices.

    Devices of split GPUs have their part of the memory slices that are in use.

    Args:
        pool: Group of nodes.
        resource: Name of the device in Kubernetes.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> device_part(node_pool("trainers", instance_type="p5.48xlarge", node_count=16), "nvidia.com/gpu")
        Fraction(1, 8)
    """
    plan = pool.mig
    if plan is None or pool.mig_strategy is MigStrategy.SINGLE:
        return Fraction(1, pool.resources[resource])
    profiles = [one for gpu in plan.gpus for one in gpu.profiles]
    used = sum(one.memory_slices for one in profiles) + plan.whole_gpus_per_node * plan.gpu.memory_slices
    sizes = {WHOLE_GPU_RESOURCE: plan.gpu.memory_slices, **{one.resource_name: one.memory_slices for one in profiles}}
    return Fraction(sizes[resource], used)


def pod_resources(pool: NodePool, share: NodeShare, *, claims: Sequence[PodClaim] = ()) -> dict[str, Any]:
    """The requests, limits and claims of a container.

    CPU has no limit: what others leave may be used. Memory, huge pages and devices have the same limit as request, as
    Kubernetes demands it of the latter two.

    Args:
        pool: Group of its nodes.
        share: What it takes of a node.
        claims: Claims of its pod, which the container gets. With one on EFA interfaces it does not ask for them by
            number, too.
    """
    room = allocatable(pool)
    fixed = {"memory": f"{int(room.memory_mib * share.part)}Mi"}
    if share.efa_count:
        fixed[HUGE_PAGES_RESOURCE] = f"{room.huge_pages_mib}Mi"
    if share.count:
        fixed[share.resource] = str(share.count)
    if share.efa_count and EFA_CLAIM not in {one.name for one in claims}:
        fixed[EFA_RESOURCE] = str(share.efa_count)
    return {
        "requests": {"cpu": f"{int(room.cpu_millicores * share.part)}m", **fixed},
        "limits": fixed,
        **({"claims": [{"name": one.name} for one in claims]} if claims else {}),
    }


def pod_claims(claims: Sequence[PodClaim]) -> dict[str, Any]:
    """The field of a pod that makes its claims."""
    listed = [{"name": one.name, "resourceClaimTemplateName": one.template} for one in claims]
    return {"resourceClaims": listed} if listed else {}


def memory_mib(pool: NodePool, share: NodeShare) -> int:
    """Memory in MiB of a pod."""
    return int(allocatable(pool).memory_mib * share.part)


def placement(pool: NodePool) -> dict[str, Any]:
    """The fields of a pod that bring it to the nodes of a group, and no other pod with it."""
    return {
        "nodeSelector": pool.node_selector,
        "tolerations": [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            for taint in pool.taints
        ],
    }


def nccl_environment(pool: NodePool, share: NodeShare) -> dict[str, str]:
    """NCCL's and libfabric's variables for a pod: a container does not see those of its node.

    Args:
        pool: Group of its nodes.
        share: What it takes of a node; with one GPU and no EFA it has nothing to exchange.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> nccl_environment(pool, whole_node(pool))
        {'FI_PROVIDER': 'efa', 'NCCL_SOCKET_IFNAME': '^docker,lo,veth'}
    """
    accelerator = pool.instance_type.accelerator
    is_alone = share.count < 2 and not share.efa_count
    if is_alone or accelerator is None or accelerator.kind is not AcceleratorKind.GPU:
        return {}
    family, efa = pool.instance_type.family, share.efa_count > 0
    return {one.name: one.value for one in nccl_variables() if one.is_for(family=family, efa=efa)}


def container_security() -> dict[str, Any]:
    """What a container may do on its node; no more than the baseline of the Pod Security Standards allows.

    EFA locks memory. The limit is lifted on the node, where the container runtime starts (`DefaultLimitMEMLOCK` of
    systemd), so that no capability is needed: the kernel compares with RLIMIT_MEMLOCK before it looks for CAP_IPC_LOCK
    (torvalds/linux, drivers/infiniband/core/umem.c, ib_umem_get), and baseline refuses the latter.
    """
    return {"allowPrivilegeEscalation": False}


def plain_variables(variables: Mapping[str, str]) -> list[dict[str, str]]:
    """Variables as a container has them."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def shared_memory(size_mib: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A volume of memory at /dev/shm, and its mount; it counts towards the memory of the pod."""
    volume = {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": f"{size_mib}Mi"}}
    return volume, {"name": _SHM, "mountPath": "/dev/shm"}  # noqa: S108 - where programs expect shared memory


# What a node leaves to the pods of jobs and model servers.
#
# Its CPU and memory without what the kernel, kubelet, huge pages and the pods of add-ons take.

#: What the pods of add-ons on a GPU node may ask for together (VPC CNI, kube-proxy, CSI drivers, device plugins, DCGM
#: exporter, node monitoring). This library's choice.
_ADD_ONS_MILLICORES, _ADD_ONS_MIB = 500, 2048
#: What the kernel and the firmware keep of the memory that EC2 states: nodes show 97.4 % (p4d.24xlarge) and 97.7 %
#: (p5.48xlarge) of it (AWS blog on MIG with EKS, 2021; awslabs/awsome-distributed-ai @ 95b939c, listings of nodes).
#: This library's choice is on the safe side of both.
KERNEL_PART, _KERNEL_MIB = Fraction(4, 100), 256
#: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/config.go: eviction threshold; memory for each pod and
#: beside them; millicores of the first, second, third with fourth CPU, and of each further one.
_EVICTION_MIB, _POD_MIB, _RUNTIME_MIB = 100, 11, 255
_FIRST_CPUS = (60, 10, 5, 5)
_FURTHER_CPU = Fraction(5, 2)
#: Nodes with an EFA driver were seen with 110 huge pages of 2 MiB for each vCPU and one more (p4de.24xlarge and
#: p5.48xlarge: listings in awslabs/awsome-distributed-ai @ 95b939c); inferred for other types with EFA. An older one
#: had half of it (p4d.24xlarge without EFA interfaces: the AWS blog of 2021).
_HUGE_PAGES_MIB_PER_VCPU = 220
#: What AWS's own manifests ask for (Amazon EKS user guide, "Run machine learning training on Amazon EKS with EFA").
_HUGE_PAGES_OF_POD_MIB = 5120


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocatable:
    """What pods of users can ask for on a node.

    Attributes:
        cpu_millicores: Thousandths of a vCPU.
        memory_mib: Memory in MiB, without huge pages.
        huge_pages_mib: Huge pages of 2 MiB, in MiB, that a node surely has; 0 without EFA.
    """

    cpu_millicores: int
    memory_mib: int
    huge_pages_mib: int


def allocatable(pool: NodePool) -> Allocatable:
    """What a node of a group leaves to the pods of users.

    Args:
        pool: The group.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> allocatable(node_pool("trainers", instance_type="p5.48xlarge", node_count=16))
        Allocatable(cpu_millicores=190950, memory_mib=1967264, huge_pages_mib=5120)
    """
    record = pool.instance_type
    kept = _EVICTION_MIB + _POD_MIB * _max_pods(record) + _RUNTIME_MIB + _KERNEL_MIB + _ADD_ONS_MIB
    huge_pages = record.vcpus * _HUGE_PAGES_MIB_PER_VCPU + 2 if record.supports_efa else 0
    return Allocatable(
        cpu_millicores=record.vcpus * 1000 - _reserved_millicores(record.vcpus) - _ADD_ONS_MILLICORES,
        memory_mib=int(record.memory_mib * (1 - KERNEL_PART)) - kept - huge_pages,
        huge_pages_mib=_huge_pages_of_pod(record) if pool.efa_count else 0,
    )


def _huge_pages_of_pod(record: InstanceType) -> int:
    """AWS's number, or what older nodes of the type would have: a pod that asks for more never starts."""
    return min(_HUGE_PAGES_OF_POD_MIB, record.vcpus * _HUGE_PAGES_MIB_PER_VCPU // 2)


def _reserved_millicores(vcpus: int) -> int:
    first = sum(_FIRST_CPUS[:vcpus])
    return first + int(max(0, vcpus - len(_FIRST_CPUS)) * _FURTHER_CPU)


def _max_pods(record: InstanceType) -> int:
    """Pods for which nodeadm keeps memory: one for each address of the first card, whatever else limits them."""
    network = record.network
    return network.cards[0].max_interfaces * (network.ipv4_per_interface - 1) + 2
