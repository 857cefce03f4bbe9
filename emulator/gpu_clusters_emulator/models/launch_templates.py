"""What EC2 refuses in a launch template beyond its schema.

EC2 takes most launch templates as they are and refuses at the first launch; the emulator refuses at deploy, where a
test sees it. Source of the user-data limit: EC2 user guide, "Run commands when you launch an EC2 instance with user
data input" (16 KB, in raw form, before it is base64-encoded), read 2026-11-21.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..instance_types import instance_type_exists
from .interfaces import interface_faults
from .reservation_targets import target_faults
from .volumes import volume_faults

if TYPE_CHECKING:
    from ..world import World

USER_DATA_LIMIT_BYTES = 16_384


def launch_template_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::LaunchTemplate`."""
    data = properties["LaunchTemplateData"]
    yield from _instance_type_faults(data)
    yield from interface_faults(data)
    yield from target_faults(data, world)
    yield from _placement_faults(data, world)
    yield from volume_faults(data)
    yield from _user_data_faults(data)


def _instance_type_faults(data: dict[str, Any]) -> Iterator[Fault]:
    name = data.get("InstanceType")
    if name is not None and not instance_type_exists(name):
        yield Fault(
            check="instance-type",
            message=f"there is no instance type {name!r}",
            path="LaunchTemplateData/InstanceType",
        )


def _placement_faults(data: dict[str, Any], world: World) -> Iterator[Fault]:
    name = data.get("Placement", {}).get("GroupName")
    if (
        name
        and world.find("AWS::EC2::PlacementGroup", name) is None
        and name not in world.seeded_placement_groups
    ):
        yield Fault(
            check="placement-group-missing",
            message=f"the placement group {name!r} does not exist",
            path="LaunchTemplateData/Placement/GroupName",
        )


def _user_data_faults(data: dict[str, Any]) -> Iterator[Fault]:
    path = "LaunchTemplateData/UserData"
    encoded = data.get("UserData")
    if encoded is None:
        return
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        yield Fault(check="user-data-encoding", message="user data is not base64", path=path)
        return
    if len(raw) > USER_DATA_LIMIT_BYTES:
        yield Fault(
            check="user-data-size",
            message=f"user data has {len(raw):,} bytes raw; the limit is {USER_DATA_LIMIT_BYTES:,}",
            path=path,
        )
