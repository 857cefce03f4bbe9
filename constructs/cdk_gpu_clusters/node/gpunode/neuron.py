"""The Neuron devices of this node, as `neuron-ls` and the driver's sysfs tree show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import paths
from .command import Outcome, run

_TIMEOUT_SECONDS = 60


def list_devices() -> tuple[list[dict[str, Any]] | None, Outcome]:
    """What `neuron-ls` lists, None where it lists nothing; and what the program did."""
    outcome = run("neuron-ls", "--json-output", timeout_seconds=_TIMEOUT_SECONDS)
    try:
        listed = json.loads(outcome.output) if outcome.ok else None
    except ValueError:
        listed = None
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else None
    return rows, outcome


def counters(name: str) -> dict[str, int]:
    """A counter of every device, by the device's name; without those that do not count it.

    Args:
        name: Name of the file, such as `mem_ecc_uncorrected`. Driver 2.31 moved some files, so that it is looked for.
    """
    found: dict[str, int] = {}
    folder = paths.below("/sys/devices/virtual/neuron_device")
    for device in sorted(folder.glob("neuron*")):
        values = [_number(file) for file in device.rglob(name)]
        counted = [value for value in values if value is not None]
        if counted:
            found[device.name] = max(counted)
    return found


def _number(file: Path) -> int | None:
    try:
        return int(paths.read_text(file).strip())
    except ValueError:
        return None
