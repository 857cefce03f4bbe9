"""How many pods a node of Amazon EKS takes, where every pod has an IP address of the VPC.

Sources: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/eni_max_pods.go (interfaces of the default network
card x (addresses of each - 1) + 2) and templates/al2/runtime/max-pods-calculator.sh (prefixes, and the limits of 110
and 250); aws/karpenter-provider-aws, designs/efa-for-static-capacity.md (an EFA-only interface on card 0 takes the
place of one with addresses). Read 2026-11-22.
"""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.rules.interfaces import InterfacePlan

#: Pods of the host's network that every node has: the VPC CNI and kube-proxy.
_HOST_PODS = 2
#: Addresses in a prefix, /28.
_PREFIX = 16
_FEW_VCPUS = 30
_LIMIT_FEW_VCPUS, _LIMIT = 110, 250


def max_pods(record: InstanceType, interfaces: InterfacePlan, *, prefix_delegation: bool = False) -> int:
    """The number of pods for which a node has addresses, at most what EKS recommends.

    Pods get addresses from network card 0 alone. EKS's own number counts every interface that card 0 takes, also those
    that `efa-only` interfaces occupy, which have no addresses: pods above ours would wait for an address for ever.

    Args:
        record: Type of the node.
        interfaces: Its network interfaces.
        prefix_delegation: Whether the VPC CNI takes prefixes instead of single addresses.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> from cdk_gpu_clusters.rules.interfaces import plan_interfaces
        >>> p5 = instance_type("p5.48xlarge")
        >>> max_pods(p5, plan_interfaces(p5)), max_pods(p5, plan_interfaces(p5, efa=False))
        (51, 100)
    """
    without_address = sum(
        not interface.has_ip for interface in interfaces.interfaces if interface.network_card_index == 0
    )
    usable = record.network.cards[0].max_interfaces - without_address
    each = (record.network.ipv4_per_interface - 1) * (_PREFIX if prefix_delegation else 1)
    return min(usable * each + _HOST_PODS, recommended_limit(record))


def recommended_limit(record: InstanceType) -> int:
    """What EKS recommends at most, and enforces in managed node groups: 110 below 30 vCPUs, 250 from there."""
    return _LIMIT_FEW_VCPUS if record.vcpus < _FEW_VCPUS else _LIMIT
