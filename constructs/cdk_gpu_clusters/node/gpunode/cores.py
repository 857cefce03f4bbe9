"""The processors that this software runs on beside jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def keep_off_job_cores() -> None:
    """Run on the last processor only, with the programs that this process starts.

    It is the one that Slurm reserves first for the system: the highest numbered core of the highest numbered socket
    (Slurm documentation, "Core Specialization", "Core Selection"). Processors that were chosen for this process, such
    as by systemd's CPUAffinity, are kept.
    """
    with suppress(OSError):
        allowed = os.sched_getaffinity(0)
        if len(allowed) == os.cpu_count() and len(allowed) > 1:
            os.sched_setaffinity(0, {max(allowed)})


@contextmanager
def on_all_cores() -> Iterator[None]:
    """Let this thread and what it starts use every processor, as the boot checks do, while the node has no jobs."""
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)
