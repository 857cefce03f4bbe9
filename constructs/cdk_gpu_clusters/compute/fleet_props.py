"""The keywords that fleets share: documented here once, with the value that each has if it is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters._values import values_of
from cdk_gpu_clusters.compute.auto_scaling_group import UpdatePolicy
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.rules.fleet import AlarmSettings

if TYPE_CHECKING:  # each takes long to load
    import aws_cdk as cdk
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import aws_elasticloadbalancingv2 as elbv2
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_logs as logs
    from aws_cdk import aws_s3 as s3
    from constructs import Construct

    from cdk_gpu_clusters.capacity.capacity import Capacity
    from cdk_gpu_clusters.compute.fleet_mounts import MountableFileSystem
    from cdk_gpu_clusters.compute.node_image import NodeImage
    from cdk_gpu_clusters.compute.root_volume import RootVolume
    from cdk_gpu_clusters.node.exporters import NodeExporters
    from cdk_gpu_clusters.node.kubernetes_node import NodeConfig
    from cdk_gpu_clusters.node.ray import RayNodes
    from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart
    from cdk_gpu_clusters.node.software import NodeFile
    from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
    from cdk_gpu_clusters.rules.mig import MigLayout
    from cdk_gpu_clusters.rules.placement import PlacementStrategy

#: Prefix of the keys of evidence if none is given.
EVIDENCE_PREFIX = "node-evidence"


class NodeSoftwareProps(TypedDict, total=False):
    """What every construct takes whose nodes boot with this library's software. Leave out any of it.

    Attributes:
        capacity: How the nodes are bought; on demand if left out.
        mig: How each GPU is split: one layout for all, or one per GPU. GPUs are not split if left out. Excludes EFA.
        fabric_manager_order: Whether GPUs are split before or after NVIDIA's fabric manager starts; after it. Under
            AWS PCS always before: only then may the node reboot for it.
        mounts: File systems by mount point, such as `{"/fsx": store, "/home": homes}`. A `LustreStore` or a `HomeStore`
            admits the nodes of a fleet by itself. A node that cannot mount one fails its boot, with the reason logged.
        read_only_mounts: Mount points of `mounts` at which the nodes only read, such as `["/data"]`.
        environment: Variables for every login and job on the node, such as NCCL settings, or those of
            `checkpoint_environment`. Pods and model servers have their own.
        user_data_parts: Further user-data parts, after the library's own.
        not_secret: Names of variables and options, and values, that only look like secrets in environment, commands
            and user data.
        node_files: Static files for the nodes, written before any other service starts unless `early=False`.
        watch: How the nodes are watched; every 10 seconds if left out, and a host that is faulty is replaced.
        exporters: Exporters for Prometheus that the nodes install and start; none if left out. Not on Amazon EKS.
        evidence_bucket: Gets a bundle of logs and tool output of each node that fails, before the node goes. The
            bundle stays on the node if left out.
        evidence_prefix: Prefix of the keys of the evidence; the path of the construct follows. `node-evidence` if left
            out.
        ready_timeout: How long a node's boot may take, with image pull and model load, 30 to 7,200 seconds; 30 minutes
            if left out. A node of a managed node group has 13 minutes at most, since EKS gives up after 15.
        log_retention: How long events and metrics of nodes are kept as logs; one month if left out.
        log_encryption_key: Key of the log group; CloudWatch's own if left out.
    """

    capacity: Capacity | None
    mig: MigLayout | Sequence[MigLayout] | None
    fabric_manager_order: FabricManagerOrder
    mounts: Mapping[str, MountableFileSystem] | None
    read_only_mounts: Sequence[str]
    environment: Mapping[str, str] | None
    user_data_parts: Sequence[UserDataPart]
    not_secret: Sequence[str]
    node_files: Sequence[NodeFile]
    watch: NodeWatch | None
    exporters: NodeExporters | None
    evidence_bucket: s3.IBucket | None
    evidence_prefix: str
    ready_timeout: cdk.Duration | None
    log_retention: logs.RetentionDays
    log_encryption_key: kms.IKey | None


class HardwareProps(TypedDict, total=False):
    """What `GpuFleet`, `EksGpuNodeGroup` and `NodeUserData` take about interfaces and disks. Leave out any of it.

    Attributes:
        efa: Whether the nodes have EFA; accelerated types that have it use it if left out.
        interface_policy: Layout of the interfaces; full EFA bandwidth for one IP address if left out.
        scratch: Whether the node's local disks, if the type has some, become one file system. It is at `/scratch`,
            and on EKS for containerd and pods. True if left out.
    """

    efa: bool | None
    interface_policy: InterfacePolicy | None
    scratch: bool


class NodeProps(NodeSoftwareProps, total=False):
    """What `GpuFleet`, `EksGpuNodeGroup` and `InferenceFleet` take, beside `NodeSoftwareProps`. Leave out any of it.

    Attributes:
        vpc_subnets: Subnets of the nodes; the VPC's private subnets if left out. One subnet with EFA, and where the
            capacity is reserved.
        placement: Strategy of a placement group to make, or `NONE`. The capacity decides if left out; model servers
            on plain EC2 are spread where EC2 can hold so many nodes apart. `CLUSTER` takes the group of a reservation
            that was made in one.
        root_volume: Root volume; 200 GiB encrypted gp3 if left out. Container images and weights must fit.
        role: Role of the nodes; a new one if left out. It gets the fleet's own managed policy.
        update_policy: Whether a new template version replaces running nodes. Never if left out; one at a time for
            model servers.
        alarms: When the fleet raises alarms, and stops to launch nodes that fail. The settings' own defaults if left
            out; no alarms and no stop with None.
    """

    vpc_subnets: ec2.SubnetSelection | None
    placement: PlacementStrategy | None
    root_volume: RootVolume | None
    role: iam.IRole | None
    update_policy: UpdatePolicy
    alarms: AlarmSettings | None


class FleetProps(NodeProps, HardwareProps, total=False):
    """What `GpuFleet` and `EksGpuNodeGroup` take, beside `NodeProps` and `HardwareProps`. Only the size is required.

    Attributes:
        node_count: Fixed size; or give both bounds.
        min_node_count: Least nodes of a fleet that scales.
        max_node_count: Most nodes of a fleet that scales.
        fabric: Security group of the EFA fabric, to share with other fleets; a new `EfaSecurityGroup` if left out.
        security_groups: Further groups of the interfaces that have an IP address; on EKS beside the cluster's own.
        placement_group: An existing placement group to use; excludes `placement`.
    """

    node_count: int | None
    min_node_count: int | None
    max_node_count: int | None
    fabric: ec2.ISecurityGroup | None
    security_groups: Sequence[ec2.ISecurityGroup]
    placement_group: ec2.IPlacementGroup | None


class GpuFleetProps(FleetProps, total=False):
    """What only `GpuFleet` takes, over and above `FleetProps`.

    Attributes:
        image: Image; the newest recommended one of the type if left out, for nodes that start after a deployment.
        metadata_users: Users of the nodes, by name or number, who reach the instance metadata service beside root, and
            with it the role of their node: those whose jobs call AWS with it. `["*"]` for all; root alone if left out.
            A node on which one of them is unknown fails its boot.
        target_groups: Target groups of load balancers. Nodes join when they are in service, and one that the load
            balancer finds unhealthy is replaced.
        drain_timeout: How long a node may take to stop its work, 30 to 7,200 seconds (600 on a block); 5 minutes if
            left out.
        ray: Ray on every node, started after the checks of its boot; none if left out.
    """

    image: NodeImage | None
    metadata_users: Sequence[str]
    target_groups: Sequence[elbv2.ITargetGroup]
    drain_timeout: cdk.Duration | None
    ray: RayNodes | None


class NodeUserDataProps(NodeSoftwareProps, HardwareProps, total=False):
    """What only `NodeUserData` takes, over and above `NodeSoftwareProps` and `HardwareProps`.

    Attributes:
        node_config: EKS: how kubelet is set up, and the cluster that nodes of a self-managed group join.
        slurm_version: AWS PCS: the cluster's Slurm version, such as `25.11`, with whose programs the node drains
            itself.
        max_node_count: Most nodes of the group, one if left out; counts for Lustre over EFA.
    """

    node_config: NodeConfig | None
    slurm_version: str | None
    max_node_count: int


def node_options(options: Mapping[str, Any]) -> NodeProps:
    """Those options of a construct that are about its nodes.

    Args:
        options: The keywords that were given.
    """
    return cast("NodeProps", {name: value for name, value in options.items() if name in _names(NodeProps)})


def check_keywords(made: Construct, options: Mapping[str, Any], props: type) -> None:
    """Refuse keywords that a construct does not have, and take None for left out, as signatures of CDK do.

    Args:
        made: The construct.
        options: The keywords that were given, which loses those that are None, and gets the values that texts mean.
            `alarms=None` means no alarms.
        props: The `TypedDict` of those that it has.

    Raises:
        TypeError: For the first unknown keyword.
        ConfigError: GPU-ARG-001 for texts and numbers that mean no value of a keyword.
    """
    for name in options:
        if name not in _names(props):
            raise TypeError(f"{type(made).__name__}() got an unexpected keyword argument {name!r}")
    for name in [name for name, value in options.items() if value is None and name != "alarms"]:
        del cast("dict[str, Any]", options)[name]
    values, findings = values_of(props.__annotations__, options)
    report(made, findings)
    cast("dict[str, Any]", options).update(values)


def _names(props: type) -> frozenset[str]:
    names: frozenset[str] = getattr(props, "__optional_keys__")  # noqa: B009 - a TypedDict is no type to mypy
    return names
