"""The machine image of a fleet, as the account has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdk_gpu_clusters.catalogue.images import OperatingSystem
from cdk_gpu_clusters_stacks.spec import ImageById, ImageByParameter
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from .answer import Absent, NoAnswer
from .call import IMAGES, PARAMETER
from .check import Inquiry

#: The calls of every check that looks at a machine image.
IMAGE_CALLS = (PARAMETER, IMAGES)


def parameter_of(fleet: PlannedFleet) -> str | None:
    """The SSM parameter that names the image; None for an id."""
    image = fleet.spec.image
    if isinstance(image, ImageByParameter):
        return image.parameter
    return None if fleet.image_row is None else fleet.image_row.parameter


def operating_system_of(fleet: PlannedFleet) -> OperatingSystem:
    """The system of the image, from the file or the catalogue's row."""
    image = fleet.spec.image
    if isinstance(image, ImageById | ImageByParameter):
        return OperatingSystem(image.os)
    return OperatingSystem.AL2023 if fleet.image_row is None else fleet.image_row.operating_system


def image_id_of(fleet: PlannedFleet, inquiry: Inquiry) -> str:
    """Id of the image that a deployment would take now.

    Raises:
        NoAnswer: If the parameter does not say.
    """
    image = fleet.spec.image
    if isinstance(image, ImageById):
        return image.id
    name = parameter_of(fleet)
    if name is None:
        raise NoAnswer(f"no image serves {fleet.type.name}", fix="name one by its id")
    try:
        return str(inquiry.ask(PARAMETER, Name=name)["Parameter"]["Value"])
    except Absent as absent:
        raise NoAnswer(f"{name} does not exist", fix="see GPU-PRE-101") from absent


def image_of(fleet: PlannedFleet, inquiry: Inquiry) -> Mapping[str, Any]:
    """The image that a deployment would take now.

    Raises:
        NoAnswer: If there is none.
    """
    image_id = image_id_of(fleet, inquiry)
    try:
        found = inquiry.ask(IMAGES, ImageIds=[image_id])["Images"]
    except Absent:
        found = []
    if not found:
        raise NoAnswer(f"{image_id} is not there", fix="see GPU-PRE-102")
    return dict(found[0])
