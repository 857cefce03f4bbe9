"""File systems for home directories: which sizes, throughputs, quotas, backups and changes are valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cdk_gpu_clusters.catalogue.homes import (
    EfsThroughputMode,
    HomeService,
    OpenZfsCompression,
    OpenZfsDeploymentType,
    QuotaType,
    home_fact,
    openzfs_interfaces,
    openzfs_throughputs,
)
from cdk_gpu_clusters.errors import Finding, check, define_rule

_API = "botocore 1.44.5, fsx service model: CreateFileSystem"
_UPDATE = "botocore 1.44.5, fsx service model: UpdateFileSystem; CloudFormation user guide, OpenZFSConfiguration"
_EFS_API = "botocore 1.44.5, efs service model: CreateFileSystem"

DEPLOYMENT = define_rule("GPU-HOM-001", "The deployment type of home directories is a single-AZ type", source=_API)
CAPACITY = define_rule("GPU-HOM-002", "FSx for OpenZFS has 64 to 524288 GiB of SSD storage", source=_API)
THROUGHPUT = define_rule(
    "GPU-HOM-003",
    "The throughput is one of the deployment type",
    source=f"{_API}; awslabs/awsome-distributed-ai @ 95b939c, architectures/aws-pcs/README.md",
)
RECORD_SIZE = define_rule("GPU-HOM-004", "The record size is a power of two from 4 to 1024 KiB", source=_API)
QUOTAS = define_rule(
    "GPU-HOM-005",
    "A quota has a valid id and size, a user or group has one quota, and there are 500 at most",
    source=_API,
)
BACKUPS = define_rule("GPU-HOM-006", "Daily backups are kept for 0 to 90 days", source=_API)
PROVISIONED = define_rule(
    "GPU-HOM-007", "Provisioned throughput of EFS has a number of MiB/s, other modes have none", source=_EFS_API
)
PLACES = define_rule(
    "GPU-HOM-008",
    "FSx for OpenZFS has one subnet, EFS has one for each zone",
    source=f"{_API}; Amazon EFS user guide: one mount target in each Availability Zone",
)
ZONE = define_rule(
    "GPU-HOM-009",
    "EFS has a mount target in the zone of its clients",
    source='Amazon EFS user guide, "Mounting by DNS name": it resolves to the mount target of the client\'s zone',
)
CHANGE = define_rule(
    "GPU-HOM-010",
    "A file system with home directories changes in place",
    source=_UPDATE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeQuota:
    """The most storage that one user or group may use.

    Attributes:
        type: USER or GROUP.
        id: Numeric id of the user or group: NFS knows no names.
        storage_gib: Most storage in GiB; 0 means no limit.
    """

    type: QuotaType
    id: int
    storage_gib: int

    @classmethod
    def user(cls, user_id: int, storage_gib: int) -> HomeQuota:
        """The quota of a user.

        Args:
            user_id: Numeric id; 0 is root.
            storage_gib: Most storage in GiB.

        Example:
            >>> HomeQuota.user(2001, 100).type.value
            'USER'
        """
        return cls(type=QuotaType.USER, id=user_id, storage_gib=storage_gib)

    @classmethod
    def group(cls, group_id: int, storage_gib: int) -> HomeQuota:
        """The quota of all files of a group.

        Args:
            group_id: Numeric id of the group.
            storage_gib: Most storage in GiB.
        """
        return cls(type=QuotaType.GROUP, id=group_id, storage_gib=storage_gib)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenZfsHomes:
    """Home directories on FSx for OpenZFS: low latency for small files, quotas, snapshots and daily backups.

    Attributes:
        storage_capacity_gib: SSD storage, 64 to 524288 GiB. It can only grow.
        throughput_mb_per_s: One of the steps of the deployment type.
        deployment_type: SINGLE_AZ_HA_2 has a standby server in the same zone. A change replaces the file system.
        compression: How data are compressed. Homes hold text, which ZSTD makes smaller than LZ4.
        record_size_kib: Largest block of a file, 4 to 1024 KiB; 128 is what AWS recommends for most data.
        quotas: Limits of users and groups; none by default.
        backup_retention_days: Days of daily backups, 0 to 90; 0 means none.

    Example:
        >>> OpenZfsHomes(storage_capacity_gib=2048).deployment_type.value
        'SINGLE_AZ_HA_2'
    """

    service: ClassVar[HomeService] = HomeService.OPENZFS

    storage_capacity_gib: int = 1024
    throughput_mb_per_s: int = 320
    deployment_type: OpenZfsDeploymentType = OpenZfsDeploymentType.SINGLE_AZ_HA_2
    compression: OpenZfsCompression = OpenZfsCompression.ZSTD
    record_size_kib: int = 128
    quotas: tuple[HomeQuota, ...] = ()
    backup_retention_days: int = 30

    @property
    def ip_addresses(self) -> int:
        """Addresses that its servers take from their subnet: one each, and one more for a standby server."""
        return openzfs_interfaces()[OpenZfsDeploymentType(self.deployment_type).value]


@dataclass(frozen=True, slots=True, kw_only=True)
class EfsHomes:
    """Home directories on Amazon EFS: elastic, paid by use, in every zone, without quotas, and slower for small files.

    Attributes:
        throughput_mode: ELASTIC grows and shrinks with the load.
        provisioned_mib_per_s: Throughput of PROVISIONED, 1 to 3414 MiB/s; it has no other mode.
        backups: Whether AWS Backup makes daily backups with its own plan.

    Example:
        >>> EfsHomes().throughput_mode.value
        'elastic'
    """

    service: ClassVar[HomeService] = HomeService.EFS

    throughput_mode: EfsThroughputMode = EfsThroughputMode.ELASTIC
    provisioned_mib_per_s: float | None = None
    backups: bool = True

    @property
    def ip_addresses(self) -> int:
        """Addresses that its mount target takes from a subnet."""
        return int(home_fact("efs", "addresses_per_mount_target"))


#: The file system behind home directories.
HomeStorage = OpenZfsHomes | EfsHomes


def check_homes(storage: HomeStorage) -> list[Finding]:
    """Find what is wrong with a file system for home directories, all at once.

    Args:
        storage: Plain values; the caller leaves out what only a deployment knows.

    Example:
        >>> findings = check_homes(OpenZfsHomes(throughput_mb_per_s=300))
        >>> findings[0].id, findings[0].fix
        ('GPU-HOM-003', 'use 160 or 320')
    """
    return _check_openzfs(storage) if isinstance(storage, OpenZfsHomes) else _check_efs(storage)


@check
def _check_openzfs(storage: OpenZfsHomes) -> Iterator[Finding]:
    smallest, largest = (int(home_fact("openzfs", f"{which}_gib")) for which in ("smallest", "largest"))
    if not smallest <= storage.storage_capacity_gib <= largest:
        yield CAPACITY.finding(
            cause="FSx makes no such size",
            got=f"{storage.storage_capacity_gib} GiB",
            allowed=f"{smallest} to {largest} GiB",
            fix=f"use {min(max(storage.storage_capacity_gib, smallest), largest)} GiB",
            path="storage_capacity_gib",
        )
    yield from _check_throughput(storage)
    sizes = home_fact("openzfs", "record_sizes_kib")
    if storage.record_size_kib not in sizes:
        yield RECORD_SIZE.finding(
            cause="OpenZFS has no such record size",
            got=f"{storage.record_size_kib} KiB",
            allowed=", ".join(map(str, sizes)),
            fix="use 128",
            path="record_size_kib",
        )
    yield from _check_quotas(storage.quotas)
    longest = int(home_fact("openzfs", "longest_backup_days"))
    if not 0 <= storage.backup_retention_days <= longest:
        yield BACKUPS.finding(
            cause="FSx keeps daily backups no longer",
            got=str(storage.backup_retention_days),
            allowed=f"0 to {longest} days",
            fix=f"use {longest}, and AWS Backup for longer" if storage.backup_retention_days > 0 else "use 0 for none",
            path="backup_retention_days",
        )


def _check_throughput(storage: OpenZfsHomes) -> Iterator[Finding]:
    steps = openzfs_throughputs().get(getattr(storage.deployment_type, "value", storage.deployment_type))
    if steps is None:
        yield DEPLOYMENT.finding(
            cause="this deployment type is not offered",
            got=str(storage.deployment_type),
            allowed=", ".join(openzfs_throughputs()),
            fix="use SINGLE_AZ_HA_2, which has a standby server in the zone of the nodes",
            path="deployment_type",
        )
    elif storage.throughput_mb_per_s not in steps:
        below = [one for one in steps if one < storage.throughput_mb_per_s][-1:]
        above = [one for one in steps if one > storage.throughput_mb_per_s][:1]
        yield THROUGHPUT.finding(
            cause=f"{OpenZfsDeploymentType(storage.deployment_type).value} has no such throughput",
            got=f"{storage.throughput_mb_per_s} MB/s",
            allowed=", ".join(map(str, steps)),
            fix=f"use {' or '.join(map(str, below + above))}",
            path="throughput_mb_per_s",
        )


def _check_quotas(quotas: Sequence[HomeQuota]) -> Iterator[Finding]:
    most, largest = (int(home_fact("openzfs", name)) for name in ("most_quotas", "largest_id"))
    if len(quotas) > most:
        yield QUOTAS.finding(
            cause="a volume has no more quotas", got=str(len(quotas)), allowed=f"{most} at most", path="quotas",
            fix="limit groups, or the users who need it",
        )  # fmt: skip
    seen: set[tuple[str, int]] = set()
    for number, quota in enumerate(quotas):
        path, key = f"quotas[{number}]", (str(quota.type), quota.id)
        if key in seen:
            yield QUOTAS.finding(
                cause="this user or group has a quota already", got=str(quota.id), fix="keep one of the two", path=path
            )
        seen.add(key)
        for name, value in (("id", quota.id), ("storage_gib", quota.storage_gib)):
            if not 0 <= value <= largest:
                yield QUOTAS.finding(
                    cause=f"the {name} of a quota is out of range",
                    got=str(value),
                    allowed=f"0 to {largest}",
                    fix="use the numeric id of the user or group" if name == "id" else "use 0 for no limit",
                    path=f"{path}.{name}",
                )


@check
def _check_efs(storage: EfsHomes) -> Iterator[Finding]:
    rate = storage.provisioned_mib_per_s
    least, most = (home_fact("efs", f"{which}_provisioned_mib_per_s") for which in ("least", "most"))
    is_provisioned = storage.throughput_mode == EfsThroughputMode.PROVISIONED
    if is_provisioned and (rate is None or not least <= rate <= most):
        yield PROVISIONED.finding(
            cause="provisioned throughput needs a rate",
            got="none" if rate is None else f"{rate:g} MiB/s",
            allowed=f"{least} to {most} MiB/s",
            fix="set it, or use ELASTIC",
            path="provisioned_mib_per_s",
        )
    elif not is_provisioned and rate is not None:
        yield PROVISIONED.finding(
            cause=f"the mode {EfsThroughputMode(storage.throughput_mode).value} has no rate of its own",
            got=f"{rate:g} MiB/s",
            allowed="none",
            fix="leave it out, or use PROVISIONED",
            path="provisioned_mib_per_s",
        )


@check
def check_home_places(service: HomeService, zones: Sequence[str | None]) -> Iterator[Finding]:
    """Find subnets in which the file system cannot be.

    Args:
        service: The service.
        zones: The zone of each subnet; None if it is unknown.

    Example:
        >>> [one.id for one in check_home_places(HomeService.OPENZFS, ["us-east-1a", "us-east-1b"])]
        ['GPU-HOM-008']
    """
    known = [zone for zone in zones if zone is not None]
    if service is HomeService.OPENZFS and len(zones) != 1:
        yield PLACES.finding(
            cause="the servers of a single-AZ file system are in one subnet",
            got=f"{len(zones)} subnets",
            allowed="one subnet",
            fix="give the subnet of the nodes",
            path="subnets",
        )
    elif not zones or len(set(known)) < len(known):
        yield PLACES.finding(
            cause="EFS takes one mount target in each zone" if zones else "nothing could mount it",
            got=", ".join(known) or "no subnet",
            allowed="one subnet in each zone of the nodes",
            fix="give one subnet for each zone",
            path="subnets",
        )


@check
def check_home_client(
    service: HomeService, *, zones: Sequence[str] = (), file_system_zones: Sequence[str] = ()
) -> Iterator[Finding]:
    """Find clients that cannot mount the file system by its name.

    FSx for OpenZFS is mounted from any zone of its VPC.

    Args:
        service: The service.
        zones: Zones of the clients, as far as they are known.
        file_system_zones: Zones of the mount targets, in the same form; empty if unknown.

    Example:
        >>> [
        ...     one.id
        ...     for one in check_home_client(
        ...         HomeService.EFS, zones=["us-east-1b"], file_system_zones=["us-east-1a"]
        ...     )
        ... ]
        ['GPU-HOM-009']
    """
    missing = sorted(set(zones) - set(file_system_zones))
    if service is HomeService.EFS and file_system_zones and missing:
        yield ZONE.finding(
            cause="the file system's name does not resolve in a zone without a mount target",
            got=", ".join(missing),
            allowed=", ".join(sorted(file_system_zones)),
            fix="add a subnet of that zone to the store",
        )


@check
def check_homes_change(before: HomeStorage, after: HomeStorage) -> Iterator[Finding]:
    """Find changes that would replace the file system, or that AWS refuses.

    Args:
        before: What is deployed.
        after: What the next deployment asks for.

    Example:
        >>> [
        ...     one.cause
        ...     for one in check_homes_change(OpenZfsHomes(), OpenZfsHomes(storage_capacity_gib=512))
        ... ]
        ['storage_capacity_gib cannot shrink']
    """
    if before.service is not after.service:
        yield CHANGE.finding(
            cause="the service changes, and the home directories stay in the old file system",
            got=f"{before.service.value} -> {after.service.value}",
            fix="make a second store, copy the directories, then change the mounts",
        )
    elif isinstance(before, OpenZfsHomes) and isinstance(after, OpenZfsHomes):
        if after.storage_capacity_gib < before.storage_capacity_gib:
            yield CHANGE.finding(
                cause="storage_capacity_gib cannot shrink",
                got=f"{before.storage_capacity_gib} -> {after.storage_capacity_gib} GiB",
                fix="keep the size, or make a second store and copy the directories",
                path="storage_capacity_gib",
            )
        if after.deployment_type != before.deployment_type:
            yield CHANGE.finding(
                cause="deployment_type cannot change: CloudFormation makes an empty file system instead",
                got=f"{_value(before.deployment_type)} -> {_value(after.deployment_type)}",
                fix="keep it, or make a second store and copy the directories",
                path="deployment_type",
            )


def _value(kind: OpenZfsDeploymentType) -> str:
    return str(getattr(kind, "value", kind))
