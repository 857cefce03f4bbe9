"""Network interfaces of launches, as the decision functions take them."""

from __future__ import annotations

from typing import get_args

from cdk_gpu_clusters.rules.interfaces import InterfaceType, NetworkInterface
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, launch_of


def layout_of(launch: Launch) -> list[NetworkInterface]:
    """The interfaces as the decision functions take them."""
    return launch.resource.once(_layout)


def _layout(resource: Resource) -> list[NetworkInterface]:
    return [
        NetworkInterface(one.network_card_index, one.device_index, _known_type(one.interface_type, one.value))
        for one in launch_of(resource).interfaces()
    ]


def _known_type(name: str, value: Value) -> InterfaceType:
    for known in get_args(InterfaceType):
        if known == name:
            found: InterfaceType = known
            return found
    raise value.get("InterfaceType").undecidable(f"there is no interface type {name!r}")
