"""What the driver itself asks for: none, a reset, or a reboot.

NVIDIA GPU Memory Error Management, "Error recovery and response flags". Drivers before 570 say it by two flags of
reset instead, or not at all: then the check tells nothing.
"""

from __future__ import annotations

import re

from ..command import run
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import gpu_rows, or_well

_NAME = "recovery"
_TIMEOUT_SECONDS = 60
_ACTION = re.compile(r"^\s*GPU Recovery Action\s*: (.*?)\s*$", re.MULTILINE)
_FLAGS = ("reset_status.reset_required", "reset_status.drain_and_reset_recommended")


def check_recovery(_: Node) -> list[Result]:
    """Ask the driver what every GPU needs."""
    outcome = run("nvidia-smi", "-q", timeout_seconds=_TIMEOUT_SECONDS)
    if outcome.hung:
        raise Untold(outcome.words)
    actions = _ACTION.findall(outcome.output)
    told = [action for action in actions if action != "N/A"]
    if not told:
        return _flags()
    findings = [
        Result(
            _NAME,
            _severity(action),
            f"the driver asks for: {action}",
            "None",
            f"drain the node; then: {action}",
        )
        for action in sorted(set(told))
        if action != "None"
    ]
    return or_well(_NAME, findings, f"the driver asks nothing for {len(told)} GPUs")


def _severity(action: str) -> Severity:
    words = action.lower()
    if "reboot" in words:
        return Severity.REBOOT
    if "reset" in words or "drain" in words:
        return Severity.RESET
    return Severity.UNKNOWN


def _flags() -> list[Result]:
    rows = gpu_rows(_FLAGS)
    told = [row for row in rows if {row[flag] for flag in _FLAGS} & {"Yes", "No"}]
    if not told:
        return []
    findings = [
        Result(
            _NAME,
            Severity.RESET,
            f"GPU {row['index']}: the driver asks for a reset",
            "No",
            "drain and reset it",
        )
        for row in told
        if "Yes" in [row[flag] for flag in _FLAGS]
    ]
    return or_well(_NAME, findings, f"the driver asks nothing for {len(told)} GPUs")
