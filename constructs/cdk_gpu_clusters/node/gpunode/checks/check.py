"""A check of the node's health, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from ..node import Node


class Severity(IntEnum):
    """What a finding asks for, from nothing to a new node."""

    OK = 0
    #: Cannot be told here: a tool is missing, or nothing says what is right.
    UNKNOWN = 1
    #: Watch it; the node goes on.
    MONITOR = 2
    #: The GPU has to be reset, with nothing on it.
    RESET = 3
    #: The node has to be rebooted.
    REBOOT = 4
    #: The host is faulty: another node.
    REPLACE = 5


@dataclass(frozen=True)
class Result:
    """What one check found.

    Attributes:
        check: Name of the check.
        severity: What it asks for.
        found: What is there.
        expected: What should be there; empty where nothing says it.
        fix: What to do; empty where nothing is wrong.
    """

    check: str
    severity: Severity
    found: str
    expected: str = ""
    fix: str = ""


Check = Callable[[Node], Iterable[Result]]


class Untold(Exception):
    """It cannot be told: a tool is missing, or does not answer. Counts as `UNKNOWN`, with its text."""
