"""An instance group of a HyperPod cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    id_of_group,
    path_of,
    report,
    resolved_or_none,
)
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.training_plan import TrainingPlan
from cdk_gpu_clusters.catalogue.homes import HomeService
from cdk_gpu_clusters.compute.fleet_mounts import LustreFileSystem, MountableFileSystem, NfsFileSystem, join_stores
from cdk_gpu_clusters.compute.fleet_network import egress_dependency, id_of
from cdk_gpu_clusters.compute.fleet_props import FleetProps, check_keywords
from cdk_gpu_clusters.compute.fleet_request import ResolvedFleet, resolve_fleet
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.fleet.instance_group import (
    InstanceGroupPlan,
    InstanceGroupRequest,
    instance_group_settings,
    plan_instance_group,
)
from cdk_gpu_clusters.fleet.node import NodeRequest
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.fleet.profile import HYPERPOD_EKS, HYPERPOD_SLURM
from cdk_gpu_clusters.node.hyperpod_scripts import EMPTY_FOLDER, SETUP_FILE, check_static, hyperpod_folder
from cdk_gpu_clusters.node.settings import NodeWatch, check_settings
from cdk_gpu_clusters.orchestration.hyperpod.folder import LifecycleFolder, log_group_prefix
from cdk_gpu_clusters.orchestration.hyperpod.role import allow_folders, allow_key, allow_nodes
from cdk_gpu_clusters.rules.hyperpod import (
    NEAREST,
    GroupOptions,
    MountKind,
    check_not_of_user,
)
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy

if TYPE_CHECKING:
    from cdk_gpu_clusters.rules.mig import MigLayout

_LOGS = AcceptedFinding(
    cause="`HyperPodInstanceGroup`: log group of the nodes",
    reason="CloudWatch Logs encrypts every log group; this one holds events and metrics, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


class DeepHealthCheck(str, Enum):
    """What HyperPod runs on a node before it takes work.

    Source: CloudFormation registry schema of AWS::SageMaker::Cluster (2026-10-20), DeepHealthCheckType.

    Attributes:
        INSTANCE_STRESS: Loads the accelerators and the processors of one node.
        INSTANCE_CONNECTIVITY: Tests the network between nodes.
    """

    INSTANCE_STRESS = "InstanceStress"
    INSTANCE_CONNECTIVITY = "InstanceConnectivity"


class SlurmNodeType(str, Enum):
    """The task of nodes in a Slurm cluster of HyperPod."""

    CONTROLLER = "Controller"
    LOGIN = "Login"
    COMPUTE = "Compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodTaint:
    """A taint of Kubernetes nodes.

    Attributes:
        key: Its key.
        effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        value: Its value; none if left out.
    """

    key: str
    effect: str = "NoSchedule"
    value: str | None = None


class HyperPodInstanceGroupProps(TypedDict, total=False):
    """What `HyperPodInstanceGroup` takes, besides cluster and type. Only the size is required.

    Attributes:
        node_count: Nodes of the group, 0 to 6,758.
        least_node_count: Nodes from which on the group counts as made; SageMaker takes it back after three hours with
            fewer. 0 if left out. It needs continuous provisioning.
        instance_group_name: Name; the id of the construct if left out. Another name is another group.
        capacity: On demand if left out; `TrainingPlan.from_arn(...)` or `Capacity.spot()`.
        vpc_subnets: Subnets of the nodes; those of the cluster if left out. One subnet with EFA.
        security_groups: Further groups of the nodes, beside those of the cluster. Each gets the rules that EFA needs.
        efa: Whether the nodes have EFA; accelerated types that have it use it if left out.
        interface_policy: `MINIMUM_IP` for `efa-only` interfaces, the default; `EFA_PER_CARD` for `efa`, whose
            interfaces take an address each.
        deep_health_checks: What HyperPod runs on each node before it takes work; none if left out.
        mounts: Slurm: file systems by mount point, which HyperPod mounts: at most one `LustreStore`, and one
            `HomeStore` of FSx for OpenZFS.
        volume_gib: Size of a second volume at `/opt/sagemaker`, 1 to 16,384; none if left out.
        volume_key: Key of that volume, which stays; a key of AWS if left out. Its policy leaves permissions to IAM.
        mig: How each GPU is split, on Amazon EKS: one of the configurations of HyperPod's chart, by label.
        node_type: Slurm: task of the nodes; compute if left out. A cluster has at most one group of login nodes.
        partition: Slurm: partition of compute nodes; one with the name of the group if left out.
        labels: Amazon EKS: labels of the nodes.
        taints: Amazon EKS: taints of the nodes.
        image_id: Custom image, which is made from one of HyperPod. If left out, the latest of HyperPod; with continuous
            provisioning, a later group gets the image of the earliest one. Name this or `image_release` where the image
            matters.
        image_release: Amazon EKS: version of HyperPod's image, such as `1.2.3`; as without `image_id` if left out.
        threads_per_core: 1 or 2; the type's own if left out.
        checks: Whether the nodes get the library's software: boot checks and watchdog. True on accelerated types if
            left out.
        setup_script: A script of your own that each node runs as root, before the checks. ASCII without CDK tokens.
        environment: Variables for every login and job on the node, such as NCCL settings.
        watch: How the nodes are watched; the defaults of `NodeWatch` if left out.
        ready_timeout: How long a node's boot checks may take; 30 minutes if left out.
        role: Execution role; that of the cluster if left out.
        log_retention: How long events of the nodes are kept; one month if left out.
        log_encryption_key: Key of the log group; CloudWatch's own if left out.
    """

    node_count: int
    least_node_count: int | None
    instance_group_name: str | None
    capacity: Capacity | TrainingPlan | None
    vpc_subnets: ec2.SubnetSelection | None
    security_groups: Sequence[ec2.ISecurityGroup]
    efa: bool | None
    interface_policy: InterfacePolicy | None
    deep_health_checks: Sequence[DeepHealthCheck]
    mounts: Mapping[str, MountableFileSystem] | None
    volume_gib: int | None
    volume_key: kms.IKey | None
    mig: MigLayout | Sequence[MigLayout] | None
    node_type: SlurmNodeType | None
    partition: str | None
    labels: Mapping[str, str] | None
    taints: Sequence[HyperPodTaint]
    image_id: str | None
    image_release: str | None
    threads_per_core: int | None
    checks: bool | None
    setup_script: str
    environment: Mapping[str, str] | None
    watch: NodeWatch | None
    ready_timeout: cdk.Duration | None
    role: iam.IRole | None
    log_retention: logs.RetentionDays
    log_encryption_key: kms.IKey | None


class GroupOwner(Protocol):
    """What an instance group needs of its cluster. A `HyperPodCluster` has it."""

    @property
    def is_eks(self) -> bool: ...
    @property
    def eks_cluster_arn(self) -> str | None: ...
    @property
    def is_continuous(self) -> bool: ...
    @property
    def vpc(self) -> ec2.IVpc: ...
    @property
    def subnets(self) -> Sequence[ec2.ISubnet]: ...
    @property
    def security_groups(self) -> Sequence[ec2.ISecurityGroup]: ...
    @property
    def role(self) -> iam.IRole: ...
    @property
    def unique_name(self) -> str: ...
    def exchange_efa(self, security_group: ec2.ISecurityGroup) -> None: ...
    def share_folders(self, folder: LifecycleFolder) -> None: ...
    def share_key(self, key: kms.IKey) -> None: ...


class HyperPodInstanceGroup(ClusterConstruct):
    """Nodes of one type in a HyperPod cluster. Make one with `cluster.add_instance_group(...)`.

    It is a part of the cluster's resource, so that it has no resource of its own. Makes a log group and, for
    accelerated nodes, the folder with the lifecycle script, which installs the node software and checks the node: on
    Slurm after HyperPod's own set-up, on Amazon EKS before the node joins. The watchdog on the node signals HyperPod,
    which replaces or reboots it. On Amazon EKS other nodes have a script that does nothing.

    Sources: Amazon SageMaker AI developer guide; registry schema of AWS::SageMaker::Cluster (2026-10-20).

    Example:
        >>> cluster = HyperPodCluster(
        ...     stack, "SlurmOfGroup", vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnets=[gpu_subnet])
        ... )
        >>> trainers = cluster.add_instance_group("Trainers", instance_type="p5.48xlarge", node_count=4)
        >>> trainers.plan.addresses_per_node
        1

    Attributes:
        plan: What was decided about the group as about every fleet: type, interfaces, size.
        group: What was decided about it as an instance group.
        instance_group_name: Its name.
        role: Execution role of the nodes.
        log_group: Events of the nodes, one stream each; None without the library's software.
        security_groups: Their security groups.
        properties: The instance group as CloudFormation takes it, with camel-case names.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: GroupOwner,
        instance_type: str | ec2.InstanceType,
        options: HyperPodInstanceGroupProps,
    ) -> None:
        """Define the group.

        Args:
            scope: The cluster.
            construct_id: Id in the scope.
            cluster: The cluster.
            instance_type: Type of every node, with or without `ml.`.
            options: Those of `HyperPodInstanceGroupProps`.

        Raises:
            ConfigError: GPU-HYP-001, -010 to -018 and -026, all of them at once; faults of type, interfaces, network
                and MIG.
        """
        super().__init__(scope, construct_id)
        report(self, check_not_of_user([name for name in options if name in NEAREST]))
        check_keywords(self, options, HyperPodInstanceGroupProps)
        fleet = self._resolve(cluster, instance_type, options)
        plan = fleet.plan
        if plan.type_or_none is None or plan.interfaces_or_none is None:  # nothing else can be decided
            report(self, list(plan.findings))
        self.plan: FleetPlan = plan
        self.instance_group_name: str = options.get("instance_group_name") or _name(construct_id)
        self.security_groups: Sequence[ec2.ISecurityGroup] = [
            *cluster.security_groups,
            *options.get("security_groups", ()),
        ]
        self.group: InstanceGroupPlan = plan_instance_group(plan, self._request(options, cluster))
        script = options.get("setup_script", "")
        report(
            self,
            [*plan.findings, *self.group.findings, *check_static({"setup_script": script} if script else {})],
        )
        own_role = options.get("role")
        self.role: iam.IRole = own_role or cluster.role
        self.log_group: logs.ILogGroup | None = None
        folder = self._folder(cluster, options, script)
        overrides = bool(options.get("vpc_subnets") or options.get("security_groups"))
        self._needs: list[IDependable] = [egress_dependency(subnet) for subnet in fleet.subnets]
        if own_role is not None or overrides:
            policy = allow_nodes(
                self,
                self.role,
                subnets=fleet.subnets,
                security_groups=self.security_groups,
                eks_cluster_arn=cluster.eks_cluster_arn,
                name=cluster.unique_name,
            )
            self._needs.append(policy)
        if own_role is None:
            _share(cluster, folder, options.get("volume_key"))
        else:
            self._needs += self._allow(folder, options.get("volume_key"))
        if plan.efa:
            for group in options.get("security_groups", ()):
                cluster.exchange_efa(group)
        join_stores(self, plan, options.get("mounts") or {}, self.security_groups[0], subnets=fleet.subnets)
        self.properties: dict[str, Any] = self._properties(
            options, folder, subnets=fleet.subnets if overrides else (), is_eks=cluster.is_eks
        )

    def _resolve(
        self, cluster: GroupOwner, instance_type: str | ec2.InstanceType, options: HyperPodInstanceGroupProps
    ) -> ResolvedFleet:
        name = instance_type if isinstance(instance_type, str) else instance_type.to_string()
        capacity, count = options.get("capacity"), options.get("node_count")
        requested = FleetProps(
            capacity=capacity if isinstance(capacity, Capacity) else None,
            node_count=count,
            vpc_subnets=options.get("vpc_subnets") or ec2.SubnetSelection(subnets=list(cluster.subnets)),
            efa=options.get("efa"),
            interface_policy=options.get("interface_policy"),
            mig=options.get("mig"),
            ready_timeout=options.get("ready_timeout"),
        )
        return resolve_fleet(
            self,
            name=path_of(self),
            instance_type=name.removeprefix("ml."),
            profile=HYPERPOD_EKS if cluster.is_eks else HYPERPOD_SLURM,
            vpc=cluster.vpc,
            options=requested,
        )

    def _request(self, options: HyperPodInstanceGroupProps, cluster: GroupOwner) -> InstanceGroupRequest:
        capacity, node_type = options.get("capacity"), options.get("node_type")
        plan_arn = capacity.arn if isinstance(capacity, TrainingPlan) else None
        labels = options.get("labels") or {}
        return InstanceGroupRequest(
            known_name=resolved_or_none(self.instance_group_name),
            options=GroupOptions(
                node_type=None if node_type is None else node_type.value,
                partition=options.get("partition"),
                labels=tuple(labels),
                taints=tuple(taint.key for taint in options.get("taints", ())),
                image_release=options.get("image_release"),
            ),
            has_plan=plan_arn is not None,
            plan_arn=resolved_or_none(plan_arn),
            least_node_count=options.get("least_node_count"),
            deep_checks=tuple(one.value for one in options.get("deep_health_checks", ())),
            mounts={point: _kind_of(store) for point, store in (options.get("mounts") or {}).items()},
            volume_gib=options.get("volume_gib"),
            has_volume_key=options.get("volume_key") is not None,
            labels=labels,
            group_count=len(self.security_groups),
            is_continuous=cluster.is_continuous,
        )

    def _folder(self, cluster: GroupOwner, options: HyperPodInstanceGroupProps, script: str) -> LifecycleFolder | None:
        """The lifecycle script, with the node software if the nodes have it; None if the group needs none."""
        checks, cluster_name = options.get("checks"), cluster.unique_name
        has_accelerator = self.plan.instance_type.accelerator is not None
        if not (has_accelerator if checks is None else checks) and not script:
            if not cluster.is_eks:
                return None
            return LifecycleFolder(self, "Scripts", cluster_name=cluster_name, files=EMPTY_FOLDER)
        # A name that is known at synthesis: the settings of the nodes travel through S3.
        name = f"{log_group_prefix(cluster_name)}{cdk.Names.unique_resource_name(self, max_length=120, separator='-')}"
        self.log_group = own_log_group(
            self,
            "Logs",
            name=name,
            retention=options.get("log_retention", logs.RetentionDays.ONE_MONTH),
            encryption_key=options.get("log_encryption_key"),
            without_key=_LOGS,
        )
        environment = options.get("environment") or {}
        node = NodeRequest(environment=environment, watch=options.get("watch") or NodeWatch(), log_group_name=name)
        settings = instance_group_settings(self.plan, node)
        report(
            self,
            check_settings(settings) + check_static({f"environment.{one}": text for one, text in environment.items()}),
        )
        files = hyperpod_folder(settings, setup_script=script)
        return LifecycleFolder(self, "Scripts", cluster_name=cluster_name, files=files)

    def _allow(self, folder: LifecycleFolder | None, key: kms.IKey | None) -> Iterator[IDependable]:
        """What a role of its own gets for scripts and volumes."""
        if folder is not None:
            yield allow_folders(self, self.role, folder)
        if key is not None:
            yield allow_key(self, self.role, key)

    def _properties(
        self,
        options: HyperPodInstanceGroupProps,
        folder: LifecycleFolder | None,
        *,
        subnets: Sequence[ec2.ISubnet],
        is_eks: bool,
    ) -> dict[str, Any]:
        capacity, interface = options.get("capacity"), self.group.interface_type
        is_spot = isinstance(capacity, Capacity) and capacity.terms.kind.value == "spot"
        network = {
            "subnets": [id_of(subnet) for subnet in subnets],
            "securityGroupIds": [id_of_group(group) for group in self.security_groups],
        }
        # SageMaker AI developer guide, "Getting started with SageMaker HyperPod using the AWS CLI", read 2026-11: on
        # Amazon EKS no set-up by the image comes first, and every group needs OnCreate.
        event = "onCreate" if is_eks else "onInitComplete"
        script = None if folder is None else {"sourceS3Uri": folder.uri, event: SETUP_FILE}
        optional: dict[str, Any] = {
            "minInstanceCount": options.get("least_node_count"),
            "capacityRequirements": {"spot": {}} if is_spot else None,
            "trainingPlanArn": capacity.arn if isinstance(capacity, TrainingPlan) else None,
            "imageId": options.get("image_id"),
            "imageReleaseVersion": options.get("image_release"),
            "instanceStorageConfigs": self._storage(options) or None,
            "kubernetesConfig": self._kubernetes(options) if is_eks else None,
            "lifeCycleConfig": script,
            "networkInterface": None if interface is None else {"interfaceType": interface},
            "onStartDeepHealthChecks": [one.value for one in options.get("deep_health_checks", ())] or None,
            "overrideVpcConfig": network if subnets else None,
            "slurmConfig": None if is_eks else self._slurm(options),
            "threadsPerCore": options.get("threads_per_core"),
        }
        return {
            "instanceGroupName": self.instance_group_name,
            "instanceCount": self.plan.maximum,
            "instanceType": self.group.instance_type,
            "executionRole": self.role.role_arn,
            **{name: value for name, value in optional.items() if value is not None},
        }

    def _kubernetes(self, options: HyperPodInstanceGroupProps) -> dict[str, Any] | None:
        taints = [
            {"key": one.key, "effect": one.effect, **({} if one.value is None else {"value": one.value})}
            for one in options.get("taints", ())
        ]
        found = {"labels": dict(self.group.labels) or None, "taints": taints or None}
        return {name: value for name, value in found.items() if value is not None} or None

    def _storage(self, options: HyperPodInstanceGroupProps) -> list[dict[str, Any]]:
        size, key = options.get("volume_gib"), options.get("volume_key")
        volume = {"volumeSizeInGb": size, **({} if key is None else {"volumeKmsKeyId": key.key_arn})}
        stores = (options.get("mounts") or {}).items()
        return [
            *([] if size is None else [{"ebsVolumeConfig": volume}]),
            *(_mount(point, store) for point, store in stores),
        ]

    def _slurm(self, options: HyperPodInstanceGroupProps) -> dict[str, Any]:
        """The task of the nodes. SageMaker refuses compute nodes without a partition, and others with one."""
        node_type = options.get("node_type") or SlurmNodeType.COMPUTE
        if node_type is not SlurmNodeType.COMPUTE:
            return {"nodeType": node_type.value}
        return {"nodeType": node_type.value, "partitionNames": [options.get("partition") or self.instance_group_name]}

    @property
    def needs(self) -> Sequence[IDependable]:
        """What must exist before the first node of the group."""
        return self._needs


def _share(cluster: GroupOwner, folder: LifecycleFolder | None, key: kms.IKey | None) -> None:
    if folder is not None:
        cluster.share_folders(folder)
    if key is not None:
        cluster.share_key(key)


def _mount(point: str, store: MountableFileSystem) -> dict[str, Any]:
    if isinstance(store, NfsFileSystem):
        return {"fsxOpenZfsConfig": {"dnsName": store.dns_name, "mountPath": point}}
    return {"fsxLustreConfig": {"dnsName": store.dns_name, "mountName": store.mount_name, "mountPath": point}}


def _kind_of(store: MountableFileSystem | LustreFileSystem) -> MountKind:
    """HyperPod names no directory of an OpenZFS file system: it mounts all of it."""
    if not isinstance(store, NfsFileSystem):
        return MountKind.LUSTRE
    is_whole = getattr(store, "service", None) is HomeService.OPENZFS and store.export_path == "/fsx"
    return MountKind.OPENZFS if is_whole else MountKind.OTHER


def _name(construct_id: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", construct_id).strip("-").lower()
