"""The rules over a template of 500 resources, beside cfn-lint; written into `docs/performance.md` with `--write`.

`make bench-rules`, or `python benchmarks/template_rules.py --rounds 3` for a quick look. The template is made of those
that the synth tests recorded. Both are measured in the same rounds; cfn-lint runs its own rules, not ours.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.template import read_template
from page import PAGE, cores_and_memory, write_block
from processes import Run
from recorded_templates import recorded

RULES_ALONE = "rules alone"
#: Seconds on a quiet machine of two cores.
TARGETS = {RULES_ALONE: 0.3, "`gpu-clusters lint`, JSON": 0.6}
Json = dict[str, Any]


def big_template(resources: int) -> Json:
    """Our own recorded templates, one after the other and again, under names of their own."""
    made: Json = {"Parameters": {}, "Mappings": {}, "Conditions": {}, "Resources": {}}
    for number in count():
        for template in recorded().values():
            for section, held in _renamed(template, f"N{number}T{len(made['Resources'])}").items():
                made[section] |= held
            if len(made["Resources"]) >= resources:
                made["Resources"] = dict(list(made["Resources"].items())[:resources])
                return made
    raise AssertionError


def _renamed(template: Json, prefix: str) -> Json:
    names = {
        name for section in ("Parameters", "Mappings", "Conditions", "Resources") for name in template.get(section, {})
    }
    sections = {key: template.get(key, {}) for key in ("Parameters", "Mappings", "Conditions", "Resources")}
    return {
        section: {f"{prefix}{name}": _with_names(value, names, prefix) for name, value in held.items()}
        for section, held in sections.items()
    }


def _with_names(value: Any, names: set[str], prefix: str) -> Any:
    if isinstance(value, dict):
        return {key: _with_names(child, names, prefix) for key, child in value.items()}
    if isinstance(value, list):
        return [_with_names(child, names, prefix) for child in value]
    return f"{prefix}{value}" if isinstance(value, str) and value in names else value


def timed(command: list[str]) -> Run:
    """Time a process; findings are no failure."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Traceback" in done.stderr or not done.stdout:
        sys.exit(f"benchmarks: {' '.join(command)}: {done.stderr or 'said nothing'}")
    spent = (one.ru_utime + one.ru_stime for one in (after, before))
    return Run(wall_s=wall_s, cpu_s=next(spent) - next(spent))


def judged(file: Path) -> Run:
    """Time the rules alone, in a process that runs already."""
    template = read_template(file)
    started, spent = time.perf_counter(), time.process_time()
    judge(template, every_rule())
    return Run(wall_s=time.perf_counter() - started, cpu_s=time.process_time() - spent)


def subjects_of(folder: Path, template: Json) -> dict[str, Callable[[], Run]]:
    """What is measured, by name: ours and cfn-lint, on the same files."""
    as_json, as_yaml = folder / "big.template.json", folder / "big.template.yaml"
    as_json.write_text(json.dumps(template, indent=1), encoding="utf-8")
    as_yaml.write_text(yaml.dump(template, Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
    ours, cfn_lint = (str(Path(sys.executable).with_name(name)) for name in ("gpu-clusters", "cfn-lint"))
    return {
        RULES_ALONE: lambda: judged(as_json),
        "`gpu-clusters lint`, JSON": lambda: timed([ours, "lint", str(as_json)]),
        "`cfn-lint`, JSON": lambda: timed([cfn_lint, "--", str(as_json)]),
        "`gpu-clusters lint`, YAML": lambda: timed([ours, "lint", str(as_yaml)]),
        "`cfn-lint`, YAML": lambda: timed([cfn_lint, "--", str(as_yaml)]),
    }


def table(rounds: Sequence[Mapping[str, Run]]) -> Iterator[str]:
    """A line for each subject."""
    yield "| Subject | Least | Median | Most | Target |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name in rounds[0]:
        runs = [one[name] for one in rounds]
        wall = [run.wall_s for run in runs]
        cpu = statistics.median(run.cpu_s for run in runs)
        target = f"{TARGETS[name]:.1f} s" if name in TARGETS else "—"
        median = f"{statistics.median(wall):.2f} s ({cpu:.2f})"
        yield f"| {name} | {min(wall):.2f} s | {median} | {max(wall):.2f} s | {target} |"


def main() -> None:
    """Measure, print the table, and write it down if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--resources", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7, help="runs that count (default: 7)")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    template = big_template(options.resources)
    with tempfile.TemporaryDirectory() as folder:
        subjects = subjects_of(Path(folder), template)
        size = (Path(folder) / "big.template.json").stat().st_size
        measured = [{name: measure() for name, measure in subjects.items()} for _ in range(options.rounds + 1)]
    where = f"{cores_and_memory()}, Python {platform.python_version()}, cfn-lint {version('cfn-lint')}"
    what = f"{len(template['Resources'])} resources in {size / 1e3:.0f} kB of JSON, {len(every_rule())} rules"
    how = f"{options.rounds} rounds, each subject once a round, processor time in brackets"
    busy = f"other work on the machine: a load of {load:.1f} when it began"
    lines = [f"{datetime.now(UTC):%Y-%m-%d}; {where}; {what}; {how}; {busy}.", "", *table(measured[1:])]
    print("\n".join(lines))
    if options.write:
        write_block("template rules", lines)


if __name__ == "__main__":
    main()
