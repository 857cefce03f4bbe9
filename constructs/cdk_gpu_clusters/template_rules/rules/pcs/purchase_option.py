"""The purchase option of a PCS node group is that of its launch template."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_NODE_GROUP, market_faults
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

PURCHASE = define_rule(
    "GPU-PCS-012",
    "CAPACITY_BLOCK goes with market type capacity-block, and spot is asked of the node group alone",
    source='AWS PCS guide, "Configure a compute node group to use a Capacity Block"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    purchase = resource.get("PurchaseOption")
    for at, got, allowed in market_faults(
        resource, purchase, block="CAPACITY_BLOCK", spot="PurchaseOption SPOT"
    ):
        yield Fault(at=at, got=got, allowed=allowed)


RULE = TemplateRule(
    rule=PURCHASE,
    severity=Severity.ERROR,
    cause="PCS refuses a node group whose purchase option is not that of its launch template",
    fix="set PurchaseOption to CAPACITY_BLOCK with MarketType capacity-block, or to SPOT without a market type",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/capacity-blocks-configure-cng.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "PurchaseOption",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: cr-0123456789abcdef0}
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: pcs_0123456789
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 4}
      PurchaseOption: CAPACITY_BLOCK
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
