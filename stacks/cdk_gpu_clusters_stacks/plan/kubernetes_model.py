"""What a plan says about a cluster of Amazon EKS, and about a fleet that is a node group in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cost_model import PriceUsed


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNodesPlan:
    """The nodes without accelerators that hold the cluster's own pods.

    Attributes:
        instance_type: Their type.
        node_count: How many.
        subnets: Keys of the subnets in the network plan that they stand in.
        usd_per_hour: List price of all of them.
        prices: What it rests on.
        unknown: Fields above that are None -> why.
    """

    instance_type: str
    node_count: int
    subnets: tuple[str, ...]
    usd_per_hour: float | None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlan:
    """A chart of the cluster's software: name, version, and the namespace of its release."""

    name: str
    version: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPlan:
    """A cluster of Amazon EKS.

    Attributes:
        stack_name: Its stack; None of an existing cluster.
        cluster_name: Name of an existing cluster; None where the deployment names it.
        version: Version of Kubernetes.
        standard_support_ends, extended_support_ends: ISO dates; None where the catalogue has none.
        public_access_cidrs: Who reaches the API server from the internet; nobody if empty.
        service_cidr: IPv4 range of its services.
        admins: IAM principals that administer it.
        add_ons: EKS add-ons made with it, in the order of their installation; none of an existing cluster.
        system_nodes: Nodes for its own pods; None of an existing cluster.
        charts: Software for GPU nodes, in the order of its installation.
        software_stack: Stack that installs them; None where `gpu-clusters manifests` writes them for you to apply.
        mirror: Registry with copies of charts and images; None for the public ones.
        usd_per_hour: List price of the control plane while its version is in standard support.
        usd_per_hour_extended: The same in extended support.
        prices: What these rest on.
        unknown: Fields above that are None -> why.
    """

    stack_name: str | None
    cluster_name: str | None
    version: str
    standard_support_ends: str | None
    extended_support_ends: str | None
    public_access_cidrs: tuple[str, ...]
    service_cidr: str
    admins: tuple[str, ...]
    add_ons: tuple[str, ...]
    system_nodes: SystemNodesPlan | None
    charts: tuple[ChartPlan, ...]
    software_stack: str | None
    mirror: str | None
    usd_per_hour: float | None
    usd_per_hour_extended: float | None
    prices: tuple[PriceUsed, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPlan:
    """A managed node group of Amazon EKS.

    Attributes:
        capacity_type: `ON_DEMAND`, `SPOT` or `CAPACITY_BLOCK`.
        ami_type: Which image EKS chooses, such as `AL2023_x86_64_NVIDIA`.
        desired_nodes: Size that the template says; None where others set it.
        grown_by: Who sets the size, in a sentence.
        update_strategy: `MINIMAL` (old nodes go first) or `DEFAULT`.
        update: What a new launch template, or version of the cluster, does to running nodes, in a sentence.
        max_pods: Pods for which a node has addresses, its own among them.
        mig_strategy: How the device plugin shows split GPUs: `none`, `single` or `mixed`.
        resources: What Kubernetes sees on a node: resource name -> number.
        labels: Labels of the nodes.
        taints: Taints of the nodes, such as `nvidia.com/gpu=true:NoSchedule`.
    """

    capacity_type: str
    ami_type: str
    desired_nodes: int | None
    grown_by: str
    update_strategy: str
    update: str
    max_pods: int
    mig_strategy: str
    resources: Mapping[str, int]
    labels: Mapping[str, str]
    taints: tuple[str, ...]
