"""What AWS PCS refuses of a launch template, and of the scripts that its nodes run.

Sources, stored copies of 2026: AWS PCS user guide, "Overview of launch templates in AWS PCS", "Multiple network
interfaces in AWS PCS", "Working with Amazon EC2 user data for AWS PCS", "Configure an AWS PCS compute node group to use
a Capacity Block", "Using I-ODCRs with AWS PCS", "Configure node lifecycle actions in AWS PCS" (2 MiB, s3:GetObject,
SHA-256, onError). Left out: that interfaces beyond the primary have the device index 1. The guide states it, and AWS's
own template for p6-b300 does not keep it (awslabs/awsome-distributed-ai, add-cng-p6-b300.yaml).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from .. import pcs
from ..clock import format_time
from ..faults import Fault
from ..permissions import allows
from ..reservations import Reservation
from ..world import Json, World
from .launch_templates import interface_faults, is_mime_multipart, target_faults

_TEMPLATE, _SIZES, _PURCHASE = "CustomLaunchTemplate", "ScalingConfiguration", "PurchaseOption"
_BLOCK, _INTERRUPTIBLE = "CAPACITY_BLOCK", "INTERRUPTIBLE_CAPACITY_RESERVATION"
_MARKETS = {_BLOCK: "capacity-block", _INTERRUPTIBLE: "interruptible-capacity-reservation"}
_MOST_BYTES = 2 * 1024 * 1024


def template_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of the launch template of a compute node group whose version exists."""
    own = pcs.own_data(properties, world) or {}
    if "AmiId" not in properties and "ImageId" not in own:
        yield Fault("pcs-image", "AmiId or an ImageId in the launch template is required", "AmiId")
    if "UserData" in own and not is_mime_multipart(own["UserData"]):
        yield Fault("pcs-user-data", "user data must be multi-part encoded (MIME)", _TEMPLATE)
    if own.get("SecurityGroups"):
        message = "a list of security group names can't be set in an AWS PCS launch template: use SecurityGroupIds"
        yield Fault("pcs-security-groups", message, _TEMPLATE)
    yield from _interface_faults(properties, own, world)
    yield from _purchase_faults(properties, own, world)


def _interface_faults(properties: Json, own: Json, world: World) -> Iterator[Fault]:
    given = own.get("NetworkInterfaces", [])
    for one in given:
        if not one.get("Groups") and "NetworkInterfaceId" not in one:
            message = f"each network interface must have security group IDs under Groups; card {_card(one)} has none"
            yield Fault("pcs-interfaces", message, _TEMPLATE)
        if "SubnetId" in one and one["SubnetId"] not in properties["SubnetIds"]:
            message = f"the subnet of each network interface must be the group's, got {one['SubnetId']}"
            yield Fault("pcs-interfaces", message, _TEMPLATE)
    for card, count in Counter(map(_card, given)).items():
        if count > 1:
            message = f"all network interfaces must have a unique NetworkCardIndex; {count} are on card {card}"
            yield Fault("pcs-interfaces", message, _TEMPLATE)
    for one in properties["InstanceConfigs"]:
        data = pcs.launch_data(properties, world, one["InstanceType"])
        for fault in interface_faults(data):
            yield Fault(fault.check, fault.message, _TEMPLATE)


def _card(interface: Json) -> int:
    return int(interface.get("NetworkCardIndex", 0))


def _purchase_faults(properties: Json, own: Json, world: World) -> Iterator[Fault]:
    option = properties.get(_PURCHASE, "ONDEMAND")
    market = own.get("InstanceMarketOptions", {}).get("MarketType", "")
    target = own.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    wanted = _MARKETS.get(option, "")
    if market != wanted and (wanted or market in _MARKETS.values()):
        message = f"PurchaseOption {option} and MarketType {market or 'none'} of the launch template do not agree"
        yield Fault("pcs-purchase", message, _PURCHASE)
        return
    if wanted and "CapacityReservationId" not in target:
        message = f"PurchaseOption {option} needs a CapacityReservationId in the launch template"
        yield Fault("pcs-purchase", message, _TEMPLATE)
        return
    if not wanted and "CapacityReservationId" in target:
        message = (
            f"the launch template cannot reference a specific CapacityReservationId with PurchaseOption {option}: "
            "reference a capacity reservation group"
        )
        yield Fault("pcs-reservation", message, _TEMPLATE)
        return
    if option != _INTERRUPTIBLE:
        for fault in target_faults(pcs.launch_data(properties, world), world):
            yield Fault(fault.check, fault.message, _TEMPLATE)
    block = world.reservations().get(target.get("CapacityReservationId", ""))
    if option == _BLOCK and block is not None:
        yield from _block_faults(properties, own, block, world)


def _block_faults(properties: Json, own: Json, block: Reservation, world: World) -> Iterator[Fault]:
    if own.get("InstanceType") != block.instance_type:
        message = (
            f"with a Capacity Block the launch template must include its InstanceType {block.instance_type}, got "
            f"{own.get('InstanceType', 'none')}"
        )
        yield Fault("pcs-block-type", message, _TEMPLATE)
    types = [one["InstanceType"] for one in properties["InstanceConfigs"]]
    if types != [block.instance_type]:
        message = f"a Capacity Block of {block.instance_type} is for that type alone, got {', '.join(types)}"
        yield Fault("pcs-block-type", message, "InstanceConfigs")
    state = block.state(world.clock.now())
    if state not in ("scheduled", "active"):
        message = f"the Capacity Block {block.id} must be in a scheduled or active state, and is {state}"
        yield Fault("pcs-block-state", message, _TEMPLATE)
    most = pcs.sizes(properties)[1]
    if most > block.count:
        message = f"MaxInstanceCount {most} must not exceed the size of the Capacity Block, {block.count}"
        yield Fault("pcs-block-size", message, _SIZES)
    zones = {world.zone_of_subnet(one) for one in properties["SubnetIds"]}
    if block.availability_zone not in zones and "" not in zones:
        message = f"the Capacity Block is in {block.availability_zone}, and the subnets in {', '.join(map(str, zones))}"
        yield Fault("pcs-block-zone", message, "SubnetIds")


# Scripts of node lifecycle actions: downloaded by the node with its role, and compared with their checksum. A bucket
# that no stack made is not looked into. What a script with onError CONTINUE or STOP_SEQUENCE cannot do is lost, and
# the node stays; with TERMINATE no node would stay.


def script_faults(actions: Json | None, role: str, world: World) -> Iterator[Fault]:
    """Faults of `NodeLifecycleActions`, by what a node with that role can download; empty for an unknown role."""
    if actions is None:
        return
    path = "NodeLifecycleActions/Stages"
    stages: Json = actions.get("Stages", {})
    scripts = [one for stage in ("NodeBootstrapped", "NodeReady") for one in stages.get(stage, [])]
    if not scripts:
        yield Fault("pcs-scripts", "at least one stage with a script is needed", path)
    for name, count in Counter(one["Name"] for one in scripts).items():
        if count > 1:
            yield Fault("pcs-scripts", f"the name of a script is unique; {name!r} is given {count} times", path)
    for one in scripts:
        source = one["ScriptSource"]
        location = source["ScriptLocation"]
        if not location.startswith("s3://"):
            if "S3VersionId" in source:
                yield Fault("pcs-scripts", f"S3VersionId is only valid with an S3 URI, got {location}", path)
            continue
        for reason in _download_messages(source, role, world) if role else ():
            message = f"the node cannot run {one['Name']!r}: {reason}"
            if one.get("OnError", "TERMINATE") == "TERMINATE":
                yield Fault("pcs-script", f"{message}; onError=TERMINATE ends every node", path)
            else:
                world.lost.append({"time": format_time(world.clock.now()), "node": "", "error": message})


def _download_messages(source: Json, role: str, world: World) -> Iterator[str]:
    bucket, _, key = source["ScriptLocation"].removeprefix("s3://").partition("/")
    version = source.get("S3VersionId", "")
    partition = world.arn("s3", "").split(":")[1]
    action = "s3:GetObjectVersion" if version else "s3:GetObject"
    if not allows(world, role, action, f"arn:{partition}:s3:::{bucket}/{key}"):
        yield f"no policy of {role} allows {action} on {source['ScriptLocation']} now"
    if world.region_of_bucket(bucket) is None:
        return
    content = world.read_object(bucket, key, version)
    if content is None:
        yield f"there is no object {source['ScriptLocation']}{' with version ' + version if version else ''}"
        return
    if len(content) > _MOST_BYTES:
        yield f"a script must be no larger than 2 MiB, and it has {len(content):,} bytes"
    digest = hashlib.sha256(content).hexdigest()
    if source.get("Checksum", digest).lower() != digest:
        yield f"its checksum is {digest}, and the configuration has {source['Checksum']}"
