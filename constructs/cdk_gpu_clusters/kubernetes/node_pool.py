"""What manifests know of a group of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator, plan_interfaces, uses_efa
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL, NodeTaint, node_labels, node_taints
from cdk_gpu_clusters.rules.mig import MigLayout, MigPlan, MigStrategy, choose_strategy, node_resources, plan_mig
from cdk_gpu_clusters.rules.node_group import UpdateStrategy, drained_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreVolume:
    """A file system of FSx for Lustre, as pods mount it.

    Attributes:
        name: Name of the store; volume and claim are named after it.
        file_system_id: `fs-…`.
        dns_name: Name to mount.
        mount_name: The file system's own word behind the name.
        storage_capacity_gib: Its size in GiB, None if unknown.
        read_only: Whether pods only read.
    """

    name: str
    file_system_id: str
    dns_name: str
    mount_name: str
    storage_capacity_gib: int | None = None
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsVolume:
    """An NFS file system, such as home directories, as pods mount it.

    Attributes:
        name: Name of the store; volume and claim are named after it.
        dns_name: Name of its servers.
        export_path: Directory of the file system that is mounted.
        options: Options of mount(8), separated by commas.
        storage_capacity_gib: Its size in GiB, None if it is unknown or elastic.
        read_only: Whether pods only read.
    """

    name: str
    dns_name: str
    export_path: str
    options: str = "nfsvers=4.2,hard"
    storage_capacity_gib: int | None = None
    read_only: bool = False


#: A file system that pods mount.
SharedVolume = LustreVolume | NfsVolume


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A group of equal nodes in a cluster of Kubernetes; make one with `node_pool`.

    Attributes:
        name: Name of the group, as in its label `gpu-cluster/fleet`.
        instance_type: Type of the nodes.
        node_count: Most nodes of the group.
        efa_count: EFA interfaces of a node.
        mig: How its GPUs are split, None if they are not.
        mig_strategy: How the device plugin shows them.
        labels: Labels of the nodes.
        taints: Taints of the nodes.
        mounts: File systems for pods, by mount point.
        network_topology: Whether the labels of the nodes tell where in the network they are, as far as their type goes.
        drained_percent: Share of its nodes that an update empties at once, in percent: `rules.node_group`.
        grace_period_seconds: How long pods of jobs have after SIGTERM, unless a job sets another time.
        scales: Whether nodes come for pods that wait. Kueue places pods on nodes that exist, so queues of such a group
            have quotas and no topology.
    """

    name: str
    instance_type: InstanceType
    node_count: int
    efa_count: int
    mig: MigPlan | None
    mig_strategy: MigStrategy
    labels: Mapping[str, str]
    taints: tuple[NodeTaint, ...]
    mounts: Mapping[str, SharedVolume] = field(default_factory=dict)
    network_topology: bool = True
    drained_percent: int = 100
    grace_period_seconds: int = 90
    scales: bool = False

    @property
    def resources(self) -> Mapping[str, int]:
        """What Kubernetes sees of the accelerators of a node: name and number."""
        return node_resources(self.instance_type, self.mig, self.mig_strategy)

    @property
    def node_selector(self) -> dict[str, str]:
        """What a pod selects these nodes by."""
        return {FLEET_LABEL: self.labels[FLEET_LABEL]}


def node_pool(
    name: str,
    *,
    instance_type: InstanceType | str,
    node_count: int,
    efa: bool | None = None,
    interface_policy: InterfacePolicy | None = None,
    mig: MigPlan | MigLayout | Sequence[MigLayout] | None = None,
    mig_strategy: MigStrategy | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[NodeTaint] | None = None,
    mounts: Mapping[str, SharedVolume] | None = None,
    network_topology: bool = True,
    max_unavailable: int = 1,
    grace_period_seconds: int = 90,
    scales: bool = False,
) -> NodePool:
    """Describe a group of nodes that Amazon EKS manages, or Karpenter launches.

    Args:
        name: Name of the group.
        instance_type: Type of the nodes.
        node_count: Most nodes of the group.
        efa: Whether the nodes have EFA; accelerated types that have it use it if left out.
        interface_policy: Layout of the interfaces; full EFA bandwidth for one IP address if left out.
        mig: How each GPU is split; no split if left out.
        mig_strategy: How the device plugin shows split GPUs; each slice under its own name if left out.
        labels: Further labels, over and above those of the catalogue.
        taints: Taints; those of the accelerators if left out.
        mounts: File systems for pods, by mount point.
        network_topology: Whether the labels of the nodes tell where in the network they are; not in every Region
            (`catalogue.network_topology.has_topology`).
        max_unavailable: Nodes that an update of the group empties at once.
        grace_period_seconds: How long pods of jobs have after SIGTERM; 480 fits a Capacity Block.
        scales: Whether nodes come for pods that wait, by the Cluster Autoscaler or Karpenter.

    Raises:
        ConfigError: Faults of type, interfaces and MIG.

    Example:
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> pool.efa_count, dict(pool.resources)
        (32, {'nvidia.com/gpu': 8})
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    interfaces = plan_interfaces(
        record, policy=interface_policy, orchestrator=Orchestrator.EKS_MANAGED, efa=uses_efa(record, efa)
    )
    split = mig if mig is None or isinstance(mig, MigPlan) else plan_mig(record, mig)
    pool = planned_pool(
        name,
        instance_type=record,
        node_count=node_count,
        efa_count=interfaces.efa_count,
        mig=split,
        mig_strategy=mig_strategy,
        labels=labels,
        taints=taints,
        mounts=mounts,
        network_topology=network_topology,
        drained=drained_percent(
            UpdateStrategy.DEFAULT, minimum=node_count, maximum=node_count, max_unavailable=max_unavailable
        ),
        grace_period_seconds=grace_period_seconds,
    )
    return replace(pool, scales=scales)


def planned_pool(
    name: str,
    *,
    instance_type: InstanceType,
    node_count: int,
    efa_count: int,
    mig: MigPlan | None,
    mig_strategy: MigStrategy | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[NodeTaint] | None = None,
    mounts: Mapping[str, SharedVolume] | None = None,
    network_topology: bool = True,
    drained: int = 100,
    grace_period_seconds: int = 90,
) -> NodePool:
    """Describe a group of nodes whose interfaces and MIG layout are planned already; otherwise as `node_pool`."""
    strategy = choose_strategy(mig, mig_strategy)
    own = node_labels(instance_type, fleet=name, efa_count=efa_count, mig_strategy=strategy)
    return NodePool(
        name=name,
        instance_type=instance_type,
        node_count=node_count,
        efa_count=efa_count,
        mig=mig,
        mig_strategy=strategy,
        labels=MappingProxyType({**own, **(labels or {})}),
        taints=node_taints(instance_type) if taints is None else tuple(taints),
        mounts=MappingProxyType(dict(mounts or {})),
        network_topology=network_topology,
        drained_percent=drained,
        grace_period_seconds=grace_period_seconds,
    )
