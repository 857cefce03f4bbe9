#!/usr/bin/env python3
"""Refresh the catalogue's EC2 part from DescribeInstanceTypes output, and tell what changed per type and field.

    python tools/refresh_instances.py                            # from the output that moto ships
    python tools/refresh_instances.py --check                    # write nothing, exit 1 if anything differs
    python tools/refresh_instances.py --file types.json          # from saved output
    python tools/refresh_instances.py --live --region us-east-1  # from your account; needs boto3 and credentials

Only moto's output covers every Region, so only there does a missing type leave the catalogue; offerings are
refreshed from there alone. Hand-sourced facts (instance_facts.json) are never touched.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _instance_rows import Row, instance_row, render
from _instance_sources import Source, from_account, from_file, from_moto, moto_offerings

DATA = Path(__file__).parents[1] / "constructs" / "cdk_gpu_clusters" / "catalogue" / "data"
TYPES = "ec2_instance_types.json"
OFFERINGS = "ec2_offerings.json"


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the result is the exit code."""
    options = _parse(arguments)
    scope = json.loads((options.data / "scope.json").read_text(encoding="utf-8"))
    source = _source(options, scope)
    old = json.loads((options.data / TYPES).read_text(encoding="utf-8"))
    new = {name: instance_row(api) for name, api in source.instance_types.items() if in_scope(api, scope)}
    kept = {} if source.complete else {name: row for name, row in old["types"].items() if name not in new}
    rows = {**kept, **new}
    changes = list(differences(old["types"], rows))
    if changes and not options.check:
        header = {"source": _dated(source.title, old["source"])}
        (options.data / TYPES).write_text(render(header, rows), encoding="utf-8")
    if source.complete:
        changes += _refresh_offerings(options, set(rows))
    for line in (*changes, *_notes(source, scope, options.data)):
        print(line)
    print(f"{len(changes)} differences, {len(new)} types read from {source.title}")
    return 1 if options.check and changes else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything differs")
    parser.add_argument("--file", type=Path, help="saved DescribeInstanceTypes output, plain or gzipped JSON")
    parser.add_argument("--live", action="store_true", help="ask EC2 with your credentials")
    parser.add_argument("--region", help="Region to ask, with --live")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data files (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.live and options.file:
        parser.error("give either --file or --live")
    if options.live != bool(options.region):
        parser.error("--live and --region go together")
    return options


def _source(options: argparse.Namespace, scope: Mapping[str, Any]) -> Source:
    if options.live:
        # Whole letters of accelerated types too, so that a family nobody has sorted yet is pointed out.
        return from_account(options.region, ["p*", "g*", "trn*", "inf*", *(f"{cpu}.*" for cpu in scope["cpu"])])
    return from_file(options.file) if options.file else from_moto()


def in_scope(api: Mapping[str, Any], scope: Mapping[str, Any]) -> bool:
    """Whether the catalogue carries a type: accelerated families whole, CPU families without bare metal."""
    family = api["InstanceType"].partition(".")[0]
    return family in scope["accelerated"] or (family in scope["cpu"] and not api["BareMetal"])


def differences(old: Mapping[str, Row], new: Mapping[str, Row]) -> Iterator[str]:
    """One line per type that came or went, and per field that changed."""
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"- {name}"
        elif name not in old:
            yield f"+ {name}"
        else:
            before, after = dict(_fields(old[name])), dict(_fields(new[name]))
            for field in sorted({*before, *after}):
                if before.get(field) != after.get(field):
                    yield f"~ {name} {field}: {before.get(field)} -> {after.get(field)}"


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a row with its path, such as `network.cards[0].peak_gbps`; short lists are leaves."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for index, inner in enumerate(value):
            yield from _fields(inner, f"{path}[{index}]")
    else:
        yield path, value


def _dated(title: str, before: str) -> str:
    """The source as the file names it: the date stays while the title does, else it is today's."""
    return before if before.startswith(title) else f"{title} (read {datetime.now(UTC):%Y-%m-%d})"


def _refresh_offerings(options: argparse.Namespace, names: set[str]) -> list[str]:
    file = options.data / OFFERINGS
    old = json.loads(file.read_text(encoding="utf-8"))
    title, prefixes, zones = moto_offerings()
    new = {name: places for name, places in zones.items() if name in names}
    changes = [f"{change} (offering)" for change in differences(old["types"], new)]
    if (changes or prefixes != old["zone_id_prefixes"]) and not options.check:
        header = {"source": _dated(title, old["source"]), "zone_id_prefixes": prefixes}
        file.write_text(render(header, new), encoding="utf-8")
    return changes


def _notes(source: Source, scope: Mapping[str, Any], data: Path) -> Iterator[str]:
    """What a person has to decide: accelerated families out of scope, and documented types that now have API output."""
    documented = json.loads((data / "documented_instance_types.json").read_text(encoding="utf-8"))["types"]
    known = {*scope["accelerated"], *scope["excluded"]}
    for name, api in sorted(source.instance_types.items()):
        accelerated = not {"GpuInfo", "NeuronInfo", "InferenceAcceleratorInfo"}.isdisjoint(api)
        if accelerated and name.partition(".")[0] not in known:
            yield f"? {name} is accelerated and its family is not in scope.json"
        if name in documented:
            yield f"? {name} has API output now: drop its row of documented_instance_types.json"


if __name__ == "__main__":
    sys.exit(main())
