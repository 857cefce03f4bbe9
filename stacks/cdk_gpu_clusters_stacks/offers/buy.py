"""Buy a Capacity Block: found again first, so that its price is known; paid up front, and never given back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .clients import Ec2Clients
from .model import BlockOffer


def buy_block(offer: BlockOffer, clients: Ec2Clients, *, cluster: str | None = None) -> dict[str, Any]:
    """Buy a block; EC2 charges its full price at once.

    Args:
        offer: The block, as a search has just found it.
        clients: Makes the EC2 client of a Region.
        cluster: Name of a cluster, for a tag.

    Returns:
        The reservation, as EC2 describes it.
    """
    asked: dict[str, Any] = {"CapacityBlockOfferingId": offer.id, "InstancePlatform": "Linux/UNIX"}
    if cluster is not None:
        tag = {"Key": "Name", "Value": cluster}
        asked["TagSpecifications"] = [{"ResourceType": "capacity-reservation", "Tags": [tag]}]
    reservation: dict[str, Any] = clients(offer.region).purchase_capacity_block(**asked)[
        "CapacityReservation"
    ]
    return reservation


def cluster_file_lines(offer: BlockOffer, reservation_id: str) -> str:
    """The lines of a cluster file for a block that was bought.

    Args:
        offer: The block.
        reservation_id: Id of its reservation.
    """
    return "\n".join(
        [
            f"network: {{ availability_zone: {offer.zone} }}",
            "training:",
            "  fleets:",
            "    workers:",
            f"      instance_type: {offer.instance_type}",
            f"      nodes: {offer.count}",
            "      capacity:",
            f"        capacity_block: {reservation_id}",
            f"        starts_at: {_minute(offer.starts_at)}",
            f"        ends_at: {_minute(offer.ends_at)}",
            "",
        ]
    )


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ}"
