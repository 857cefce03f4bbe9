"""What Amazon SageMaker HyperPod takes of a cluster and its instance groups, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.catalogue.hyperpod import (
    hyperpod_mig_configurations,
    hyperpod_type_names,
    quota_partitions,
    training_plan_types,
)
from cdk_gpu_clusters.catalogue.instances import InstanceType, instance_type_names
from cdk_gpu_clusters.catalogue.instances import instance_type as catalogue_type
from cdk_gpu_clusters.catalogue.mig import mig_gpu_of
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator
from cdk_gpu_clusters.rules.mig import MigLayout

_API = "botocore 1.44.5, sagemaker service model"
_SCHEMA = "CloudFormation registry schema"
_GUIDE = "Amazon SageMaker AI developer guide"

ML_TYPE = define_rule(
    "GPU-HYP-001",
    "an instance type of HyperPod is ml. and the name of an EC2 instance type that HyperPod has",
    source=f"{_API}: ClusterInstanceType",
)
NODE_RECOVERY = define_rule(
    "GPU-HYP-007",
    "HyperPod replaces failed nodes automatically",
    source=f"{_API}: CreateCluster, NodeRecovery",
)
CAPACITY = define_rule(
    "GPU-HYP-010",
    "HyperPod buys nodes on demand, as Spot Instances, or from a training plan",
    source=f"{_API}: ClusterInstanceGroupSpecification, CapacityRequirements and TrainingPlanArn",
)
OF_THE_SERVICE = define_rule(
    "GPU-HYP-011",
    "an instance group of HyperPod leaves to SageMaker what SageMaker decides",
    source=f"{_SCHEMA} of AWS::SageMaker::Cluster (2026-10-20): no such property of an instance group",
)
TRAINING_PLAN = define_rule(
    "GPU-HYP-012",
    "a training plan is named by its ARN, and its nodes are of a type for which plans are sold",
    source=f"{_API}: TrainingPlanArn, ReservedCapacityInstanceType",
)
GROUP = define_rule(
    "GPU-HYP-013",
    "a HyperPod cluster and its groups have valid names, and a group has 0 to 6,758 nodes",
    source=f"{_API}: ClusterName, InstanceGroupName, ClusterInstanceCount",
)
ORCHESTRATOR_OPTION = define_rule(
    "GPU-HYP-014",
    "an instance group of HyperPod has the options of its orchestrator: Slurm, with one controller and at most one "
    "group of login nodes, or Amazon EKS",
    source=f"{_API}: ClusterSlurmConfig, ClusterKubernetesConfig; {_SCHEMA} of AWS::SageMaker::Cluster (2026-10-20): "
    f'ImageReleaseVersion; {_GUIDE}, "SageMaker HyperPod references", read 2026-11: NodeType',
)
STORAGE = define_rule(
    "GPU-HYP-015",
    "an instance group of HyperPod on Slurm mounts at most one FSx for Lustre and one FSx for OpenZFS",
    source=f"{_API}: ClusterInstanceStorageConfig, ClusterInstanceStorageConfigs, ClusterEbsVolumeConfig; "
    f'{_GUIDE}, "SageMaker HyperPod references", read 2026-11: FsxLustreConfig and FsxOpenZfsConfig',
)
MIG_LABEL = define_rule(
    "GPU-HYP-016",
    "MIG on HyperPod is one configuration of its own chart, by a label of EKS nodes",
    source=f'{_GUIDE}, "Using GPU partitions in Amazon SageMaker HyperPod"; aws/sagemaker-hyperpod-cli @ 011ca92, '
    "gpu-operator/config/default-mig-config.yaml, by the catalogue",
)
NETWORK = define_rule(
    "GPU-HYP-017",
    "a HyperPod network has 1 to 5 security groups and 1 to 16 subnets",
    source=f"{_API}: VpcConfig",
)
DEEP_CHECKS = define_rule(
    "GPU-HYP-018",
    "deep health checks run on accelerated nodes without custom taints, and those of the network on two at least",
    source=f'{_GUIDE}, "Deep health checks": GPU and Trainium instances, no custom taints; of Slurm: '
    "InstanceConnectivity needs two nodes",
)
ACCOUNTING = define_rule(
    "GPU-HYP-019",
    "an accounting database of HyperPod needs Slurm with continuous provisioning",
    source=f"{_API}: ClusterOrchestratorSlurmConfig, AccountingDatabase",
)
QUOTA = define_rule(
    "GPU-HYP-020",
    "the quota of a team names types that HyperPod has, MIG profiles of their GPUs, and values in range",
    source=f"{_SCHEMA} of AWS::SageMaker::ComputeQuota (2026-10-20), AcceleratorPartition; the profiles of the "
    "type by the catalogue",
)
GOVERNANCE = define_rule(
    "GPU-HYP-021",
    "quotas and priorities are for HyperPod clusters on Amazon EKS",
    source=f"{_SCHEMA} of AWS::SageMaker::ComputeQuota (2026-10-20), ClusterArn: Slurm clusters are rejected",
)
PRIORITIES = define_rule(
    "GPU-HYP-022",
    "a HyperPod cluster has at most 10 priority classes, with weights of 0 to 100",
    source=f"{_SCHEMA} of AWS::SageMaker::ClusterSchedulerConfig (2026-10-20)",
)

EKS_CLUSTER = define_rule(
    "GPU-HYP-024",
    "HyperPod joins a cluster of Amazon EKS with a version that it takes, in private subnets, after its Helm chart",
    source=f'{_GUIDE}, "Getting started with Amazon EKS support in SageMaker HyperPod", edition of 2026: Kubernetes '
    '1.30 to 1.35, private subnets; "Install packages on the Amazon EKS cluster using Helm": before HyperPod joins it',
)
TRAINING_PLAN_USER = define_rule(
    "GPU-HYP-025",
    "nodes from a training plan of SageMaker are an instance group of HyperPod",
    source=f"{_API}: CreateTrainingPlan, TargetResources (SageMakerResourceName)",
)
CONTINUOUS = define_rule(
    "GPU-HYP-026",
    "Spot Instances of HyperPod, keys of its volumes and least sizes of its groups need continuous provisioning",
    source=f'{_GUIDE}, "Spot instances in Amazon SageMaker HyperPod", "Customer managed AWS KMS key encryption for '
    'SageMaker HyperPod" and "Continuous provisioning for enhanced cluster operations" (MinCount), read 2026-11',
)
TIERED_CHECKPOINTS = define_rule(
    "GPU-HYP-029",
    "tiered checkpoints of HyperPod are for Amazon EKS, with 20 to 100 percent of the memory",
    source=f'{_GUIDE}, "Set up managed tiered checkpointing", read 2026-11; {_API}: '
    "ClusterInstanceMemoryAllocationPercentage takes 0 to 100",
)

_KUBERNETES = ((1, 30), (1, 35))
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_PARTITION = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
_PLAN = re.compile(r"arn:aws[a-z\-]*:sagemaker:[a-z0-9\-]*:[0-9]{12}:training-plan/.+")
# The pattern of the schema allows any length; the service takes it as a part of the name of a namespace.
_TEAM = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_MOUNT_POINT = re.compile(r"/(?!/)(?!.*/$)[a-zA-Z0-9._-]+(/[a-zA-Z0-9._-]+)*")
MOST_NODES = 6_758
_MOST_GROUPS, _MOST_SUBNETS, _LARGEST_VOLUME_GIB = 5, 16, 16_384
_LEAST_CHECKPOINT_PERCENT = 20
_MOST_PRIORITIES, _MOST_WEIGHT, _MOST_BORROW_PERCENT, _MOST_QUOTAS = 10, 100, 500, 15

#: What a launch template, or an option of another orchestrator, would set -> the nearest thing that HyperPod has.
NEAREST: Mapping[str, str] = {
    "launch_template": "leave it out: instance_type, mounts, volume_gib and setup_script are what HyperPod takes",
    "placement": "leave it out: SageMaker places the nodes; keep the group in one subnet",
    "placement_group": "leave it out: SageMaker places the nodes; keep the group in one subnet",
    "user_data": "write setup_script, which runs after the set-up of HyperPod",
    "user_data_parts": "write setup_script, which runs after the set-up of HyperPod",
    "image": "leave it out for the image of HyperPod, or give image_id with a custom image that is made from one",
    "root_volume": "give volume_gib for a second volume at /opt/sagemaker, and volume_key for its key",
    "min_node_count": "write node_count: the size of a group is fixed",
    "max_node_count": "write node_count: the size of a group is fixed",
    "scratch": "leave it out: the image of HyperPod sets up the local disks",
    "key_pair": "leave it out: open a Systems Manager session, as session_command shows",
}


def ml_name(instance_type: str) -> str:
    """The name of a type in SageMaker, such as `ml.p5.48xlarge`."""
    return instance_type if instance_type.startswith("ml.") else f"ml.{instance_type}"


@check
def check_hyperpod_type(name: str, *, families: Collection[str], path: str = "") -> Iterator[Finding]:
    """Find a type that HyperPod does not have.

    Args:
        name: Name of the type with its prefix.
        families: Families that are known; a type of another one is not judged.
        path: Where it is written.
    """
    family = name.split(".")[1]
    if family not in families or name in hyperpod_type_names():
        return
    sizes = sorted(one for one in hyperpod_type_names() if one.startswith(f"ml.{family}."))
    yield ML_TYPE.finding(
        cause="SageMaker HyperPod does not have this type",
        got=name,
        allowed=", ".join(sizes) or "another family",
        fix="choose a type that HyperPod has",
        path=path,
    )


@check
def check_node_recovery(*, is_automatic: bool, path: str = "") -> Iterator[Finding]:
    """Find a cluster that keeps its failed nodes.

    Args:
        is_automatic: Whether SageMaker reboots and replaces failed nodes.
        path: Where it is written.
    """
    if not is_automatic:
        yield NODE_RECOVERY.finding(
            cause="a node with a failed GPU stays, and every job on it fails again",
            got="None",
            allowed="Automatic",
            fix="let HyperPod recover nodes automatically, or acknowledge this",
            path=path,
            severity=Severity.WARNING,
        )


@check
def check_hyperpod_capacity(
    terms: CapacityTerms, *, has_plan: bool = False, path: str = "capacity"
) -> Iterator[Finding]:
    """Find capacity that HyperPod cannot use.

    Args:
        terms: How the nodes are bought.
        has_plan: Whether a training plan is named, too.
        path: Where the capacity is written.
    """
    plans = "TrainingPlan.from_arn(...), Capacity.spot() or Capacity.on_demand()"
    if terms.kind.is_reserved:
        yield CAPACITY.finding(
            cause="HyperPod launches nodes in an account of SageMaker, and uses no reservation or block of EC2",
            got=terms.kind.value,
            allowed=plans,
            fix="reserve the capacity as a training plan of SageMaker, and name the plan",
            path=path,
        )
    elif has_plan and terms.kind is not CapacityKind.ON_DEMAND:
        yield CAPACITY.finding(
            cause="the nodes of a training plan are no Spot Instances",
            got=f"{terms.kind.value} and a training plan",
            allowed="one of the two",
            fix="keep one of the two",
            path=path,
        )
    for value, what, fix in (
        (terms.ends_at, "an end", "leave the end out, and set node_count to 0 when the time has come"),
        (terms.max_price_usd_per_hour, "a price limit", "leave the price limit out"),
        (terms.uses_open_reservations or None, "open reservations", "leave uses_open_reservations out"),
    ):
        if value is not None and not terms.kind.is_reserved:
            yield CAPACITY.finding(
                cause=f"an instance group of HyperPod has no property for {what}",
                got=what,
                allowed=plans,
                fix=fix,
                path=path,
            )


@check
def check_training_plan(
    arn: str | None, instance_type: str, *, families: Collection[str], path: str = "capacity"
) -> Iterator[Finding]:
    """Find a training plan that no node can come from.

    Args:
        arn: ARN of the plan; None if it is known at deployment only.
        instance_type: Type of the nodes, with its prefix.
        families: Families that are known; a type of another one is not judged.
        path: Where the plan is written.
    """
    if arn is not None and not _PLAN.fullmatch(arn):
        yield TRAINING_PLAN.finding(
            cause="this is not the ARN of a training plan",
            got=arn,
            allowed="arn:aws:sagemaker:<Region>:<account>:training-plan/<name>",
            fix="copy the ARN from `aws sagemaker list-training-plans`",
            path=path,
        )
    if instance_type.split(".")[1] in families and instance_type not in training_plan_types():
        yield TRAINING_PLAN.finding(
            cause="no training plan is sold for this type",
            got=instance_type,
            allowed=", ".join(training_plan_types()),
            fix="buy the nodes on demand or as Spot Instances, or choose a type with plans",
            path=path,
        )


@check
def check_instance_group(
    *, name: str | None, node_count: int | None, least_node_count: int | None = None
) -> Iterator[Finding]:
    """Find a name or a size that HyperPod refuses.

    Args:
        name: Name of the group, None if it is known at deployment only.
        node_count: Its nodes, None if unknown.
        least_node_count: Nodes from which on it counts as made.
    """
    if name is not None:
        yield from check_hyperpod_name(name, path="instance_group_name")
    if node_count is not None and not 0 <= node_count <= MOST_NODES:
        yield GROUP.finding(
            cause="HyperPod takes no such number of nodes",
            got=str(node_count),
            allowed=f"0 to {MOST_NODES}",
            path="node_count",
        )
    if least_node_count is not None and node_count is not None and not 0 <= least_node_count <= node_count:
        yield GROUP.finding(
            cause="a group never has so many nodes, and SageMaker takes it back after three hours",
            got=str(least_node_count),
            allowed=f"0 to {node_count}",
            fix="lower least_node_count",
            path="least_node_count",
        )


@check
def check_hyperpod_name(name: str, *, path: str) -> Iterator[Finding]:
    """Find a name of a cluster, a group or a quota that SageMaker refuses.

    Args:
        name: The name.
        path: Where it is written.
    """
    if not _NAME.fullmatch(name):
        yield GROUP.finding(
            cause="SageMaker refuses this name",
            got=name,
            allowed="1 to 63 letters, digits and hyphens, with a letter or digit at both ends",
            path=path,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Options of an instance group that only one of the orchestrators has.

    Attributes:
        node_type: Task of the nodes in Slurm; None if it is left out.
        partition: Slurm partition of the nodes.
        labels: Labels of Kubernetes nodes.
        taints: Keys of their taints.
        image_release: Version of HyperPod's image.
    """

    node_type: str | None = None
    partition: str | None = None
    labels: Sequence[str] = ()
    taints: Sequence[str] = ()
    image_release: str | None = None


@check
def check_group_options(options: GroupOptions, *, is_eks: bool) -> Iterator[Finding]:
    """Find options of the other orchestrator.

    Args:
        options: The options.
        is_eks: Whether the cluster is on Amazon EKS.
    """
    given = {
        "node_type": (options.node_type, False),
        "partition": (options.partition, False),
        "labels": (", ".join(options.labels), True),
        "taints": (", ".join(options.taints), True),
        "image_release": (options.image_release, True),
    }
    for name, (value, of_eks) in given.items():
        if value and of_eks is not is_eks:
            yield ORCHESTRATOR_OPTION.finding(
                cause=f"HyperPod on {'Amazon EKS' if is_eks else 'Slurm'} has no {name}",
                got=value,
                allowed="labels, taints, image_release" if is_eks else "node_type, partition",
                fix=f"leave {name} out",
                path=name,
            )
    if options.partition and not is_eks:
        if options.node_type not in (None, "Compute"):
            yield ORCHESTRATOR_OPTION.finding(
                cause="jobs run on compute nodes alone",
                got=f"partition of {options.node_type}",
                allowed="a partition of compute nodes",
                fix="leave partition out",
                path="partition",
            )
        if not _PARTITION.fullmatch(options.partition):
            yield ORCHESTRATOR_OPTION.finding(
                cause="SageMaker refuses this name of a partition",
                got=options.partition,
                allowed="letters, digits and hyphens, with a letter or digit at both ends",
                path="partition",
            )


@check
def check_slurm_nodes(node_types: Sequence[str]) -> Iterator[Finding]:
    """Find a second group of nodes of which Slurm has one.

    Args:
        node_types: Task of each group of the cluster, the group that is judged last.
    """
    last = node_types[-1]
    if last != "Compute" and last in node_types[:-1]:
        yield ORCHESTRATOR_OPTION.finding(
            cause="SageMaker refuses a second group of these nodes",
            got=f"another group of {last}",
            allowed="one group of Controller, which HyperPodCluster makes, and at most one of Login",
            fix="leave node_type out, or leave the group out",
            path="node_type",
        )


class MountKind(str, Enum):
    """What HyperPod mounts by itself, and what it does not."""

    LUSTRE = "FSx for Lustre"
    OPENZFS = "FSx for OpenZFS"
    OTHER = "another file system"


@check
def check_storage(
    mounts: Mapping[str, MountKind], *, is_eks: bool = False, volume_gib: int | None = None, has_key: bool = False
) -> Iterator[Finding]:
    """Find storage that HyperPod does not attach.

    Args:
        mounts: Kind of file system by mount point.
        is_eks: Whether the cluster is on Amazon EKS.
        volume_gib: Size of the second volume; None for none.
        has_key: Whether a key of it is given.
    """
    kinds = list(mounts.values())
    for index, (point, kind) in enumerate(mounts.items()):
        if is_eks:
            yield STORAGE.finding(
                cause="HyperPod mounts file systems on the nodes of Slurm alone",
                got=point,
                allowed="no mounts on Amazon EKS",
                fix="leave mounts out, and give pods a volume of the FSx CSI driver",
                path=f"mounts.{point}",
            )
            continue
        if kind is MountKind.OTHER:
            yield STORAGE.finding(
                cause="HyperPod mounts no such file system",
                got=point,
                allowed="FSx for Lustre; FSx for OpenZFS without a directory of its own",
                fix="mount it in setup_script, or keep the directories in FSx for OpenZFS or Lustre",
                path=f"mounts.{point}",
            )
        elif kind in kinds[:index]:
            yield STORAGE.finding(
                cause="HyperPod mounts one file system of each kind",
                got=f"another {kind.value} at {point}",
                allowed="at most one FSx for Lustre and one FSx for OpenZFS",
                fix="mount the others in setup_script",
                path=f"mounts.{point}",
            )
        if not _MOUNT_POINT.fullmatch(point):
            yield STORAGE.finding(
                cause="SageMaker refuses this mount point",
                got=point,
                allowed="an absolute path such as /fsx",
                path=f"mounts.{point}",
            )
    if volume_gib is not None and not 1 <= volume_gib <= _LARGEST_VOLUME_GIB:
        yield STORAGE.finding(
            cause="SageMaker makes no such volume",
            got=f"{volume_gib} GiB",
            allowed=f"1 to {_LARGEST_VOLUME_GIB} GiB",
            path="volume_gib",
        )
    if has_key and volume_gib is None:
        yield STORAGE.finding(
            cause="the key is for the second volume, and there is none",
            got="volume_key",
            allowed="volume_key with volume_gib",
            fix="give volume_gib, too",
            path="volume_key",
        )


def mig_configuration_of(layout: MigLayout | Sequence[MigLayout]) -> str | None:
    """The name of the configuration of HyperPod's chart that splits each GPU so; None if there is none.

    Args:
        layout: The layout of every GPU.

    Example:
        >>> mig_configuration_of(MigLayout(["3g.40gb", "4g.40gb"]))
        'mixed-1-3g.40gb-1-4g.40gb'
    """
    layouts = [layout] if isinstance(layout, MigLayout) else list(layout)
    if len({tuple(sorted(map(str, one.profiles))) for one in layouts}) != 1:
        return None
    profiles = [str(one) for one in layouts[0].profiles]
    wanted = {profile: profiles.count(profile) for profile in profiles}
    return next((name for name, devices in hyperpod_mig_configurations().items() if devices == wanted), None)


@check
def check_hyperpod_mig(
    layout: MigLayout | Sequence[MigLayout], *, profiles: Collection[str], is_eks: bool
) -> Iterator[Finding]:
    """Find a MIG layout that HyperPod's chart does not offer.

    Args:
        layout: The layout of each GPU.
        profiles: Names of the profiles that the GPU has.
        is_eks: Whether the cluster is on Amazon EKS.
    """
    if not is_eks:
        yield MIG_LABEL.finding(
            cause="HyperPod splits GPUs by a label of Kubernetes nodes, and documents nothing of the kind for Slurm",
            got="mig on Slurm",
            allowed="mig on Amazon EKS",
            fix="use HyperPod on Amazon EKS, or AWS PCS for MIG slices in Slurm",
            path="mig",
        )
    elif mig_configuration_of(layout) is None:
        offered = [name for name, devices in hyperpod_mig_configurations().items() if set(devices) <= set(profiles)]
        given = [layout] if isinstance(layout, MigLayout) else list(layout)
        yield MIG_LABEL.finding(
            cause="HyperPod's chart has no such configuration",
            got=", ".join(dict.fromkeys(map(str, given))),
            allowed=", ".join(offered) or "none for this type",
            fix="choose one of these; a node has one configuration for all its GPUs" if offered else "leave mig out",
            path="mig",
        )


@check
def check_hyperpod_interfaces(policy: InterfacePolicy | None) -> Iterator[Finding]:
    """Find a layout of network interfaces that cannot be requested of HyperPod.

    Args:
        policy: The requested layout.
    """
    if policy is InterfacePolicy.MAXIMUM_ENA_BANDWIDTH:
        yield OF_THE_SERVICE.finding(
            cause="HyperPod lays out the interfaces itself, and takes efa or efa-only for all of them",
            got=policy.value,
            allowed=f"{InterfacePolicy.MINIMUM_IP.value} (efa-only), {InterfacePolicy.EFA_PER_CARD.value} (efa)",
            fix=f"use {InterfacePolicy.EFA_PER_CARD.value}, whose interfaces carry IP traffic, too",
            path="interface_policy",
        )


@check
def check_not_of_user(names: Collection[str]) -> Iterator[Finding]:
    """Find options of other orchestrators that an instance group of HyperPod does not have.

    Args:
        names: Names of the options that were given.
    """
    for name in names:
        if name in NEAREST:
            yield OF_THE_SERVICE.finding(
                cause=f"an instance group of HyperPod has no {name}",
                got=name,
                allowed="what HyperPod takes",
                fix=NEAREST[name],
                path=name,
            )


@check
def check_takes_template(orchestrator: Orchestrator) -> Iterator[Finding]:
    """Find a launch template or user data for HyperPod.

    Args:
        orchestrator: The orchestrator that they are for.
    """
    if orchestrator.is_hyperpod:
        yield OF_THE_SERVICE.finding(
            cause="HyperPod launches its nodes without a launch template and without user data",
            got=orchestrator.value,
            allowed=", ".join(one.value for one in Orchestrator if not one.is_hyperpod),
            fix="use HyperPodCluster.add_instance_group(...), with setup_script for what the user data would do",
            path="orchestrator",
        )


@check
def check_hyperpod_network(*, group_count: int, subnet_count: int) -> Iterator[Finding]:
    """Find a network that SageMaker refuses.

    Args:
        group_count: Its security groups.
        subnet_count: Its subnets.
    """
    for count, most, what, path in (
        (group_count, _MOST_GROUPS, "security groups", "security_groups"),
        (subnet_count, _MOST_SUBNETS, "subnets", "vpc_subnets"),
    ):
        if not 1 <= count <= most:
            yield NETWORK.finding(
                cause=f"SageMaker takes no such number of {what}", got=str(count), allowed=f"1 to {most}", path=path
            )


@check
def check_deep_checks(
    instance_type: InstanceType, checks: Sequence[str], *, taints: Sequence[str], node_count: int | None = None
) -> Iterator[Finding]:
    """Find deep health checks that cannot run; for one node alone a warning, since not every edition states it.

    Args:
        instance_type: Type of the nodes.
        checks: The checks.
        taints: Keys of custom taints of the nodes.
        node_count: Nodes of the group, None if unknown.
    """
    if "InstanceConnectivity" in checks and node_count == 1:
        yield DEEP_CHECKS.finding(
            cause="the check tests the network between nodes, and the group has one",
            got="InstanceConnectivity with 1 node",
            allowed="InstanceStress, or two nodes at least",
            fix="leave InstanceConnectivity out",
            path="deep_health_checks",
            severity=Severity.WARNING,
        )
    if checks and instance_type.accelerator is None:
        yield DEEP_CHECKS.finding(
            cause="the checks load accelerators, and this type has none",
            got=f"{', '.join(checks)} on {instance_type.name}",
            allowed="an accelerated type",
            fix="leave deep_health_checks out",
            path="deep_health_checks",
        )
    if checks and taints:
        yield DEEP_CHECKS.finding(
            cause="the pods of the checks tolerate no custom taint, and never run",
            got=f"taints {', '.join(taints)}",
            allowed="no taints, or no deep health checks",
            fix="leave taints or deep_health_checks out",
            path="taints",
        )


@check
def check_accounting(*, is_eks: bool, is_continuous: bool) -> Iterator[Finding]:
    """Find an accounting database that the cluster cannot use.

    Args:
        is_eks: Whether the cluster is on Amazon EKS.
        is_continuous: Whether nodes are provisioned continuously.
    """
    if is_eks or not is_continuous:
        yield ACCOUNTING.finding(
            cause="only a Slurm cluster with continuous provisioning has an accounting database of its own",
            got="Amazon EKS" if is_eks else "no continuous provisioning",
            allowed="Slurm with continuous provisioning",
            fix="leave accounting_database out" if is_eks else "leave continuous_provisioning out",
            path="accounting_database",
        )


@check
def check_tiered_checkpoints(percent: int, *, is_eks: bool) -> Iterator[Finding]:
    """Find tiered checkpoints that the nodes cannot have; a warning below the range of the guide, which the API takes.

    Args:
        percent: Share of the memory.
        is_eks: Whether the cluster is on Amazon EKS.
    """
    path = "tiered_checkpoint_percent"
    if not is_eks:
        yield TIERED_CHECKPOINTS.finding(
            cause="SageMaker keeps tiered checkpoints in the memory of nodes of Amazon EKS alone",
            got=f"{percent} percent on Slurm",
            allowed="Amazon EKS",
            fix=f"leave {path} out",
            path=path,
        )
    elif not 0 <= percent <= 100:
        yield TIERED_CHECKPOINTS.finding(
            cause="SageMaker takes no such share of the memory",
            got=str(percent),
            allowed=f"{_LEAST_CHECKPOINT_PERCENT} to 100",
            path=path,
        )
    elif percent < _LEAST_CHECKPOINT_PERCENT:
        yield TIERED_CHECKPOINTS.finding(
            cause="the guide of HyperPod has no share as small as this one",
            got=str(percent),
            allowed=f"{_LEAST_CHECKPOINT_PERCENT} to 100",
            fix=f"write {_LEAST_CHECKPOINT_PERCENT} or more",
            path=path,
            severity=Severity.WARNING,
        )


@check
def check_continuous(
    *, is_spot: bool = False, has_key: bool = False, has_least: bool = False, is_continuous: bool
) -> Iterator[Finding]:
    """Find what needs continuous provisioning in a cluster without it.

    Args:
        is_spot: Whether the nodes are Spot Instances.
        has_key: Whether a key of their second volume is given.
        has_least: Whether the nodes are given from which on the group counts as made.
        is_continuous: Whether nodes are provisioned continuously.
    """
    for given, what, path in (
        (is_spot, "Spot Instances", "capacity"),
        (has_key, "a key of a volume", "volume_key"),
        (has_least, "a least number of nodes", "least_node_count"),
    ):
        if given and not is_continuous:
            yield CONTINUOUS.finding(
                cause="SageMaker has this only where it provisions nodes continuously",
                got=f"{what} without continuous provisioning",
                allowed="continuous provisioning",
                fix="leave continuous_provisioning out",
                path=path,
            )


@check
def check_eks_of_hyperpod(
    *, kubernetes_version: str | None, is_public: bool, is_in_stack: bool = False
) -> Iterator[Finding]:
    """Find a cluster of Amazon EKS that HyperPod does not take; warnings, since newer editions take newer versions.

    Args:
        kubernetes_version: Its version, None if it is known at deployment only.
        is_public: Whether a subnet of the nodes is public.
        is_in_stack: Whether the stack of the nodes makes the cluster.
    """
    oldest, newest = (".".join(map(str, one)) for one in _KUBERNETES)
    numbers = tuple(int(part) for part in (kubernetes_version or "").split(".") if part.isdecimal())
    if numbers and not _KUBERNETES[0] <= numbers[:2] <= _KUBERNETES[1]:
        yield EKS_CLUSTER.finding(
            cause="the guide of HyperPod does not list this version of Kubernetes",
            got=kubernetes_version or "",
            allowed=f"{oldest} to {newest}",
            fix="choose one of these, or look the version up in the guide and acknowledge this",
            path="eks_cluster",
            severity=Severity.WARNING,
        )
    if is_public:
        yield EKS_CLUSTER.finding(
            cause="nodes of HyperPod get no public address, and reach nothing from a public subnet",
            got="a public subnet",
            allowed="private subnets",
            fix="choose private subnets with NAT or endpoints",
            path="vpc_subnets",
            severity=Severity.WARNING,
        )
    if is_in_stack:
        yield EKS_CLUSTER.finding(
            cause="HyperPod needs its Helm chart in the cluster, and one stack leaves no time to install it",
            got="a cluster of Amazon EKS in the same stack",
            allowed="a cluster of another stack, or one that exists",
            fix="define the HyperPodCluster in a stack of its own, and install the chart before you deploy it",
            path="eks_cluster",
            severity=Severity.WARNING,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaResource:
    """What a team may use of one instance type. SageMaker fills in what is left out, in the ratio of the type.

    Attributes:
        instance_type: Type, such as `p5.48xlarge`.
        node_count: Nodes.
        accelerators: GPUs or Neuron devices.
        vcpus: vCPUs.
        memory_gib: Memory in GiB.
        mig_profile: MIG profile, such as `1g.10gb`.
        mig_count: MIG slices of it.

    Example:
        >>> QuotaResource(instance_type="p5.48xlarge", accelerators=16).instance_type
        'p5.48xlarge'
    """

    instance_type: str
    node_count: int | None = None
    accelerators: int | None = None
    vcpus: float | None = None
    memory_gib: float | None = None
    mig_profile: str | None = None
    mig_count: int | None = None


@check
def check_team_quota(
    *,
    team: str | None,
    resources: Sequence[QuotaResource],
    families: Collection[str],
    fair_share_weight: int | None = None,
    borrow_limit_percent: int | None = None,
) -> Iterator[Finding]:
    """Find a quota that SageMaker refuses.

    Args:
        team: Name of the team, None if it is known at deployment only.
        resources: What the team may use.
        families: Families that are known; a type of another one is not judged.
        fair_share_weight: Its weight.
        borrow_limit_percent: What it may borrow, in percent of its own quota.
    """
    if team is not None and not _TEAM.fullmatch(team):
        yield _quota(
            "this name cannot be part of a namespace", team, "1 to 40 small letters, digits and hyphens", "team"
        )
    if not 1 <= len(resources) <= _MOST_QUOTAS:
        yield _quota("a quota has no such number of types", str(len(resources)), f"1 to {_MOST_QUOTAS}", "resources")
    for value, most, least, path in (
        (fair_share_weight, _MOST_WEIGHT, 0, "fair_share_weight"),
        (borrow_limit_percent, _MOST_BORROW_PERCENT, 1, "borrow_limit_percent"),
    ):
        if value is not None and not least <= value <= most:
            yield _quota("SageMaker refuses this value", str(value), f"{least} to {most}", path)
    for index, one in enumerate(resources):
        path = f"resources[{index}]"
        yield from check_hyperpod_type(ml_name(one.instance_type), families=families, path=f"{path}.instance_type")
        amounts = (one.node_count, one.accelerators, one.vcpus, one.memory_gib, one.mig_count)
        if all(amount is None for amount in amounts):
            yield _quota("the quota names no amount", one.instance_type, "node_count, accelerators, or another", path)
        if any(amount is not None and amount < 0 for amount in amounts):
            yield _quota("an amount is below 0", one.instance_type, "0 or more", path)
        if (one.mig_profile is None) != (one.mig_count is None):
            yield _quota("a profile and a number of slices go together", one.instance_type, "both or neither", path)
        if one.mig_profile is not None and one.mig_profile not in (known := _quota_profiles(one.instance_type)):
            allowed = ", ".join(known) or "a type whose GPUs MIG splits, or no profile"
            cause = f"quotas have no such MIG profile of {one.instance_type}"
            yield _quota(cause, one.mig_profile, allowed, f"{path}.mig_profile")


def _quota_profiles(instance_type: str) -> list[str]:
    """The MIG profiles that a quota of a type may name; all that quotas have for a type that the catalogue lacks."""
    names = [name.removeprefix("mig-") for name in quota_partitions()]
    ec2_name = instance_type.removeprefix("ml.")
    if ec2_name not in instance_type_names():
        return names
    gpu = mig_gpu_of(catalogue_type(ec2_name))
    return [] if gpu is None else [name for name in names if name in gpu.profiles]


def _quota(cause: str, got: str, allowed: str, path: str) -> Finding:
    return QUOTA.finding(cause=cause, got=got, allowed=allowed, path=path)


@check
def check_governance(*, is_eks: bool | None, priorities: Mapping[str, int] | None = None) -> Iterator[Finding]:
    """Find quotas and priorities that the cluster cannot have.

    Args:
        is_eks: Whether the cluster is on Amazon EKS; None if unknown.
        priorities: Weight by priority class; None for a quota.
    """
    if is_eks is False:
        yield GOVERNANCE.finding(
            cause="SageMaker governs the tasks of Kubernetes alone",
            got="a cluster with Slurm",
            allowed="a cluster on Amazon EKS",
            fix="use accounts, QOS and priorities of Slurm",
        )
    names = priorities or {}
    if len(names) > _MOST_PRIORITIES:
        yield PRIORITIES.finding(
            cause="a cluster has at most 10 priority classes",
            got=str(len(names)),
            allowed=f"at most {_MOST_PRIORITIES}",
            path="priorities",
        )
    for name, weight in names.items():
        if not _TEAM.fullmatch(name) or not 0 <= weight <= _MOST_WEIGHT:
            yield PRIORITIES.finding(
                cause="SageMaker refuses this priority class",
                got=f"{name}: {weight}",
                allowed="1 to 40 small letters, digits and hyphens, and a weight of 0 to 100",
                path=f"priorities.{name}",
            )
