"""What EC2 refuses in the network interfaces of a launch template: the rules of this library, on any template.

Source of the rule on security groups: EC2 API, RunInstances ("If you specify a network interface, you must specify
any security groups as part of the network interface instead of using this parameter").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.rules.interfaces import (
    NetworkInterface,
    check_addresses,
    check_interfaces,
    check_public_ip,
)

from ..faults import Fault

_PATH = "LaunchTemplateData/NetworkInterfaces"
_ADDRESS_KEYS = frozenset(
    {
        "Ipv4PrefixCount",
        "Ipv4Prefixes",
        "Ipv6AddressCount",
        "Ipv6Addresses",
        "Ipv6PrefixCount",
        "Ipv6Prefixes",
        "PrimaryIpv6",
        "PrivateIpAddress",
        "PrivateIpAddresses",
        "SecondaryPrivateIpAddressCount",
    }
)
_TYPES = ("interface", "efa", "efa-only")


def interface_faults(data: dict[str, Any]) -> Iterator[Fault]:
    """Faults of `NetworkInterfaces` and of what stands beside it."""
    given = data.get("NetworkInterfaces")
    if not given:
        return
    if data.get("SecurityGroupIds") or data.get("SecurityGroups"):
        yield Fault(
            check="security-groups-twice",
            message="security groups stand on the interfaces; they may not be given at the top level too",
            path="LaunchTemplateData/SecurityGroupIds",
        )
    unknown = [item for item in given if item.get("InterfaceType", "interface") not in _TYPES]
    for item in unknown:
        yield Fault(
            check="interface-type",
            message=f"{item['InterfaceType']!r} is no interface type; allowed: {', '.join(_TYPES)}",
            path=_PATH,
        )
    if unknown:
        return
    interfaces = [_interface(item) for item in given]
    addressed = [one for one, item in zip(interfaces, given, strict=True) if _ADDRESS_KEYS & item.keys()]
    public = any(item.get("AssociatePublicIpAddress") for item in given)
    findings = [*check_public_ip(interfaces, public_ip=public), *check_addresses(addressed)]
    if data.get("InstanceType") in instance_types():
        findings += check_interfaces(data["InstanceType"], interfaces)
    for finding in errors_in(findings):
        yield Fault(
            check=f"interfaces {finding.id}", message=f"{finding.cause}, got {finding.got}", path=_PATH
        )


def _interface(item: dict[str, Any]) -> NetworkInterface:
    return NetworkInterface(
        item.get("NetworkCardIndex", 0), item.get("DeviceIndex", 0), item.get("InterfaceType", "interface")
    )
