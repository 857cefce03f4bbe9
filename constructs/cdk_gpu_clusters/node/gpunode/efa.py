"""The EFA devices of this node, as the kernel and libfabric show them."""

from __future__ import annotations

from pathlib import Path

from . import paths
from .command import Outcome, run

_TIMEOUT_SECONDS = 60
# Where the EFA installer puts it; services do not have that folder on their PATH.
_FI_INFO = "/opt/amazon/efa/bin/fi_info"

# awslabs/aws hyperpod issue on P6-B200: `ibp*` devices are NVLink controllers, only `rdmap*` (and `efa*`, the older
# name) are EFA.
_PATTERNS = ("rdmap*", "efa*")


def devices() -> list[Path]:
    """The devices in sysfs, in the order of their names."""
    folder = paths.below("/sys/class/infiniband")
    return sorted({device for pattern in _PATTERNS for device in folder.glob(pattern)})


def ask_provider() -> Outcome:
    """Ask libfabric for what its provider `efa` has; NOT_FOUND where libfabric's tools are not installed."""
    installed = paths.below(_FI_INFO)
    program = str(installed) if installed.exists() else "fi_info"
    return run(program, "-p", "efa", timeout_seconds=_TIMEOUT_SECONDS)
