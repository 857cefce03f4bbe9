"""Instance types and machine images: available in the zones, and compatible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.images import OperatingSystem, root_device_name
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.fleet.profile import ImageChoice
from cdk_gpu_clusters.rules.images import check_image
from cdk_gpu_clusters_stacks.spec import ImageById, ImageByParameter
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import CALLER, IMAGES, OFFERINGS, PARAMETER, TYPES, NoAnswer
from ..check import Inquiry, Verdict, cannot_tell, define_check, failed, passed, warned
from ..cluster import Cluster, fleets_where, words

_BLOCKS = "EC2 lists only what it sells on demand, and this type may come in blocks alone"


def _types(cluster: Cluster) -> list[str]:
    return sorted({fleet.plan.instance_type.name for fleet in cluster.fleets.values()})


@define_check(
    "GPU-PRE-021",
    "EC2 offers the instance type in the zones of the fleet",
    source="EC2 API reference, DescribeInstanceTypeOfferings",
    calls=(OFFERINGS,),
    subjects=lambda cluster: cluster.fleets,
)
def _offered(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    names = {"Name": "instance-type", "Values": _types(inquiry.cluster)}
    kinds = ("availability-zone", "availability-zone-id")
    for kind in kinds:
        inquiry.start(OFFERINGS, LocationType=kind, Filters=[names])
    offers = [
        one["Location"]
        for kind in kinds
        for one in inquiry.ask(OFFERINGS, LocationType=kind, Filters=[names])["InstanceTypeOfferings"]
        if one["InstanceType"] == fleet.plan.instance_type.name
    ]
    missing = [zone for zone in fleet.zones if zone not in offers]
    name, zones = fleet.plan.instance_type.name, words(fleet.zones)
    if not missing and offers:
        return passed(f"{name} in {zones if fleet.zones else words(offers)}")
    if fleet.profile.joins_hyperpod:
        return warned(f"{name} is not offered in {zones}", fix="look whether SageMaker has it there: see GPU-PRE-191")
    if fleet.plan.terms.kind.is_block:
        return warned(f"{name} is not offered in {zones}", fix=f"check the block's zone: {_BLOCKS}")
    if not offers:
        return failed(f"{name} is offered nowhere in {inquiry.cluster.region}", fix="choose another type or Region")
    return failed(f"{name} is not offered in {words(missing)}", fix=f"choose a zone of {words(sorted(offers))}")


def _described(name: str, inquiry: Inquiry) -> Mapping[str, object]:
    wanted = [{"Name": "instance-type", "Values": _types(inquiry.cluster)}]
    found = inquiry.ask(TYPES, Filters=wanted)["InstanceTypes"]
    for one in found:
        if one["InstanceType"] == name:
            return dict(one)
    raise NoAnswer(f"EC2 does not describe {name} in {inquiry.cluster.region}", fix="see GPU-PRE-021")


@define_check(
    "GPU-PRE-022",
    "the instance type matches the catalogue: processors, accelerators, network cards, EFA",
    source="EC2 API reference, DescribeInstanceTypes; the catalogue's record of the type",
    calls=(TYPES,),
    subjects=lambda cluster: {
        f"{where}.instance_type": fleet.plan.instance_type for where, fleet in cluster.fleets.items()
    },
)
def _as_in_catalogue(record: InstanceType, inquiry: Inquiry) -> Verdict:
    differing = [
        f"{what}: {given} in the catalogue, {found} in EC2"
        for what, given, found in _compared(record, _described(record.name, inquiry))
        if found is not None and given != found
    ]
    if differing:
        return warned(
            f"{record.name} differs: {'; '.join(differing)}",
            fix="update the library; if it is the newest, report it, and check the interfaces of a node",
        )
    return passed(f"{record.name} is as in the catalogue")


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


@define_check(
    "GPU-PRE-023",
    "EC2 sells the instance type the way the fleet buys it",
    source="EC2 API reference, DescribeInstanceTypes, SupportedUsageClasses",
    calls=(TYPES,),
    subjects=fleets_where(lambda fleet: not fleet.profile.joins_hyperpod),
    unless="SageMaker sells the nodes of HyperPod",
)
def _sold_this_way(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    classes = _described(fleet.plan.instance_type.name, inquiry).get("SupportedUsageClasses")
    if not isinstance(classes, list):
        return cannot_tell(f"EC2 does not say how {fleet.plan.instance_type.name} is sold")
    kind = fleet.plan.terms.kind
    needed = "capacity-block" if kind.is_block else "spot" if kind.value == "spot" else "on-demand"
    if needed in classes:
        return passed(f"{fleet.plan.instance_type.name}: {words(classes)}")
    return failed(
        f"{fleet.plan.instance_type.name} is not sold as {needed}, only as {words(classes)}", fix="change capacity"
    )


# Machine images: that they are there, and start on the fleet's type.

_API = "EC2 API reference, DescribeImages"
_CHOSEN_ELSEWHERE = "the orchestrator chooses the images of all fleets"
_IMAGE_ID = re.compile(r"ami-([0-9a-f]{8}|[0-9a-f]{17})")
_SUPPORTED = re.compile(r"Supported EC2 instances:\s*(.+?)(?:\.\s|\.?$)")


def _has_image(fleet: PlannedFleet) -> bool:
    """Whether file or catalogue choose its image."""
    return fleet.plan.request.profile.image is not ImageChoice.ORCHESTRATOR


def _is_looked_at(fleet: PlannedFleet) -> bool:
    """Whether its image is known: from file or catalogue, or a custom one in place of the orchestrator's."""
    return _has_image(fleet) or isinstance(fleet.spec.image, ImageById)


def _parameter_of(fleet: PlannedFleet) -> str | None:
    """The SSM parameter that names the image; None for an id."""
    image = fleet.spec.image
    if isinstance(image, ImageByParameter):
        return image.parameter
    return None if fleet.plan.image is None else fleet.plan.image.parameter


def _image_id_of(fleet: PlannedFleet, inquiry: Inquiry) -> str:
    """Id of the image that a deployment would take now.

    Raises:
        NoAnswer: If the parameter does not say.
    """
    if isinstance(fleet.spec.image, ImageById):
        return fleet.spec.image.id
    name = _parameter_of(fleet)
    if name is None:
        raise NoAnswer(f"no image serves {fleet.plan.instance_type.name}", fix="name one by its id")
    found = inquiry.find(PARAMETER, Name=name)
    if found is None:
        raise NoAnswer(f"{name} does not exist", fix="see GPU-PRE-101")
    return str(found["Parameter"]["Value"])


def _images(image_id: str, inquiry: Inquiry) -> list[Mapping[str, Any]]:
    return list((inquiry.find(IMAGES, ImageIds=[image_id]) or {"Images": ()})["Images"])


def image_of(fleet: PlannedFleet, inquiry: Inquiry) -> Mapping[str, Any]:
    """The image that a deployment would take now.

    Raises:
        NoAnswer: If there is none.
    """
    image_id = _image_id_of(fleet, inquiry)
    found = _images(image_id, inquiry)
    if not found:
        raise NoAnswer(f"{image_id} is not there", fix="see GPU-PRE-102")
    return found[0]


@define_check(
    "GPU-PRE-101",
    "the SSM parameter of the image is there and holds an image id",
    source="Systems Manager API reference, GetParameter",
    calls=(PARAMETER,),
    subjects=fleets_where(lambda fleet: _has_image(fleet) and _parameter_of(fleet) is not None),
    unless="every image is named by its id, or the orchestrator chooses it",
)
def _parameter_there(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    name = _parameter_of(fleet)
    found = inquiry.find(PARAMETER, Name=name)
    if found is None:
        return failed(
            f"{name} does not exist in {inquiry.cluster.region}",
            fix="name an image by its id, or another operating system: not every Region has every parameter",
        )
    value = str(found["Parameter"]["Value"])
    if _IMAGE_ID.fullmatch(value):
        return passed(f"{name} is {value}")
    return failed(f"{name} holds {value!r}, no image id", fix="name a parameter that holds an image id")


@define_check(
    "GPU-PRE-102",
    "the image is there and available",
    source=_API,
    calls=(PARAMETER, IMAGES),
    subjects=fleets_where(_is_looked_at),
    unless=_CHOSEN_ELSEWHERE,
)
def _image_there(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    image_id = _image_id_of(fleet, inquiry)
    found = _images(image_id, inquiry)
    if not found:
        return failed(
            f"there is no {image_id} in {inquiry.cluster.region} for this account",
            fix="name an image of this Region that is shared with the account",
        )
    if found[0].get("State") != "available":
        return failed(f"{image_id} is {found[0].get('State')}", fix="name an available image")
    return passed(f"{image_id}: {found[0].get('Name')}")


@define_check(
    "GPU-PRE-103",
    "image and instance type fit: architecture, virtualization, ENA, boot mode",
    source=f"{_API}; DescribeInstanceTypes",
    calls=(PARAMETER, IMAGES),
    subjects=fleets_where(_is_looked_at),
    unless=_CHOSEN_ELSEWHERE,
)
def _image_starts(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict | None:
    image, kind = image_of(fleet, inquiry), fleet.plan.instance_type
    mode, modes = image.get("BootMode"), kind.boot_modes
    fits = {
        f"architecture {image.get('Architecture')}": image.get("Architecture") == kind.architecture.value,
        f"virtualization {image.get('VirtualizationType')}": image.get("VirtualizationType", "hvm") == "hvm",
        "no ENA support": image.get("EnaSupport", False),
        f"root device {image.get('RootDeviceType')}": image.get("RootDeviceType", "ebs") == "ebs",
        f"boot mode {mode}": mode is None or modes is None or mode == "uefi-preferred" or mode in modes,
    }
    if all(fits.values()):
        return None
    return failed(
        f"{image['ImageId']} on {kind.name}: {words(text for text, fit in fits.items() if not fit)}",
        fix=f"name an image for {kind.architecture.value} that boots from EBS on Nitro",
    )


@define_check(
    "GPU-PRE-104",
    "the image's root device is that of the operating system in the file",
    source=f"{_API}; the launch template names the root device to size and encrypt it",
    calls=(PARAMETER, IMAGES),
    subjects=fleets_where(_has_image),
    unless=_CHOSEN_ELSEWHERE,
)
def _root_device(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict | None:
    image, system = image_of(fleet, inquiry), fleet.plan.operating_system or OperatingSystem.AL2023
    wanted = root_device_name(system)
    if image.get("RootDeviceName") == wanted:
        return None
    return failed(
        f"{image['ImageId']} has root device {image.get('RootDeviceName')}, {system.value} has {wanted}",
        fix="correct os: of the image; otherwise its root volume keeps its own size, unencrypted",
    )


@define_check(
    "GPU-PRE-105",
    "the root volume is not smaller than the image's snapshot",
    source='Amazon EBS user guide, "Create an Amazon EBS volume"',
    calls=(PARAMETER, IMAGES),
    subjects=fleets_where(_has_image),
    unless=_CHOSEN_ELSEWHERE,
)
def _root_size(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    image = image_of(fleet, inquiry)
    given = fleet.root_volume_gib
    disks = {disk.get("DeviceName"): disk.get("Ebs", {}) for disk in image.get("BlockDeviceMappings", ())}
    needed = disks.get(image.get("RootDeviceName"), {}).get("VolumeSize", 0)
    if needed > given:
        return failed(
            f"{image['ImageId']} needs {needed} GiB, the root volume has {given}",
            fix=f"root_volume: {{ size_gib: {needed} }} or more",
        )
    return passed(f"{given} GiB for an image of {needed} GiB")


@define_check(
    "GPU-PRE-106",
    "the image's drivers serve the accelerator, as far as description and catalogue say",
    source="descriptions of AWS Deep Learning AMIs: Supported EC2 instances; the catalogue's release notes",
    calls=(PARAMETER, IMAGES),
    subjects=fleets_where(lambda fleet: fleet.plan.instance_type.accelerator is not None and _has_image(fleet)),
    unless="no fleet has accelerators and an image of the file's",
)
def _serves_accelerator(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    image, family = image_of(fleet, inquiry), fleet.plan.instance_type.family
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
    elif fleet.plan.image is None:
        yield cannot_tell(
            f"{image['ImageId']} does not say which instances its drivers serve",
            fix="look at nvidia-smi or neuron-ls on a node of that image",
        )
    for finding in () if fleet.plan.image is None else check_image(fleet.plan.instance_type, fleet.plan.image):
        if finding.severity is not Severity.INFO or named is None:
            yield warned(f"{finding.cause}, got {finding.got}", fix=finding.fix)


@define_check(
    "GPU-PRE-107",
    "the image belongs to Amazon or to the account, and is not deprecated",
    source=_API,
    calls=(PARAMETER, IMAGES, CALLER),
    subjects=fleets_where(_is_looked_at),
    unless=_CHOSEN_ELSEWHERE,
)
def _known_owner(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
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
