"""The stage that asks all checks of `gpunode verify` before the node takes work."""

from __future__ import annotations

from ..checks.check import Result, Severity
from ..checks.verify import checks_of, verify
from ..node import Node
from ..watch.service import Mode, mode_of
from .stage import Verdict

# A GPU that has to be reset with nothing on it must not get something first.
_FAILS_FROM = Severity.RESET


def look_at_health(node: Node) -> Verdict:
    """Whether no check finds a fault; what cannot be told holds no node back.

    Where the watchdog does not act (GPU_WATCH), findings are only told.
    """
    results = verify(node, checks_of(node))
    faults = [result for result in results if result.severity >= _FAILS_FROM]
    if faults and mode_of(node) is Mode.ON:
        return Verdict.waiting(_words(faults), faults[0].fix)
    notable = [result for result in results if result.severity is not Severity.OK]
    return Verdict.ok(_words(notable) or f"{len(results)} checks")


def _words(results: list[Result]) -> str:
    return "; ".join(f"{result.check}: {result.found} ({result.severity.name.lower()})" for result in results)
