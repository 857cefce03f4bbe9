"""Types that share an EFA security group can exchange EFA traffic."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fabric import ISOLATED_TYPE, check_fabric
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, Launch, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import SECURITY_GROUP
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    types = _types_in(resource)
    if not types:
        raise NotApplicable
    yield from faults_of(ISOLATED_TYPE, check_fabric(types), resource)


def _types_in(group: Resource) -> list[InstanceType]:
    """The types whose EFA interfaces carry a group."""
    launches = map(launch_of, group.case.resources_naming(group, *LAUNCHES))
    return [record for launch in launches if _carries(launch, group) for _, record in launch.records()]


def _carries(launch: Launch, group: Resource) -> bool:
    return any(
        interface.is_efa and any(group.is_target_of(value) for value in interface.groups)
        for interface in launch.interfaces()
    )


RULE = TemplateRule(
    rule=ISOLATED_TYPE,
    severity=Severity.ERROR,
    cause="P4d, P4de and DL1 cannot exchange EFA traffic with other instance types",
    fix="give them an EFA security group of their own, and run no job across both",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    on=(SECURITY_GROUP,),
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "LaunchTemplateData/InstanceType",
    ),
    check=_check,
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Older:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
  Newer:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
""",
    good="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties: {GroupDescription: nodes, VpcId: vpc-0123456789abcdef0}
  Older:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
  Newer:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [!GetAtt Fabric.GroupId]}
""",
)
