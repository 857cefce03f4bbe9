"""FSx for Lustre: tiers, metadata, Intelligent-Tiering, versions, clients, ports and limits.

Each row and each group gives its source, its date, and whether it was verified on an AWS page or in the API.
PERSISTENT_1 and SCRATCH_1 have no rows: they are older, slower classes that this library does not offer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json, record

_FILE = "lustre.json"


class LustreDeploymentType(str, Enum):
    """How a file system keeps its data; the values are CloudFormation's."""

    PERSISTENT_2 = "PERSISTENT_2"
    SCRATCH_2 = "SCRATCH_2"


class LustreStorageType(str, Enum):
    """Storage class of a file system; the values are CloudFormation's."""

    SSD = "SSD"
    INTELLIGENT_TIERING = "INTELLIGENT_TIERING"


class LustreVersion(str, Enum):
    """Lustre version of the servers; the values are CloudFormation's."""

    V2_10 = "2.10"
    V2_12 = "2.12"
    V2_15 = "2.15"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a group of facts comes from.

    Attributes:
        sources: Pages, models or notes, each with its date.
        as_of: Year or date of the facts.
        verified: Whether an AWS page or the API states all of it; `note` names what is missing.
        note: A doubt or restriction worth telling, or None.
    """

    sources: tuple[str, ...]
    as_of: str
    verified: bool
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreTier:
    """One throughput tier of SSD file systems; every rate is in MB/s for each TiB.

    Attributes:
        throughput_mb_per_s_per_tib: What CloudFormation takes, None where the class has one fixed rate.
        baseline_mb_per_s_per_tib: What a file system of the tier delivers.
        network_baseline, network_burst: Network between clients and servers; None is no burst.
        memory_gib: Cache of the servers, for each TiB.
        disk_read_baseline, disk_write_baseline, disk_burst: Disks behind the cache; None is no burst.
        object_server_gib: Storage of one object server without EFA.
        efa_step_gib: Capacity comes in multiples of this with EFA, one object server each; None is no EFA.
    """

    deployment_type: LustreDeploymentType
    storage_type: LustreStorageType
    throughput_mb_per_s_per_tib: int | None
    baseline_mb_per_s_per_tib: int
    network_baseline: int
    network_burst: int | None
    memory_gib: float
    disk_read_baseline: int
    disk_write_baseline: int
    disk_burst: int | None
    object_server_gib: int
    efa_step_gib: int | None
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreClient:
    """Which kernels and file systems the Lustre client of an operating system is for.

    Attributes:
        kernels: Kernel series with a client; empty where none is published.
        oldest_kernel: Oldest release of the first series, where one is named.
        file_system_versions: Versions of file systems that it mounts.
        efa: Whether it can mount over EFA.
        efa_kernel: Oldest kernel series for EFA, None where every listed one will do.
    """

    operating_system: str
    kernels: tuple[str, ...]
    oldest_kernel: str | None
    file_system_versions: tuple[str, ...]
    efa: bool
    efa_kernel: str | None


@cache
def lustre_tiers() -> tuple[LustreTier, ...]:
    """Every SSD tier that is offered."""
    return tuple(record(LustreTier, row, provenance=_provenance(row)) for row in read_json(_FILE)["tiers"])


def lustre_tier(deployment_type: str, throughput_mb_per_s_per_tib: int | None) -> LustreTier | None:
    """The SSD tier of a deployment type and throughput, or None if there is none.

    Example:
        >>> tier = lustre_tier("PERSISTENT_2", 250)
        >>> tier.efa_step_gib if tier else None
        19200
    """
    wanted = (deployment_type, throughput_mb_per_s_per_tib)
    tiers = (tier for tier in lustre_tiers() if (tier.deployment_type, tier.throughput_mb_per_s_per_tib) == wanted)
    return next(tiers, None)


def lustre_client(operating_system: str) -> LustreClient | None:
    """What is known of the Lustre client of an operating system, such as `al2023`; None if nothing was read."""
    return _clients().get(str(getattr(operating_system, "value", operating_system)))


def lustre_fact(group: str, name: str) -> Any:
    """One number or list of a group: `metadata`, `intelligent_tiering`, `efa`, `ssd_capacity` or `limits`.

    Example:
        >>> lustre_fact("limits", "data_repositories")
        8
    """
    return read_json(_FILE)[group][name]


def lustre_ports() -> tuple[tuple[int, int], ...]:
    """TCP port ranges between clients and servers and among servers, first and last port.

    Example:
        >>> lustre_ports()
        ((988, 988), (1018, 1023))
    """
    return tuple((first, last) for first, last in lustre_fact("ports", "ranges"))


def lustre_version_allows(version: str, what: str) -> bool:
    """Whether a Lustre version allows `metadata_configuration` or `data_repositories`."""
    return any(row["version"] == version and row[what] for row in read_json(_FILE)["versions"])


def lustre_versions_of(deployment_type: str) -> tuple[str, ...]:
    """The Lustre versions that a deployment type can run."""
    return tuple(row["version"] for row in read_json(_FILE)["versions"] if deployment_type in row["deployment_types"])


def lustre_provenance(group: str) -> Provenance:
    """Where a group of facts comes from; `versions` and `clients` included."""
    data = read_json(_FILE)
    return _provenance(data.get(f"{group}_provenance") or data[group])


def _provenance(row: Mapping[str, Any]) -> Provenance:
    sources = read_json(_FILE)["sources"]
    return record(Provenance, row, sources=tuple(sources[key] for key in row["source"]))


@cache
def _clients() -> Mapping[str, LustreClient]:
    return MappingProxyType({row["operating_system"]: record(LustreClient, row) for row in read_json(_FILE)["clients"]})
