"""What departs from the layout of interfaces that AWS PCS documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity, define_rule

if TYPE_CHECKING:
    from cdk_gpu_clusters.rules.interfaces import NetworkInterface

#: Where AWS documents its form.
PCS_PAGE = (
    'AWS PCS guide, "Multiple network interfaces"; awslabs/awsome-distributed-ai @ 95b939c, PCS templates'
)

PCS_EFA_ONLY = define_rule(
    "GPU-EFA-022", "efa-only under AWS PCS is not documented and not verified", source=PCS_PAGE
)
PCS_SHARED_CARD = define_rule(
    "GPU-EFA-023", "AWS PCS documents one interface per network card", source=PCS_PAGE
)
PCS_DEVICE_INDEX = define_rule(
    "GPU-EFA-024", "AWS PCS documents device index 1 on every interface but the primary", source=PCS_PAGE
)


def check_pcs_interfaces(kind: InstanceType, interfaces: Sequence[NetworkInterface]) -> list[Finding]:
    """Find what departs from the form that the PCS guide documents; warnings, since no page forbids it.

    Args:
        kind: The instance type.
        interfaces: Its interfaces.
    """
    fix = "use policy efa-per-card, or try one node and count its EFA devices"
    cards = [i.network_card_index for i in interfaces]
    efa_only = [i for i in interfaces if i.interface_type == "efa-only"]
    shared = sorted({card for card in cards if cards.count(card) > 1})
    at_0 = [i.network_card_index for i in interfaces if i.device_index == 0 and not i.is_primary]
    departures = (
        (
            PCS_EFA_ONLY,
            "AWS samples say that PCS does not carry efa-only over; no page confirms that it does",
            f"{len(efa_only)} efa-only interfaces" if efa_only else "",
            "efa, interface",
        ),
        (
            PCS_SHARED_CARD,
            "the PCS guide gives every interface its own network card",
            f"two interfaces on card {', '.join(map(str, shared))}" if shared else "",
            "one interface per card",
        ),
        (
            PCS_DEVICE_INDEX,
            "the PCS guide gives device index 0 to the primary interface alone",
            f"device index 0 on card {', '.join(map(str, at_0))}" if at_0 else "",
            "device index 1 beyond card 0",
        ),
    )
    return [
        rule.finding(
            cause=f"{kind.name}: {cause}", got=got, allowed=allowed, fix=fix, severity=Severity.WARNING
        )
        for rule, cause, got, allowed in departures
        if got
    ]
