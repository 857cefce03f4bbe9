"""What EC2 refuses in a launch template beyond its schema.

EC2 takes most launch templates as they are and refuses at the first launch; the emulator refuses at deploy, where a
test sees it. Source of the user-data limit: EC2 user guide, "Run commands when you launch an EC2 instance with user
data input" (16 KB, in raw form, before it is base64-encoded), read 2026-11-21.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from cdk_gpu_clusters.catalogue import InstanceType, instance_types

from ..faults import Fault
from ..reservations import Reservation, zone_name
from ..schemas import instance_type_exists
from ..world import Json, World

USER_DATA_LIMIT_BYTES = 16_384


def launch_template_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::LaunchTemplate`."""
    data = properties["LaunchTemplateData"]
    yield from _instance_type_faults(data)
    yield from interface_faults(data)
    yield from target_faults(data, world)
    yield from _placement_faults(data, world)
    yield from volume_faults(data)
    yield from _user_data_faults(data)


def _instance_type_faults(data: Json) -> Iterator[Fault]:
    name = data.get("InstanceType")
    if name is not None and not instance_type_exists(name):
        yield Fault("instance-type", f"there is no instance type {name!r}", "LaunchTemplateData/InstanceType")


def _placement_faults(data: Json, world: World) -> Iterator[Fault]:
    name = data.get("Placement", {}).get("GroupName")
    if name and world.placement_strategy(name) is None:
        message = f"the placement group {name!r} does not exist"
        yield Fault("placement-group-missing", message, "LaunchTemplateData/Placement/GroupName")


def _user_data_faults(data: Json) -> Iterator[Fault]:
    path = "LaunchTemplateData/UserData"
    encoded = data.get("UserData")
    if encoded is None:
        return
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        yield Fault("user-data-encoding", "user data is not base64", path)
        return
    if len(raw) > USER_DATA_LIMIT_BYTES:
        message = f"user data has {len(raw):,} bytes raw; the limit is {USER_DATA_LIMIT_BYTES:,}"
        yield Fault("user-data-size", message, path)


def is_mime_multipart(encoded: str) -> bool:
    """Whether user data, in base64, is a MIME message of several parts, as services need that add a part of theirs."""
    try:
        text = base64.b64decode(encoded).decode(errors="replace")
    except (binascii.Error, ValueError):
        return False
    head = text.partition("\n\n")[0].replace("\r", "").lower()
    return "mime-version:" in head and "content-type: multipart/" in head


# What EC2 refuses in the network interfaces of a launch template. Sources: EC2 user guide, "Maximize network
# bandwidth on Amazon EC2 instances with multiple network cards"; eksctl-io/eksctl issue 7520 (device indexes); EC2
# API, RunInstances ("If you specify a network interface, you must specify any security groups as part of the network
# interface instead of using this parameter"). The cards are the catalogue's, from DescribeInstanceTypes.

_INTERFACES = "LaunchTemplateData/NetworkInterfaces"
_ADDRESS = re.compile(r"Ipv[46]|PrimaryIpv6|PrivateIpAddress|SecondaryPrivateIpAddressCount")
_KINDS = ("interface", "efa", "efa-only")


def interface_faults(data: Json) -> Iterator[Fault]:
    """Faults of `NetworkInterfaces` and of what is beside it."""
    given = data.get("NetworkInterfaces", [])
    if given and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
        message = "security groups belong to the interfaces; they may not be given at the top level too"
        yield Fault("security-groups-twice", message, "LaunchTemplateData/SecurityGroupIds")
    unknown = {_kind(one) for one in given} - set(_KINDS)
    for kind in sorted(unknown):
        message = f"{kind!r} is no interface type; allowed: {', '.join(_KINDS)}"
        yield Fault("interface-type", message, _INTERFACES)
    if not unknown and given:
        known = instance_types().get(data.get("InstanceType", ""))
        messages = chain(_primary_messages(given), _card_messages(known, given) if known else ())
        yield from (Fault("interfaces", message, _INTERFACES) for message in messages)


def _kind(interface: Json) -> str:
    return str(interface.get("InterfaceType", "interface"))


def _place(interface: Json) -> tuple[int, int]:
    return interface.get("NetworkCardIndex", 0), interface.get("DeviceIndex", 0)


def _primary_messages(given: list[Json]) -> Iterator[str]:
    """What is wrong on any instance type."""
    primaries = [one for one in given if _place(one) == (0, 0)]
    if len(primaries) != 1:
        yield f"a launch needs exactly one primary interface, at card 0 device 0, got {len(primaries)}"
    if any(_kind(one) == "efa-only" for one in primaries):
        yield "the primary interface needs an IP address, got efa-only"
    if any(_kind(one) == "efa-only" and any(map(_ADDRESS.match, one)) for one in given):
        yield "an efa-only interface has no IP device, so it takes no address"
    if len(given) > 1 and any(one.get("AssociatePublicIpAddress") for one in given):
        yield "a node with several network interfaces cannot be given a public address at launch"


def _card_messages(kind: InstanceType, given: list[Json]) -> Iterator[str]:
    """What is wrong on the network cards of an instance type."""
    cards = {card.index: card for card in kind.network.cards}
    for index in sorted({_place(one)[0] for one in given}):
        on_card = [one for one in given if _place(one)[0] == index]
        if index not in cards:
            yield f"{kind.name} has no network card {index}"
            continue
        where, most = f"network card {index} of {kind.name}", cards[index].max_interfaces
        refused = sorted({_kind(one) for one in on_card} - cards[index].interface_types)
        if refused:
            yield f"{where} does not accept {', '.join(refused)}"
        if sum(_kind(one) != "interface" for one in on_card) > 1:
            yield f"{where} carries more than one EFA interface"
        if len(on_card) > most:
            yield f"{where} holds {most} interfaces, got {len(on_card)}"
        devices = Counter(_place(one)[1] for one in on_card)
        wrong = sorted(device for device, count in devices.items() if count > 1 or not 0 <= device < most)
        if wrong:
            yield f"{where} has devices 0 to {most - 1}, each once, got {wrong}"
    most_efa = kind.network.efa.max_interfaces if kind.network.efa else 0
    efa = sum(_kind(one) != "interface" for one in given)
    if efa > most_efa:
        yield f"{kind.name} supports {most_efa} EFA interfaces, got {efa}"
    if len(given) > kind.network.max_interfaces:
        yield f"{kind.name} holds {kind.network.max_interfaces} interfaces, got {len(given)}"


# What EC2 refuses in the market options and the reservation target of a launch template. Sources: EC2 user guide,
# "Capacity Blocks for ML" (market type `capacity-block` together with a reservation target; no placement groups),
# "Capacity Reservations in cluster placement groups" (a reservation of a group is used only from within it), read
# 2026-11-21; RunInstances, `CapacityReservationSpecification`.

_SPECIFICATION = "LaunchTemplateData/CapacityReservationSpecification"
_MARKET = "LaunchTemplateData/InstanceMarketOptions"
_PLACEMENT = "LaunchTemplateData/Placement"


def target_faults(data: Json, world: World) -> Iterator[Fault]:
    """Faults of market type, reservation target and placement together."""
    specification = data.get("CapacityReservationSpecification", {})
    target = specification.get("CapacityReservationTarget", {})
    market = data.get("InstanceMarketOptions", {}).get("MarketType", "")
    yield from _market_faults(data, market, target, specification)
    if not target:
        return
    reservations, missing = _targets(target, world)
    if missing:
        yield Fault("reservation-missing", missing, f"{_SPECIFICATION}/CapacityReservationTarget")
    for reservation in reservations:
        yield from _match_faults(data, market, reservation)


def _market_faults(data: Json, market: str, target: Json, specification: Json) -> Iterator[Fault]:
    if market == "spot" and target:
        yield Fault("spot-with-reservation", "Spot instances cannot use a reservation", _MARKET)
    if market == "capacity-block" and not target:
        message = "market type capacity-block needs the reservation of the Capacity Block as its target"
        yield Fault("block-without-target", message, _SPECIFICATION)
    if market == "capacity-block" and (data.get("Placement", {}).keys() & {"GroupName", "GroupId"}):
        yield Fault("block-in-placement-group", "Capacity Blocks do not support placement groups", _PLACEMENT)
    if specification.get("CapacityReservationPreference") in ("none", "open") and target:
        message = f"preference {specification['CapacityReservationPreference']} cannot be combined with a target"
        yield Fault("preference-with-target", message, _SPECIFICATION)


def _targets(target: Json, world: World) -> tuple[list[Reservation], str]:
    identifier = target.get("CapacityReservationId")
    group = target.get("CapacityReservationResourceGroupArn")
    if identifier and group:
        return [], "a target is one reservation or one resource group, not both"
    if identifier:
        found = world.reservations().get(identifier)
        return ([found], "") if found else ([], f"the capacity reservation {identifier!r} does not exist")
    members = world.reservations_in_group(str(group))
    return (members, "") if members is not None else ([], f"the resource group {group!r} does not exist")


def _match_faults(data: Json, market: str, reservation: Reservation) -> Iterator[Fault]:
    name = data.get("InstanceType")
    if name and name != reservation.instance_type:
        message = f"{reservation.id} reserves {reservation.instance_type}, the template launches {name}"
        yield Fault("reservation-type", message, "LaunchTemplateData/InstanceType")
    zone = data.get("Placement", {}).get("AvailabilityZone")
    if zone and zone_name(zone) != reservation.availability_zone:
        message = f"{reservation.id} is in {reservation.availability_zone}, the template launches in {zone}"
        yield Fault("reservation-zone", message, f"{_PLACEMENT}/AvailabilityZone")
    if reservation.is_block and market != "capacity-block":
        message = f"{reservation.id} is a Capacity Block: the market type must be capacity-block"
        yield Fault("block-without-market-type", message, _MARKET)
    if not reservation.is_block and market == "capacity-block":
        message = f"{reservation.id} is an On-Demand Capacity Reservation, not a Capacity Block"
        yield Fault("market-type-with-odcr", message, _MARKET)
    yield from _group_faults(data, reservation)


def _group_faults(data: Json, reservation: Reservation) -> Iterator[Fault]:
    group = data.get("Placement", {}).get("GroupName", "")
    if reservation.is_block or group == reservation.placement_group:
        return
    if reservation.placement_group:
        message = (
            f"{reservation.id} was made in the placement group {reservation.placement_group!r}; "
            f"the template names {group!r}"
        )
    else:
        message = f"{reservation.id} was made in no placement group; the template names {group!r}"
    yield Fault("reservation-group", message, _PLACEMENT)


# What EC2 refuses in EBS volumes. Source: the descriptions of Iops, Throughput and VolumeSize in the schema of
# AWS::EC2::LaunchTemplate (Ebs) of 2026-10-20: gp3 3,000 to 80,000 IOPS, 125 to 2,000 MiB/s, 1 to 65,536 GiB; io1
# 100 to 64,000 IOPS, 4 to 16,384 GiB; io2 100 to 256,000 IOPS, 4 to 65,536 GiB. Ratios: EBS user guide, "General
# Purpose SSD volumes" (gp3: 500 IOPS per GiB, 0.25 MiB/s per IOPS).

_IOPS = {"gp3": (3_000, 80_000), "io1": (100, 64_000), "io2": (100, 256_000)}
_SIZE_GIB = {"gp2": (1, 16_384), "gp3": (1, 65_536), "io1": (4, 16_384), "io2": (4, 65_536)}
_THROUGHPUT_MIB_S = (125, 2_000)
_GP3_IOPS_PER_GIB = 500
_GP3_BASELINE_IOPS = 3_000
_GP3_MIB_S_PER_IOPS = 0.25


def volume_faults(data: Json) -> Iterator[Fault]:
    """Faults of `BlockDeviceMappings`."""
    for position, mapping in enumerate(data.get("BlockDeviceMappings", [])):
        path = f"LaunchTemplateData/BlockDeviceMappings/{position}/Ebs"
        for message in _ebs_messages(mapping.get("Ebs", {})):
            yield Fault("volume", message, path)


def _ebs_messages(ebs: Json) -> Iterator[str]:
    kind = ebs.get("VolumeType", "gp2")
    iops, throughput, size = ebs.get("Iops"), ebs.get("Throughput"), ebs.get("VolumeSize")
    if iops is not None and kind not in _IOPS:
        yield f"{kind} volumes take no IOPS, got {iops}"
    elif iops is not None and not _within(iops, _IOPS[kind]):
        yield f"{kind} volumes have {_IOPS[kind][0]:,} to {_IOPS[kind][1]:,} IOPS, got {iops:,}"
    elif iops is None and kind in ("io1", "io2"):
        yield f"{kind} volumes need Iops"
    if throughput is not None and kind != "gp3":
        yield f"only gp3 volumes take a throughput; this one is {kind}"
    elif throughput is not None and not _within(throughput, _THROUGHPUT_MIB_S):
        yield f"gp3 volumes have 125 to 2,000 MiB/s, got {throughput:,}"
    if size is not None and kind in _SIZE_GIB and not _within(size, _SIZE_GIB[kind]):
        yield f"{kind} volumes have {_SIZE_GIB[kind][0]} to {_SIZE_GIB[kind][1]:,} GiB, got {size:,}"
    if kind == "gp3":
        yield from _gp3_ratio_messages(size, iops or _GP3_BASELINE_IOPS, throughput)


def _gp3_ratio_messages(size: int | None, iops: int, throughput: int | None) -> Iterator[str]:
    if size is not None and iops > _GP3_BASELINE_IOPS and iops > size * _GP3_IOPS_PER_GIB:
        yield f"gp3 volumes have at most {_GP3_IOPS_PER_GIB} IOPS per GiB, got {iops:,} for {size} GiB"
    if throughput is not None and throughput > iops * _GP3_MIB_S_PER_IOPS:
        yield f"gp3 volumes have at most 0.25 MiB/s per IOPS, got {throughput} MiB/s for {iops:,} IOPS"


def _within(value: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= value <= bounds[1]
