"""A group that launches spot instances or a Capacity Block, or that counts weights, has no warm pool."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import market_type_of
from cdk_gpu_clusters.template_rules.lookups.groups import AUTO_SCALING_GROUP, launch_of_group, warm_pools_of
from cdk_gpu_clusters.template_rules.lookups.launches import values_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

NO_WARM_POOL = define_rule(
    "GPU-CAP-032",
    "a group on a Capacity Block or on spot, with weights or with distribution segments has no warm pool",
    source='EC2 Auto Scaling guide, warm pools, "Limitations"; "Use Capacity Blocks for machine learning workloads"; '
    '"Use Distribution Segments"',
)
_DISTRIBUTION = ("MixedInstancesPolicy", "InstancesDistribution")


def _check(resource: Resource) -> Iterator[Fault]:
    reason = _reason(resource)
    if not reason:
        raise NotApplicable
    for pool in warm_pools_of(resource):
        yield Fault(at=pool, got=f"a warm pool of a group with {reason}", allowed="none")


def _reason(group: Resource) -> str:
    """What keeps a group from having a warm pool; empty if nothing does. Several types alone do not."""
    if group.get(*_DISTRIBUTION, "DistributionSegments").exists:
        return "distribution segments"
    if values_at(group.properties, "MixedInstancesPolicy/LaunchTemplate/Overrides/*/WeightedCapacity"):
        return "weights of instance types"
    on_demand = group.get(*_DISTRIBUTION, "OnDemandPercentageAboveBaseCapacity").integer()
    if on_demand is not None and on_demand < 100:  # 100 by default
        return "spot instances in its mixed instances policy"
    market = market_type_of(launch_of_group(group))
    return {"spot": "spot instances", "capacity-block": "a Capacity Block"}.get(market or "", "")


RULE = TemplateRule(
    rule=NO_WARM_POOL,
    severity=Severity.ERROR,
    cause="EC2 Auto Scaling refuses a warm pool for such a group",
    fix="remove the warm pool",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "MixedInstancesPolicy",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
        "AWS::AutoScaling::WarmPool/AutoScalingGroupName",
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
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
  Pool:
    Type: AWS::AutoScaling::WarmPool
    Properties: {AutoScalingGroupName: !Ref Group}
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
