"""A launch has exactly one primary interface."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import ONE_PRIMARY
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=ONE_PRIMARY,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch without a primary interface, or with two",
    fix="put one interface at network card 0, device 0",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(ONE_PRIMARY),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa}
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
