"""File systems for home directories: FSx for OpenZFS and Amazon EFS, their sizes, throughput, ports and mounts.

Each group gives its source, its date, and whether it was verified on an AWS page or in the API. `MULTI_AZ_1` has no
row: the nodes of a cluster are in one zone, and `SINGLE_AZ_HA_2` already has a standby server there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json, record
from cdk_gpu_clusters.catalogue.lustre import Provenance

_FILE = "homes.json"


class HomeService(str, Enum):
    """The service that keeps home directories; the values name it in the catalogue and in the cluster file."""

    OPENZFS = "openzfs"
    EFS = "efs"

    def dns_name(self, file_system_id: str, region: str, url_suffix: str) -> str:
        """The name of a file system.

        Source: FSx API reference, FileSystem; Amazon EFS user guide, "Mounting by DNS name".

        Example:
            >>> HomeService.EFS.dns_name("fs-01234567", "us-east-1", "amazonaws.com")
            'fs-01234567.efs.us-east-1.amazonaws.com'
        """
        return f"{file_system_id}.{'fsx' if self is HomeService.OPENZFS else 'efs'}.{region}.{url_suffix}"


class OpenZfsDeploymentType(str, Enum):
    """How an FSx for OpenZFS file system survives the loss of a server; the values are CloudFormation's."""

    SINGLE_AZ_HA_2 = "SINGLE_AZ_HA_2"
    SINGLE_AZ_HA_1 = "SINGLE_AZ_HA_1"
    SINGLE_AZ_2 = "SINGLE_AZ_2"
    SINGLE_AZ_1 = "SINGLE_AZ_1"


class OpenZfsCompression(str, Enum):
    """How FSx for OpenZFS compresses data; the values are CloudFormation's."""

    ZSTD = "ZSTD"
    LZ4 = "LZ4"
    NONE = "NONE"


class QuotaType(str, Enum):
    """Whose storage a quota limits; the values are CloudFormation's."""

    USER = "USER"
    GROUP = "GROUP"


class EfsThroughputMode(str, Enum):
    """How Amazon EFS provides throughput; the values are CloudFormation's."""

    ELASTIC = "elastic"
    BURSTING = "bursting"
    PROVISIONED = "provisioned"


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsPorts:
    """A range of ports that clients reach on the servers.

    Attributes:
        protocol: `tcp` or `udp`.
        first: First port.
        last: Last port.
    """

    protocol: str
    first: int
    last: int


@cache
def openzfs_throughputs() -> Mapping[str, tuple[int, ...]]:
    """The throughput in MB/s that each deployment type can have.

    Example:
        >>> openzfs_throughputs()["SINGLE_AZ_HA_2"][:2]
        (160, 320)
    """
    return {row["deployment_type"]: tuple(row["throughputs_mb_per_s"]) for row in read_json(_FILE)["deployment_types"]}


@cache
def openzfs_interfaces() -> Mapping[str, int]:
    """The network interfaces of each deployment type, all in its one subnet, with one address each.

    Example:
        >>> openzfs_interfaces()["SINGLE_AZ_HA_2"]
        2
    """
    return {row["deployment_type"]: row["network_interfaces"] for row in read_json(_FILE)["deployment_types"]}


def home_fact(group: str, name: str) -> Any:
    """One number, text or list of a group: `openzfs` or `efs`.

    Example:
        >>> home_fact("openzfs", "smallest_gib")
        64
    """
    return read_json(_FILE)[group][name]


def nfs_ports(service: HomeService) -> tuple[NfsPorts, ...]:
    """The ports that clients of a service need.

    Example:
        >>> nfs_ports(HomeService.EFS)
        (NfsPorts(protocol='tcp', first=2049, last=2049),)
    """
    ports = read_json(_FILE)["ports"]
    return tuple(
        NfsPorts(protocol=protocol, first=first, last=last)
        for protocol in ports[f"{service.value}_protocols"]
        for first, last in ports[service.value]
    )


def nfs_export(service: HomeService) -> str:
    """The directory of a new file system that clients mount.

    Example:
        >>> nfs_export(HomeService.OPENZFS)
        '/fsx'
    """
    return str(home_fact(service.value, "export_path"))


def nfs_options(service: HomeService) -> str:
    """The options of mount(8) for a service, separated by commas."""
    return str(read_json(_FILE)["mount_options"][service.value])


def home_provenance(group: str) -> tuple[Provenance, ...]:
    """Where the facts of a group come from; one answer for each row of `deployment_types`."""
    data = read_json(_FILE)
    rows = data[group] if isinstance(data[group], list) else [data[group]]
    return tuple(record(Provenance, row, sources=tuple(data["sources"][key] for key in row["source"])) for row in rows)
