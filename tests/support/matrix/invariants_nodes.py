"""Invariants of what a node boots from, and of what it is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email import message_from_string
from typing import Any

from matrix.invariant import invariant
from matrix.invariants_groups import hook_of
from matrix.nodes import Nodes

_EBS = 'Amazon EBS user guide, "General Purpose SSD volumes"; botocore, EC2 EbsBlockDevice'
_USER_DATA = 'AWS EC2 user guide, "Run commands when you launch an EC2 instance with user data input"'

#: AWS EC2 user guide, "Device names for volumes" (Amazon Linux); Ubuntu on AWS documentation.
_ROOT_DEVICES = {"al2023": "/dev/xvda", "ubuntu-24.04": "/dev/sda1", "ubuntu-22.04": "/dev/sda1"}

#: How the publishers spell operating systems in the names of their parameters.
_SPELLINGS = {
    "al2023": ("amazon-linux-2023", "/al2023-ami-"),
    "ubuntu-24.04": ("ubuntu-24.04", "ubuntu/server/24.04", "-ubuntu2404/"),
    "ubuntu-22.04": ("ubuntu-22.04", "ubuntu/server/22.04"),
}
#: Content types that cloud-init handles (cloud-init documentation, "User data formats").
_CONTENT_TYPES = re.compile(
    r"text/(cloud-boothook|cloud-config|jinja2|x-include-(once-)?url|x-shellscript(-per-(boot|instance|once))?)"
)
#: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/doc/usage: what its own service reads of user data, and cloud-init passes by.
_NODE_CONFIG = "application/node.eks.aws"
#: NVIDIA MIG user guide, "Partitioning": compute slices of a GPU; RTX PRO 6000 has four.
_COMPUTE_SLICES = {"g7e": 4}


def _parameter(nodes: Nodes) -> str | None:
    """Name of the SSM parameter that the image comes from."""
    image = nodes.data.get("ImageId")
    if not isinstance(image, dict):
        return None
    parameter = nodes.cloud.templates[nodes.stack]["Parameters"][image["Ref"]]
    assert parameter["Type"] == "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", parameter
    return str(parameter["Default"])


def _system(nodes: Nodes) -> str | None:
    """Operating system of the image: the user's word, or what its parameter's name says."""
    name = _parameter(nodes)
    if nodes.asked.system is not None or name is None:
        return nodes.asked.system
    return next((system for system, words in _SPELLINGS.items() if any(word in name for word in words)), None)


@invariant(
    "image-for-hardware",
    "AWS Deep Learning AMI, Neuron and Amazon Linux pages: names of the public parameters",
)
def image_for_hardware(nodes: Nodes) -> Iterator[str]:
    """The image has the type's architecture, its drivers and the operating system that was asked for."""
    asked, hardware = nodes.asked, nodes.hardware
    if asked.image_id is not None or asked.orchestrator not in ("ec2", "pcs", "batch"):
        if nodes.data.get("ImageId") != asked.image_id:
            yield f"image {nodes.data.get('ImageId')}, not {asked.image_id}"
        return
    name = _parameter(nodes)
    if name is None:
        yield f"image {nodes.data.get('ImageId')}"
        return
    if asked.image_parameter is not None:
        if name != asked.image_parameter:
            yield f"{name}, not {asked.image_parameter}"
        return
    if ("arm64" in name) is not (hardware.architecture == "arm64"):
        yield f"{name} for {hardware.architecture}"
    if hardware.accelerator not in _served(name):
        yield f"{name} for {hardware.accelerator or 'no accelerator'}"
    if any((f"/service/{purpose}/" in name) is not (asked.orchestrator == who) for who, purpose in _PURPOSES.items()):
        yield f"{name} for {asked.orchestrator}"
    if asked.system is not None and not any(word in name for word in _SPELLINGS[asked.system]):
        yield f"{name} for {asked.system}"


#: Orchestrators that take images of one service alone, which has the program that joins them.
_PURPOSES = {"pcs": "pcs", "batch": "ecs"}


def _served(name: str) -> tuple[str | None, ...]:
    """The accelerators whose nodes boot an image, by the name of its parameter."""
    if "/service/pcs/ami/dlami-" in name:
        return (None, "gpu")  # AWS PCS user guide, "Using PCS-ready DLAMI with AWS PCS": one image for every node
    if "/service/ecs/" in name:
        return ("gpu" if "/gpu/" in name else "neuron" if "/neuron/" in name else None,)
    return ("gpu" if "/deeplearning/" in name else "neuron" if "/neuron/" in name else None,)


@invariant("root-device-name", 'AWS EC2 user guide, "Device names for volumes"; a wrong one gives an empty volume')
def root_device_name(nodes: Nodes) -> Iterator[str]:
    """The root volume has the device name of the image's root device."""
    system = _system(nodes)
    names = [mapping["DeviceName"] for mapping in nodes.data.get("BlockDeviceMappings", ())]
    if system is not None and names != [_ROOT_DEVICES[system]]:
        yield f"{', '.join(names) or 'no device'} for {system}"


@invariant("encrypted-volumes", f"AWS Foundational Security Best Practices, EC2.7; {_EBS}")
def encrypted_volumes(nodes: Nodes) -> Iterator[str]:
    """Every volume is an encrypted one that goes with its instance."""
    mappings = nodes.data.get("BlockDeviceMappings", ())
    if not mappings:
        yield "the image's own volume, as it comes"
    for mapping in mappings:
        ebs = mapping.get("Ebs", {})
        if ebs.get("Encrypted") is not True:
            yield f"{mapping['DeviceName']} is not encrypted"
        if ebs.get("DeleteOnTermination") is not True:
            yield f"{mapping['DeviceName']} stays, and is paid for"


@invariant("volume-limits", _EBS)
def volume_limits(nodes: Nodes) -> Iterator[str]:
    """A gp3 volume keeps the limits of size, operations and throughput, also against each other."""
    for mapping in nodes.data.get("BlockDeviceMappings", ()):
        ebs = mapping.get("Ebs", {})
        size, iops, throughput = (ebs.get(name, 0) for name in ("VolumeSize", "Iops", "Throughput"))
        if ebs.get("VolumeType") != "gp3":
            yield f"volume type {ebs.get('VolumeType')}"
        if not (1 <= size <= 65_536 and 3000 <= iops <= min(80_000, max(3000, 500 * size))):
            yield f"{iops} IOPS of {size} GiB"
        if not 125 <= throughput <= min(2000, iops / 4):
            yield f"{throughput} MiB/s at {iops} IOPS"


@invariant(
    "tags-everywhere",
    "AWS EC2 API, TagSpecifications: instances, volumes and interfaces have tags of their own",
)
def tags_everywhere(nodes: Nodes) -> Iterator[str]:
    """What a launch makes carries the tags, and so does the reservation, which is what is billed."""
    specifications = nodes.data.get("TagSpecifications", ())
    for kind in ("instance", "volume", "network-interface"):
        yield from _missing(nodes, specifications, kind)
    if isinstance(nodes.reservation, Mapping):
        yield from _missing(nodes, _of_reservation(nodes.reservation), "capacity-reservation")


def _of_reservation(made: Mapping[str, Any]) -> object:
    """Its tags as CloudFormation's own resource has them; the one that a function makes has a mapping."""
    if "Tags" not in made:
        return made.get("TagSpecifications", ())
    tags = [{"Key": key, "Value": value} for key, value in made["Tags"].items()]
    return [{"ResourceType": "capacity-reservation", "Tags": tags}]


def _missing(nodes: Nodes, specifications: object, kind: str) -> Iterator[str]:
    assert isinstance(specifications, (list, tuple))
    of_kind = [each for each in specifications if each["ResourceType"] == kind]
    tags = {tag["Key"]: tag["Value"] for each in of_kind for tag in each["Tags"]}
    lacking = sorted(key for key, value in nodes.asked.tags.items() if tags.get(key) != value)
    if lacking:
        yield f"{kind} without {', '.join(lacking)}"


@invariant("user-data-size", f"{_USER_DATA}: 16 KB before base64")
def user_data_size(nodes: Nodes) -> Iterator[str]:
    """User data fits, however long the names are that only the deployment knows."""
    size = len(nodes.user_data.encode())
    if size > 16_384:
        yield f"{size} bytes of user data"


@invariant(
    "user-data-parts",
    'cloud-init documentation, "User data formats"; Amazon EKS and AWS PCS: MIME multi-part',
)
def user_data_parts(nodes: Nodes) -> Iterator[str]:
    """User data is one MIME document of ASCII parts that cloud-init handles."""
    if not nodes.user_data:
        if nodes.launcher is not None:
            yield "no user data"
        return
    if not nodes.user_data.isascii():
        yield "a character beyond ASCII"
    message = message_from_string(nodes.user_data)
    if not message.is_multipart() or message.defects:
        yield f"no MIME multi-part document: {message.defects}"
        return
    kinds = [part.get_content_type() for part in message.walk() if not part.is_multipart()]
    if nodes.asked.orchestrator.startswith("eks-"):
        kinds = [kind for kind in kinds if kind != _NODE_CONFIG]
    yield from (f"a part of type {kind}" for kind in kinds if not _CONTENT_TYPES.fullmatch(kind))


@invariant("node-counts-its-hardware", "EC2 DescribeInstanceTypes; awsome-distributed-ai, instance-profiles.conf")
def node_counts_its_hardware(nodes: Nodes) -> Iterator[str]:
    """A node is ready when it has as many accelerators, EFA devices and disks as its type and its template give."""
    if nodes.launcher is None:
        return
    wanted = {
        "GPU_ACCELERATOR": nodes.hardware.accelerator or "",
        "GPU_ACCELERATOR_COUNT": str(nodes.hardware.accelerator_count),
        "GPU_EFA_COUNT": str(sum(each.is_efa for each in nodes.interfaces)),
    }
    if "GPU_SCRATCH" in nodes.settings:
        wanted["GPU_SCRATCH_DISKS"] = str(nodes.hardware.disk_count)
    for name, value in wanted.items():
        if nodes.settings.get(name) != value:
            yield f"{name} is {nodes.settings.get(name)}, not {value}"


@invariant("node-answers-its-hooks", "EC2 Auto Scaling, lifecycle hooks; EC2, Spot interruption notices: two minutes")
def node_answers_its_hooks(nodes: Nodes) -> Iterator[str]:
    """A node knows the hooks of its group, and gives up before they do."""
    if nodes.group is None:
        return
    told = (("LAUNCHING", "GPU_LAUNCH_HOOK", "GPU_BOOT_DEADLINE"),
            ("TERMINATING", "GPU_TERMINATE_HOOK", "GPU_DRAIN_DEADLINE"))  # fmt: skip
    for transition, name, deadline in told:
        hook = hook_of(nodes, transition)
        if hook is None:
            continue
        if nodes.settings.get(name) != hook["LifecycleHookName"]:
            yield f"{name} is {nodes.settings.get(name)}, the hook is {hook['LifecycleHookName']}"
        seconds = int(nodes.settings.get(deadline, "0"))
        if not 0 < seconds < hook["HeartbeatTimeout"]:
            yield f"{deadline} is {seconds}, the hook waits {hook['HeartbeatTimeout']} seconds"
    if nodes.asked.purchase.kind == "spot" and int(nodes.settings.get("GPU_DRAIN_DEADLINE", "0")) >= 120:
        yield "a spot node has two minutes to drain"


@invariant("node-is-told", "what the user asks for reaches the node")
def node_is_told(nodes: Nodes) -> Iterator[str]:
    """Mount points and variables of the user stand in the user data."""
    if nodes.launcher is None:
        return
    for mount in nodes.asked.mounts:
        if not re.search(rf"^ *{re.escape(mount)} \S+ \S+ ", nodes.user_data, re.MULTILINE):
            yield f"no mount at {mount}"
    for name, value in nodes.asked.environment.items():
        if nodes.settings.get(name) != value:
            yield f"{name} is {nodes.settings.get(name)!r}, not {value!r}"


@invariant("mig-without-efa", "NVIDIA Fabric Manager user guide, interoperability with MIG: no NVLink between slices")
def mig_without_efa(nodes: Nodes) -> Iterator[str]:
    """Split GPUs have no NVLink and no GPUDirect: such nodes have no EFA."""
    if _partition(nodes) is not None and nodes.has_efa():
        yield f"{_partition(nodes)} with {sum(each.is_efa for each in nodes.interfaces)} EFA interfaces"


@invariant("mig-fits", 'NVIDIA MIG user guide, "Partitioning": seven compute slices, four on RTX PRO 6000')
def mig_fits(nodes: Nodes) -> Iterator[str]:
    """The layout of each GPU is the one asked for, and no GPU has more slices than there are."""
    partition, asked = _partition(nodes), nodes.asked.partition
    if nodes.launcher is None or (partition is None and asked is None):
        return
    count = nodes.hardware.accelerator_count
    for number, (got, wanted) in enumerate(zip(_layouts(partition, count), _layouts(asked, count), strict=True)):
        # On GPUs whose profile names are disputed the node is told ids.
        if len(got) != len(wanted) or (not got[0].isdigit() and got != wanted):
            yield f"GPU {number}: {got}, asked for {wanted}"
        slices = sum(int(size) for profile in wanted for size in re.findall(r"^(\d+)g\.", profile))
        if slices > _COMPUTE_SLICES.get(nodes.hardware.family, 7):
            yield f"GPU {number}: {slices} compute slices in {wanted}"
    told = sum(profile != "off" for layout in _layouts(asked, count) for profile in layout)
    if nodes.settings.get("GPU_MIG_COUNT") != str(told):
        yield f"GPU_MIG_COUNT is {nodes.settings.get('GPU_MIG_COUNT')}, not {told}"


def _partition(nodes: Nodes) -> str | None:
    found = re.search(r'MIG_PARTITION=\\*"([^"\\]*)', nodes.user_data)
    return found[1] if found else None


def _layouts(partition: str | None, count: int) -> list[list[str]]:
    """The profiles of each GPU, in any order; one layout is for all of them."""
    layouts = [sorted(layout.split(",")) for layout in (partition or "").split(";")]
    return layouts * count if len(layouts) == 1 else layouts
