"""What a node leaves to the pods of jobs and model servers.

Its CPU and memory without what the kernel, kubelet, huge pages and the pods of add-ons take.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.kubernetes.node_pool import NodePool

#: What the pods of add-ons on a GPU node may ask for together (VPC CNI, kube-proxy, CSI drivers, device plugins, DCGM
#: exporter, node monitoring). This library's choice.
_ADD_ONS_MILLICORES, _ADD_ONS_MIB = 500, 2048
#: What the kernel and the firmware keep of the memory that EC2 states: nodes show 97.4 % (p4d.24xlarge) and 97.7 %
#: (p5.48xlarge) of it (AWS blog on MIG with EKS, 2021; awslabs/awsome-distributed-ai @ 95b939c, listings of nodes).
#: This library's choice is on the safe side of both.
_KERNEL_PART, _KERNEL_MIB = Fraction(4, 100), 256
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
        memory_mib=int(record.memory_mib * (1 - _KERNEL_PART)) - kept - huge_pages,
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
