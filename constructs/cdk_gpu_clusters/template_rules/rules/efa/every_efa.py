"""A launch with EFA uses all the bandwidth that EFA has on its type."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.rules.interfaces import plan_interfaces
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, efa_launch
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import LOOKS_AT

EVERY_EFA = define_rule(
    "GPU-EFA-032",
    "a launch with EFA has an EFA interface for every network card that gives bandwidth",
    source="EC2 DescribeInstanceTypes, EfaInfo.MaximumEfaInterfaces; skypilot-org/skypilot 8391 (1 of 4 was used)",
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    count = sum(interface.is_efa for interface in launch.interfaces())
    for value, record in launch.records():
        planned = plan_interfaces(record).efa_count
        if count < planned:
            at = launch.data.get("NetworkInterfaces")
            yield Fault(at=at, got=f"{count} on {value.text()}", allowed=str(planned))


RULE = TemplateRule(
    rule=EVERY_EFA,
    severity=Severity.WARNING,
    cause="the nodes exchange data over a part of the network cards that are paid for",
    fix="add an efa-only interface for each network card that supports EFA",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
    on=LAUNCHES,
    looks_at=LOOKS_AT,
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p4d.24xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: efa}
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa-only}
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
          - {DeviceIndex: 1, NetworkCardIndex: 1, InterfaceType: efa-only}
          - {DeviceIndex: 1, NetworkCardIndex: 2, InterfaceType: efa-only}
          - {DeviceIndex: 1, NetworkCardIndex: 3, InterfaceType: efa-only}
""",
)
