"""Whether the node got through this boot, as `gpunode boot` left it.

A node that fails the boot of its launch gives the launch up, and is nobody's to take out. One that was in service and
fails a later boot stays in service unless somebody says so: its hook is completed once in its life.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import paths
from ..checks.check import Severity
from .symptom import Symptom


def look_at_boot() -> list[Symptom]:
    """A reboot that the node did not get through: it does no work, however healthy its status checks are."""
    result = _failed()
    if result.get("first_boot") is not False:
        return []
    return [Symptom("boot", Severity.REPLACE, f"it did not get through its reboot: {result.get('reason')}")]


def is_launch_given_up() -> bool:
    """Whether this was the boot of the launch, and failed."""
    return bool(_failed().get("first_boot"))


def _failed() -> dict[str, Any]:
    """The result of this boot; empty where it is good, or not known."""
    # Memory takes what a disk may not: its word is the later one.
    result = _result(paths.run_folder()) or _result(paths.state_folder())
    return result if result.get("state") == "failed" else {}


def _result(folder: Path) -> dict[str, Any]:
    """What a folder holds of this boot; what cannot be read says nothing."""
    try:
        result = dict(json.loads(paths.read_text(folder / "boot.json")))
        return result if result["boot_id"] == paths.boot_id() else {}
    except (ValueError, KeyError, TypeError):
        return {}
