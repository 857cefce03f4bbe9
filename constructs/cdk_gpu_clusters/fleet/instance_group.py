"""What SageMaker HyperPod adds to a fleet: the plan of an instance group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from cdk_gpu_clusters.catalogue.instances import instance_type_names
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.fleet.node import NodeRequest, node_settings
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters.rules.hyperpod import (
    GroupOptions,
    MountKind,
    check_continuous,
    check_deep_checks,
    check_group_options,
    check_hyperpod_capacity,
    check_hyperpod_interfaces,
    check_hyperpod_mig,
    check_hyperpod_network,
    check_hyperpod_type,
    check_instance_group,
    check_storage,
    check_training_plan,
    mig_configuration_of,
    ml_name,
)
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator

#: Families of the catalogue, whose types are compared with those of HyperPod.
KNOWN_FAMILIES = frozenset(name.partition(".")[0] for name in instance_type_names())
#: NVIDIA GPU Operator guide, "MIG Manager": the label that names the configuration of a node.
MIG_LABEL = "nvidia.com/mig.config"
# awslabs/awsome-distributed-ai @ 95b939c, 5.sagemaker-hyperpod/Extensions: Slurm's folder on the image of HyperPod.
_SLURM_BIN = "/opt/slurm/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroupRequest:
    """What is requested of an instance group, beyond a fleet. None is a value that is left open or unknown.

    Attributes:
        known_name: Its name, as far as it is known.
        options: What only one of the orchestrators has.
        has_plan: Whether the nodes come from a training plan.
        plan_arn: ARN of the plan, as far as it is known.
        least_node_count: Nodes from which on the group counts as made; 0 if left out.
        deep_checks: Deep health checks before a node takes work.
        mounts: Kind of each file system by mount point.
        volume_gib: Size of the second volume.
        has_volume_key: Whether a key of it is given.
        labels: Labels of Kubernetes nodes.
        group_count: Security groups of the nodes.
        is_continuous: Whether the cluster provisions nodes continuously.
    """

    known_name: str | None = None
    options: GroupOptions = field(default_factory=GroupOptions)
    has_plan: bool = False
    plan_arn: str | None = None
    least_node_count: int | None = None
    deep_checks: Sequence[str] = ()
    mounts: Mapping[str, MountKind] = field(default_factory=dict)
    volume_gib: int | None = None
    has_volume_key: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    group_count: int = 1
    is_continuous: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroupPlan:
    """What was decided about an instance group.

    Attributes:
        request: What was requested.
        instance_type: Type of the nodes, with SageMaker's prefix.
        interface_type: `efa` or `efa-only`; None without EFA.
        labels: Labels of Kubernetes nodes, with the one that splits GPUs.
        findings: What is wrong with the group, beyond the fleet.
    """

    request: InstanceGroupRequest
    instance_type: str
    interface_type: str | None
    labels: Mapping[str, str]
    findings: tuple[Finding, ...]


def plan_instance_group(fleet: FleetPlan, request: InstanceGroupRequest) -> InstanceGroupPlan:
    """Decide what an instance group is made of.

    Args:
        fleet: The plan of its fleet, with a known type.
        request: What is requested of it.

    Raises:
        ConfigError: The findings of the fleet, if its type is not known.

    Example:
        >>> from cdk_gpu_clusters.fleet.plan import plan_fleet
        >>> from cdk_gpu_clusters.fleet.profile import HYPERPOD_SLURM
        >>> from cdk_gpu_clusters.fleet.request import FleetRequest
        >>> fleet = plan_fleet(
        ...     FleetRequest(name="train", instance_type="p5.48xlarge", profile=HYPERPOD_SLURM, minimum=2, maximum=2)
        ... )
        >>> plan = plan_instance_group(fleet, InstanceGroupRequest())
        >>> plan.instance_type, plan.interface_type, fleet.addresses_per_node
        ('ml.p5.48xlarge', 'efa-only', 1)
    """
    mig = fleet.request.mig
    is_eks = fleet.request.profile.orchestrator is Orchestrator.HYPERPOD_EKS
    name = ml_name(fleet.instance_type.name)
    configuration = None if mig is None or not is_eks else mig_configuration_of(mig)
    labels = {**({} if configuration is None else {MIG_LABEL: configuration}), **request.labels}
    gpu = mig_gpu_of(fleet.instance_type)
    profiles = () if gpu is None else tuple(gpu.profiles)
    findings = [
        *check_instance_group(
            name=request.known_name, node_count=fleet.request.maximum, least_node_count=request.least_node_count
        ),
        *check_hyperpod_type(name, families=KNOWN_FAMILIES, path="instance_type"),
        *check_hyperpod_capacity(fleet.terms, has_plan=request.has_plan),
        *(check_training_plan(request.plan_arn, name, families=KNOWN_FAMILIES) if request.has_plan else ()),
        *check_group_options(request.options, is_eks=is_eks),
        *check_hyperpod_interfaces(fleet.request.interface_policy),
        *(() if mig is None else check_hyperpod_mig(mig, profiles=profiles, is_eks=is_eks)),
        *check_storage(request.mounts, is_eks=is_eks, volume_gib=request.volume_gib, has_key=request.has_volume_key),
        *check_hyperpod_network(group_count=request.group_count, subnet_count=len(fleet.request.subnets) or 1),
        *check_continuous(
            is_spot=fleet.terms.kind is CapacityKind.SPOT,
            has_key=request.has_volume_key,
            has_least=request.least_node_count is not None,
            is_continuous=request.is_continuous,
        ),
        *check_deep_checks(
            fleet.instance_type,
            request.deep_checks,
            taints=request.options.taints,
            node_count=fleet.request.maximum,
        ),
    ]
    return InstanceGroupPlan(
        request=request,
        instance_type=name,
        interface_type=_interface_type(fleet),
        labels=MappingProxyType(labels),
        findings=tuple(findings),
    )


def instance_group_settings(fleet: FleetPlan, node: NodeRequest) -> NodeSettings:
    """The settings of a node of HyperPod: the service mounts, splits GPUs and notices the end of a node by itself.

    Args:
        fleet: What was decided about its fleet.
        node: What is requested of it.
    """
    is_slurm = fleet.request.profile.orchestrator is Orchestrator.HYPERPOD_SLURM
    return replace(
        node_settings(fleet, replace(node, scratch=False)),
        slurm_bin=_SLURM_BIN if is_slurm else None,
        watch_drain=False,
        mig=None,
    )


def _interface_type(fleet: FleetPlan) -> str | None:
    layout = fleet.interfaces_or_none
    if layout is None or not fleet.efa:
        return None
    return "efa" if layout.policy is InterfacePolicy.EFA_PER_CARD else "efa-only"
