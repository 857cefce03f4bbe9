"""The driver: all GPUs on one release, no older than the GPU and the node's MIG profiles need."""

from __future__ import annotations

import re

from .. import paths
from ..node import Node
from .check import Result, Severity
from .gpu_rows import gpu_rows

_NAME = "driver"


def check_driver(node: Node) -> list[Result]:
    """Compare the driver's release with the first that the node's GPUs, or their MIG layout, work with.

    The minimum is the catalogue's (NVIDIA MIG User Guide): for the layout where the GPUs are split, otherwise the first
    release with MIG on the model, and none for GPUs that cannot be split.
    """
    release = gpu_rows(["driver_version"])[0]["driver_version"]
    minimum = _layout_minimum() or node.settings.text("min_driver")
    if minimum and _parts(release) < _parts(minimum):
        fix = "use an image with a newer driver"
        return [Result(_NAME, Severity.MONITOR, release, f"{minimum} or newer", fix)]
    return [Result(_NAME, Severity.OK, release, f"{minimum} or newer" if minimum else "")]


def _layout_minimum() -> str:
    text = paths.read_text(paths.below("/etc/default/mig"))
    found = re.search(r'^MIG_MINIMUM_DRIVER="?([0-9.]+)', text, re.MULTILINE)
    return found[1] if found else ""


def _parts(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", release)]
