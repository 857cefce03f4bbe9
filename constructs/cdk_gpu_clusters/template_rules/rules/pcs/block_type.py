"""A PCS node group of a Capacity Block says its type in both places."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_NODE_GROUP, launch_of_node_group, own_types_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

BLOCK_TYPE = define_rule(
    "GPU-PCS-013",
    "the launch template of a PCS node group of a Capacity Block names the type of the node group",
    source='AWS PCS guide, "Configure a compute node group to use a Capacity Block"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    if resource.get("PurchaseOption").text() != "CAPACITY_BLOCK":
        raise NotApplicable
    named = launch_of_node_group(resource).data.get("InstanceType")
    own = own_types_of(resource)
    if not named.exists:
        raise NotApplicable  # another rule asks for it
    if not all(named.is_same_as(value) for value in own):
        allowed = ", ".join(value.text() or "" for value in own)
        yield Fault(at=named, got=named.text() or "", allowed=allowed)


RULE = TemplateRule(
    rule=BLOCK_TYPE,
    severity=Severity.ERROR,
    cause="PCS refuses a Capacity Block of another type than that of the node group",
    fix="set InstanceType of the launch template to the type of the block and of the node group",
    url="https://docs.aws.amazon.com/pcs/latest/userguide/capacity-blocks-configure-cng.html",
    on=(PCS_NODE_GROUP,),
    looks_at=(
        "InstanceConfigs/*/InstanceType",
        "PurchaseOption",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4de.24xlarge
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
