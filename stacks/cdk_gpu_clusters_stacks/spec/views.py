"""The fleets of a sound cluster, with what the catalogue and the rules say about them."""

from __future__ import annotations

from ._fleet_view import FleetView
from ._parts import parts_of
from ._slots import plan_slots
from .model import ClusterSpec

__all__ = ["FleetView", "fleet_views", "plan_slots"]


def fleet_views(spec: ClusterSpec) -> list[FleetView]:
    """The fleets of a cluster: training fleets, then inference fleets, in the order of the file.

    Args:
        spec: A cluster without errors.

    Raises:
        ConfigError: If an instance type is unknown.
    """
    parts = parts_of(spec)
    return [FleetView.of(part, parts) for part in parts.fleets]
