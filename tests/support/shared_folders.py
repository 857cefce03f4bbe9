"""Folders that the processes of a run of the tests share: whichever asks first makes one, the others wait for it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def folder_of_run(base: Path) -> Path:
    """The temporary folder of all processes of pytest-xdist, given that of one."""
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder, which is made if it is not there.

    Args:
        folder: Its path. What is there is whole, and nobody changes it.
        make: Makes it at another path; if it fails, the next caller tries again.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(folder)
    return folder
