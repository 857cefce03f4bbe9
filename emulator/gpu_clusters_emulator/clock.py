"""Time that a test can move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def parse_time(text: str | datetime) -> datetime:
    """Read an ISO 8601 time; a missing offset means UTC.

    Raises:
        ValueError: If the text is no ISO 8601 time.
    """
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
