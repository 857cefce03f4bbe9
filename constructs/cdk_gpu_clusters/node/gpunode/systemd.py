"""Units of systemd, as `systemctl` shows them."""

from __future__ import annotations

from .command import run

_PROPERTIES = "LoadState,UnitFileState,ActiveState,ConditionResult"


def properties_of(service: str) -> dict[str, str]:
    """What decides whether a service runs, is needed, or has failed; empty if systemd does not answer.

    Args:
        service: Its name without `.service`.
    """
    outcome = run("systemctl", "show", f"{service}.service", "-p", _PROPERTIES)
    pairs = (line.partition("=") for line in outcome.output.splitlines())
    return {name: value for name, _, value in pairs}
