"""Which driver a MIG layout needs, and whether an image has it."""

from __future__ import annotations

from collections.abc import Iterable

from cdk_gpu_clusters.catalogue.images import ImageParameter
from cdk_gpu_clusters.catalogue.mig import MigGpu
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.software_version import version_of

DRIVER = define_rule(
    "GPU-MIG-009",
    "the image's driver is at least the first release that makes the layout on the GPU",
    source="NVIDIA MIG User Guide, editions 580 to 620 (2026-10), supported GPUs; AWS Deep Learning AMI release notes",
)


def minimum_driver(gpu: MigGpu, layouts: Iterable[Iterable[str]]) -> str:
    """The first driver release that makes layouts on a GPU.

    Args:
        gpu: The GPU.
        layouts: Names of the profiles of each layout.

    Example:
        >>> from cdk_gpu_clusters.catalogue.mig import mig_gpus
        >>> minimum_driver(mig_gpus()["A100-40GB"], [["4g.20gb", "3g.20gb"]])
        '510'
    """
    wishes = [set(layout) for layout in layouts]
    needs = [one.minimum_driver for one in gpu.combinations if any(one.profiles <= wish for wish in wishes)]
    return max([gpu.minimum_driver, *needs], key=version_of)


def check_mig_driver(model: str, needed: str, image: ImageParameter | None) -> list[Finding]:
    """Find an image whose driver is too old for a layout, or is not known.

    A release note is a day's state, and images move on: an older driver is pointed out. The node itself refuses it.

    Args:
        model: The GPU, for people.
        needed: The first driver release that makes the layout.
        image: The image's row of the catalogue, None for an image of the user's own.
    """
    driver = None if image is None else image.versions.get("nvidia_driver")
    if driver is not None and version_of(driver) >= version_of(needed):
        return []
    if image is None:
        cause = "it is not known which driver your own image has; nodes check it at boot"
        got, fix = "an image of your own", "look at nvidia-smi on a node of that image"
    elif driver is None:
        cause = "no release note with the driver of this image was read; nodes check it at boot"
        got, fix = (
            image.parameter,
            "try one node first, or use an image whose driver is known, such as al2023",
        )
    else:
        cause = f"the image's release note of {image.as_of} names a driver that is too old for this layout"
        got, fix = (
            driver,
            "choose another operating system, or check the image that the parameter gives today",
        )
    return [
        DRIVER.finding(
            cause=cause,
            got=got,
            allowed=f"driver {needed} or newer on {model}",
            fix=fix,
            path="mig",
            severity=Severity.INFO if driver is None else Severity.WARNING,
        )
    ]
