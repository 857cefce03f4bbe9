"""Which combinations the published rules refuse, read apart from the library's rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from matrix.hardware import CARDS_FOR_IP_BANDWIDTH, ULTRASERVERS, Hardware
from matrix.scenario import Asked


def reasons_to_refuse(asked: Asked) -> list[str]:
    """Why the type cannot be had like this, or has no published layout; empty if nothing speaks against it."""
    hardware, kind = asked.hardware, asked.purchase.kind
    reasons = []
    if (hardware.name in ULTRASERVERS) is not (kind == "ultraserver-block"):
        reasons.append("UltraServers come as UltraServer blocks, and nothing else does")
    if kind == "capacity-block" and "capacity-block" not in hardware.usage_classes:
        reasons.append("the type is not sold as Capacity Blocks")
    if kind == "spot" and "spot" not in hardware.usage_classes:
        reasons.append("the type is not offered as spot")
    strategies = hardware.placement_strategies
    if asked.purchase.is_in_group and strategies is not None and "cluster" not in strategies:
        reasons.append("no cluster placement group takes the type, and so none that holds a reservation")
    if asked.efa and not hardware.most_efa:
        reasons.append("the type has no EFA")
    several = len(hardware.cards) > 1
    has_cards = asked.wants_efa and hardware.name in CARDS_FOR_IP_BANDWIDTH
    if asked.layout == "maximum-ena-bandwidth" and several and not has_cards:
        reasons.append("no page says which cards raise IP bandwidth")
    if asked.is_node_group and kind == "ultraserver-block" and asked.purchase.block_id is None:
        reasons.append("EKS takes the id of a Capacity Block, and this UltraServer block is only a resource group")
    if asked.is_node_group and asked.purchase.max_price is not None:
        reasons.append("EKS takes no price limit for spot nodes")
    if asked.is_compute_node_group and asked.purchase.max_price is not None:
        reasons.append("AWS PCS takes no price limit for spot nodes")
    return [*reasons, *_reasons_of_batch(asked)]


def _reasons_of_batch(asked: Asked) -> list[str]:
    """Why no container of a multi-node job would start on such a node."""
    if asked.orchestrator != "batch" or _on_first_card(asked) < asked.hardware.cards[0].holds:
        return []
    return ["no place on card 0 for the interface of a container of AWS Batch"]


def _on_first_card(asked: Asked) -> int:
    """Interfaces on card 0: beside the primary one, `efa-only` where the card takes it and the layout has it."""
    card = asked.hardware.cards[0]
    has_both = asked.wants_efa and asked.layout != "efa-per-card" and "efa-only" in card.takes
    return 2 if has_both and card.holds > 1 else 1


def images_that_list(hardware: Hardware, system: str | None) -> Sequence[str]:
    """Parameters of EC2 images whose documentation lists the type's family; for a plain CPU type, those of its kind.

    Images with a framework are for those who ask for one.
    """
    return [
        row["parameter"]
        for row in _image_rows()
        if row["purpose"] == "ec2"
        and row.get("variant") != "pytorch"
        and row.get("accelerator") == hardware.accelerator
        and row["architecture"] == hardware.architecture
        and system in (None, row["operating_system"])
        and (hardware.accelerator is None or hardware.family in row.get("families", ()))
    ]


@cache
def _image_rows() -> Sequence[dict[str, Any]]:
    file = files("cdk_gpu_clusters") / "catalogue" / "data" / "images.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["parameters"]
    return rows
