"""An EFA group launches one instance type."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fabric import ONE_TYPE
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, efa_launch
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    types = efa_launch(resource).instance_types()
    for value in types[1:]:
        if not value.is_same_as(types[0]):
            yield Fault(at=value, got=f"{types[0].text()} and {value.text()}", allowed="one type")


RULE = TemplateRule(
    rule=ONE_TYPE,
    severity=Severity.ERROR,
    cause="one list of interfaces has to fit every type, and a job runs at the pace of the slowest",
    fix="make one launch template and one group for each instance type",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "instance types of the resources that use the launch template",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      MixedInstancesPolicy:
        LaunchTemplate:
          LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
          Overrides:
            - {InstanceType: g6.8xlarge}
            - {InstanceType: g6.16xlarge}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      MixedInstancesPolicy:
        LaunchTemplate:
          LaunchTemplateSpecification: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
          Overrides:
            - {InstanceType: g6.8xlarge}
""",
)
