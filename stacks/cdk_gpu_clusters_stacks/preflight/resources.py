"""What an account has of the reservations and machine images that fleets name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cdk_gpu_clusters.catalogue.images import OperatingSystem
from cdk_gpu_clusters_stacks.spec import (
    CapacityBlock,
    ImageById,
    ImageByParameter,
    NodesSpec,
    Reservation,
    ReservationGroup,
    UltraServerBlock,
)
from cdk_gpu_clusters_stacks.spec.views import PlannedFleet

from .call import GROUP_MEMBERS, IMAGES, PARAMETER, RESERVATIONS, Absent, Call, NoAnswer
from .check import Inquiry
from .cluster import Cluster, kind_of

#: The calls of every check that looks at reservations.
RESERVATION_CALLS = (RESERVATIONS, GROUP_MEMBERS)

Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A fleet, and what it launches into.

    Attributes:
        fleet: The fleet.
        target: Id of a reservation, or ARN of a resource group.
        is_block: Whether it is bought as a block.
    """

    fleet: PlannedFleet
    target: str
    is_block: bool

    @property
    def is_group(self) -> bool:
        """Whether the target is a resource group."""
        return self.target.startswith("arn:")


def reserved(cluster: Cluster, wanted: Callable[[Reserved], bool] = lambda _: True) -> Mapping[str, Reserved]:
    """Fleets that launch into what exists already, by the key of their capacity."""
    found = {}
    for where, fleet in cluster.fleets.items():
        target = target_of(fleet.spec)
        if target is not None:
            one = Reserved(fleet=fleet, target=target, is_block=kind_of(fleet).is_block)
            if wanted(one):
                found[f"{where}.capacity"] = one
    return found


def unneeded(cluster: Cluster) -> tuple[Call, ...]:
    """The members of resource groups, where the file names none."""
    return () if reserved(cluster, lambda one: one.is_group) else (GROUP_MEMBERS,)


def target_of(spec: NodesSpec) -> str | None:
    """What the nodes launch into; None for what is not reserved, or reserved here."""
    match spec.capacity:
        case Reservation(reservation=target) | CapacityBlock(capacity_block=target):
            return target
        case ReservationGroup(reservation_group=target) | UltraServerBlock(ultraserver_block=target):
            return target
    return None


def members_of(target: Reserved, inquiry: Inquiry) -> tuple[str, ...]:
    """Ids of the reservations of a target.

    Raises:
        Absent: If the resource group does not exist.
    """
    if not target.is_group:
        return (target.target,)
    answer = inquiry.ask(GROUP_MEMBERS, Group=target.target)
    listed = [item.get("Identifier", {}) for item in answer.get("Resources", ())]
    listed += answer.get("ResourceIdentifiers", ())
    arns = [str(one.get("ResourceArn", "")) for one in listed]
    return tuple(dict.fromkeys(arn.rpartition("/")[2] for arn in arns if ":capacity-reservation/" in arn))


def found_of(target: Reserved, inquiry: Inquiry) -> list[Found]:
    """The reservations of a target, as the account sees them, shared ones too.

    Raises:
        NoAnswer: If there is none.
    """
    inquiry.start(RESERVATIONS)
    try:
        wanted = members_of(target, inquiry)
    except Absent as absent:
        raise NoAnswer(f"{target.target} does not exist", fix="see GPU-PRE-051") from absent
    seen = [one for one in every_reservation(inquiry) if one["CapacityReservationId"] in wanted]
    if not seen:
        raise NoAnswer(f"the account sees no reservation of {target.target}", fix="see GPU-PRE-051")
    return seen


def every_reservation(inquiry: Inquiry) -> list[Found]:
    """Every reservation that the account sees in the Region; one answer serves all checks."""
    return list(inquiry.ask(RESERVATIONS)["CapacityReservations"])


def utc(moment: datetime) -> str:
    """A time for a sentence."""
    return f"{moment:%Y-%m-%dT%H:%MZ}"


# The machine image of a fleet, as the account has it.

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
