"""EFA interfaces name their security groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.fleet import NO_SECURITY_GROUP
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, efa_launch
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._groups import LOOKS_AT, URL


def _check(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    if launch.data.get("SecurityGroupIds").exists or launch.data.get("SecurityGroups").exists:
        return  # they are not missing, but in the wrong place: another rule's
    for interface in launch.interfaces():
        made_before = interface.value.get("NetworkInterfaceId").exists
        if interface.is_efa and not made_before and not interface.groups:
            yield Fault(
                at=interface.value, got="no Groups", allowed="a group that allows all traffic with itself"
            )


RULE = TemplateRule(
    rule=NO_SECURITY_GROUP,
    severity=Severity.ERROR,
    cause="the default group of the VPC sends no EFA traffic to itself, so that collective operations hang",
    fix="name a group in Groups of each interface, with rules for all traffic from itself and to itself",
    url=URL,
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.8xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, InterfaceType: efa, Groups: [sg-0123456789abcdef0]}
""",
)
