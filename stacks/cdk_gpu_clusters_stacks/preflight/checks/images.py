"""Machine images: that they are there, and start on the fleet's type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cdk_gpu_clusters.catalogue.images import root_device_name
from cdk_gpu_clusters.errors import Rule, Severity, define_rule
from cdk_gpu_clusters.rules.images import check_image
from cdk_gpu_clusters.rules.root_volume import DEFAULT_SIZE_GIB
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from ..answer import Absent
from ..call import CALLER, IMAGES, PARAMETER, Call
from ..check import Check, Inquiry, Judge, Verdict, cannot_tell, failed, passed, warned
from ..cluster import fleets_where, words
from ..machine_image import IMAGE_CALLS, image_id_of, image_of, operating_system_of, parameter_of

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
    return Check(
        rule=rule, calls=(*IMAGE_CALLS, *calls), subjects=_on_ec2, judge=judge, unless=_CHOSEN_BY_EKS
    )


CHECKS = (
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
