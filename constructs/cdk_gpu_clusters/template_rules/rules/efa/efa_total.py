"""No more EFA interfaces than the instance type supports."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import EFA_TOTAL
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=EFA_TOTAL,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch with more EFA interfaces than the type has",
    fix="remove EFA interfaces, or use a type with more",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(EFA_TOTAL),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa-only}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa}
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
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa-only}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa}
""",
)
