"""On-Demand Capacity Reservations that are to be made here."""

from __future__ import annotations

from datetime import datetime

from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.placement import PlacementStrategy

_ODCR = 'AWS EC2 user guide, "On-Demand Capacity Reservations" (stored copy of 2026)'

RESERVATION_COUNT = define_rule("GPU-CAP-017", "a reservation holds 1 to 1000 instances", source=_ODCR)
RESERVATION_END = define_rule(
    "GPU-CAP-018",
    "a reservation has an end date, or unlimited is said aloud",
    source="design: a forgotten reservation bills for ever",
)
RESERVATION_PLACEMENT = define_rule(
    "GPU-CAP-019", "only a cluster placement group can hold a reservation", source=_ODCR
)

MAX_RESERVED_INSTANCES = 1000


def check_new_reservation(
    *,
    instance_count: int,
    ends_at: datetime | None,
    unlimited: bool,
    placement: PlacementStrategy | None = None,
) -> list[Finding]:
    """Find what is wrong with an On-Demand Capacity Reservation that is to be made here.

    Args:
        instance_count: Instances to reserve, 1 to 1000.
        ends_at: When EC2 cancels it (within the hour after), None with `unlimited`.
        unlimited: Said aloud: it bills until it is cancelled.
        placement: Strategy of the placement group that it is made in, if any.
    """
    findings = []
    if not 1 <= instance_count <= MAX_RESERVED_INSTANCES:
        findings.append(
            RESERVATION_COUNT.finding(
                cause="a reservation cannot hold that many instances",
                got=str(instance_count),
                allowed=f"1 to {MAX_RESERVED_INSTANCES}",
                fix="split it into several reservations",
            )
        )
    if unlimited == (ends_at is not None):
        findings.append(
            RESERVATION_END.finding(
                cause="a reservation bills whether used or not, so it needs an end date or the word unlimited",
                got="both" if unlimited else "neither",
                allowed="end_date, or unlimited: true",
                fix="give exactly one of the two",
            )
        )
    if placement is not None and placement is not PlacementStrategy.CLUSTER:
        findings.append(
            RESERVATION_PLACEMENT.finding(
                cause="a reservation can be made only in a cluster placement group",
                got=placement.value,
                allowed=PlacementStrategy.CLUSTER.value,
                fix="use a cluster placement group, or none",
            )
        )
    return findings
