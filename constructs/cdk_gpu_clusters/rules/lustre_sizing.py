"""The size of an FSx for Lustre file system, and the numbers that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.catalogue.lustre import (
    LustreDeploymentType,
    LustreStorageType,
    LustreTier,
    LustreVersion,
    lustre_fact,
    lustre_tier,
)

_NOMINAL_GIB_PER_TIB = 1000
"""The guide counts 1200 GiB as 1.2 TiB ("a 2.4-TiB file system with 50 MB/s/TiB yields 120 MB/s")."""


class MetadataMode(str, Enum):
    """How metadata operations are provisioned; the values are CloudFormation's, but for NONE."""

    AUTOMATIC = "AUTOMATIC"
    USER_PROVISIONED = "USER_PROVISIONED"
    NONE = "NONE"
    """No metadata configuration: SCRATCH_2, and PERSISTENT_2 as it was before 2024."""


class ReadCacheMode(str, Enum):
    """SSD read cache of an Intelligent-Tiering file system; the values are CloudFormation's."""

    NO_CACHE = "NO_CACHE"
    USER_PROVISIONED = "USER_PROVISIONED"
    PROPORTIONAL = "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreSizing:
    """Class, size and speed of a file system, as the user said it.

    The numbers below are worked out for a sizing that `check_lustre` finds nothing wrong with.

    Attributes:
        storage_capacity_gib: SSD storage in GiB; None with Intelligent-Tiering, which is elastic.
        throughput_mb_per_s_per_tib: 125, 250, 500 or 1000 with PERSISTENT_2 SSD; None otherwise.
        deployment_type: PERSISTENT_2 or SCRATCH_2.
        storage_type: SSD, or Intelligent-Tiering with PERSISTENT_2.
        throughput_capacity_mb_per_s: Of Intelligent-Tiering: multiples of 4000.
        read_cache: Of Intelligent-Tiering.
        read_cache_gib: Of Intelligent-Tiering with a USER_PROVISIONED cache, in GiB.
        metadata_iops: Metadata operations to provision; None is automatic where the class has that.
        metadata_mode: None follows from the class and from `metadata_iops`.
        efa: Whether clients mount over EFA; settled at creation for ever.
        version: Lustre version of the servers.

    Example:
        >>> sizing = LustreSizing(storage_capacity_gib=38_400, throughput_mb_per_s_per_tib=250, efa=True)
        >>> sizing.throughput_mb_per_s, sizing.effective_metadata_iops, sizing.ip_addresses
        (9600, 12000, 3)
    """

    storage_capacity_gib: int | None = None
    throughput_mb_per_s_per_tib: int | None = None
    deployment_type: LustreDeploymentType | str = LustreDeploymentType.PERSISTENT_2
    storage_type: LustreStorageType | str = LustreStorageType.SSD
    throughput_capacity_mb_per_s: int | None = None
    read_cache: ReadCacheMode | None = None
    read_cache_gib: int | None = None
    metadata_iops: int | None = None
    metadata_mode: MetadataMode | None = None
    efa: bool = False
    version: LustreVersion | str = LustreVersion.V2_15

    @property
    def is_tiering(self) -> bool:
        """Whether the storage class is Intelligent-Tiering."""
        return self.storage_type == LustreStorageType.INTELLIGENT_TIERING

    @property
    def is_scratch(self) -> bool:
        """Whether the file system keeps its data on single servers only."""
        return self.deployment_type == LustreDeploymentType.SCRATCH_2

    @property
    def tier(self) -> LustreTier | None:
        """The SSD tier, None for Intelligent-Tiering and for a tier that does not exist."""
        return (
            None if self.is_tiering else lustre_tier(self.deployment_type, self.throughput_mb_per_s_per_tib)
        )

    @property
    def effective_metadata_mode(self) -> MetadataMode:
        """The metadata mode that goes into the template."""
        if self.metadata_mode is not None:
            return self.metadata_mode
        if self.is_scratch:
            return MetadataMode.NONE
        if self.is_tiering or self.metadata_iops is not None:
            return MetadataMode.USER_PROVISIONED
        return MetadataMode.AUTOMATIC

    @property
    def effective_metadata_iops(self) -> int | None:
        """Metadata operations that are provisioned; None without a metadata configuration."""
        mode = self.effective_metadata_mode
        if mode is MetadataMode.AUTOMATIC and self.storage_capacity_gib is not None:
            return automatic_metadata_iops(self.storage_capacity_gib)
        return self.metadata_iops if mode is MetadataMode.USER_PROVISIONED else None

    @property
    def throughput_mb_per_s(self) -> int:
        """What the whole file system delivers, in MB/s; 0 where the tier or the size is unknown."""
        if self.is_tiering:
            return self.throughput_capacity_mb_per_s or 0
        if self.tier is None or self.storage_capacity_gib is None:
            return 0
        return self.storage_capacity_gib * self.tier.baseline_mb_per_s_per_tib // _NOMINAL_GIB_PER_TIB

    @property
    def capacity_step_gib(self) -> int | None:
        """Capacity comes in multiples of this; None for Intelligent-Tiering or where no tier fits."""
        if self.is_tiering or self.tier is None:
            return None
        return self.tier.efa_step_gib if self.efa else int(lustre_fact("ssd_capacity", "step_gib"))

    @property
    def object_servers(self) -> int:
        """Servers that hold the files' contents; 0 where the tier or the size is unknown."""
        if self.is_tiering:
            return _steps(self.throughput_capacity_mb_per_s, _tiering("throughput_step_mb_per_s"))
        if self.tier is None:
            return 0
        step = self.tier.efa_step_gib if self.efa else self.tier.object_server_gib
        return _steps(self.storage_capacity_gib, step)

    @property
    def metadata_servers(self) -> int:
        """Servers that hold names and directories: one for each 12,000 metadata operations, at least one."""
        return max(1, _steps(self.effective_metadata_iops, lustre_fact("metadata", "server_iops")))

    @property
    def ip_addresses(self) -> int:
        """Addresses that the file system takes from its subnet: one for each server."""
        return self.object_servers + self.metadata_servers


def automatic_metadata_iops(storage_capacity_gib: int) -> int:
    """Metadata operations of an SSD file system in AUTOMATIC mode.

    Source: FSx for Lustre user guide, "Lustre metadata performance configuration".

    Example:
        >>> [automatic_metadata_iops(gib) for gib in (1200, 2400, 9600, 45_600, 48_000, 100_800)]
        [1500, 3000, 6000, 12000, 24000, 60000]
    """
    for largest, iops in lustre_fact("metadata", "automatic"):
        if storage_capacity_gib <= largest:
            return int(iops)
    beyond = lustre_fact("metadata", "automatic_beyond")
    return _steps(storage_capacity_gib, beyond["gib"]) * int(beyond["iops"])


def capacities_near(capacity_gib: int, step_gib: int, *, smallest_gib: int | None = None) -> tuple[int, ...]:
    """The valid capacities next to one that is not valid, smaller first.

    Args:
        capacity_gib: What was asked for.
        step_gib: Valid capacities are multiples of this.
        smallest_gib: One more valid capacity below the first multiple.

    Example:
        >>> capacities_near(20_000, 19_200), capacities_near(1300, 2400, smallest_gib=1200)
        ((19200, 38400), (1200, 2400))
    """
    below = capacity_gib // step_gib * step_gib
    if below == 0 and smallest_gib is not None and capacity_gib >= smallest_gib:
        below = smallest_gib
    above = (capacity_gib // step_gib + 1) * step_gib
    if smallest_gib is not None and capacity_gib < smallest_gib:
        above = smallest_gib
    return tuple(value for value in (below, above) if value > 0)


def _steps(amount: int | None, step: int | None) -> int:
    """How many steps hold the amount."""
    return -(-amount // step) if amount and step else 0


def _tiering(name: str) -> int:
    return int(lustre_fact("intelligent_tiering", name))
