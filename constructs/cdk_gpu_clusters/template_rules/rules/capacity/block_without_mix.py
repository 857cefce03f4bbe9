"""A group on a Capacity Block has no mixed instances policy."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import market_type_of
from cdk_gpu_clusters.template_rules.lookups.groups import AUTO_SCALING_GROUP, launch_of_group
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

BLOCK_WITHOUT_MIX = define_rule(
    "GPU-CAP-031",
    "a group on a Capacity Block has no mixed instances policy",
    source='EC2 Auto Scaling guide, "Use Capacity Blocks for machine learning workloads"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if market_type_of(launch_of_group(resource)) != "capacity-block":
        raise NotApplicable
    mix = resource.get("MixedInstancesPolicy")
    segments = mix.get("InstancesDistribution", "DistributionSegments")  # the newer way, with its own rules
    if mix.exists and not segments.exists:
        yield Fault(at=mix, got="MixedInstancesPolicy", allowed="LaunchTemplate")


RULE = TemplateRule(
    rule=BLOCK_WITHOUT_MIX,
    severity=Severity.ERROR,
    cause="EC2 Auto Scaling refuses a mixed instances policy with a Capacity Block",
    fix="name the launch template in LaunchTemplate, without a policy",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "MixedInstancesPolicy",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      MixedInstancesPolicy:
        LaunchTemplate:
          LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
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
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
