"""A user without rights, as a job on a node is one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

NOBODY = 65534


def as_nobody(act: Callable[[], object]) -> int:
    """Run a function in a process of a user without rights. Gives its wait status: 0 if nothing was raised."""
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGSEGV, signal.SIGILL):
            # pytest's own handlers print a traceback.
            signal.signal(number, signal.SIG_DFL)
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            act()
        except BaseException:  # noqa: BLE001 - the status is all that counts
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
