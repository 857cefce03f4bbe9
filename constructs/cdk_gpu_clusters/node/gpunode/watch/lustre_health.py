"""What the Lustre client says of itself: an internal fault, as opposed to a file system that is out of reach.

Linux kernel, drivers/staging/lustre/sysfs-fs-lustre: `healthy`, `NOT HEALTHY`, or `LBUG` after an internal assertion
failure. What that asks for, no source says: it is watched.
"""

from __future__ import annotations

from .. import paths
from ..checks.check import Severity
from .symptom import Symptom

_LOOKS = 2


def look_at_lustre_client() -> list[Symptom]:
    """Read what it says; a node without the client's module says nothing."""
    said = " ".join(paths.read_text(paths.below("/sys/fs/lustre/health_check")).split())
    if said in ("", "healthy"):
        return []
    return [Symptom("lustre-client", Severity.MONITOR, f"the Lustre client says: {said[:200]}", _LOOKS)]
