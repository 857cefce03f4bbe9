"""`gpu-clusters preflight` over an account in which every answer takes 200 ms.

`python benchmarks/preflight.py --rounds 3`. The account is the one of the unit tests, with canned answers behind
boto3's own clients; each round makes its clients again, as a run of the command does.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/support", "constructs", "stacks")]

from cdk_gpu_clusters_stacks.preflight import Account, every_check, run_preflight  # noqa: E402 - the path is set above
from fake_aws import FakeAws  # noqa: E402
from preflight_account import EXISTING, NEW, NOW, healthy, spec_of  # noqa: E402

_SECONDS_A_CALL = 0.2


def once(text: str) -> tuple[float, FakeAws]:
    """Seconds of one run, and what it asked."""
    FakeAws.forget_clients()
    aws = healthy()
    aws.seconds = _SECONDS_A_CALL
    began = time.monotonic()
    with Account(aws.clients, region="us-east-1") as account:
        run_preflight(spec_of(text), account, now=NOW)
    return time.monotonic() - began, aws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for name, text in (("everything exists", EXISTING), ("everything is new", NEW)):
        runs = [once(text) for _ in range(rounds)]
        seconds = statistics.median(run[0] for run in runs)
        calls = len(runs[0][1].asked)
        print(
            f"{name}: {len(every_check())} checks, {calls} calls of {_SECONDS_A_CALL * 1000:.0f} ms: "
            f"{seconds:.2f} s (median of {rounds}; one after the other {calls * _SECONDS_A_CALL:.1f} s)"
        )


if __name__ == "__main__":
    main()
