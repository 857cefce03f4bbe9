"""A small interpreter of the Amazon States Language, on the emulator's clock and world."""

from __future__ import annotations

from .execution import Execution
from .interpreter import run

__all__ = ["Execution", "run"]
