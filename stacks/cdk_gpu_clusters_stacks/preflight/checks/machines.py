"""Instance types and machine images: available in the zones, and compatible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.images import root_device_name
from cdk_gpu_clusters.errors import Rule, Severity, define_rule
from cdk_gpu_clusters.rules.images import check_image
from cdk_gpu_clusters.rules.root_volume import DEFAULT_SIZE_GIB
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from ..call import CALLER, IMAGES, OFFERINGS, PARAMETER, TYPES, Absent, Call, NoAnswer
from ..check import Check, Inquiry, Judge, Verdict, cannot_tell, failed, passed, warned
from ..cluster import Cluster, every_fleet, fleets_where, kind_of, words
from ..resources import IMAGE_CALLS, image_id_of, image_of, operating_system_of, parameter_of

OFFERED = define_rule(
    "GPU-PRE-021",
    "EC2 offers the instance type in the zones of the fleet",
    source="EC2 API reference, DescribeInstanceTypeOfferings",
)
AS_IN_CATALOGUE = define_rule(
    "GPU-PRE-022",
    "the instance type matches the catalogue: processors, accelerators, network cards, EFA",
    source="EC2 API reference, DescribeInstanceTypes; the catalogue's record of the type",
)
SOLD_THIS_WAY = define_rule(
    "GPU-PRE-023",
    "EC2 sells the instance type the way the fleet buys it",
    source="EC2 API reference, DescribeInstanceTypes, SupportedUsageClasses",
)

_BLOCKS = "EC2 lists only what it sells on demand, and this type may come in blocks alone"


def _types(cluster: Cluster) -> list[str]:
    return sorted({fleet.type.name for fleet in cluster.fleets.values()})


def _offered(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    names = {"Name": "instance-type", "Values": _types(inquiry.cluster)}
    kinds = ("availability-zone", "availability-zone-id")
    for kind in kinds:
        inquiry.start(OFFERINGS, LocationType=kind, Filters=[names])
    offers = [
        one["Location"]
        for kind in kinds
        for one in inquiry.ask(OFFERINGS, LocationType=kind, Filters=[names])["InstanceTypeOfferings"]
        if one["InstanceType"] == fleet.type.name
    ]
    missing = [zone for zone in fleet.zones if zone not in offers]
    name, zones = fleet.type.name, words(fleet.zones)
    if not missing and offers:
        yield passed(f"{name} in {zones if fleet.zones else words(offers)}")
    elif kind_of(fleet).is_block:
        yield warned(f"{name} is not offered in {zones}", fix=f"check the block's zone: {_BLOCKS}")
    elif not offers:
        yield failed(f"{name} is offered nowhere in {inquiry.cluster.region}", fix="choose another type or Region")
    else:
        yield failed(f"{name} is not offered in {words(missing)}", fix=f"choose a zone of {words(sorted(offers))}")


def _by_type(cluster: Cluster) -> Mapping[str, InstanceType]:
    return {f"{where}.instance_type": fleet.type for where, fleet in cluster.fleets.items()}


def _described(name: str, inquiry: Inquiry) -> Mapping[str, object]:
    wanted = [{"Name": "instance-type", "Values": _types(inquiry.cluster)}]
    found = inquiry.ask(TYPES, Filters=wanted)["InstanceTypes"]
    for one in found:
        if one["InstanceType"] == name:
            return dict(one)
    raise NoAnswer(f"EC2 does not describe {name} in {inquiry.cluster.region}", fix="see GPU-PRE-021")


def _known(record: InstanceType, inquiry: Inquiry) -> Iterator[Verdict]:
    said = _described(record.name, inquiry)
    differing = [
        f"{what}: {given} in the catalogue, {found} in EC2"
        for what, given, found in _compared(record, said)
        if found is not None and given != found
    ]
    if differing:
        yield warned(
            f"{record.name} differs: {'; '.join(differing)}",
            fix="update the library; if it is the newest, report it, and check the interfaces of a node",
        )
    else:
        yield passed(f"{record.name} is as in the catalogue")


def _compared(record: InstanceType, said: Mapping[str, object]) -> Iterator[tuple[str, object, object]]:
    """What is compared: its name, the catalogue's value, and EC2's or None."""
    processors, network = _part(said, "VCpuInfo"), _part(said, "NetworkInfo")
    yield "vCPUs", record.vcpus, processors.get("DefaultVCpus")
    yield "memory in MiB", record.memory_mib, _part(said, "MemoryInfo").get("SizeInMiB")
    yield "network cards", len(record.network.cards), network.get("MaximumNetworkCards")
    yield "network interfaces", record.network.max_interfaces, network.get("MaximumNetworkInterfaces")
    yield "EFA", record.supports_efa, network.get("EfaSupported")
    efa = record.network.efa
    if efa is not None:
        yield "EFA interfaces", efa.max_interfaces, _part(network, "EfaInfo").get("MaximumEfaInterfaces")
    gpus = _part(said, "GpuInfo").get("Gpus")
    if record.accelerator is not None and isinstance(gpus, list):
        count = sum(gpu.get("LogicalGpuCount", gpu.get("Count", 0)) for gpu in gpus)
        yield "GPUs", record.accelerator.logical_count, count


def _part(said: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = said.get(key)
    return found if isinstance(found, Mapping) else {}


def _sold(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    classes = _described(fleet.type.name, inquiry).get("SupportedUsageClasses")
    if not isinstance(classes, list):
        yield cannot_tell(f"EC2 does not say how {fleet.type.name} is sold")
        return
    kind = kind_of(fleet)
    needed = "capacity-block" if kind.is_block else "spot" if kind.value == "spot" else "on-demand"
    if needed in classes:
        yield passed(f"{fleet.type.name}: {words(classes)}")
    else:
        yield failed(f"{fleet.type.name} is not sold as {needed}, only as {words(classes)}", fix="change capacity")


_DESCRIBE: tuple[Call, ...] = (TYPES,)

INSTANCE_TYPES_CHECKS = (
    Check(rule=OFFERED, calls=(OFFERINGS,), subjects=every_fleet, judge=_offered),
    Check(rule=AS_IN_CATALOGUE, calls=_DESCRIBE, subjects=_by_type, judge=_known),
    Check(rule=SOLD_THIS_WAY, calls=_DESCRIBE, subjects=every_fleet, judge=_sold),
)


# Machine images: that they are there, and start on the fleet's type.

_IMAGES = "EC2 API reference, DescribeImages"

PARAMETER_THERE = define_rule(
    "GPU-PRE-101",
    "the SSM parameter of the image is there and holds an image id",
    source="Systems Manager API reference, GetParameter",
)
IMAGE_THERE = define_rule("GPU-PRE-102", "the image is there and available", source=_IMAGES)
IMAGE_STARTS = define_rule(
    "GPU-PRE-103",
    "image and instance type fit: architecture, virtualization, ENA, boot mode",
    source=f"{_IMAGES}; DescribeInstanceTypes",
)
ROOT_DEVICE = define_rule(
    "GPU-PRE-104",
    "the image's root device is that of the operating system in the file",
    source=f"{_IMAGES}; the launch template names the root device to size and encrypt it",
)
ROOT_SIZE = define_rule(
    "GPU-PRE-105",
    "the root volume is not smaller than the image's snapshot",
    source='Amazon EBS user guide, "Create an Amazon EBS volume"',
)
SERVES_ACCELERATOR = define_rule(
    "GPU-PRE-106",
    "the image's drivers serve the accelerator, as far as description and catalogue say",
    source="descriptions of AWS Deep Learning AMIs: Supported EC2 instances; the catalogue's release notes",
)
KNOWN_OWNER = define_rule(
    "GPU-PRE-107", "the image belongs to Amazon or to the account, and is not deprecated", source=_IMAGES
)

_IMAGE_ID = re.compile(r"ami-([0-9a-f]{8}|[0-9a-f]{17})")
_SUPPORTED = re.compile(r"Supported EC2 instances:\s*(.+?)(?:\.\s|\.?$)")


def _parameter(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    name = parameter_of(fleet)
    try:
        value = str(inquiry.ask(PARAMETER, Name=name)["Parameter"]["Value"])
    except Absent:
        yield failed(
            f"{name} does not exist in {inquiry.cluster.region}",
            fix="name an image by its id, or another operating system: not every Region has every parameter",
        )
        return
    if _IMAGE_ID.fullmatch(value):
        yield passed(f"{name} is {value}")
    else:
        yield failed(f"{name} holds {value!r}, no image id", fix="name a parameter that holds an image id")


def _there(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    image_id = image_id_of(fleet, inquiry)
    try:
        found = inquiry.ask(IMAGES, ImageIds=[image_id])["Images"]
    except Absent:
        found = []
    if not found:
        yield failed(
            f"there is no {image_id} in {inquiry.cluster.region} for this account",
            fix="name an image of this Region that is shared with the account",
        )
    elif found[0].get("State") != "available":
        yield failed(f"{image_id} is {found[0].get('State')}", fix="name an available image")
    else:
        yield passed(f"{image_id}: {found[0].get('Name')}")


def _starts(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    image, kind = image_of(fleet, inquiry), fleet.type
    fix = f"name an image for {kind.architecture.value} that boots from EBS on Nitro"
    wrong = [
        text
        for fits, text in (
            (
                image.get("Architecture") == kind.architecture.value,
                f"architecture {image.get('Architecture')}",
            ),
            (
                image.get("VirtualizationType", "hvm") == "hvm",
                f"virtualization {image.get('VirtualizationType')}",
            ),
            (image.get("EnaSupport", False), "no ENA support"),
            (image.get("RootDeviceType", "ebs") == "ebs", f"root device {image.get('RootDeviceType')}"),
            (_boots(image, kind.boot_modes), f"boot mode {image.get('BootMode')}"),
        )
        if not fits
    ]
    if wrong:
        yield failed(f"{image['ImageId']} on {kind.name}: {words(wrong)}", fix=fix)


def _boots(image: Mapping[str, Any], modes: frozenset[str] | None) -> bool:
    mode = image.get("BootMode")
    return mode is None or modes is None or mode == "uefi-preferred" or mode in modes


def _device(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    image, system = image_of(fleet, inquiry), operating_system_of(fleet)
    wanted = root_device_name(system)
    if image.get("RootDeviceName") != wanted:
        yield failed(
            f"{image['ImageId']} has root device {image.get('RootDeviceName')}, {system.value} has {wanted}",
            fix="correct os: of the image; otherwise its root volume keeps its own size, unencrypted",
        )


def _size(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    image = image_of(fleet, inquiry)
    given = fleet.spec.root_volume.size_gib or DEFAULT_SIZE_GIB
    needed = next(
        (
            disk.get("Ebs", {}).get("VolumeSize", 0)
            for disk in image.get("BlockDeviceMappings", ())
            if disk.get("DeviceName") == image.get("RootDeviceName")
        ),
        0,
    )
    if needed > given:
        yield failed(
            f"{image['ImageId']} needs {needed} GiB, the root volume has {given}",
            fix=f"root_volume: {{ size_gib: {needed} }} or more",
        )
    else:
        yield passed(f"{given} GiB for an image of {needed} GiB")


def _serves(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    image, family = image_of(fleet, inquiry), fleet.type.family
    named = _SUPPORTED.search(str(image.get("Description", "")))
    if named is not None:
        families = [one.strip().lower() for one in named[1].split(",")]
        if any(family == one or (len(one) == 2 and family.startswith(one)) for one in families):
            yield passed(f"{image['ImageId']} names {family} among its instances")
        else:
            yield failed(
                f"{image['ImageId']} is for {words(families)}, not for {family}",
                fix="name an image whose description has the family",
            )
    elif fleet.image_row is None:
        yield cannot_tell(
            f"{image['ImageId']} does not say which instances its drivers serve",
            fix="look at nvidia-smi or neuron-ls on a node of that image",
        )
    for finding in () if fleet.image_row is None else check_image(fleet.type, fleet.image_row):
        if finding.severity is not Severity.INFO or named is None:
            yield warned(f"{finding.cause}, got {finding.got}", fix=finding.fix)


def _owner(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    inquiry.start(CALLER)
    image = image_of(fleet, inquiry)
    owner, alias = image.get("OwnerId"), image.get("ImageOwnerAlias")
    if owner != inquiry.ask(CALLER)["Account"] and alias != "amazon":
        yield warned(
            f"{image['ImageId']} belongs to account {owner}",
            fix="make sure that you know and trust its owner",
        )
    ends = image.get("DeprecationTime")
    if ends and datetime.fromisoformat(str(ends)) <= inquiry.now:
        yield warned(f"{image['ImageId']} is deprecated since {ends}", fix="name a newer image")


#: EKS chooses the image of a node group by its image type.
_on_ec2 = fleets_where(lambda fleet: not fleet.on_eks)
_CHOSEN_BY_EKS = "EKS chooses the images of all fleets"


def _accelerated(fleet: PlannedFleet) -> bool:
    return fleet.type.accelerator is not None and not fleet.on_eks


def _check(rule: Rule, judge: Judge[PlannedFleet], *calls: Call) -> Check[PlannedFleet]:
    return Check(rule=rule, calls=(*IMAGE_CALLS, *calls), subjects=_on_ec2, judge=judge, unless=_CHOSEN_BY_EKS)


IMAGES_CHECKS = (
    Check(
        rule=PARAMETER_THERE,
        calls=(PARAMETER,),
        subjects=fleets_where(lambda fleet: not fleet.on_eks and parameter_of(fleet) is not None),
        judge=_parameter,
        unless="every image is named by its id, or EKS chooses it",
    ),
    _check(IMAGE_THERE, _there),
    _check(IMAGE_STARTS, _starts),
    _check(ROOT_DEVICE, _device),
    _check(ROOT_SIZE, _size),
    Check(
        rule=SERVES_ACCELERATOR,
        calls=IMAGE_CALLS,
        subjects=fleets_where(_accelerated),
        judge=_serves,
        unless="no fleet has accelerators and an image of the file's",
    ),
    _check(KNOWN_OWNER, _owner, CALLER),
)
