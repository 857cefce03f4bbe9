"""Counts the messages between Python and CDK's Node process: `python round_trips.py PROGRAM [ARGUMENT ...]`.

PROGRAM is a file or a module. Each message costs a fifth of a millisecond and more, so that their number decides how
fast an app is synthesized. It is the same on every machine.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsii._kernel.providers import process as jsii_process


@dataclass(slots=True)
class RoundTrips:
    """What was sent, by kind and name.

    Attributes:
        counts: How often.
        seconds: How long Python waited for the answers; the time of calls back into Python is not in it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def total(self) -> int:
        """Number of messages."""
        return self.counts.total()


@contextmanager
def counted() -> Iterator[RoundTrips]:
    """Count the messages that are sent inside."""
    found = RoundTrips()
    node: Any = jsii_process._NodeProcess  # no public place sees every message
    send = node.send

    def counting_send(self: Any, request: Any, response_type: Any) -> Any:
        name = _name(request)
        started = time.perf_counter()
        try:
            return send(self, request, response_type)
        finally:
            found.counts[name] += 1
            found.seconds[name] += time.perf_counter() - started

    node.send = counting_send
    try:
        yield found
    finally:
        node.send = send


def _name(request: Any) -> str:
    kind = type(request).__name__.removesuffix("Request").removeprefix("Static").lower()
    owner = getattr(request, "fqn", None) or getattr(request, "name", None) or ""
    if hasattr(request, "objref"):
        owner = request.objref.ref.rpartition("@")[0]
    member = getattr(request, "method", None) or getattr(request, "property", None) or ""
    return f"{kind} {owner.removeprefix('aws-cdk-lib.')}{'.' if member else ''}{member}"


def main() -> None:
    """Run a program and print its messages, the most expensive first."""
    program, *arguments = sys.argv[1:]
    sys.argv = [program, *arguments]
    with counted() as trips:
        if program.endswith(".py"):
            sys.path[0] = str(Path(program).parent)
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__")
    print(f"{trips.total} messages, {sum(trips.seconds.values()) * 1e3:.0f} ms")
    for name, seconds in sorted(trips.seconds.items(), key=lambda item: -item[1]):
        print(f"{trips.counts[name]:7} {seconds * 1e3:9.1f} ms  {name}")


if __name__ == "__main__":
    main()
