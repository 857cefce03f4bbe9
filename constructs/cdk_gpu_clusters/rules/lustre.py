"""An FSx for Lustre file system: which class, size, throughput, metadata, cache and backup settings go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.catalogue.lustre import (
    LustreDeploymentType,
    LustreStorageType,
    LustreTier,
    LustreVersion,
    lustre_fact,
    lustre_tier,
    lustre_tiers,
    lustre_version_allows,
    lustre_versions_of,
)
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_API = "botocore 1.44.5, fsx service model: CreateFileSystem"
_START = 'FSx for Lustre user guide, "Getting started" and "Increasing storage capacity" (stored copies of 2026)'
_EFA = 'FSx for Lustre user guide, "Working with EFA-enabled file systems" (stored copy of 2026)'

DEPLOYMENT = define_rule(
    "GPU-LUS-001",
    "a file system is PERSISTENT_2 or SCRATCH_2",
    source="design: PERSISTENT_1 and SCRATCH_1 are older and slower, and take neither EFA nor metadata IOPS",
)
STORAGE_TYPE = define_rule("GPU-LUS-002", "the storage class fits the deployment type", source=_API)
CAPACITY = define_rule(
    "GPU-LUS-003", "SSD storage is 1200 GiB, 2400 GiB or a multiple of 2400 GiB", source=f"{_API}; {_START}"
)
THROUGHPUT = define_rule("GPU-LUS-004", "the throughput tier is one of the deployment type", source=_API)
EFA_CAPACITY = define_rule(
    "GPU-LUS-005",
    "with EFA, SSD storage is a multiple of 38400, 19200, 9600 or 4800 GiB at 125, 250, 500 or 1000 MB/s/TiB",
    source=_START,
)
EFA_CLASS = define_rule("GPU-LUS-006", "EFA needs PERSISTENT_2 with a metadata configuration", source=_EFA)
VERSION = define_rule(
    "GPU-LUS-009", "the Lustre version fits the deployment type and its metadata configuration", source=_API
)
STORAGE_QUOTA = define_rule(
    "GPU-LUS-010",
    "a file system is within the account's default quotas, or the quota was raised",
    source='FSx for Lustre user guide, "Quotas" (stored copy of 2026)',
)
EFA_POSSIBLE = define_rule(
    "GPU-LUS-011", "EFA is an explicit choice, because it cannot be turned on later", source=_EFA
)


def check_lustre(sizing: LustreSizing) -> list[Finding]:
    """Find what is wrong with a file system, all at once.

    Args:
        sizing: Plain values; parts that only a deployment knows are to be left out of the check by the caller.

    Returns:
        Errors, each with the nearest valid values; a warning above the default quota; an info where EFA is off and
        could be on.

    Example:
        >>> findings = check_lustre(
        ...     LustreSizing(storage_capacity_gib=20_000, throughput_mb_per_s_per_tib=250, efa=True)
        ... )
        >>> findings[0].fix
        'use 19200 or 38400 GiB'
    """
    if sizing.deployment_type not in tuple(LustreDeploymentType):
        return [_not_offered(str(sizing.deployment_type))]
    return _check_storage_type(sizing) or _check_values(sizing) or _advise(sizing)


def _not_offered(deployment_type: str) -> Finding:
    return DEPLOYMENT.finding(
        cause=f"{deployment_type} file systems are not offered"
        if deployment_type in ("PERSISTENT_1", "SCRATCH_1")
        else "this is not a deployment type",
        got=deployment_type,
        allowed="PERSISTENT_2, SCRATCH_2",
        fix="use SCRATCH_2" if deployment_type.startswith("SCRATCH") else "use PERSISTENT_2",
    )


@check
def _check_storage_type(sizing: LustreSizing) -> Iterator[Finding]:
    if sizing.storage_type not in tuple(LustreStorageType) or (sizing.is_tiering and sizing.is_scratch):
        yield STORAGE_TYPE.finding(
            cause=f"{_name(sizing.deployment_type)} has no such storage class",
            got=_name(sizing.storage_type),
            allowed="SSD" if sizing.is_scratch else "SSD, INTELLIGENT_TIERING",
            fix="use SSD, or PERSISTENT_2" if sizing.is_tiering else "use SSD",
        )


@check
def _check_values(sizing: LustreSizing) -> Iterator[Finding]:
    yield from check_tiering(sizing) if sizing.is_tiering else _check_ssd(sizing)
    if sizing.efa and sizing.is_scratch:
        yield EFA_CLASS.finding(
            cause="a SCRATCH_2 file system takes no EFA clients",
            got="SCRATCH_2 with EFA",
            allowed="PERSISTENT_2",
            fix="use PERSISTENT_2, or efa=False",
        )
    yield from check_metadata(sizing)
    yield from _check_version(sizing)


def _check_ssd(sizing: LustreSizing) -> Iterator[Finding]:
    if sizing.throughput_capacity_mb_per_s is not None or sizing.read_cache is not None or sizing.read_cache_gib:
        yield STORAGE_TYPE.finding(
            cause="throughput capacity and read cache belong to Intelligent-Tiering",
            got="SSD",
            allowed="storage_capacity_gib and throughput_mb_per_s_per_tib",
            fix="leave them out, or use storage_type INTELLIGENT_TIERING",
        )
    tiers = [tier for tier in lustre_tiers() if tier.deployment_type == sizing.deployment_type]
    if sizing.tier is None:
        rates = [str(tier.throughput_mb_per_s_per_tib) for tier in tiers if tier.throughput_mb_per_s_per_tib]
        got = sizing.throughput_mb_per_s_per_tib
        yield THROUGHPUT.finding(
            cause=f"{_name(sizing.deployment_type)} has no such throughput tier",
            got="none" if got is None else f"{got} MB/s/TiB",
            allowed=", ".join(rates) + " MB/s/TiB" if rates else "none: it has one fixed rate, 200 MB/s/TiB",
            fix=f"use one of {', '.join(rates)}" if rates else "leave throughput_mb_per_s_per_tib out",
        )
    yield from _check_capacity(sizing)


def _check_capacity(sizing: LustreSizing) -> Iterator[Finding]:
    capacity = sizing.storage_capacity_gib
    smallest = int(lustre_fact("ssd_capacity", "smallest_gib"))
    step = int(lustre_fact("ssd_capacity", "step_gib"))
    efa_step = sizing.tier.efa_step_gib if sizing.efa and sizing.tier else None
    if capacity is not None and efa_step is not None:
        if capacity <= 0 or capacity % efa_step != 0:
            rate = sizing.throughput_mb_per_s_per_tib
            yield EFA_CAPACITY.finding(
                cause=f"with EFA, a file system of {rate} MB/s/TiB grows by one server at a time",
                got=f"{capacity} GiB",
                allowed=f"multiples of {efa_step} GiB",
                fix=f"use {_or(capacities_near(capacity, efa_step))} GiB",
            )
        return
    if capacity is not None and (capacity == smallest or (capacity > 0 and capacity % step == 0)):
        return
    near = (smallest, step) if capacity is None else capacities_near(capacity, step, smallest_gib=smallest)
    yield CAPACITY.finding(
        cause="an SSD file system cannot have this capacity",
        got="none" if capacity is None else f"{capacity} GiB",
        allowed="1200 GiB, 2400 GiB, or a multiple of 2400 GiB",
        fix=f"use {_or(near)} GiB",
    )


def _check_version(sizing: LustreSizing) -> Iterator[Finding]:
    version, deployment = _name(sizing.version), _name(sizing.deployment_type)
    configured = sizing.effective_metadata_mode.value != "NONE"
    versions = [
        one
        for one in lustre_versions_of(deployment)
        if not configured or lustre_version_allows(one, "metadata_configuration")
    ]
    if version not in versions:
        yield VERSION.finding(
            cause=f"{deployment}{' with a metadata configuration' if configured else ''} does not run this version",
            got=version,
            allowed=", ".join(versions),
            fix="use 2.15",
        )


@check
def _advise(sizing: LustreSizing) -> Iterator[Finding]:
    capacity, quota = sizing.storage_capacity_gib, int(lustre_fact("limits", "storage_quota_gib"))
    if capacity is not None and capacity > quota:
        yield STORAGE_QUOTA.finding(
            cause="the file system is larger than an account's default quota",
            got=f"{capacity} GiB",
            allowed=f"{quota} GiB by default",
            fix="raise the quota in Service Quotas before deploying",
            severity=Severity.WARNING,
        )
    step = sizing.tier.efa_step_gib if sizing.tier else None
    if not sizing.efa and step and capacity and capacity % step == 0:
        yield EFA_POSSIBLE.finding(
            cause="this file system could serve its clients over EFA, and it can never be switched on later",
            got="efa=False",
            allowed="efa=True or False",
            fix="set efa=True if its clients have EFA and are in its zone; worth it above 10 GB/s",
            severity=Severity.INFO,
        )


def _name(value: object) -> str:
    return str(getattr(value, "value", value))


def _or(values: Iterable[int]) -> str:
    return " or ".join(map(str, values))


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
    """The requested class, size and speed of a file system.

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
        efa: Whether clients mount over EFA; settled at creation forever.
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
        return None if self.is_tiering else lustre_tier(self.deployment_type, self.throughput_mb_per_s_per_tib)

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
        """What the file system delivers in total, in MB/s; 0 where the tier or the size is unknown."""
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
            return _steps(self.throughput_capacity_mb_per_s, _fact("throughput_step_mb_per_s"))
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


_PAGE = 'FSx for Lustre user guide, "Lustre metadata performance configuration" (stored copy of 2026)'

METADATA = define_rule(
    "GPU-LUS-007",
    "metadata IOPS are 1500, 3000, 6000 or multiples of 12000 up to 192000; 6000 or 12000 with Intelligent-Tiering",
    source=_PAGE,
)
METADATA_MODE = define_rule(
    "GPU-LUS-008", "the metadata mode is one of the class, and EFA has a metadata configuration", source=_PAGE
)


@check
def check_metadata(sizing: LustreSizing) -> Iterator[Finding]:
    """Find what is wrong with the metadata mode, or with the operations to provision.

    Example:
        >>> check_metadata(LustreSizing(metadata_iops=13_000, storage_capacity_gib=1200))[0].allowed
        '1500, 3000, 6000, or multiples of 12000 up to 192000'
    """
    mode = sizing.effective_metadata_mode
    if mode not in _modes(sizing):
        yield METADATA_MODE.finding(
            cause=f"a file system {_describe(sizing)} does not take this metadata mode",
            got=mode.value,
            allowed=", ".join(one.value for one in _modes(sizing)),
            fix="leave metadata_mode out, or use an allowed one",
        )
    if mode is MetadataMode.USER_PROVISIONED:
        yield from _check_iops(sizing)
    elif sizing.metadata_iops is not None:
        yield METADATA_MODE.finding(
            cause="metadata_iops are given in a mode that takes none",
            got=f"{sizing.metadata_iops} with {mode.value}",
            allowed="metadata_iops with USER_PROVISIONED only",
            fix="leave metadata_iops out" if sizing.is_scratch else "use USER_PROVISIONED, or leave them out",
        )


def valid_metadata_iops(iops: int, *, tiering: bool) -> bool:
    """Whether so many metadata operations can be provisioned.

    Example:
        >>> [iops for iops in (1500, 6000, 24_000, 204_000) if valid_metadata_iops(iops, tiering=False)]
        [1500, 6000, 24000]
    """
    if tiering:
        return iops in lustre_fact("metadata", "intelligent_tiering")
    server, largest = lustre_fact("metadata", "server_iops"), lustre_fact("metadata", "ssd_largest")
    return iops in lustre_fact("metadata", "ssd_small") or (0 < iops <= largest and iops % server == 0)


def _modes(sizing: LustreSizing) -> tuple[MetadataMode, ...]:
    if sizing.is_scratch:
        return (MetadataMode.NONE,)
    if sizing.is_tiering:
        return (MetadataMode.USER_PROVISIONED,)
    with_configuration = (MetadataMode.AUTOMATIC, MetadataMode.USER_PROVISIONED)
    return with_configuration if sizing.efa else (*with_configuration, MetadataMode.NONE)


def _describe(sizing: LustreSizing) -> str:
    if sizing.is_scratch:
        return "of SCRATCH_2"
    if sizing.is_tiering:
        return "with Intelligent-Tiering"
    return "with EFA" if sizing.efa else "of PERSISTENT_2"


def _check_iops(sizing: LustreSizing) -> Iterator[Finding]:
    iops = sizing.metadata_iops
    if iops is not None and valid_metadata_iops(iops, tiering=sizing.is_tiering):
        return
    allowed = "6000, 12000" if sizing.is_tiering else "1500, 3000, 6000, or multiples of 12000 up to 192000"
    near = (6000, 12000) if sizing.is_tiering else _nearest(iops or 0)
    yield METADATA.finding(
        cause="so many metadata operations cannot be provisioned"
        if iops is not None
        else "this metadata mode needs metadata_iops",
        got="none" if iops is None else str(iops),
        allowed=allowed,
        fix=f"use {_or(near)}",
    )


def _nearest(iops: int) -> list[int]:
    server, largest = lustre_fact("metadata", "server_iops"), lustre_fact("metadata", "ssd_largest")
    valid = [*lustre_fact("metadata", "ssd_small"), *range(server, largest + 1, server)]
    below = [value for value in valid if value < iops][-1:]
    return below + [value for value in valid if value > iops][:1]


_TIERING_PAGE = 'FSx for Lustre user guide, "Performance characteristics of Intelligent-Tiering" (stored copy of 2026)'

TIERING_THROUGHPUT = define_rule(
    "GPU-LUS-012",
    "Intelligent-Tiering has a throughput capacity in steps of 4000 MB/s, and no size",
    source=_TIERING_PAGE,
)
READ_CACHE = define_rule(
    "GPU-LUS-013",
    "the read cache is given, and holds 32 to 131072 GiB for each 4000 MB/s",
    source=_TIERING_PAGE,
)
TIERING_QUOTA = define_rule(
    "GPU-LUS-014",
    "Intelligent-Tiering is within the account's default throughput quota, or the quota was raised",
    source='FSx for Lustre user guide, "Quotas" (stored copy of 2026)',
)


@check
def check_tiering(sizing: LustreSizing) -> Iterator[Finding]:
    """Find what is wrong with the throughput or the read cache of an Intelligent-Tiering file system.

    Example:
        >>> sizing = LustreSizing(
        ...     storage_type="INTELLIGENT_TIERING",
        ...     throughput_capacity_mb_per_s=6000,
        ...     read_cache=ReadCacheMode.NO_CACHE,
        ...     metadata_iops=6000,
        ... )
        >>> [finding.fix for finding in check_tiering(sizing)]
        ['use 4000 or 8000 MB/s']
    """
    if sizing.storage_capacity_gib is not None or sizing.throughput_mb_per_s_per_tib is not None:
        yield TIERING_THROUGHPUT.finding(
            cause="Intelligent-Tiering storage is elastic: it has no capacity, and no rate for each TiB",
            got=f"{sizing.storage_capacity_gib} GiB, {sizing.throughput_mb_per_s_per_tib} MB/s/TiB",
            allowed="throughput_capacity_mb_per_s",
            fix="leave storage_capacity_gib and throughput_mb_per_s_per_tib out, or use SSD",
        )
    yield from _check_throughput(sizing)
    yield from _check_cache(sizing)


def _check_throughput(sizing: LustreSizing) -> Iterator[Finding]:
    step, largest = _fact("throughput_step_mb_per_s"), _fact("largest_throughput_mb_per_s")
    quota = int(lustre_fact("limits", "tiering_throughput_quota_mb_per_s"))
    given = sizing.throughput_capacity_mb_per_s
    if given is None or given <= 0 or given > largest or given % step:
        near = (step,) if given is None else capacities_near(min(max(given, 1), largest - 1), step)
        yield TIERING_THROUGHPUT.finding(
            cause="Intelligent-Tiering cannot have this throughput capacity",
            got="none" if given is None else f"{given} MB/s",
            allowed=f"multiples of {step} up to {largest} MB/s",
            fix=f"use {_or(near)} MB/s",
        )
    elif given > quota:
        yield TIERING_QUOTA.finding(
            cause="the throughput is above an account's default quota",
            got=f"{given} MB/s",
            allowed=f"{quota} MB/s by default",
            fix="raise the quota in Service Quotas before deploying",
            severity=Severity.WARNING,
        )


def _check_cache(sizing: LustreSizing) -> Iterator[Finding]:
    smallest = _fact("smallest_cache_gib")
    steps = max(1, sizing.object_servers)
    largest = _fact("cache_gib_per_step") * steps
    wanted = sizing.read_cache is ReadCacheMode.USER_PROVISIONED
    given = sizing.read_cache_gib
    if sizing.read_cache is None:
        yield READ_CACHE.finding(
            cause="Intelligent-Tiering needs a read cache, or the word that there is none",
            got="none",
            allowed=", ".join(mode.name for mode in ReadCacheMode),
            fix="give read_cache=ReadCacheMode.PROPORTIONAL, 5 GiB for each MB/s",
        )
        return
    if not wanted and given is None:
        return
    if not wanted or given is None or not smallest * steps <= given <= largest:
        yield READ_CACHE.finding(
            cause="the read cache cannot have this size" if wanted else "this read cache has no size of its own",
            got="none" if given is None else f"{given} GiB",
            allowed=f"{smallest * steps} to {largest} GiB" if wanted else "read_cache_gib with USER_PROVISIONED only",
            fix="choose a size in the range" if wanted else "leave read_cache_gib out",
        )


def _fact(name: str) -> int:
    return int(lustre_fact("intelligent_tiering", name))


RETENTION = define_rule("GPU-LUS-015", "backups are kept 0 to 90 days, and SCRATCH_2 has none", source=_API)
KEY = define_rule("GPU-LUS-016", "SCRATCH_2 takes no key: FSx encrypts it with its own", source=_API)


@check
def check_backups(sizing: LustreSizing, retention_days: int) -> Iterator[Finding]:
    """Find what is wrong with the days for which automatic backups are kept.

    Example:
        >>> [check_backups(LustreSizing(), days) == [] for days in (0, 90, 91)]
        [True, True, False]
    """
    largest = 0 if sizing.is_scratch else int(lustre_fact("limits", "largest_backup_retention_days"))
    if not 0 <= retention_days <= largest:
        yield RETENTION.finding(
            cause="SCRATCH_2 has no backups" if sizing.is_scratch else "backups cannot be kept so long",
            got=f"{retention_days} days",
            allowed="0" if sizing.is_scratch else f"0 to {largest} days",
            fix="set backup_retention_days=0, or use PERSISTENT_2"
            if sizing.is_scratch
            else "choose a number in the range",
        )


@check
def check_encryption_key(sizing: LustreSizing, *, given: bool) -> Iterator[Finding]:
    """Find a key that the class cannot use."""
    if given and sizing.is_scratch:
        yield KEY.finding(
            cause="a SCRATCH_2 file system cannot use a key of yours",
            got="encryption_key",
            allowed="none",
            fix="leave it out, or use PERSISTENT_2",
        )
