"""A network card carries one EFA interface."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import ONE_EFA_PER_CARD
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=ONE_EFA_PER_CARD,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch with two EFA interfaces on one network card",
    fix="keep one; a plain interface may stand beside it",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(ONE_EFA_PER_CARD),
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
