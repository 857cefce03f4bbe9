"""When a fleet raises an alarm, and when it stops to launch nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdk_gpu_clusters.errors import Finding, check, define_rule

ALARMS = define_rule(
    "GPU-ALM-001",
    "an alarm period and a hook's hold time are within the limits of CloudWatch and EC2 Auto Scaling",
    source="CloudWatch API reference, PutMetricAlarm: at most one day for periods below an hour; EC2 Auto Scaling API "
    "reference, LifecycleHook: GlobalTimeout, at most 48 hours or 100 heartbeat time-outs",
)

EMAIL = define_rule(
    "GPU-ALM-002",
    "alarms are mailed to addresses, each once",
    source="RFC 5321, sections 4.1.2 and 4.5.3.1: one @, a domain, at most 254 characters; Amazon SNS API reference, "
    "Subscribe: ASCII addresses are taken for granted here",
)

_EMAIL = re.compile(r"[!-?A-~]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_EMAIL_CHARACTERS = 254
_HOUR_MINUTES, _DAY_MINUTES = 60, 24 * 60
_HOOK_SECONDS, _HOOK_HEARTBEATS = 48 * 60 * 60, 100
_RANGES = (
    ("idle_minutes", 5, _DAY_MINUTES),
    ("abandoned_launches_per_node", 1, 100),
    ("abandoned_within_minutes", 10, _DAY_MINUTES),
    ("inspection_minutes", 0, _HOOK_SECONDS // 60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSettings:
    """When a fleet raises its alarms, and whether it stops a launch loop.

    Attributes:
        idle_minutes: How long all GPUs of all nodes stand idle before the alarm; None for no such alarm.
        abandoned_launches_per_node: How many launches may be abandoned for each node that the group is short of; then
            launching is suspended.
        abandoned_within_minutes: Within which time. None: an hour, or as long as one more boot than that may take,
            whichever is longer: a node that hangs until its time-out counts, too.
        suspends_launching: Whether launching is suspended then, or only the alarm is raised.
        inspection_minutes: How long a node that fails its boot is kept for people once launching is suspended. It is
            paid for.

    Example:
        >>> AlarmSettings().window_minutes(ready_timeout_seconds=1800)
        120
    """

    idle_minutes: int | None = 60
    abandoned_launches_per_node: int = 3
    abandoned_within_minutes: int | None = None
    suspends_launching: bool = True
    inspection_minutes: int = 120

    def window_minutes(self, *, ready_timeout_seconds: int) -> int:
        """Minutes within which abandoned launches are counted.

        Args:
            ready_timeout_seconds: How long a boot may take.
        """
        if self.abandoned_within_minutes is not None:
            return self.abandoned_within_minutes
        boots = -(-(self.abandoned_launches_per_node + 1) * ready_timeout_seconds // 60)
        return min(max(_HOUR_MINUTES, boots), _DAY_MINUTES)


def check_alarms(settings: AlarmSettings, *, ready_timeout_seconds: int) -> list[Finding]:
    """Find numbers that CloudWatch or Auto Scaling refuses, or that would never be reached.

    Args:
        settings: The settings.
        ready_timeout_seconds: How long a boot may take: the time-out of the launching hook.
    """
    findings = [
        ALARMS.finding(
            cause=f"{name} is out of range", got=str(value), allowed=f"{low} to {high}", path=f"alarms.{name}"
        )
        for name, low, high in _RANGES
        for value in [getattr(settings, name)]
        if value is not None and not low <= value <= high
    ]
    longest = min(_HOOK_SECONDS, _HOOK_HEARTBEATS * ready_timeout_seconds) - ready_timeout_seconds
    if not findings and settings.suspends_launching and settings.inspection_minutes * 60 > longest:
        findings.append(
            ALARMS.finding(
                cause=f"a hook with a time-out of {ready_timeout_seconds} s holds no node that long after its boot",
                got=f"{settings.inspection_minutes} minutes",
                allowed=f"at most {longest // 60} minutes",
                fix="lower inspection_minutes, or raise ready_timeout",
                path="alarms.inspection_minutes",
            )
        )
    return findings


@check
def check_emails(emails: Sequence[str]) -> Iterator[Finding]:
    """Find addresses that get no mail, get it twice, or are not there.

    Args:
        emails: Addresses that are notified of alarms.
    """
    if not emails:
        yield EMAIL.finding(
            cause="no address would be notified",
            got="no address",
            allowed="one address or more",
            fix="give an address",
            path="emails",
        )
        return
    yield from (
        EMAIL.finding(
            cause="not an email address" if emails.index(email) == index else "the address is listed twice",
            got=email,
            allowed="such as operators@example.org, each once",
            fix="correct the address" if emails.index(email) == index else "remove one of the two",
            path=f"emails[{index}]",
        )
        for index, email in enumerate(emails)
        if not _EMAIL.fullmatch(email) or len(email) > _EMAIL_CHARACTERS or emails.index(email) != index
    )
