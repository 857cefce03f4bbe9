"""Units of systemd, as `systemctl` shows them."""

from __future__ import annotations

from . import paths
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


def has_processes(service: str) -> bool:
    """Whether processes of a service run, as its control group shows without starting a program.

    Args:
        service: Its name without `.service`.
    """
    group = f"system.slice/{service}.service/cgroup.procs"
    places = (f"/sys/fs/cgroup/{group}", f"/sys/fs/cgroup/systemd/{group}")
    return any(paths.read_text(paths.below(place)).strip() for place in places)
