"""NVIDIA's management library, in this process: what it answers in place of `nvidia-smi`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..command import Outcome

if TYPE_CHECKING:
    from .session import Session

_session: Session | None = None


def enable(session: Session | None = None) -> None:
    """Let `nvidia_smi` ask NVML first, in this process. A Python without ctypes, which needs libffi, asks no NVML.

    Args:
        session: The session to use; one with the library of the system if left out.
    """
    global _session  # noqa: PLW0603 - one for each process: two would disturb the GPUs twice
    try:
        from .session import Session
    except ImportError:
        return
    _session = session or Session()
    _session.load()


def disable() -> None:
    """Ask only `nvidia-smi` again."""
    global _session  # noqa: PLW0603
    _session = None


def ask(arguments: Sequence[str], timeout_seconds: float) -> Outcome | None:
    """What NVML answers to a command line of `nvidia-smi`; None if that program must be asked."""
    return None if _session is None else _session.ask(arguments, timeout_seconds)


def wait(timeout_seconds: float = math.inf) -> bool:
    """Wait until this process does not use the driver, by default however long that takes.

    Returns:
        Whether that is so.
    """
    return _session is None or _session.wait(timeout_seconds)
