"""A device index is one that the network card has."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import DEVICE_IN_RANGE
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=DEVICE_IN_RANGE,
    severity=Severity.ERROR,
    cause="EC2 refuses a device index that the network card does not have",
    fix="use a lower device index",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(DEVICE_IN_RANGE),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 2, NetworkCardIndex: 1, InterfaceType: efa-only}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa-only}
""",
)
