"""Find an instance type by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json
from cdk_gpu_clusters.catalogue._records import build_instance_type
from cdk_gpu_clusters.catalogue.instances import InstanceType
from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule

# One file per origin: AWS pages for types that the recording lacks, and recorded API output, which wins.
_EC2_FILES = (
    ("documented_instance_types.json", "documentation"),
    ("ec2_instance_types.json", "api"),
)

UNKNOWN_TYPE = define_rule(
    "GPU-INST-001",
    "the instance type is in the catalogue",
    source="the catalogue's data files: recorded DescribeInstanceTypes output and AWS specification pages",
)
NAME_ONLY_TYPE = define_rule(
    "GPU-INST-002",
    "the instance type has published numbers",
    source="the catalogue's list of names that AWS pages mention without specifications",
)


def instance_type(name: str) -> InstanceType:
    """The record of one instance type.

    Args:
        name: Such as `p5.48xlarge`, in EC2's own spelling.

    Raises:
        ConfigError: GPU-INST-001 if the type is unknown, with the nearest names; GPU-INST-002 if only its
            name is known, with what is missing.

    Example:
        >>> instance_type("p5.48xlarge").network.efa.max_interfaces
        32
    """
    if name in name_only_types():
        raise ConfigError([_name_only(name)])
    if name not in _rows():
        raise ConfigError([_unknown(name)])
    return _record(name)


def instance_types() -> Mapping[str, InstanceType]:
    """Every instance type of the catalogue by name, accelerated and plain, in name order."""
    return _all_records()


def instance_type_names() -> frozenset[str]:
    """The names of every instance type of the catalogue, without their records."""
    return _names()


def name_only_types() -> Mapping[str, str]:
    """Types that sources name without giving numbers, each with the reason why it cannot be used yet."""
    names: dict[str, str] = read_json("instance_facts.json")["name_only_types"]
    return MappingProxyType(names)


@cache
def _names() -> frozenset[str]:
    return frozenset(_rows())


@cache
def _all_records() -> Mapping[str, InstanceType]:
    return MappingProxyType({name: _record(name) for name in sorted(_rows())})


@cache
def _record(name: str) -> InstanceType:
    file, record_status = _rows()[name]
    ec2, facts = read_json(file), read_json("instance_facts.json")
    family = name.partition(".")[0]
    own = {**facts["families"].get(family, {}), **facts["types"].get(name, {})}
    zones = _zones(name)
    origin = [ec2["source"], *([read_json("ec2_offerings.json")["source"]] if zones else [])]
    tables = {**facts, "origin": origin, "record_status": record_status}
    return build_instance_type(name, ec2["types"][name], own, tables, zones)


@cache
def _rows() -> Mapping[str, tuple[str, str]]:
    return {name: (file, status) for file, status in _EC2_FILES for name in read_json(file)["types"]}


def _zones(name: str) -> dict[str, tuple[str, ...]]:
    """Zone ids that offer the type; the file keeps numbers only, as `"us-east-1": "1 2 6"`."""
    offerings: dict[str, Any] = read_json("ec2_offerings.json")
    prefixes = offerings["zone_id_prefixes"]
    return {
        region: tuple(f"{prefixes[region]}-az{number}" for number in numbers.split())
        for region, numbers in offerings["types"].get(name, {}).items()
    }


def _unknown(name: str) -> Finding:
    from difflib import get_close_matches  # only a wrong name pays for it

    wanted, known = name.strip().lower(), list(_rows())
    similar = get_close_matches(wanted, known, n=4)
    family = [other for other in known if other.partition(".")[0] == wanted.partition(".")[0]]
    nearest = dict.fromkeys((*similar, *family))
    return UNKNOWN_TYPE.finding(
        cause="the instance type is not in the catalogue",
        got=repr(name),
        allowed=f"nearest: {', '.join(nearest)}" if nearest else "a type of `instance_types()`",
        fix="correct the name; for a type newer than this release, update the library",
    )


def _name_only(name: str) -> Finding:
    return NAME_ONLY_TYPE.finding(
        cause=f"only the name of this instance type is known: {name_only_types()[name]}",
        got=repr(name),
        fix="use a type with published specifications, or update the library once AWS publishes them",
    )
