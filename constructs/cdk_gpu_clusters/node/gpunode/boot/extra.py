"""Stages that other parts of the node add: programs in `/etc/gpu-cluster/ready.d`, such as the model servers' own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .. import paths
from ..command import NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, run
from ..node import Node
from .stage import Stage, State, Verdict

_TIMEOUT_SECONDS = 300
_NEVER = 2


def extra_stages() -> list[Stage]:
    """One stage for each program, in the order of their names."""
    folder = paths.below("/etc/gpu-cluster/ready.d")
    programs = sorted(folder.iterdir()) if folder.is_dir() else []
    return [Stage(path.name, _look_with(path)) for path in programs if os.access(path, os.X_OK)]


def _look_with(program: Path) -> Callable[[Node], Verdict]:
    """The program prints its finding and exits with 0 for good, 2 for never, anything else for not yet."""

    def look(_: Node) -> Verdict:
        outcome = run(str(program), timeout_seconds=_TIMEOUT_SECONDS)
        never = outcome.status in (_NEVER, NOT_EXECUTABLE, NOT_FOUND)
        state = State.OK if outcome.ok else State.FAILED if never else State.WAITING
        words = outcome.words if outcome.status != TIMED_OUT else f"no answer in {_TIMEOUT_SECONDS} s"
        return Verdict(state, words)

    return look
