"""What Karpenter launches a fleet from: the node class and the node pool, which follow from the plan of a node group.

The same plan as that of a managed node group, so that both have the same interfaces, capacity, labels and kubelet.
The fields are those of Karpenter 1.14.1: network interfaces and placement groups came with 1.12.

Sources: aws/karpenter-provider-aws @ bde0065 (v1.14.1), pkg/apis/crds; @ 1d92708, website/content/en/v1.14/concepts
(nodeclasses.md, nodepools.md, disruption.md) and tasks/odcrs.md; kubernetes-sigs/karpenter @ 6e7eab7. Read 2026-11-27.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.errors import Finding, raise_for
from cdk_gpu_clusters.fleet.node_group import NodeGroupPlan
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.kubernetes.gpu_pod import HUGE_PAGES_RESOURCE, allocatable
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, check_name, kubernetes_object
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.fleet import DEFAULT_IOPS, DEFAULT_SIZE_GIB, DEFAULT_THROUGHPUT_MIB_PER_S
from cdk_gpu_clusters.rules.karpenter import (
    check_karpenter_capacity,
    check_karpenter_interfaces,
    check_karpenter_labels,
    check_karpenter_size,
    check_karpenter_supply,
)
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE

#: API groups of Karpenter.
NODE_CLASS_GROUP, NODE_POOL_GROUP = "karpenter.k8s.aws", "karpenter.sh"
_VERSION = "v1"

# Fields of a KubeletConfiguration that a node class has, and that Karpenter counts with as it places pods. The others
# reach nodeadm by its own file, as in a managed node group.
_KUBELET_FIELDS = frozenset(
    {
        "clusterDNS",
        "cpuCFSQuota",
        "evictionHard",
        "evictionMaxPodGracePeriod",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "kubeReserved",
        "maxPods",
        "podsPerCore",
        "systemReserved",
    }
)
#: How long a node of a pool that scales may be empty: as long as with the Cluster Autoscaler (kubernetes/autoscaler,
#: cluster-autoscaler/FAQ.md: scale-down-unneeded-time).
EMPTY_MINUTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClassParts:
    """What a node class names that the plan does not know. Ids and texts may be CDK tokens.

    Attributes:
        subnet_ids: Subnets of the nodes.
        security_group_ids: Security groups of every interface.
        instance_profile_name: Instance profile of the nodes.
        user_data: User data as MIME text, before base64; Karpenter adds its own part at the end.
        reservation_id: `cr-…` of the reservation or block; the one of the plan if None.
        placement_group_name: Placement group; None for none.
        size_gib: Size of the root volume in GiB.
        iops: Its operations per second.
        throughput_mib_per_s: Its MiB per second.
        encryption_key_arn: Customer key of it; the account's EBS key if None.
        metadata_hop_limit: Hops that an IMDSv2 answer may take.
        tags: Tags of instances, volumes and interfaces.
    """

    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]
    instance_profile_name: str
    user_data: str
    reservation_id: str | None = None
    placement_group_name: str | None = None
    size_gib: int = DEFAULT_SIZE_GIB
    iops: int = DEFAULT_IOPS
    throughput_mib_per_s: int = DEFAULT_THROUGHPUT_MIB_PER_S
    encryption_key_arn: str | None = None
    metadata_hop_limit: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)


def karpenter_name(group: NodeGroupPlan) -> str:
    """Name of the node class and the node pool of a group: its own in lower case.

    Args:
        group: The plan of the group.
    """
    return group.pool.name.lower()


def is_static(fleet: FleetPlan) -> bool:
    """Whether Karpenter keeps a number of nodes (its feature gate StaticCapacity); otherwise pods ask for them.

    Reserved capacity has a beginning, and may have an end. A static pool whose capacity is not there halts
    provisioning in the entire cluster (kubernetes-sigs/karpenter issues 3176 and 3198), so pods ask for these nodes.

    Args:
        fleet: The plan of the fleet.
    """
    return fleet.keeps_size and not fleet.terms.kind.is_reserved


def check_karpenter(fleet: FleetPlan, group: NodeGroupPlan) -> list[Finding]:
    """Find what Karpenter cannot launch, beyond the findings of both plans.

    Args:
        fleet: The plan of the fleet.
        group: The plan of its node group.

    Returns:
        Findings GPU-K8S-001, GPU-EKS-060 to -065, -075 and -076.
    """
    return [
        *check_name(karpenter_name(group)),
        *check_karpenter_interfaces(fleet.interfaces.interfaces),
        # A fleet that keeps its size has a minimum of 0 in the plan where a state machine fills a managed group.
        *check_karpenter_size(
            minimum=fleet.maximum if is_static(fleet) else 0 if fleet.keeps_size else fleet.minimum,
            maximum=fleet.maximum,
            strategy=group.pool.mig_strategy,
        ),
        *check_karpenter_supply(fleet.instance_type, is_static=is_static(fleet)),
        *check_karpenter_capacity(fleet.terms, rolls=group.request.rolls),
        *check_karpenter_labels(group.request.labels, [taint.key for taint in group.pool.taints]),
    ]


def gpu_node_class(fleet: FleetPlan, group: NodeGroupPlan, parts: NodeClassParts) -> KubernetesObject:
    """The EC2NodeClass of a fleet: what its instances are made of.

    Args:
        fleet: The plan of the fleet.
        group: The plan of its node group.
        parts: What the plans do not know.

    Raises:
        ConfigError: GPU-K8S-001, GPU-EKS-060 to -064.

    Example:
        >>> from cdk_gpu_clusters.fleet.node_group import NodeGroupRequest, plan_node_group
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> fleet = plan_fleet(
        ...     FleetRequest(
        ...         name="trainers", instance_type="p5.48xlarge", profile=EKS_MANAGED, minimum=2, maximum=2
        ...     )
        ... )
        >>> group = plan_node_group(fleet, NodeGroupRequest(name="trainers"))
        >>> made = gpu_node_class(
        ...     fleet,
        ...     group,
        ...     NodeClassParts(
        ...         subnet_ids=["subnet-0123456789abcdef0"],
        ...         security_group_ids=["sg-0123456789abcdef0"],
        ...         instance_profile_name="trainers",
        ...         user_data="MIME-Version: 1.0",
        ...     ),
        ... )
        >>> len(made["spec"]["networkInterfaces"])
        33
    """
    raise_for(check_karpenter(fleet, group))
    spec: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": image_alias(group.request.release_version)}],
        "subnetSelectorTerms": [{"id": one} for one in parts.subnet_ids],
        "securityGroupSelectorTerms": [{"id": one} for one in parts.security_group_ids],
        "instanceProfile": parts.instance_profile_name,
        "networkInterfaces": [
            {
                "networkCardIndex": one.network_card_index,
                "deviceIndex": one.device_index,
                "interfaceType": one.interface_type,
            }
            for one in fleet.interfaces.interfaces
        ],
        "blockDeviceMappings": [_root_device(parts)],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": parts.metadata_hop_limit,
        },
        "detailedMonitoring": True,
        "kubelet": {name: value for name, value in group.node_config.kubelet_config.items() if name in _KUBELET_FIELDS},
        "userData": parts.user_data,
    }
    reservations = _reservations(fleet.terms, parts.reservation_id)
    if reservations:
        spec["capacityReservationSelectorTerms"] = reservations
    if parts.placement_group_name is not None:
        spec["placementGroupSelector"] = {"name": parts.placement_group_name}
    if fleet.local_disks:
        # The user data say so, too: without it Karpenter takes the root volume for all that pods may write to.
        spec["instanceStorePolicy"] = "RAID0"
    if parts.tags:
        spec["tags"] = dict(parts.tags)
    return kubernetes_object(
        f"{NODE_CLASS_GROUP}/{_VERSION}", "EC2NodeClass", karpenter_name(group), spec, namespace=None
    )


def gpu_node_pool(fleet: FleetPlan, group: NodeGroupPlan) -> KubernetesObject:
    """The NodePool of a fleet: how many nodes it has, how they are bought, and when they go.

    * A fleet of a fixed size on demand has static replicas, which need the feature gate StaticCapacity (alpha).
    * Another one, and any on reserved capacity, has nodes while pods ask for them, up to its maximum. A node that was
      empty for ten minutes goes.
    * Nodes with pods stay: none expires, none is consolidated, and without rolling updates none is replaced.
    * There is no startup taint: a node joins after its boot checks, as in a managed node group.

    Args:
        fleet: The plan of the fleet.
        group: The plan of its node group.

    Raises:
        ConfigError: GPU-K8S-001, GPU-EKS-060 to -064.

    Example:
        >>> from cdk_gpu_clusters.fleet.node_group import NodeGroupRequest, plan_node_group
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> fleet = plan_fleet(
        ...     FleetRequest(name="dev", instance_type="g6e.xlarge", profile=EKS_MANAGED, minimum=0, maximum=4)
        ... )
        >>> made = gpu_node_pool(fleet, plan_node_group(fleet, NodeGroupRequest(name="dev")))
        >>> made["spec"]["limits"], made["spec"]["disruption"]["consolidationPolicy"]
        ({'nodes': '4', 'cpu': '16'}, 'WhenEmpty')
    """
    raise_for(check_karpenter(fleet, group))
    name, rolls = karpenter_name(group), group.request.rolls
    surge = group.request.max_unavailable if rolls and is_static(fleet) else 0
    template: dict[str, Any] = {
        "nodeClassRef": {"group": NODE_CLASS_GROUP, "kind": "EC2NodeClass", "name": name},
        "requirements": _requirements(fleet),
        # A budget does not hold back an expiry, which is after 30 days by default.
        "expireAfter": "Never",
    }
    if group.pool.taints:
        template["taints"] = [{"key": one.key, "value": one.value, "effect": one.effect} for one in group.pool.taints]
    spec: dict[str, Any] = {
        **({"replicas": fleet.maximum} if is_static(fleet) else {}),
        "template": {"metadata": {"labels": dict(group.pool.labels)}, "spec": template},
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": f"{EMPTY_MINUTES}m",
            "budgets": _budgets(group.request.max_unavailable if rolls else 0),
        },
        "limits": {"nodes": str(fleet.maximum + surge), **({} if is_static(fleet) else _most_cpus(fleet))},
    }
    return kubernetes_object(f"{NODE_POOL_GROUP}/{_VERSION}", "NodePool", name, spec, namespace=None)


def _most_cpus(fleet: FleetPlan) -> dict[str, str]:
    """CPUs of the most nodes: within one pass Karpenter counts these alone (kubernetes-sigs/karpenter issue 2915)."""
    return {"cpu": str(fleet.instance_type.vcpus * fleet.maximum)}


def gpu_node_overlay(fleet: FleetPlan, group: NodeGroupPlan) -> KubernetesObject | None:
    """The NodeOverlay of a pool that scales: what Karpenter does not know of its nodes, and pods ask for.

    These are huge pages of nodes with EFA, and slices of MIG. Without it Karpenter launches no node for such a pod. It
    needs the feature gate NodeOverlay (alpha).

    Args:
        fleet: The plan of the fleet.
        group: The plan of its node group.

    Returns:
        The object; None for static pools, and where there is nothing to add.

    Raises:
        ConfigError: GPU-K8S-001, GPU-EKS-060 to -064.

    Example:
        >>> from cdk_gpu_clusters.fleet.node_group import NodeGroupRequest, plan_node_group
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.profile import EKS_MANAGED
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> fleet = plan_fleet(
        ...     FleetRequest(name="jobs", instance_type="p5.48xlarge", profile=EKS_MANAGED, minimum=0, maximum=4)
        ... )
        >>> made = gpu_node_overlay(fleet, plan_node_group(fleet, NodeGroupRequest(name="jobs")))
        >>> made["spec"]["capacity"] if made else None
        {'hugepages-2Mi': '5120Mi'}
    """
    raise_for(check_karpenter(fleet, group))
    pool = group.pool
    added = {name: str(count) for name, count in pool.resources.items() if pool.mig and name != WHOLE_GPU_RESOURCE}
    huge_pages = allocatable(pool).huge_pages_mib
    if huge_pages:
        added[HUGE_PAGES_RESOURCE] = f"{huge_pages}Mi"
    if is_static(fleet) or not added:
        return None
    name = karpenter_name(group)
    spec = {
        "requirements": [{"key": f"{NODE_POOL_GROUP}/nodepool", "operator": "In", "values": [name]}],
        "capacity": added,
    }
    return kubernetes_object(f"{NODE_POOL_GROUP}/v1alpha1", "NodeOverlay", name, spec, namespace=None)


def image_alias(release_version: str | None) -> str:
    """EKS's image of Amazon Linux 2023; Karpenter takes the variant of the accelerator.

    Releases have one date for all patches of Kubernetes (awslabs/amazon-eks-ami, names of releases: v20260709).

    Args:
        release_version: Release of the image; the newest one if None.

    Example:
        >>> image_alias("1.34.1-20260709")
        'al2023@v20260709'
    """
    date = "latest" if release_version is None else f"v{release_version.rpartition('-')[2]}"
    return f"al2023@{date}"


def _root_device(parts: NodeClassParts) -> dict[str, Any]:
    volume: dict[str, Any] = {
        "volumeType": "gp3",
        "volumeSize": f"{parts.size_gib}Gi",
        "iops": parts.iops,
        "throughput": parts.throughput_mib_per_s,
        "encrypted": True,
        "deleteOnTermination": True,
    }
    if parts.encryption_key_arn is not None:
        volume["kmsKeyID"] = parts.encryption_key_arn
    return {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": volume}


def _reservations(terms: CapacityTerms, reservation_id: str | None) -> list[dict[str, str]]:
    if terms.kind.is_reserved:
        named = terms.reservation_ids if reservation_id is None else (reservation_id,)
        return [{"id": one} for one in named]
    return [{"instanceMatchCriteria": "open"}] if terms.uses_open_reservations else []


def _requirements(fleet: FleetPlan) -> list[dict[str, Any]]:
    terms = fleet.terms
    wanted = {
        "node.kubernetes.io/instance-type": [fleet.instance_type.name],
        # Nothing else: on-demand nodes would be paid for beside a reservation that is full.
        "karpenter.sh/capacity-type": capacity_types(terms),
    }
    if terms.kind.is_reserved:
        kind = "capacity-block" if terms.kind.is_block else "default"
        wanted["karpenter.k8s.aws/capacity-reservation-type"] = [kind]
    return [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]


def capacity_types(terms: CapacityTerms) -> list[str]:
    """Karpenter's names for how nodes are bought.

    Args:
        terms: The terms of the fleet.
    """
    if terms.kind.is_reserved:
        return ["reserved"]
    if terms.kind is CapacityKind.SPOT:
        return ["spot"]
    return ["reserved", "on-demand"] if terms.uses_open_reservations else ["on-demand"]


def _budgets(replaced_at_once: int) -> list[dict[str, Any]]:
    """What Karpenter may end by itself: empty nodes, and nodes that differ from their class as far as updates roll."""
    return [
        {"nodes": str(replaced_at_once), "reasons": ["Drifted"]},
        {"nodes": "0", "reasons": ["Underutilized"]},
    ]
