"""Cost: advice about what is billed without need."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.case import Resource, target_of
from cdk_gpu_clusters.template_rules.lookups.cluster import network_of_cluster
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT
from cdk_gpu_clusters.template_rules.lookups.launches import (
    INSTANCE,
    LAUNCHES,
    Launch,
    accelerated_launch,
    volumes_of,
)
from cdk_gpu_clusters.template_rules.lookups.network import SUBNET
from cdk_gpu_clusters.template_rules.rule import Fault, applicable, define_template_rule


@define_template_rule(
    "GPU-COST-001",
    "GPU nodes carry tags for cost allocation",
    source='AWS Billing user guide, "Using user-defined cost allocation tags"',
    severity=Severity.INFO,
    cause="the bill does not show which job a node ran for",
    fix="add TagSpecifications of ResourceType instance, and volume, with a tag that is activated for cost allocation",
    url="https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/custom-tags.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/TagSpecifications", "AWS::AutoScaling::AutoScalingGroup/Tags/*/PropagateAtLaunch"),
)
def tagged_nodes(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    if not (_tags_instances(launch) or any(_propagates(use.resource) for use in launch.uses())):
        yield Fault(at=launch.data.get("TagSpecifications"), got="no tags of instances", allowed="one tag or more")


def _tags_instances(launch: Launch) -> bool:
    if launch.resource.type == INSTANCE:
        return bool(launch.data.get("Tags").items())
    return any(
        one.get("ResourceType").text() == "instance" and one.get("Tags").items()
        for one in launch.data.get("TagSpecifications").items()
    )


def _propagates(user: Resource) -> bool:
    """Whether a group or a compute environment tags its nodes; the tags of other node groups stay with them."""
    if user.type == COMPUTE_ENVIRONMENT:
        return bool(user.get("ComputeResources", "Tags").keys())
    return user.type == "AWS::AutoScaling::AutoScalingGroup" and any(
        tag.get("PropagateAtLaunch").flag() for tag in user.get("Tags").items()
    )


@define_template_rule(
    "GPU-COST-002",
    "volumes of a GPU node are deleted with the node",
    source='AWS EC2 user guide, "Preserve data when an instance is terminated"',
    severity=Severity.INFO,
    cause="each node that a group replaces leaves its volumes behind, which are billed until you delete them",
    fix="set DeleteOnTermination to true, and keep data on shared storage",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/preserving-volumes-on-termination.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/BlockDeviceMappings/*/Ebs/DeleteOnTermination",),
)
def left_volumes(resource: Resource) -> Iterator[Fault]:
    for volume in volumes_of(accelerated_launch(resource)):
        kept = volume.get("DeleteOnTermination")
        if kept.flag() is False:
            yield Fault(at=kept, got="false", allowed="true")


@define_template_rule(
    "GPU-COST-003",
    "a network with a NAT gateway has a gateway endpoint for S3",
    source='Amazon VPC user guide, "Pricing for NAT gateways": gateway endpoints reduce what they process',
    severity=Severity.INFO,
    cause="data that nodes read from S3, such as checkpoints, passes the NAT gateway, which is billed by the gigabyte",
    fix="add an AWS::EC2::VPCEndpoint of type Gateway for S3 with the route tables of the nodes",
    url="https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-pricing.html",
    on=("AWS::EC2::VPC",),
    looks_at=(
        "AWS::EC2::NatGateway/SubnetId",
        "AWS::EC2::VPCEndpoint/ServiceName",
        "instance types of the template, and AWS::FSx::FileSystem/FileSystemType",
    ),
)
def s3_endpoint(resource: Resource) -> Iterator[Fault]:
    gateways = applicable([one for one in resource.case.resources("AWS::EC2::NatGateway") if _stands_in(one, resource)])
    if any(resource.is_target_of(one.get("VpcId")) and _is_s3_gateway(one) for one in _endpoints(resource)):
        return
    network_of_cluster(resource)
    yield Fault(at=gateways[0], got="no gateway endpoint for S3 in the VPC", allowed="one, in every route table")


def _endpoints(network: Resource) -> list[Resource]:
    """The endpoints, with those under a condition: going without one is then a choice."""
    ids = network.case.template.logical_ids("AWS::EC2::VPCEndpoint")
    chosen = [Resource(network.case, logical_id) for logical_id in ids]
    return [*chosen, *network.case.resources("AWS::EC2::VPCEndpoint")]


def _stands_in(gateway: Resource, network: Resource) -> bool:
    subnet = target_of(gateway.get("SubnetId"), SUBNET)
    return subnet is not None and target_of(subnet.get("VpcId")) == network


def _is_s3_gateway(endpoint: Resource) -> bool:
    kind = endpoint.get("VpcEndpointType").text() or "Gateway"
    return kind == "Gateway" and (endpoint.get("ServiceName").template_text() or "").endswith(".s3")


@define_template_rule(
    "GPU-COST-004",
    "volumes of a GPU node are gp3, not gp2",
    source='Amazon EBS user guide, "General Purpose SSD volumes": gp3 costs up to 20 percent less for each GB',
    severity=Severity.INFO,
    cause="gp2 costs more for each GB, and its speed grows only with its size",
    fix="set VolumeType to gp3",
    url="https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/BlockDeviceMappings/*/Ebs/VolumeType",),
)
def volume_type(resource: Resource) -> Iterator[Fault]:
    for volume in volumes_of(accelerated_launch(resource)):
        if volume.get("VolumeType").text() == "gp2":
            yield Fault(at=volume.get("VolumeType"), got="gp2", allowed="gp3")
