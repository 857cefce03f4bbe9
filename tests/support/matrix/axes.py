"""The axes of the product. A new orchestrator, purchase or image is one more row here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from cdk_gpu_clusters.rules.interfaces import InterfacePolicy, Orchestrator
from matrix.scenario import Purchase

RESERVATION = "cr-0123456789abcdef0"
RESERVATION_GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/reserved"
PLACEMENT_GROUP = "made-with-the-reservation"
STARTS_AT = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
ENDS_AT = datetime(2026, 12, 15, 11, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Image:
    """An image as a user asks for it: an operating system, an own image, or neither."""

    name: str
    system: str | None = None
    image_id: str | None = None


NO_WISH = Image("default")
OWN_IMAGES = (
    Image("own al2023", "al2023", "ami-0123456789abcdef0"),
    Image("own ubuntu-24.04", "ubuntu-24.04", "ami-0123456789abcdef1"),
)
AWS_IMAGES = tuple(Image(system, system) for system in ("al2023", "ubuntu-24.04", "ubuntu-22.04"))


class Makes(Enum):
    """What is made of a combination: the whole group by one of our constructs, or the launch template alone."""

    FLEET = "fleets"
    NODE_GROUP = "node groups"
    COMPUTE_NODE_GROUP = "compute node groups"
    TEMPLATE = "launch templates"


@dataclass(frozen=True, slots=True)
class Profile:
    """Who launches the nodes, and what a user can ask of it.

    Attributes:
        name: As a reader knows it.
        orchestrator: As the rules have it.
        makes: What is made of its combinations.
        images: Images that can be asked for.
    """

    name: str
    orchestrator: Orchestrator
    makes: Makes
    images: tuple[Image, ...]


PROFILES = (
    Profile("ec2", Orchestrator.EC2, makes=Makes.FLEET, images=(NO_WISH, *AWS_IMAGES, *OWN_IMAGES)),
    # EKS chooses the image of a node group of ours; one's own image is for those who make the group themselves.
    Profile("eks node group", Orchestrator.EKS_MANAGED, makes=Makes.NODE_GROUP, images=(NO_WISH,)),
    Profile("eks-managed", Orchestrator.EKS_MANAGED, makes=Makes.TEMPLATE, images=(NO_WISH, *OWN_IMAGES)),
    Profile("eks-self-managed", Orchestrator.EKS_SELF_MANAGED, makes=Makes.TEMPLATE, images=OWN_IMAGES),
    # A construct makes the resource group by which AWS PCS takes a reservation; images are those of its templates.
    Profile("pcs node group", Orchestrator.PCS, makes=Makes.COMPUTE_NODE_GROUP, images=(NO_WISH,)),
    Profile("pcs", Orchestrator.PCS, makes=Makes.TEMPLATE, images=(NO_WISH, *OWN_IMAGES)),
    Profile("batch", Orchestrator.BATCH, makes=Makes.TEMPLATE, images=(NO_WISH, *OWN_IMAGES)),
)

#: Name -> purchase. The names are what a user would say; `Purchase` is what the invariants read.
PURCHASES = {
    "on-demand": Purchase(),
    "on-demand, open reservations": Purchase(uses_open=True),
    "spot": Purchase(kind="spot"),
    "spot, price limit": Purchase(kind="spot", max_price=40.5),
    "reservation made here": Purchase(kind="odcr", is_made_here=True),
    "reservation made here in its group": Purchase(kind="odcr", is_made_here=True, is_in_group=True),
    "reservation": Purchase(kind="odcr", target=RESERVATION),
    "reservation in its group": Purchase(
        kind="odcr", target=RESERVATION, placement_group=PLACEMENT_GROUP, is_in_group=True
    ),
    "reservation group": Purchase(kind="odcr", target=RESERVATION_GROUP),
    "capacity block": Purchase(
        kind="capacity-block", target=RESERVATION, block_id=RESERVATION, starts_at=STARTS_AT, ends_at=ENDS_AT
    ),
    "running capacity block": Purchase(
        kind="capacity-block", target=RESERVATION, block_id=RESERVATION, ends_at=ENDS_AT
    ),
    "ultraserver block": Purchase(
        kind="ultraserver-block",
        target=RESERVATION_GROUP,
        block_id=RESERVATION,
        starts_at=STARTS_AT,
        ends_at=ENDS_AT,
    ),
    "running ultraserver block, by the clock": Purchase(
        kind="ultraserver-block", target=RESERVATION_GROUP, ends_at=ENDS_AT
    ),
}

POLICIES: tuple[InterfacePolicy | None, ...] = (None, *InterfacePolicy)
EFA_WISHES = (None, True, False)
