"""AWS PCS: versions of Slurm, sizes of clusters, and the custom settings that PCS takes, each row with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json, record

_FILE = "pcs.json"


def version_of_slurm(text: str) -> tuple[int, ...]:
    """A version of Slurm as numbers, which have an order; empty if the text is no version.

    Example:
        >>> version_of_slurm("25.11") > version_of_slurm("25.05")
        True
    """
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmVersion:
    """A major version of Slurm that AWS PCS offers, or has offered.

    Attributes:
        version: Such as `25.11`.
        offered: Whether PCS takes it for a new cluster.
        ends: Day after which PCS makes no new cluster of it; None where no source was read.
        source: Where the row comes from, with date.
    """

    version: str
    offered: bool
    ends: date | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """What a size of a cluster holds.

    Attributes:
        name: The size, as the API takes it.
        nodes: Most compute nodes.
        jobs: Most jobs, active and queued.
    """

    name: str
    nodes: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomSettings:
    """The custom settings that PCS takes at one level.

    Attributes:
        level: `cluster`, `compute node group`, `queue`, `slurmdbd` or `cgroup`.
        names: Names of the settings.
        since: First version of Slurm of settings that older ones do not have.
        values_since: First version of Slurm of values that older ones do not have, by setting and value.
        source: Where the row comes from, with date.
    """

    level: str
    names: tuple[str, ...]
    since: Mapping[str, str]
    values_since: Mapping[str, Mapping[str, str]]
    source: str


@cache
def slurm_versions() -> Mapping[str, SlurmVersion]:
    """Every version by name, oldest first.

    Example:
        >>> str(slurm_versions()["24.11"].ends)
        '2026-05-31'
    """
    return MappingProxyType(
        {
            row["version"]: record(
                SlurmVersion,
                row,
                ends=None if row["ends"] is None else date.fromisoformat(row["ends"]),
                source=_source(row),
            )
            for row in read_json(_FILE)["versions"]
        }
    )


@cache
def size_limits() -> Mapping[str, SizeLimits]:
    """The sizes of a cluster by name, smallest first.

    Example:
        >>> size_limits()["SMALL"].nodes
        32
    """
    return MappingProxyType({row["name"]: record(SizeLimits, row) for row in read_json(_FILE)["sizes"]})


@cache
def custom_settings() -> Mapping[str, CustomSettings]:
    """The custom settings by level.

    Example:
        >>> "Gres" in custom_settings()["compute node group"].names
        True
    """
    rows = read_json(_FILE)["settings"]
    return MappingProxyType({row["level"]: record(CustomSettings, row, source=_source(row)) for row in rows})


@cache
def feature_since(name: str) -> str:
    """The first version of Slurm with which PCS has a feature.

    Args:
        name: `accounting`, `rest_api`, `metrics`, `idle_time_of_group`, `gres_autodetect` or `default_topology`.

    Raises:
        KeyError: The catalogue does not have it.

    Example:
        >>> feature_since("gres_autodetect")
        '25.11'
    """
    rows: list[dict[str, str]] = read_json(_FILE)["features"]
    return {row["name"]: row["since"] for row in rows}[name]


@cache
def gres_attributes() -> tuple[str, ...]:
    """The attributes of `gres.conf` that PCS takes in a record."""
    return tuple(read_json(_FILE)["gres_attributes"]["names"])


@cache
def scheduler_parameters(slurm_version: str) -> tuple[str, ...]:
    """The words of `SchedulerParameters` that PCS sets itself.

    Args:
        slurm_version: Such as `25.11`.

    Example:
        >>> scheduler_parameters("25.05")
        ('requeue_on_resume_failure',)
    """
    rows: list[dict[str, str]] = read_json(_FILE)["scheduler_parameters"]
    own = version_of_slurm(slurm_version)
    return tuple(row["word"] for row in rows if version_of_slurm(row["since"]) <= own)


def _source(row: Mapping[str, Any]) -> str:
    return str(read_json(_FILE)["sources"][row["source"]])


#: Version of Slurm of a new cluster; the data file says why.
DEFAULT_SLURM_VERSION: str = read_json(_FILE)["default_version"]["version"]
#: About how long PCS waits for a node to join Slurm, from its launch; then it replaces the node.
JOIN_SECONDS: int = read_json(_FILE)["join"]["seconds"]
