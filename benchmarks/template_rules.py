"""The rules over a template of 500 resources, beside cfn-lint on the same file, in one run.

`python benchmarks/template_rules.py --rounds 5`. The template is made of those that the synth tests recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "constructs")]

from cdk_gpu_clusters.policy.engine import judge  # noqa: E402 - the path is set above
from cdk_gpu_clusters.policy.registry import every_rule  # noqa: E402
from cdk_gpu_clusters.policy.template import read_template  # noqa: E402
from recorded_templates import recorded  # noqa: E402

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
        name
        for section in ("Parameters", "Mappings", "Conditions", "Resources")
        for name in template.get(section, {})
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


def timed(command: list[str]) -> float:
    """Seconds that a process takes; findings are no failure."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "constructs")}
    started = time.perf_counter()
    subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return time.perf_counter() - started


def rule_time(file: Path) -> float:
    """Seconds that reading and judging take in a process that runs already."""
    started = time.perf_counter()
    judge(read_template(file), every_rule())
    return time.perf_counter() - started


def main() -> None:
    """Measure, and print a line for each subject: least, median and most."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--resources", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.template.json"
        file.write_text(json.dumps(big_template(options.resources), indent=1), encoding="utf-8")
        print(f"{options.resources} resources, {file.stat().st_size / 1e3:.0f} kB, {len(every_rule())} rules")
        lint = [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main", "lint", str(file)]
        subjects: dict[str, Callable[[], float]] = {
            "rules alone": lambda: rule_time(file),
            "gpu-clusters lint": lambda: timed(lint),
            "cfn-lint": lambda: timed(["cfn-lint", "--", str(file)]),
        }
        rounds = [{name: measure() for name, measure in subjects.items()} for _ in range(options.rounds + 1)][
            1:
        ]
    for name in subjects:
        times = [one[name] for one in rounds]
        print(f"{name}: {min(times):.3f} {statistics.median(times):.3f} {max(times):.3f} s")


if __name__ == "__main__":
    main()
