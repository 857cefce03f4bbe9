"""A PCS cluster has room for the nodes of its groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import PCS_CLUSTER, PCS_NODE_GROUP, most_nodes_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

CLUSTER_SIZE = define_rule(
    "GPU-PCS-016",
    "a PCS cluster of size SMALL, MEDIUM or LARGE has at most 32, 512 or 2048 nodes",
    source="botocore 1.44.5, pcs service model: CreateCluster, size",
)
_NODES = {"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}


def _check(resource: Resource) -> Iterator[Fault]:
    size = resource.get("Size")
    most = _NODES.get(size.text() or "")
    if most is None:
        raise size.undecidable("there is no such size")
    groups = [
        one for one in resource.case.resources(PCS_NODE_GROUP) if resource.is_target_of(one.get("ClusterId"))
    ]
    if not groups:
        raise NotApplicable
    nodes = sum(most_nodes_of(group) for group in groups)
    if nodes > most:
        yield Fault(at=size, got=f"{size.text()} with up to {nodes} nodes", allowed=f"{most} nodes")


RULE = TemplateRule(
    rule=CLUSTER_SIZE,
    severity=Severity.ERROR,
    cause="PCS makes no nodes beyond the size of the cluster, and the size can never be changed",
    fix="choose a larger Size before the cluster is made, or fewer nodes",
    url="https://docs.aws.amazon.com/pcs/latest/APIReference/API_CreateCluster.html",
    on=(PCS_CLUSTER,),
    looks_at=(
        "Size",
        "AWS::PCS::ComputeNodeGroup/ScalingConfiguration/MaxInstanceCount",
    ),
    check=_check,
    bad="""
Resources:
  Cluster:
    Type: AWS::PCS::Cluster
    Properties:
      Size: SMALL
      Scheduler: {Type: SLURM, Version: "25.05"}
      Networking: {SubnetIds: [subnet-0123456789abcdef0]}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: !Ref Cluster
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 64}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Cluster:
    Type: AWS::PCS::Cluster
    Properties:
      Size: MEDIUM
      Scheduler: {Type: SLURM, Version: "25.05"}
      Networking: {SubnetIds: [subnet-0123456789abcdef0]}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        MetadataOptions: {HttpTokens: required}
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::PCS::ComputeNodeGroup
    Properties:
      ClusterId: !Ref Cluster
      IamInstanceProfileArn: arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes
      InstanceConfigs: [{InstanceType: p4d.24xlarge}]
      ScalingConfiguration: {MinInstanceCount: 0, MaxInstanceCount: 64}
      SubnetIds: [subnet-0123456789abcdef0]
      CustomLaunchTemplate: {TemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
