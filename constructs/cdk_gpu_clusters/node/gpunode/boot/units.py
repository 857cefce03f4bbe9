"""Stages that a systemd unit of this library has done: it leaves its result in a file."""

from __future__ import annotations

import json
from collections.abc import Callable

from .. import paths
from ..node import Node
from .stage import Verdict


def unit_look(name: str) -> Callable[[Node], Verdict]:
    """A look at what `gpu-NAME.service` said during this boot; an older word counts for nothing."""

    def look(_: Node) -> Verdict:
        state, reason = result_of(name)
        if state == "ok":
            return Verdict.ok(reason)
        if state == "failed":
            return Verdict.failed(reason, f"journalctl -u gpu-{name}")
        return Verdict.waiting(f"gpu-{name} has not finished: {state or 'not started'} {reason}".strip())

    return look


def result_of(name: str) -> tuple[str, str]:
    """State and reason that a unit left during this boot; empty where it left none."""
    text = paths.read_text(paths.state_folder() / f"{name}.json")
    try:
        result = json.loads(text)
        if result["boot_id"] != paths.boot_id():
            return "", ""
        return str(result["state"]), str(result["reason"])
    except (ValueError, KeyError, TypeError):
        return "", ""
