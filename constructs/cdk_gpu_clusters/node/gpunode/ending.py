"""That this node is about to end, told to all of its programs by `/run/gpu-cluster/ending`, which holds the reason."""

from __future__ import annotations

from . import paths


def announce(reason: str) -> None:
    """Tell it.

    Args:
        reason: Why it ends.

    Raises:
        OSError: If even memory takes nothing.
    """
    paths.write_atomically(paths.run_folder() / "ending", f"{reason}\n")


def announced() -> str:
    """Why this node is about to end; empty while nothing says so."""
    return paths.read_text(paths.below("/run/gpu-cluster/ending")).strip()
