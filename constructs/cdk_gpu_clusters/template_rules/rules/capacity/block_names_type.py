"""A launch template for a Capacity Block names the instance type."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import market_type_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

BLOCK_NAMES_TYPE = define_rule(
    "GPU-CAP-035",
    "a launch template for a Capacity Block names the instance type",
    source='AWS EC2 user guide, "Launch instances using Capacity Blocks"; EKS user guide, "Capacity Blocks for ML"',
)
# They name the types themselves; EKS, PCS and EC2 Auto Scaling ask for that of the launch template even so.
_NAME_TYPES = ("AWS::Batch::ComputeEnvironment", "AWS::EC2::EC2Fleet", "AWS::EC2::Instance")


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if market_type_of(launch) != "capacity-block":
        raise NotApplicable
    if any(use.resource.type in _NAME_TYPES and use.instance_types for use in launch.uses()):
        raise NotApplicable
    own = launch.data.get("InstanceType")
    if not own.exists:
        yield Fault(at=own, got="no InstanceType", allowed="the type of the block")


RULE = TemplateRule(
    rule=BLOCK_NAMES_TYPE,
    severity=Severity.ERROR,
    cause="a launch into a Capacity Block is refused if the launch template leaves the instance type open",
    fix="set InstanceType to the type of the block",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
        MetadataOptions: {HttpTokens: required}
        TagSpecifications:
          - {ResourceType: instance, Tags: [{Key: project, Value: llama}]}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
        MetadataOptions: {HttpTokens: required}
        TagSpecifications:
          - {ResourceType: instance, Tags: [{Key: project, Value: llama}]}
""",
)
