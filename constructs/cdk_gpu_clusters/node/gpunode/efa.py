"""The EFA devices of this node, as the kernel and libfabric show them."""

from __future__ import annotations

from pathlib import Path

from . import paths

# awslabs/aws hyperpod issue on P6-B200: `ibp*` devices are NVLink controllers, only `rdmap*` (and `efa*`, the older
# name) are EFA.
_PATTERNS = ("rdmap*", "efa*")


def devices() -> list[Path]:
    """The devices in sysfs, in the order of their names."""
    folder = paths.below("/sys/class/infiniband")
    return sorted({device for pattern in _PATTERNS for device in folder.glob(pattern)})
