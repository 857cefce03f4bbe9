"""Each network card takes the type of the interfaces on it."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import TYPE_ON_CARD
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=TYPE_ON_CARD,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch with an EFA interface on a card that takes none, such as card 0 of p6-b300",
    fix="set InterfaceType to interface, or move the EFA to a card that takes one",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(TYPE_ON_CARD),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p6-b300.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa}
          - {DeviceIndex: 0, NetworkCardIndex: 1, InterfaceType: efa-only}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p6-b300.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 0, NetworkCardIndex: 1, InterfaceType: efa-only}
""",
)
