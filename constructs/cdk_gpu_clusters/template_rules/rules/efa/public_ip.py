"""No public address is asked for at a launch with several interfaces."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import ONE_INTERFACE_FOR_PUBLIC_IP, check_public_ip
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of, layout_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import URL


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if len(launch.interfaces()) < 2:
        raise NotApplicable
    for interface in launch.interfaces():
        asked = interface.value.get("AssociatePublicIpAddress")
        findings = check_public_ip(layout_of(launch), public_ip=bool(asked.flag()))
        yield from faults_of(ONE_INTERFACE_FOR_PUBLIC_IP, findings, asked)


RULE = TemplateRule(
    rule=ONE_INTERFACE_FOR_PUBLIC_IP,
    severity=Severity.ERROR,
    cause="EC2 refuses to assign a public address to a launch with several interfaces",
    fix="use a private subnet with NAT or endpoints, or attach an Elastic IP address after launch",
    url=URL,
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/NetworkInterfaces/*/AssociatePublicIpAddress",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa, AssociatePublicIpAddress: true}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa}
""",
)
