"""What EC2 and Auto Scaling refuse beyond the resource schemas: functions (properties, world) -> faults."""

from __future__ import annotations

from .registry import creation_faults, deletion_faults

__all__ = ["creation_faults", "deletion_faults"]
