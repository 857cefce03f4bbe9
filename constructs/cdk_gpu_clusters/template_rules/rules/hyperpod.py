"""Amazon SageMaker HyperPod clusters."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.instances import instance_type_names
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.hyperpod import (
    DEEP_CHECKS,
    ML_TYPE,
    NODE_RECOVERY,
    TRAINING_PLAN,
    check_deep_checks,
    check_hyperpod_type,
    check_node_recovery,
    check_training_plan,
    ml_name,
)
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import HYPERPOD, efa_groups, hyperpod_record_of, instance_groups
from cdk_gpu_clusters.template_rules.lookups.network import exchange_all, groups_at, is_same_zone, known_zone_of
from cdk_gpu_clusters.template_rules.lookups.policies import ROLE, statements_of
from cdk_gpu_clusters.template_rules.rule import Fault, applicable, define_template_rule, faults_of, template_rule

_FAMILIES = {name.partition(".")[0] for name in instance_type_names()}


@template_rule(
    ML_TYPE,
    cause="SageMaker refuses a type without its prefix, and one that HyperPod does not have",
    fix="write ml. before the EC2 name",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/InstanceType",),
)
def ml_type(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        value = group.get("InstanceType")
        name = value.text()
        if name is None:
            continue
        if name != ml_name(name):
            yield Fault(at=value, got=name, allowed=ml_name(name))
        else:
            yield from faults_of(ML_TYPE, check_hyperpod_type(name, families=_FAMILIES), value, own_fix=True)


@define_template_rule(
    "GPU-HYP-002",
    "an instance group of HyperPod has InstanceType or InstanceRequirements, and not both",
    source="botocore 1.44.5, sagemaker service model: ClusterInstanceGroupSpecification",
    cause="SageMaker refuses a group with both, or with neither",
    fix="keep one of the two",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/InstanceType", "InstanceGroups/*/InstanceRequirements"),
)
def type_or_requirements(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        given = [name for name in ("InstanceType", "InstanceRequirements") if group.get(name).exists]
        if len(given) != 1:
            yield Fault(at=group, got=" and ".join(given) or "neither", allowed="one of the two")


@define_template_rule(
    "GPU-HYP-003",
    "a lifecycle configuration of HyperPod has OnCreate or OnInitComplete, and not both",
    source="botocore 1.44.5, sagemaker service model: ClusterLifeCycleConfig",
    cause="SageMaker refuses the group: OnCreate replaces its own set-up, OnInitComplete follows it",
    fix="keep one of the two",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterLifeCycleConfig.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/LifeCycleConfig",),
)
def one_lifecycle_script(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        configuration = group.get("LifeCycleConfig")
        if all(configuration.get(name).exists for name in ("OnCreate", "OnInitComplete")):
            yield Fault(at=configuration, got="OnCreate and OnInitComplete", allowed="one of the two")


@define_template_rule(
    "GPU-HYP-004",
    "lifecycle scripts of HyperPod are in a bucket whose name starts with sagemaker-",
    source="Amazon SageMaker API reference, ClusterLifeCycleConfig, SourceS3Uri",
    severity=Severity.WARNING,
    cause="the managed policy AmazonSageMakerClusterInstanceRolePolicy reads no other bucket, and nodes fail to start",
    fix="rename the bucket, or give the execution role its own permission and acknowledge this",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterLifeCycleConfig.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/LifeCycleConfig/SourceS3Uri",),
)
def lifecycle_bucket(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        uri = group.get("LifeCycleConfig", "SourceS3Uri")
        text = uri.template_text()
        if not uri.exists or (text is None and uri.text() is None):
            continue
        bucket = (text or "").partition("://")[2].partition("/")[0]
        if bucket.startswith("${"):
            raise uri.undecidable("the name of the bucket is known at deployment only")
        if not bucket.startswith("sagemaker-") and not _reads_objects(group):
            yield Fault(at=uri, got=bucket, allowed="sagemaker-…")


def _reads_objects(group: Value) -> bool:
    """Whether the execution role of a group has a permission of its own to read objects."""
    role = target_of(group.get("ExecutionRole"), ROLE)
    return role is not None and any(one.is_allowing and one.names("s3:GetObject") for one in role.once(statements_of))


@define_template_rule(
    "GPU-HYP-005",
    "a security group of HyperPod nodes with EFA allows all traffic with itself, in and out",
    source='Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod"',
    cause="EFA health checks of the nodes fail before any lifecycle script runs, so that its logs are empty",
    fix="add SecurityGroupIngress and SecurityGroupEgress with IpProtocol -1 and the same group at both ends",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html",
    on=(HYPERPOD,),
    looks_at=(
        "VpcConfig/SecurityGroupIds",
        "InstanceGroups/*/OverrideVpcConfig/SecurityGroupIds",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
    ),
)
def efa_traffic(resource: Resource) -> Iterator[Fault]:
    for group, network in applicable(list(efa_groups(resource))):
        value = network.get("SecurityGroupIds")
        if not value.exists:
            continue  # SageMaker makes the network by itself
        members = groups_at(value)
        if not exchange_all(members, members, at=value):
            got = f"no rules for all traffic within the group of {group.get('InstanceGroupName').template_text()}"
            yield Fault(at=value, got=got, allowed="IpProtocol -1, both ways")


@define_template_rule(
    "GPU-HYP-006",
    "an instance group of HyperPod with EFA is in one Availability Zone",
    source='AWS EC2 user guide, "EFA limitations"; Amazon SageMaker AI developer guide, "Setting up SageMaker '
    'HyperPod clusters across multiple AZs"; which of several subnets of its own a group takes is unverified',
    severity=Severity.WARNING,
    cause="EFA traffic does not leave a zone: nodes that land in two of them cannot train together",
    fix="give the group one subnet, in OverrideVpcConfig",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/OverrideVpcConfig/Subnets", "AWS::EC2::Subnet/AvailabilityZone"),
)
def one_zone(resource: Resource) -> Iterator[Fault]:
    # Of the subnets of the cluster, SageMaker chooses one, and all groups are in its zone.
    groups = [group for group, _ in efa_groups(resource) if group.get("OverrideVpcConfig").exists]
    for group in applicable(groups):
        subnets = group.get("OverrideVpcConfig", "Subnets").items()
        for subnet in subnets[1:]:
            zones = known_zone_of(subnets[0]), known_zone_of(subnet)
            if not is_same_zone(*zones):
                got = " and ".join(zone.text() or "" for zone in zones)
                yield Fault(at=subnet, got=got, allowed="one zone")


@template_rule(
    NODE_RECOVERY,
    severity=Severity.WARNING,
    cause="a node with a failed GPU stays, and every job on it fails again",
    fix="set NodeRecovery to Automatic",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateCluster.html",
    on=(HYPERPOD,),
    looks_at=("NodeRecovery",),
)
def node_recovery(resource: Resource) -> Iterator[Fault]:
    recovery = resource.get("NodeRecovery")
    yield from faults_of(NODE_RECOVERY, check_node_recovery(is_automatic=recovery.text() != "None"), recovery)


@define_template_rule(
    "GPU-HYP-008",
    "an instance group of HyperPod has EFA interfaces only if its type supports them",
    source="botocore 1.44.5, sagemaker service model: ClusterNetworkInterface; EC2 DescribeInstanceTypes, EfaSupported",
    cause="SageMaker cannot make the interfaces",
    fix="leave NetworkInterface out, or choose a type with EFA",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/NetworkInterface/InterfaceType", "InstanceGroups/*/InstanceType"),
)
def efa_of_type(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        interface = group.get("NetworkInterface", "InterfaceType")
        record = hyperpod_record_of(group.get("InstanceType"))
        if interface.exists and record is not None and record.network.efa is None:
            yield Fault(at=interface, got=f"{interface.text()} on ml.{record.name}", allowed="a type with EFA")


@define_template_rule(
    "GPU-HYP-009",
    "a HyperPod cluster on EKS has a VpcConfig, and one orchestrator",
    source='Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod", EKS',
    cause="SageMaker refuses a cluster on EKS without a network",
    fix="add VpcConfig with the subnets and groups of the EKS cluster",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html",
    on=(HYPERPOD,),
    looks_at=("Orchestrator", "VpcConfig"),
)
def eks_network(resource: Resource) -> Iterator[Fault]:
    orchestrator = resource.get("Orchestrator")
    named = orchestrator.keys()
    if len(named) > 1:
        cause = "a cluster has one orchestrator"
        yield Fault(at=orchestrator, got=" and ".join(named), allowed="Eks or Slurm", cause=cause)
    if "Eks" in named and not resource.get("VpcConfig").exists:
        yield Fault(at=resource, got="no VpcConfig", allowed="that of the EKS cluster")


@template_rule(
    TRAINING_PLAN,
    cause="SageMaker finds no node for the group in the plan",
    fix="leave TrainingPlanArn out, or choose a type for which plans are sold",
    url="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingPlan.html",
    on=(HYPERPOD,),
    looks_at=("InstanceGroups/*/TrainingPlanArn", "InstanceGroups/*/InstanceType"),
)
def training_plan(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        plan, name = group.get("TrainingPlanArn"), group.get("InstanceType").text()
        if plan.exists and name is not None and name.startswith("ml."):
            findings = check_training_plan(plan.text(), name, families=_FAMILIES)
            yield from faults_of(TRAINING_PLAN, findings, plan)


@template_rule(
    DEEP_CHECKS,
    cause="the checks of HyperPod cannot run on these nodes",
    fix="leave OnStartDeepHealthChecks or the taints out",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-deep-health-checks.html",
    on=(HYPERPOD,),
    looks_at=(
        "InstanceGroups/*/OnStartDeepHealthChecks",
        "InstanceGroups/*/InstanceType",
        "InstanceGroups/*/KubernetesConfig/Taints",
    ),
)
def deep_checks(resource: Resource) -> Iterator[Fault]:
    for group in instance_groups(resource):
        checks, record = group.get("OnStartDeepHealthChecks"), hyperpod_record_of(group.get("InstanceType"))
        if checks.exists and record is not None:
            names = [one.text() or "" for one in checks.items()]
            taints = [one.get("Key").text() or "" for one in group.get("KubernetesConfig", "Taints").items()]
            yield from faults_of(DEEP_CHECKS, check_deep_checks(record, names, taints=taints), checks)


@define_template_rule(
    "GPU-HYP-027",
    "a HyperPod cluster with continuous provisioning has no SlurmConfigStrategy",
    source='Amazon SageMaker AI developer guide, "Continuous provisioning for enhanced cluster operations with Slurm", '
    "read 2026-11",
    cause="SageMaker refuses any strategy with continuous provisioning, which merges its partitions into slurm.conf",
    fix="remove SlurmConfigStrategy",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-slurm.html",
    on=(HYPERPOD,),
    looks_at=("NodeProvisioningMode", "Orchestrator/Slurm/SlurmConfigStrategy"),
)
def no_strategy(resource: Resource) -> Iterator[Fault]:
    strategy = resource.get("Orchestrator", "Slurm", "SlurmConfigStrategy")
    if strategy.exists and resource.get("NodeProvisioningMode").text() == "Continuous":
        yield Fault(at=strategy, got=strategy.text() or "a strategy", allowed="no SlurmConfigStrategy")


@define_template_rule(
    "GPU-HYP-028",
    "every instance group of HyperPod on Amazon EKS has a lifecycle configuration with OnCreate",
    source='Amazon SageMaker AI developer guide, "Getting started with SageMaker HyperPod using the AWS CLI", read '
    "2026-11: LifeCycleConfig is optional on Slurm alone",
    cause="SageMaker refuses the group: only clusters on Slurm have a set-up of its own, which OnInitComplete follows",
    fix="give LifeCycleConfig SourceS3Uri and OnCreate; a script that does nothing will do",
    url="https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-getting-started-slurm-cli.html",
    on=(HYPERPOD,),
    looks_at=("Orchestrator/Eks", "InstanceGroups/*/LifeCycleConfig"),
)
def script_on_eks(resource: Resource) -> Iterator[Fault]:
    if not resource.get("Orchestrator", "Eks").exists:
        return
    for group in instance_groups(resource):
        configuration = group.get("LifeCycleConfig")
        missing = [name for name in ("OnCreate", "SourceS3Uri") if not configuration.get(name).exists]
        if missing:
            at = configuration if configuration.exists else group
            yield Fault(at=at, got=f"no {' and no '.join(missing)}", allowed="OnCreate and SourceS3Uri")
