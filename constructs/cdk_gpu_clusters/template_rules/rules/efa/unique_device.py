"""No two interfaces of a card have one device index."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import UNIQUE_DEVICE
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=UNIQUE_DEVICE,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch with two interfaces at one place",
    fix="give each interface on the card its own device index",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(UNIQUE_DEVICE),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa-only}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6e.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 2, NetworkCardIndex: 0, InterfaceType: efa-only}
""",
)
