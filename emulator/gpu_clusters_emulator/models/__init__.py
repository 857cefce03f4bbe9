"""What services refuse beyond the resource schemas: functions (properties, world) -> faults."""

from __future__ import annotations

from .registry import change_faults, creation_faults, deletion_faults

__all__ = ["change_faults", "creation_faults", "deletion_faults"]
