"""The primary interface has an IP address."""

from __future__ import annotations

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import PRIMARY_HAS_IP
from cdk_gpu_clusters.template_rules.rule import TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT, ON, URL, checks_interfaces

RULE = TemplateRule(
    rule=PRIMARY_HAS_IP,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch whose primary interface takes no IP address",
    fix="make it interface, and put efa-only at device 1 where card 0 supports EFA",
    url=URL,
    on=ON,
    looks_at=LOOKS_AT,
    check=checks_interfaces(PRIMARY_HAS_IP),
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa-only}
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
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa-only}
""",
)
