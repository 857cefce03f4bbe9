"""What SageMaker refuses in HyperPod clusters and quotas beyond their schemas, and what keeps nodes from starting.

Sources, stored copies of 2026: SageMaker API model (botocore 1.44.5), CreateCluster and ClusterLifeCycleConfig (absent,
OnCreate or OnInitComplete); Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod" (EFA
traffic within every security group; VpcConfig and access mode API with Amazon EKS); awslabs/awsome-distributed-ai issue
259; registry schema of AWS::SageMaker::ComputeQuota (Slurm clusters are rejected). In the same guide "Getting started
with SageMaker HyperPod using the AWS CLI" (its table of validation errors, whose words are taken), "SageMaker HyperPod
references" (partitions, login nodes, FSx), "Migrating to API-driven Slurm configuration" (words about several
controllers) and "Continuous provisioning for enhanced cluster operations" (of Slurm and of Amazon EKS). The words of
the other messages are ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..faults import Fault
from ..permissions import allows
from ..world import Json, Type, World
from .networks import group_faults, subnet_faults

_GROUPS = "InstanceGroups"
_EGRESS, _INGRESS = "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress"
_ROLE = "AWS::IAM::Role"
_FSX = ("FsxLustreConfig", "FsxOpenZfsConfig")


def cluster_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::SageMaker::Cluster`."""
    eks = properties.get("Orchestrator", {}).get("Eks")
    network = properties.get("VpcConfig")
    if eks is not None:
        yield from _eks_faults(eks["ClusterArn"], world)
        if network is None:
            yield Fault("hyperpod-network", "a cluster on Amazon EKS needs a VpcConfig", "VpcConfig")
    if network is not None:
        yield from _network_faults(network, world, "VpcConfig")
    groups = properties.get(_GROUPS, [])
    names = [group["InstanceGroupName"] for group in groups]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault("hyperpod-group", f"two instance groups are called {name}", _GROUPS)
    is_continuous = properties.get("NodeProvisioningMode") == "Continuous"
    if eks is None:
        yield from _slurm_faults(properties, groups, is_continuous=is_continuous)
    for index, group in enumerate(groups):
        path = f"{_GROUPS}/{index}"
        yield from _instance_group_faults(group, network, world, path)
        yield from _orchestrator_faults(group, path, is_eks=eks is not None)
        if not is_continuous and "MinInstanceCount" in group:
            message = "MinInstanceCount is for clusters with the NodeProvisioningMode Continuous"
            yield Fault("hyperpod-continuous", message, f"{path}/MinInstanceCount")


def _slurm_faults(properties: Json, groups: list[Json], *, is_continuous: bool) -> Iterator[Fault]:
    """Faults of a cluster on Slurm: its strategy, and its controller and login nodes."""
    if is_continuous and "SlurmConfigStrategy" in properties.get("Orchestrator", {}).get("Slurm", {}):
        message = "SlurmConfigStrategy is not supported with continuous provisioning"
        yield Fault("hyperpod-strategy", message, "Orchestrator/Slurm/SlurmConfigStrategy")
    kinds = [group.get("SlurmConfig", {}).get("NodeType") for group in groups]
    if (controllers := kinds.count("Controller")) == 0:
        message = "Cluster must have exactly one InstanceGroup with Controller node type"
        yield Fault("hyperpod-controller", message, _GROUPS)
    elif controllers > 1:
        only = "SlurmConfig for InstanceGroups may only have one Controller Group."
        yield Fault("hyperpod-controller", f"{controllers} Controller Groups found: {only}", _GROUPS)
    if kinds.count("Login") > 1:
        yield Fault("hyperpod-controller", "at most one instance group can have the node type Login", _GROUPS)


def _orchestrator_faults(group: Json, path: str, *, is_eks: bool) -> Iterator[Fault]:
    """Faults of what a group has on one of the orchestrators alone."""
    name, script = group["InstanceGroupName"], group.get("LifeCycleConfig", {})
    mounted = [kind for one in group.get("InstanceStorageConfigs", []) for kind in _FSX if kind in one]
    if is_eks and not {"OnCreate", "SourceS3Uri"} <= script.keys():
        message = f"LifeCycleConfig is required for instance group {name}, with OnCreate and SourceS3Uri"
        yield Fault("hyperpod-script", message, f"{path}/LifeCycleConfig")
    if is_eks and mounted:
        message = "FSx needs an instance group that has SlurmConfig with NodeType: Controller"
        yield Fault("hyperpod-storage", message, f"{path}/InstanceStorageConfigs")
    for kind in sorted({kind for kind in mounted if mounted.count(kind) > 1}):
        message = f"each instance group can have at most one {kind}"
        yield Fault("hyperpod-storage", message, f"{path}/InstanceStorageConfigs")
    config = group.get("SlurmConfig")
    if config is None:
        return
    is_compute, partitions = config["NodeType"] == "Compute", config.get("PartitionNames")
    if is_compute and not partitions:
        message = "PartitionNames is required for Compute node types"
        yield Fault("hyperpod-partition", message, f"{path}/SlurmConfig")
    if partitions and not is_compute:
        message = "Partitions can only be assigned to Compute node types"
        yield Fault("hyperpod-partition", message, f"{path}/SlurmConfig/PartitionNames")


def _instance_group_faults(group: Json, network: Json | None, world: World, path: str) -> Iterator[Fault]:
    if len([name for name in ("InstanceType", "InstanceRequirements") if name in group]) != 1:
        yield Fault("hyperpod-type", "a group has InstanceType or InstanceRequirements, and not both", path)
    if group.get("MinInstanceCount", 0) > group["InstanceCount"]:
        yield Fault("hyperpod-count", "MinInstanceCount is above InstanceCount", f"{path}/MinInstanceCount")
    if "TrainingPlanArn" in group and "Spot" in group.get("CapacityRequirements", {}):
        yield Fault("hyperpod-capacity", "nodes of a training plan are no Spot Instances", f"{path}/TrainingPlanArn")
    own = group.get("OverrideVpcConfig")
    if own is not None:
        yield from _network_faults(own, world, f"{path}/OverrideVpcConfig")
    if "NetworkInterface" in group:
        for security_group in (own or network or {}).get("SecurityGroupIds", []):
            if not _exchanges_all(security_group, world):
                reason = f"{security_group} does not allow all traffic with itself"
                message = f"EFA health checks did not run successfully: {reason}"
                yield Fault("hyperpod-efa", message, f"{path}/NetworkInterface")
    role = group["ExecutionRole"].rpartition("/")[2]
    if group["ExecutionRole"].split(":")[4] == world.account and world.find(_ROLE, role) is not None:
        yield from _script_faults(group.get("LifeCycleConfig", {}), role, world, f"{path}/LifeCycleConfig")


def _network_faults(network: Json, world: World, path: str) -> Iterator[Fault]:
    subnets, groups = network["Subnets"], network["SecurityGroupIds"]
    yield from subnet_faults(subnets, world, f"{path}/Subnets")
    yield from group_faults(groups, subnets, world, f"{path}/SecurityGroupIds")


def _eks_faults(arn: str, world: World) -> Iterator[Fault]:
    cluster = world.find(Type.CLUSTER, arn.rpartition("/")[2])
    if cluster is None:
        yield Fault("hyperpod-eks", f"there is no cluster {arn}", "Orchestrator/Eks/ClusterArn")
    elif cluster.properties.get("AccessConfig", {}).get("AuthenticationMode", "CONFIG_MAP") == "CONFIG_MAP":
        message = "the authentication mode of the cluster is API or API_AND_CONFIG_MAP"
        yield Fault("hyperpod-eks", message, "Orchestrator/Eks/ClusterArn")


def _exchanges_all(group: str, world: World) -> bool:
    """Whether a group has rules for all traffic with itself, both ways; one that no stack made is not looked into."""
    if world.find(Type.SECURITY_GROUP, group) is None:
        return True
    return all(
        any(
            rule.properties.get("GroupId") == group
            and rule.properties.get(peer) == group
            and str(rule.properties.get("IpProtocol")) == "-1"
            for rule in world.of_type(kind)
        )
        for kind, peer in ((_INGRESS, "SourceSecurityGroupId"), (_EGRESS, "DestinationSecurityGroupId"))
    )


def _script_faults(configuration: Json, role: str, world: World, path: str) -> Iterator[Fault]:
    given = [name for name in ("OnCreate", "OnInitComplete") if name in configuration]
    if len(given) > 1:
        yield Fault("hyperpod-script", "OnCreate and OnInitComplete exclude each other", path)
    if not given or "SourceS3Uri" not in configuration:
        return
    location = f"{configuration['SourceS3Uri'].rstrip('/')}/{configuration[given[0]]}"
    bucket, _, key = location.removeprefix("s3://").partition("/")
    partition = world.arn("s3", "").split(":")[1]
    if not allows(world, role, "s3:GetObject", f"arn:{partition}:s3:::{bucket}/{key}"):
        yield Fault("hyperpod-script", f"no policy of {role} allows s3:GetObject on {location} now", path)
    if world.region_of_bucket(bucket) is not None and world.read_object(bucket, key, "") is None:
        yield Fault("hyperpod-script", f"there is no object {location}", path)


def quota_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::SageMaker::ComputeQuota`."""
    yield from governed_faults(properties, world)
    team = properties["ComputeQuotaTarget"]["TeamName"]
    for other in world.of_type(Type.COMPUTE_QUOTA):
        of_same = other.properties["ClusterArn"] == properties["ClusterArn"]
        if of_same and other.properties != properties and other.properties["ComputeQuotaTarget"]["TeamName"] == team:
            yield Fault("hyperpod-quota", f"the team {team} has a quota", "ComputeQuotaTarget/TeamName")


def governed_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of the cluster of a quota or of priorities."""
    cluster = world.find(Type.HYPERPOD_CLUSTER, properties["ClusterArn"])
    if cluster is not None and "Eks" not in cluster.properties.get("Orchestrator", {}):
        yield Fault("hyperpod-governance", "SageMaker governs the tasks of clusters on Amazon EKS alone", "ClusterArn")
