"""Whether the node's own disk still takes what is written. It is watched only: a full disk is no broken GPU."""

from __future__ import annotations

import os

from .. import paths
from ..checks.check import Severity
from .symptom import Symptom

# The spool of events may take 4 MiB, a bundle of evidence some more.
_LEAST_FREE_BYTES = 64 * 1024 * 1024


def look_at_disk() -> list[Symptom]:
    """Look at the file system of the node's state."""
    place = paths.below("/var/lib")
    try:
        found = os.statvfs(place)
    except OSError as fault:
        return [Symptom("disk", Severity.MONITOR, f"{place}: {fault.strerror}")]
    if found.f_flag & os.ST_RDONLY:
        return [Symptom("disk-read-only", Severity.MONITOR, f"the file system of {place} is read-only")]
    free = found.f_bavail * found.f_frsize
    if free < _LEAST_FREE_BYTES:
        return [Symptom("disk-full", Severity.MONITOR, f"{free // 2**20} MiB are free at {place}")]
    return []
