"""AWS Batch: compute environments and multi-node jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.batch import MORE_THAN_BLOCK, UPDATED_IN_PLACE, check_replacement, check_strategy
from cdk_gpu_clusters.rules.interfaces import CONTAINER_INTERFACE, check_batch_interfaces
from cdk_gpu_clusters.rules.node_ranges import NODE_RANGES, check_node_ranges
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT, launch_of_node_group, records_of
from cdk_gpu_clusters.template_rules.lookups.launches import layout_of, record_of, specification_of, values_at
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)

JOB_DEFINITION = "AWS::Batch::JobDefinition"


class NodeRange(NamedTuple):
    """Some nodes of a job: what they run, and the instance types that they run on, if they are named."""

    container: Value
    types: list[Value]


def node_ranges_of(job: Resource) -> list[NodeRange]:
    """The node ranges of a job definition that run one container each; NotApplicable for other jobs."""
    return applicable(
        [
            NodeRange(
                one.get("Container"),
                [*one.get("InstanceTypes").items(), *values_at(one, "Container/InstanceType")],
            )
            for one in job.get("NodeProperties", "NodeRangeProperties").items()
            if one.get("Container").exists
        ]
    )


@define_template_rule(
    "GPU-BAT-001",
    "a compute environment whose nodes have EFA is not SPOT",
    source='AWS Batch user guide, "Compute environment considerations for MNP"',
    severity=Severity.WARNING,
    cause="Batch runs no multi-node job on spot instances, so that no job uses the EFA between nodes",
    fix="set Type to EC2, or leave the EFA interfaces out",
    url="https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=("ComputeResources/Type", "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces/*/InterfaceType"),
)
def efa_not_spot(resource: Resource) -> Iterator[Fault]:
    kind = resource.get("ComputeResources", "Type")
    if not launch_of_node_group(resource).has_efa():
        raise NotApplicable
    if kind.text() == "SPOT":
        yield Fault(at=kind, got="SPOT", allowed="EC2")


@define_template_rule(
    "GPU-BAT-002",
    "a compute environment with GPUs that chooses an image type chooses one with the NVIDIA driver",
    source='AWS Batch API reference, Ec2Configuration, imageType; AWS Batch user guide, "AMI selection order"',
    cause="nodes come up without the driver: Batch sees no GPU, and jobs wait indefinitely",
    fix="set ImageType to ECS_AL2023_NVIDIA, or EKS_AL2023_NVIDIA, or leave Ec2Configuration out, for that default",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=(
        "ComputeResources/Ec2Configuration/*/ImageType",
        "ComputeResources/InstanceTypes",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/ImageId",
    ),
)
def gpu_image(resource: Resource) -> Iterator[Fault]:
    choices = resource.get("ComputeResources", "Ec2Configuration").items()
    if not choices or any(one.get("ImageIdOverride").exists for one in choices):
        raise NotApplicable
    if resource.get("ComputeResources", "ImageId").exists or _launch_names_image(resource):
        raise NotApplicable
    gpus = [
        value.text()
        for value, record in records_of(resource)
        if record.accelerator is not None and record.accelerator.manufacturer == "NVIDIA"
    ]
    kinds = [one.get("ImageType").text() or "" for one in choices]
    if gpus and not any("NVIDIA" in kind for kind in kinds):
        at = choices[0].get("ImageType")
        yield Fault(at=at, got=f"{', '.join(kinds)} with {gpus[0]}", allowed="ECS_AL2023_NVIDIA, EKS_AL2023_NVIDIA")


def _launch_names_image(environment: Resource) -> bool:
    """Whether the launch template, or an override of it, has an image, which counts more than an image type."""
    specification = specification_of(environment)
    return specification.exists and (
        bool(specification.get("Overrides").items()) or launch_of_node_group(environment).data.get("ImageId").exists
    )


@template_rule(
    NODE_RANGES,
    cause="Batch refuses a job whose ranges do not name exactly its nodes",
    fix="use ranges that cover every node, such as 0:3 and 4:",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_NodeRangeProperty.html",
    on=(JOB_DEFINITION,),
    looks_at=("NodeProperties/NumNodes", "NodeProperties/NodeRangeProperties/*/TargetNodes"),
)
def node_ranges(resource: Resource) -> Iterator[Fault]:
    count = applicable(resource.get("NodeProperties", "NumNodes").integer())
    ranges = resource.get("NodeProperties", "NodeRangeProperties")
    named = [one.get("TargetNodes").text() or "" for one in ranges.items()]
    yield from faults_of(NODE_RANGES, check_node_ranges(count, named), ranges)


@define_template_rule(
    "GPU-BAT-004",
    "containers of a multi-node job on nodes with EFA have the EFA device",
    source='AWS Batch user guide, "Elastic Fabric Adapter"',
    severity=Severity.WARNING,
    cause="the container finds no EFA, and falls back to TCP, which is much slower",
    fix="add /dev/infiniband/uverbs0 to LinuxParameters/Devices, and one for each further EFA",
    url="https://docs.aws.amazon.com/batch/latest/userguide/efa.html",
    on=(JOB_DEFINITION,),
    looks_at=(
        "NodeProperties/NodeRangeProperties/*/Container/LinuxParameters/Devices",
        "NodeProperties/NodeRangeProperties/*/InstanceTypes",
    ),
)
def efa_device(resource: Resource) -> Iterator[Fault]:
    ranges = [one for one in node_ranges_of(resource) if any(record_of(value).network.efa for value in one.types)]
    for one in applicable(ranges):
        devices = one.container.get("LinuxParameters", "Devices")
        paths = [device.get("HostPath").text() or "" for device in devices.items()]
        if not any(path.startswith("/dev/infiniband/") for path in paths):
            yield Fault(
                at=devices,
                got=", ".join(paths) or "no devices",
                allowed="/dev/infiniband/uverbs0 and further devices",
            )


@define_template_rule(
    "GPU-BAT-005",
    "containers of a multi-node job request no more GPUs than their instance type has",
    source="EC2 DescribeInstanceTypes, GpuInfo; AWS Batch API reference, ResourceRequirement",
    cause="no node can run the container, and the job waits indefinitely",
    fix="request at most the GPUs of the type, or choose a larger type",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html",
    on=(JOB_DEFINITION,),
    looks_at=(
        "NodeProperties/NodeRangeProperties/*/Container/ResourceRequirements",
        "NodeProperties/NodeRangeProperties/*/InstanceTypes",
    ),
)
def gpus_of_type(resource: Resource) -> Iterator[Fault]:
    for one in applicable([one for one in node_ranges_of(resource) if one.types]):
        for asked in one.container.get("ResourceRequirements").items():
            if asked.get("Type").text() != "GPU":
                continue
            for record in map(record_of, one.types):
                held = record.accelerator.logical_count if record.accelerator else 0
                if (asked.get("Value").integer() or 0) > held:
                    got = f"{asked.get('Value').text()} GPUs of a {record.name}"
                    yield Fault(at=asked.get("Value"), got=got, allowed=f"at most {held}")


@define_template_rule(
    "GPU-BAT-006",
    "a node range of a multi-node job names at most one instance type",
    source="botocore 1.44.5, batch service model: NodeRangeProperty, instanceTypes",
    cause="Batch refuses a node range with several instance types",
    fix="name one instance type in each range",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_NodeRangeProperty.html",
    on=(JOB_DEFINITION,),
    looks_at=("NodeProperties/NodeRangeProperties/*/InstanceTypes",),
)
def one_type_per_range(resource: Resource) -> Iterator[Fault]:
    for one in node_ranges_of(resource):
        if len(one.types) > 1:
            got = ", ".join(value.text() or "" for value in one.types)
            yield Fault(at=one.types[1], got=got, allowed="one type")


@define_template_rule(
    "GPU-BAT-007",
    "all node ranges of a multi-node job name the same instance type",
    source='AWS Batch user guide, "Node groups" of multi-node parallel jobs',
    cause="Batch runs a multi-node job on one instance type only",
    fix="name the same instance type in each range, or split the job",
    url="https://docs.aws.amazon.com/batch/latest/userguide/mnp-node-groups.html",
    on=(JOB_DEFINITION,),
    looks_at=("NodeProperties/NodeRangeProperties/*/InstanceTypes",),
)
def one_type_per_job(resource: Resource) -> Iterator[Fault]:
    named = [one.types[0] for one in node_ranges_of(resource) if one.types]
    if len(named) < 2:
        raise NotApplicable
    for value in named[1:]:
        if not value.is_same_as(named[0]):
            yield Fault(at=value, got=f"{named[0].text()} and {value.text()}", allowed="one type for all ranges")


# What Batch uses if none is named (botocore 1.44.5, batch service model, ComputeResource).
_STRATEGY = "BEST_FIT"


def _strategy_of(environment: Resource) -> str:
    return environment.get("ComputeResources", "AllocationStrategy").text() or _STRATEGY


@template_rule(
    CONTAINER_INTERFACE,
    cause="the container of a multi-node job gets no network interface, and never starts",
    fix="leave a place on network card 0 free: one efa interface there instead of interface and efa-only",
    url="https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=(
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces",
        "ComputeResources/InstanceTypes",
    ),
)
def container_interface(resource: Resource) -> Iterator[Fault]:
    launch = launch_of_node_group(resource)
    if not launch.has_efa():
        raise NotApplicable
    interfaces, at = applicable(layout_of(launch)), launch.data.get("NetworkInterfaces")
    for _, record in records_of(resource):
        yield from faults_of(CONTAINER_INTERFACE, check_batch_interfaces(record, interfaces), at)


@template_rule(
    UPDATED_IN_PLACE,
    cause="Batch does not replace the instances of an environment with BEST_FIT, and the deployment fails",
    fix="set ReplaceComputeEnvironment to true, or AllocationStrategy to BEST_FIT_PROGRESSIVE",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-batch-computeenvironment.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=("ReplaceComputeEnvironment", "ComputeResources/AllocationStrategy"),
)
def updated_in_place(resource: Resource) -> Iterator[Fault]:
    replaces = resource.get("ReplaceComputeEnvironment")
    if replaces.flag() is not False or resource.get("ComputeResources", "Type").text() != "EC2":
        raise NotApplicable
    yield from faults_of(UPDATED_IN_PLACE, check_replacement(_strategy_of(resource), replaces=False), replaces)


@template_rule(
    MORE_THAN_BLOCK,
    severity=Severity.WARNING,
    cause="Batch may ask for one instance more than the block has",
    fix="use BEST_FIT on a Capacity Block",
    url="https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=(
        "ComputeResources/AllocationStrategy",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
    ),
)
def strategy_of_block(resource: Resource) -> Iterator[Fault]:
    market = launch_of_node_group(resource).data.get("InstanceMarketOptions", "MarketType").text()
    if market != "capacity-block":
        raise NotApplicable
    at = resource.get("ComputeResources", "AllocationStrategy")
    yield from faults_of(MORE_THAN_BLOCK, check_strategy(_strategy_of(resource), is_block=True), at)


@define_template_rule(
    "GPU-BAT-023",
    "a compute environment names no security groups if its launch template has network interfaces",
    source="aws/aws-cdk issue 21577: the answer of AWS Batch; awslabs/awsome-distributed-ai @ 95b939c, "
    "1.architectures/3.aws-batch",
    cause="Batch refuses a compute environment with both",
    fix="leave SecurityGroupIds out: network interfaces have groups of their own, and containers of multi-node jobs "
    "get the default group of the VPC",
    url="https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html",
    on=(COMPUTE_ENVIRONMENT,),
    looks_at=(
        "ComputeResources/SecurityGroupIds",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/NetworkInterfaces",
    ),
)
def groups_in_one_place(resource: Resource) -> Iterator[Fault]:
    groups = resource.get("ComputeResources", "SecurityGroupIds")
    if not specification_of(resource).exists:
        raise NotApplicable
    interfaces = launch_of_node_group(resource).data.get("NetworkInterfaces").items() if groups.items() else []
    if interfaces:
        got = f"SecurityGroupIds, and {len(interfaces)} network interfaces in the launch template"
        yield Fault(at=groups, got=got, allowed="one of them")
