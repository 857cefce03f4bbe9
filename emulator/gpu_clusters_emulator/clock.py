"""Time that a test can move, and the schedules that follow it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta


def parse_time(text: str | datetime) -> datetime:
    """Read an ISO 8601 time; a missing offset means UTC; raises ValueError if the text is no ISO 8601 time."""
    moment = text if isinstance(text, datetime) else datetime.fromisoformat(text.strip())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def format_time(moment: datetime) -> str:
    """Write a time as AWS does: `2026-12-01T11:30:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Clock:
    """The emulator's own time: it follows the machine's clock until it is moved."""

    def __init__(self) -> None:
        self._offset = timedelta()

    def now(self) -> datetime:
        """The emulator's present."""
        return datetime.now(UTC) + self._offset

    def set(self, moment: datetime) -> None:
        """Make `moment` the present; time goes on from there."""
        self._offset = moment - datetime.now(UTC)


# EventBridge and Auto Scaling schedules: `cron(...)`, `rate(...)`, and plain cron. Source: EventBridge user guide,
# "Setting a schedule pattern for scheduled rules": six fields (minutes, hours, day of month, month, day of week,
# year), UTC, day of week 1 to 7 from Sunday; day of month and day of week are never both given. EC2 Auto Scaling's
# recurrence has five fields with day of week 0 to 7 from Sunday. `L`, `W` and `#` are not emulated.

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


class Schedule:
    """The minutes at which a schedule fires.

    Example:
        >>> from datetime import datetime, timezone
        >>> schedule = Schedule("cron(30 11 1 12 ? 2026)")
        >>> schedule.fires_at(datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc))
        True
    """

    def __init__(self, expression: str, *, first_weekday: int = 1) -> None:
        """Read an expression.

        Args:
            expression: The six fields inside `cron(...)`, or five plain fields.
            first_weekday: The number of Sunday: 1 for EventBridge, 0 for Auto Scaling.

        Raises:
            ValueError: If the expression cannot be read.
        """
        fields = expression.removeprefix("cron(").removesuffix(")").split()
        if len(fields) == 5:
            fields.append("*")
        if len(fields) != 6:
            raise ValueError(f"a schedule has five or six fields, got {expression!r}")
        self._minutes = _values(fields[0], 0, 59)
        self._hours = _values(fields[1], 0, 23)
        self._days = _values(fields[2], 1, 31)
        self._months = _values(fields[3], 1, 12, names=_MONTHS)
        weekdays = _values(fields[4], first_weekday, 7, names=_DAYS, first=first_weekday)
        self._weekdays = {(day - first_weekday) % 7 for day in weekdays}
        self._years = _values(fields[5], 1970, 2199)

    def fires_at(self, moment: datetime) -> bool:
        """Whether the schedule fires in this minute."""
        return (
            moment.minute in self._minutes
            and moment.hour in self._hours
            and moment.day in self._days
            and moment.month in self._months
            and (moment.isoweekday() % 7) in self._weekdays
            and moment.year in self._years
        )

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Every firing after `start`, up to and including `end`."""
        moment = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
        while moment <= end:
            if moment.month not in self._months or moment.year not in self._years or moment.day not in self._days:
                moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
            elif self.fires_at(moment):
                yield moment
                moment += timedelta(minutes=1)
            else:
                moment += timedelta(minutes=1)


def firings(expression: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every firing of an EventBridge schedule expression after `start`, up to and including `end`.

    Raises:
        ValueError: If the expression cannot be read.
    """
    rate = _RATE.fullmatch(expression)
    if rate is None:
        yield from Schedule(expression).between(start, end)
        return
    step = timedelta(**{f"{rate[2]}s": int(rate[1])})
    moment = start + step
    while moment <= end:
        yield moment
        moment += step


def _values(field: str, low: int, high: int, *, names: tuple[str, ...] = (), first: int = 1) -> set[int]:
    if field in ("*", "?"):
        return set(range(low, high + 1))
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        start, _, end = span.partition("-")
        bottom = low if start == "*" else _number(start, names, first)
        top = _number(end, names, first) if end else high if step or start == "*" else bottom
        found |= set(range(bottom, top + 1, int(step or 1)))
    if not found or min(found) < low or max(found) > high:
        raise ValueError(f"{field!r} is not within {low} and {high}")
    return found


def _number(text: str, names: tuple[str, ...], first: int) -> int:
    return names.index(text.upper()) + first if text.upper() in names else int(text)
