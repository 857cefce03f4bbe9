"""Auto Scaling groups at run time: sizes, instances and activities."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(slots=True, kw_only=True)
class Instance:
    """One instance of a group."""

    id: str
    instance_type: str
    availability_zone: str
    template_version: str
    reservation_id: str
    lifecycle_state: str


@dataclass(slots=True, kw_only=True)
class Group:
    """The state of one Auto Scaling group that is not in its template."""

    name: str
    minimum: int
    maximum: int
    desired: int
    created_at: datetime
    instances: list[Instance] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    suspended: set[str] = field(default_factory=set)
