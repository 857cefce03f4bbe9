"""`make fuzz`: change inputs for a while, and print each fault with the seed that repeats it."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzzing.engine import Fault, Target, run_case
from fuzzing.targets import TARGETS

#: Faults of one kind are shown once, and no more than so many.
_MOST_SHOWN = 20


def fuzz(targets: dict[str, Target], *, seconds: float, first_seed: int) -> tuple[Counter[str], list[Fault]]:
    """Run cases of each target in turn until the time is up.

    Returns:
        How many cases each target had, and their faults.
    """
    cases: Counter[str] = Counter()
    faults: list[Fault] = []
    end = time.monotonic() + seconds
    for number in itertools.count():
        for name, target in targets.items():
            if time.monotonic() >= end or len(faults) >= _MOST_SHOWN:
                return cases, faults
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                fault = run_case(name, target, first_seed + number, Path(folder))
            cases[name] += 1
            faults += [fault] if fault else []
    raise AssertionError


def main() -> int:
    """Fuzz, or repeat one case.

    Returns:
        Exit status: 1 if there is a fault.
    """
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--target", choices=TARGETS, action="append", help="one target; all by default")
    parser.add_argument("--seed", type=int, help="repeat this case of the targets")
    given = parser.parse_args()
    targets = {name: TARGETS[name] for name in given.target or TARGETS}
    if given.seed is not None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            repeated = [run_case(name, target, given.seed, Path(folder)) for name, target in targets.items()]
        cases, faults = Counter(list(targets)), [fault for fault in repeated if fault]
    else:
        cases, faults = fuzz(targets, seconds=given.minutes * 60, first_seed=random.randrange(2**40))
    for fault in faults:
        sys.stdout.write(f"{fault}\n\n")
    counted = ", ".join(f"{name} {count}" for name, count in cases.items())
    sys.stdout.write(f"cases: {counted}; faults: {len(faults)}\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
