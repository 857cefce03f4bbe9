"""The benchmark: one run, medians and ratios, written into `docs/performance.md` with `--write`.

`make bench`, or `python benchmarks/run.py --rounds 3` for a quick look.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from itertools import pairwise

from measure import Series, interleaved
from page import PAGE, cores_and_memory, write_block
from processes import peak_memory_mib
from subjects import ROOT, Subject, check_same, empty, imports, javascript, node, ours, prepare, raw, training

SIZES = (1, 10, 50, 200)
LAYERS = {
    "catalogue": ["cdk_gpu_clusters.catalogue"],
    "rules": ["cdk_gpu_clusters.rules.capacity_checks", "cdk_gpu_clusters.rules.interfaces"],
    "`cdk_gpu_clusters`, before a name is used": ["cdk_gpu_clusters"],
    "`GpuFleet` and all it needs": ["cdk_gpu_clusters.compute.fleet"],
    "cluster file (`spec`)": ["cdk_gpu_clusters_stacks.spec.load"],
    "stacks and app": ["cdk_gpu_clusters_stacks.app"],
    "`aws_cdk` alone, for comparison": ["aws_cdk"],
    "`aws_cdk.aws_ec2`, for comparison": ["aws_cdk.aws_ec2"],
}


def synthesis(series: Series) -> list[str]:
    """The table of fleets."""
    lines = [
        "| Fleets | Ours | Raw `CfnResource` | JavaScript | Ours / raw | Ours / JavaScript |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for size in SIZES:
        three = (ours(size), raw(size), javascript(size))
        times = " | ".join(f"{series.wall_s(one):.2f} s ({series.cpu_s(one):.2f})" for one in three)
        ratios = " | ".join(
            f"{series.wall_ratio(three[0], other):.2f} ({series.cpu_ratio(three[0], other):.2f})" for other in three[1:]
        )
        lines.append(f"| {size} | {times} | {ratios} |")
    return lines


def growth(series: Series) -> list[str]:
    """What one more fleet costs, between each two sizes."""
    lines = ["| One more fleet | Ours | Raw | JavaScript |", "| --- | ---: | ---: | ---: |"]
    for small, big in pairwise(SIZES[1:]):
        costs = [
            (series.wall_s(kind(big)) - series.wall_s(kind(small))) / (big - small) * 1e3
            for kind in (ours, raw, javascript)
        ]
        lines.append(f"| from {small} to {big} | " + " | ".join(f"{cost:.1f} ms" for cost in costs) + " |")
    return lines


def whole_cluster(series: Series) -> list[str]:
    """The table of the training cluster."""
    cluster, nothing = training(), empty()
    ratio = f"{series.wall_ratio(cluster, nothing):.2f} ({series.cpu_ratio(cluster, nothing):.2f})"
    return [
        "| App | Time | Ratio |",
        "| --- | ---: | ---: |",
        f"| empty Python app | {series.wall_s(nothing):.2f} s ({series.cpu_s(nothing):.2f}) | 1 |",
        f"| training cluster, everything on | {series.wall_s(cluster):.2f} s ({series.cpu_s(cluster):.2f}) | {ratio} |",
    ]


def layers(series: Series) -> list[str]:
    """The table of imports, Python's own start taken off."""
    start = series.wall_s(imports([]))
    lines = ["| Import | Time |", "| --- | ---: |"]
    return lines + [
        f"| {name} | {(series.wall_s(imports(modules)) - start) * 1e3:.0f} ms |" for name, modules in LAYERS.items()
    ]


def memory(subjects: list[Subject]) -> list[str]:
    """The table of peak memory."""
    lines = ["| App | Peak memory |", "| --- | ---: |"]
    for subject in subjects:
        peak = peak_memory_mib(subject.command, subject.environment())
        lines.append(f"| {subject.name} | {peak:.0f} MiB |")
    return lines


def round_trips(subject: Subject) -> int:
    """Messages that a Python app exchanges with Node."""
    program = str(ROOT / "benchmarks" / "round_trips.py")
    arguments = [argument for argument in subject.command[1:] if argument != "-m"]
    command = [sys.executable, program, *arguments]
    done = subprocess.run(command, env=subject.environment(), capture_output=True, text=True, check=True)
    found = re.match(r"(\d+) messages", done.stdout)
    if found is None:
        sys.exit("benchmarks: round_trips.py counted nothing")
    return int(found[1])


def messages() -> list[str]:
    """The table of messages, which is the same on every machine."""
    per_fleet = {kind: (round_trips(kind(11)) - round_trips(kind(1))) / 10 for kind in (ours, raw)}
    return [
        "| App | Messages |",
        "| --- | ---: |",
        f"| empty Python app | {round_trips(empty())} |",
        f"| one more fleet, raw | {per_fleet[raw]:g} |",
        f"| one more fleet, ours | {per_fleet[ours]:g} |",
        f"| training cluster, everything on | {round_trips(training())} |",
    ]


def machine(rounds: int, resources: int) -> list[str]:
    """What it was measured on, and how."""
    release = subprocess.run([node(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    where = f"{cores_and_memory()}, Python {platform.python_version()}, Node {release[1:]}"
    how = f"medians of {rounds} interleaved rounds, processor time in brackets"
    return [f"{where}, aws-cdk-lib {version('aws-cdk-lib')}; {how}; {resources} resources at {SIZES[-1]} fleets."]


def main() -> None:
    """Measure everything, print it, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="runs of each program that count (default: 9)")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    prepare()
    resources = check_same(SIZES[-1])
    apps = [empty(), training(), *(kind(size) for size in SIZES for kind in (ours, raw, javascript))]
    modules = [imports([]), *map(imports, LAYERS.values())]
    series = interleaved([*apps, *modules], options.rounds)
    biggest = [empty(), training(), ours(SIZES[-1]), raw(SIZES[-1]), javascript(SIZES[-1])]
    tables = [
        machine(options.rounds, resources),
        synthesis(series),
        growth(series),
        whole_cluster(series),
        messages(),
        layers(series),
        memory(biggest),
    ]
    lines = [line for table in tables for line in [*table, ""]][:-1]
    print("\n".join(lines))
    if options.write:
        write_block("measured", lines)


if __name__ == "__main__":
    main()
