"""Where DescribeInstanceTypes and DescribeInstanceTypeOfferings output is read from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Source:
    """API output: each type's element by name, where it comes from, and whether it covers every Region's types."""

    title: str
    instance_types: Mapping[str, Mapping[str, Any]]
    complete: bool


def from_moto() -> Source:
    """The output that moto ships, recorded over many Regions."""
    file = moto_resources() / "instance_types.json.gz"
    title = f"moto {version('moto')}, ec2/resources/{file.name}: recorded DescribeInstanceTypes output"
    return Source(title=title, instance_types=_by_name(read(file)), complete=True)


def from_file(file: Path) -> Source:
    """Output saved by a user, such as by `aws ec2 describe-instance-types`; plain or gzipped."""
    title = f"{file.name}: DescribeInstanceTypes output"
    return Source(title=title, instance_types=_by_name(read(file)), complete=False)


def from_account(region: str, names: Iterable[str]) -> Source:
    """Output of the caller's own account in one Region, which offers only some types.

    Args:
        region: Region to ask.
        names: Name patterns to ask for, such as `p5.*`.
    """
    import boto3  # only here: the tool works without AWS access

    paginator = boto3.client("ec2", region_name=region).get_paginator("describe_instance_types")
    pages = paginator.paginate(Filters=[{"Name": "instance-type", "Values": list(names)}])
    found = [element for page in pages for element in page["InstanceTypes"]]
    return Source(title=f"DescribeInstanceTypes in {region}", instance_types=_by_name(found), complete=False)


def moto_resources() -> Path:
    """The folder of moto's recorded EC2 output."""
    spec = find_spec("moto")
    if spec is None or spec.origin is None:
        raise SystemExit("moto is not installed: give --file or --live")
    return Path(spec.origin).parent / "ec2" / "resources"


def moto_offerings() -> tuple[str, dict[str, str], dict[str, dict[str, str]]]:
    """Recorded offerings: source, zone-id prefix by Region, and zone numbers (`"1 2 6"`) by type and Region."""
    folder = moto_resources() / "instance_type_offerings"
    prefixes: dict[str, str] = {}
    offered: dict[str, dict[str, list[int]]] = {}
    files = sorted((folder / "availability-zone-id").iterdir())
    for file in files:
        region = file.name.partition(".")[0]
        for offering in read(folder / "region" / file.name):
            offered.setdefault(offering["InstanceType"], {})[region] = []
        for offering in read(file):
            prefixes[region], _, number = offering["Location"].rpartition("-az")
            offered.setdefault(offering["InstanceType"], {}).setdefault(region, []).append(int(number))
    zones = {
        name: {region: " ".join(map(str, sorted(numbers))) for region, numbers in places.items()}
        for name, places in offered.items()
    }
    title = f"moto {version('moto')}, ec2/resources/{folder.name}: recorded DescribeInstanceTypeOfferings output"
    return title, prefixes, zones


def read(file: Path) -> Any:
    """The content of a JSON file, plain or gzipped."""
    data = file.read_bytes()
    return json.loads(gzip.decompress(data) if file.suffix == ".gz" else data)


def _by_name(content: Any) -> dict[str, Mapping[str, Any]]:
    """Accept the API's `{"InstanceTypes": [...]}`, a bare list, or moto's mapping by name."""
    if isinstance(content, dict):
        content = content.get("InstanceTypes", list(content.values()))
    elements: Iterable[Mapping[str, Any]] = content
    return {element["InstanceType"]: element for element in elements}
