"""Check cluster files: `python -m cdk_gpu_clusters_stacks.spec FILE...`. Starts no Node and imports no CDK."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cdk_gpu_clusters_stacks.counting import count

from .load import read_cluster, report


def main(arguments: Sequence[str] | None = None) -> int:
    """Check each file; print its findings, or `ok: name, n fleets`.

    Returns:
        0 if every file is valid, 1 if one has an error.
    """
    parser = argparse.ArgumentParser(prog="python -m cdk_gpu_clusters_stacks.spec", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="cluster file")
    parser.add_argument(
        "--deployed",
        metavar="FILE",
        help="the file as it was deployed: a change that would replace its stores is an error",
    )
    given = parser.parse_args(arguments)
    deployed, code = None, 0
    if given.deployed is not None:
        earlier = read_cluster(given.deployed)
        if earlier.spec is None:
            return report(earlier.findings)
        deployed = earlier.spec
    for file in given.files:
        reading = read_cluster(file, deployed=deployed)
        code |= report(reading.findings)
        if reading.spec is not None:
            fleets = len(reading.spec.training.fleets) + len(reading.spec.inference.fleets)
            sys.stdout.write(f"ok: {reading.spec.name}, {count(fleets, 'fleet')}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
