"""Auto Scaling groups at run time: sizes, instances and activities."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .clock import format_time

if TYPE_CHECKING:
    from .world import World

IN_SERVICE = "InService"
PENDING = "Pending:Wait"
TERMINATING = "Terminating:Wait"


@dataclass(slots=True, kw_only=True)
class Instance:
    """One instance of a group.

    Attributes:
        waits: Lifecycle hooks that hold it, each with the moment at which it times out.
        since: When it came into its present state.
        is_healthy: False once somebody called SetInstanceHealth.
    """

    id: str
    instance_type: str
    availability_zone: str
    template_id: str
    template_version: str
    reservation_id: str
    lifecycle_state: str
    since: datetime
    waits: dict[str, datetime] = field(default_factory=dict)
    is_healthy: bool = True

    @property
    def is_leaving(self) -> bool:
        """Whether it counts no more towards the desired capacity."""
        return self.lifecycle_state == TERMINATING


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
    sizes: list[tuple[datetime, int, int]] = field(default_factory=list)

    @property
    def staying(self) -> list[Instance]:
        """The instances that count towards the desired capacity."""
        return [one for one in self.instances if not one.is_leaving]

    def measure(self, world: World) -> None:
        """Put down the desired capacity and the instances in service, if they changed."""
        now = (self.desired, sum(one.lifecycle_state == IN_SERVICE for one in self.instances))
        if not self.sizes or self.sizes[-1][1:] != now:
            self.sizes.append((world.clock.now(), *now))

    def note(self, world: World, status: str, description: str, message: str = "", cause: str = "") -> None:
        """Put an activity first in the list of `DescribeScalingActivities`; without a cause, the desired size."""
        now = world.clock.now()
        cause = cause or f"the group had a desired capacity of {self.desired}"
        activity: dict[str, Any] = {
            "ActivityId": world.new_id("", f"{self.name} activity", 32),
            "AutoScalingGroupName": self.name,
            "Description": description,
            "Cause": f"At {format_time(now)} {cause}.",
            "StartTime": now,
            "EndTime": now,
            "StatusCode": status,
            "StatusMessage": message,
            "Progress": 100,
        }
        self.activities.insert(0, activity)
