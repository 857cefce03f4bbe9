"""Stages about services of the image: the fabric manager of NVSwitch systems, and the container runtime."""

from __future__ import annotations

from ..command import run
from ..node import Node
from .stage import Verdict

_FABRIC_MANAGER = "nvidia-fabricmanager"
_RUNTIMES = ("docker", "containerd")


def look_at_fabric_manager(_: Node) -> Verdict:
    """Whether the fabric manager runs where the image starts it; without it CUDA fails on NVSwitch systems.

    Images start it only where there is a switch for it, so that a unit which is not enabled, or whose condition does
    not hold, is none of ours.
    """
    shown = _show(_FABRIC_MANAGER)
    if shown.get("LoadState") != "loaded" or shown.get("UnitFileState") not in ("enabled", "enabled-runtime"):
        return Verdict.ok("the image starts none")
    if shown.get("ConditionResult") == "no" and shown.get("ActiveState") == "inactive":
        return Verdict.ok("not wanted here: its condition does not hold")
    return _running(_FABRIC_MANAGER, shown)


def look_at_containers(_: Node) -> Verdict:
    """Whether a container runtime runs where the image starts one."""
    for name in _RUNTIMES:
        shown = _show(name)
        if shown.get("LoadState") == "loaded" and shown.get("UnitFileState") == "enabled":
            return _running(name, shown)
    return Verdict.ok("the image starts none")


def _running(name: str, shown: dict[str, str]) -> Verdict:
    state = shown.get("ActiveState", "unknown")
    if state == "active":
        return Verdict.ok(f"{name} runs")
    if state == "failed":
        return Verdict.failed(f"{name} has failed", f"journalctl -u {name}")
    return Verdict.waiting(f"{name} is {state}", f"journalctl -u {name}")


def _show(unit: str) -> dict[str, str]:
    outcome = run(
        "systemctl", "show", f"{unit}.service", "-p", "LoadState,UnitFileState,ActiveState,ConditionResult"
    )
    pairs = (line.partition("=") for line in outcome.output.splitlines())
    return {name: value for name, _, value in pairs}
