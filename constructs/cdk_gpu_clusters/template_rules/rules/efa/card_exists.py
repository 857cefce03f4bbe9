"""Interfaces stand on network cards that the instance type has."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import CARD_EXISTS
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=CARD_EXISTS,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch with an interface on a network card that the type does not have",
    fix="move the interface to a card that exists, or remove it",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(CARD_EXISTS),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 4, InterfaceType: efa}
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
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa}
""",
)
