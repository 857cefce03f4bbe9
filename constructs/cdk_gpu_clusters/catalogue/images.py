"""Machine images by public SSM parameter, and the software that a family needs at least.

Each row states how far its parameter name was verified: `documentation` (an AWS page or repository), `recorded`
(recorded API output), `usage` (several public repositories read it), or `public knowledge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from cdk_gpu_clusters.catalogue._files import read_json, record
from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, Architecture


class OperatingSystem(StrEnum):
    """Operating system of an image."""

    AL2023 = "al2023"
    UBUNTU_24_04 = "ubuntu-24.04"
    UBUNTU_22_04 = "ubuntu-22.04"
    BOTTLEROCKET = "bottlerocket"


class Framework(StrEnum):
    """Framework that an image has installed; the variant of the image is named after it."""

    PYTORCH = "pytorch"


class ImagePurpose(StrEnum):
    """Which kind of node an image is for."""

    EC2 = "ec2"
    EKS = "eks"
    ECS = "ecs"
    PCS = "pcs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageParameter:
    """One public SSM parameter that holds an AMI id.

    Attributes:
        parameter: Its name. EKS names hold `{kubernetes_version}` to be filled in.
        purpose: Which kind of node it is for.
        accelerator: Which accelerators its drivers serve; None is a plain CPU image.
        architecture: Processor architecture.
        operating_system: Operating system.
        variant: Such as `base`, `single-cuda`, `standard`, or a framework.
        preferred: Whether it is the first choice of its purpose, accelerator, architecture and system.
        families: Instance families that its documentation lists; None where no list was read or needed.
        versions: Software versions in the release note read, by name; empty where none was read.
        verification: How far the name was verified.
        as_of: Date of the release note or page, or None.
        note: A restriction worth telling, or None.
        sources: Where the row comes from.
    """

    parameter: str
    purpose: ImagePurpose
    accelerator: AcceleratorKind | None
    architecture: Architecture
    operating_system: OperatingSystem
    variant: str
    preferred: bool
    families: tuple[str, ...] | None
    versions: Mapping[str, str]
    verification: str
    as_of: str | None
    note: str | None
    sources: tuple[str, ...]

    @property
    def framework(self) -> Framework | None:
        """The framework that it has installed; None for an image without one."""
        return next((one for one in Framework if one == self.variant), None)

    @property
    def leaf(self) -> str:
        """Last part of the name: `ami-id` or `image_id` by publisher."""
        return self.parameter.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumSoftware:
    """The oldest software that a family works with, in its publishers' version numbers; None is unknown."""

    family: str
    nvidia_driver: str | None
    cuda: str | None
    nccl: str | None
    kernel: str | None
    efa_installer: str | None
    aws_ofi_nccl: str | None
    source: str


def images_for(
    *,
    accelerator: AcceleratorKind | None,
    architecture: Architecture,
    operating_system: OperatingSystem | None = None,
    purpose: ImagePurpose = ImagePurpose.EC2,
) -> tuple[ImageParameter, ...]:
    """Rows of one kind, preferred first.

    Args:
        accelerator: Whose drivers are needed; None is a plain CPU image.
        architecture: Processor architecture.
        operating_system: Any by default.
        purpose: Which kind of node it is for.

    Example:
        >>> images_for(accelerator=None, architecture=Architecture.ARM64)[0].parameter
        '/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64'
    """
    return tuple(
        row
        for row in image_parameters()
        if (row.purpose, row.accelerator, row.architecture) == (purpose, accelerator, architecture)
        and operating_system in (None, row.operating_system)
    )


def root_device_name(operating_system: OperatingSystem) -> str:
    """Device name of the root volume of images with an operating system.

    Source: AWS EC2 user guide, "Device names for volumes" (Amazon Linux); Ubuntu on AWS documentation.

    Example:
        >>> root_device_name(OperatingSystem.AL2023)
        '/dev/xvda'
    """
    ubuntu = operating_system in (OperatingSystem.UBUNTU_24_04, OperatingSystem.UBUNTU_22_04)
    return "/dev/sda1" if ubuntu else "/dev/xvda"


@cache
def minimum_software(family: str) -> MinimumSoftware | None:
    """The oldest software that a family works with, or None where no source was read."""
    row = read_json("images.json")["minimum_software"].get(family)
    return None if row is None else record(MinimumSoftware, row, family=family)


@cache
def image_parameters() -> tuple[ImageParameter, ...]:
    """Every image parameter of the catalogue, preferred rows of each kind first."""
    data = read_json("images.json")
    rows = [
        record(
            ImageParameter,
            row,
            versions=MappingProxyType(row.get("versions", {})),
            sources=tuple(data["sources"][key] for key in row["source"]),
        )
        for row in data["parameters"]
    ]
    return tuple(sorted(rows, key=lambda row: not row.preferred))
