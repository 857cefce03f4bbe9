"""An efa-only interface is given no IP address."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.interfaces import NO_ADDRESS_ON_EFA_ONLY, check_addresses
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, efa_launch, layout_of
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule, faults_of
from cdk_gpu_clusters.template_rules.rules.efa._interfaces import URL

_ADDRESSES = (
    "Ipv4PrefixCount",
    "Ipv4Prefixes",
    "Ipv6AddressCount",
    "Ipv6Addresses",
    "Ipv6PrefixCount",
    "Ipv6Prefixes",
    "PrivateIpAddress",
    "PrivateIpAddresses",
    "SecondaryPrivateIpAddressCount",
)
_TRACKING = "ConnectionTrackingSpecification"


def _check(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    for interface, planned in zip(launch.interfaces(), layout_of(launch), strict=True):
        for name in _ADDRESSES:
            asked = interface.value.get(name)
            if asked.exists:
                yield from faults_of(NO_ADDRESS_ON_EFA_ONLY, check_addresses([planned]), asked)
        tracking = interface.value.get(_TRACKING)
        if tracking.exists and planned.interface_type == "efa-only":
            yield Fault(at=tracking, got=f"{_TRACKING} on an efa-only interface", allowed="nothing")


RULE = TemplateRule(
    rule=NO_ADDRESS_ON_EFA_ONLY,
    severity=Severity.ERROR,
    cause="an efa-only interface has no IP device: a launch that gives it an address, or tracks its connections, fails",
    fix="remove the settings of addresses and of connection tracking from this interface",
    url=URL,
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "LaunchTemplateData/NetworkInterfaces/*/PrivateIpAddress, and the other settings of addresses and prefixes",
        "LaunchTemplateData/NetworkInterfaces/*/ConnectionTrackingSpecification",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface}
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa-only, Ipv6AddressCount: 1}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        NetworkInterfaces:
          - {DeviceIndex: 0, NetworkCardIndex: 0, InterfaceType: interface, Ipv6AddressCount: 1}
          - {DeviceIndex: 1, NetworkCardIndex: 0, InterfaceType: efa-only}
""",
)
