"""Throughput and read cache of an Intelligent-Tiering file system."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.lustre import lustre_fact
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.lustre_sizing import LustreSizing, ReadCacheMode, capacities_near

_PAGE = (
    'FSx for Lustre user guide, "Performance characteristics of Intelligent-Tiering" (stored copy of 2026)'
)

TIERING_THROUGHPUT = define_rule(
    "GPU-LUS-012",
    "Intelligent-Tiering has a throughput capacity in steps of 4000 MB/s, and no size",
    source=_PAGE,
)
READ_CACHE = define_rule(
    "GPU-LUS-013", "the read cache is given, and holds 32 to 131072 GiB for each 4000 MB/s", source=_PAGE
)
TIERING_QUOTA = define_rule(
    "GPU-LUS-014",
    "Intelligent-Tiering stays within the account's default throughput quota, or the quota was raised",
    source='FSx for Lustre user guide, "Quotas" (stored copy of 2026)',
)


def check_tiering(sizing: LustreSizing) -> list[Finding]:
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
    findings = []
    if sizing.storage_capacity_gib is not None or sizing.throughput_mb_per_s_per_tib is not None:
        findings.append(
            TIERING_THROUGHPUT.finding(
                cause="Intelligent-Tiering storage is elastic: it has no capacity, and no rate for each TiB",
                got=f"{sizing.storage_capacity_gib} GiB, {sizing.throughput_mb_per_s_per_tib} MB/s/TiB",
                allowed="throughput_capacity_mb_per_s",
                fix="leave storage_capacity_gib and throughput_mb_per_s_per_tib out, or use SSD",
            )
        )
    return findings + _check_throughput(sizing) + _check_cache(sizing)


def _check_throughput(sizing: LustreSizing) -> list[Finding]:
    step, largest = _fact("throughput_step_mb_per_s"), _fact("largest_throughput_mb_per_s")
    quota = int(lustre_fact("limits", "tiering_throughput_quota_mb_per_s"))
    given = sizing.throughput_capacity_mb_per_s
    if given is None or given <= 0 or given > largest or given % step:
        near = (step,) if given is None else capacities_near(min(max(given, 1), largest - 1), step)
        return [
            TIERING_THROUGHPUT.finding(
                cause="Intelligent-Tiering cannot have this throughput capacity",
                got="none" if given is None else f"{given} MB/s",
                allowed=f"multiples of {step} up to {largest} MB/s",
                fix=f"use {' or '.join(map(str, near))} MB/s",
            )
        ]
    if given <= quota:
        return []
    return [
        TIERING_QUOTA.finding(
            cause="the throughput is above an account's default quota",
            got=f"{given} MB/s",
            allowed=f"{quota} MB/s by default",
            fix="raise the quota in Service Quotas before deploying",
            severity=Severity.WARNING,
        )
    ]


def _check_cache(sizing: LustreSizing) -> list[Finding]:
    smallest = _fact("smallest_cache_gib")
    steps = max(1, sizing.object_servers)
    largest = _fact("cache_gib_per_step") * steps
    wanted = sizing.read_cache is ReadCacheMode.USER_PROVISIONED
    given = sizing.read_cache_gib
    if sizing.read_cache is None:
        return [
            READ_CACHE.finding(
                cause="Intelligent-Tiering needs a read cache, or the word that there is none",
                got="none",
                allowed=", ".join(mode.name for mode in ReadCacheMode),
                fix="give read_cache=ReadCacheMode.PROPORTIONAL, 5 GiB for each MB/s",
            )
        ]
    if not wanted and given is None:
        return []
    if wanted and given is not None and smallest * steps <= given <= largest:
        return []
    return [
        READ_CACHE.finding(
            cause="the read cache cannot have this size"
            if wanted
            else "this read cache has no size of its own",
            got="none" if given is None else f"{given} GiB",
            allowed=f"{smallest * steps} to {largest} GiB"
            if wanted
            else "read_cache_gib with USER_PROVISIONED only",
            fix="choose a size in the range" if wanted else "leave read_cache_gib out",
        )
    ]


def _fact(name: str) -> int:
    return int(lustre_fact("intelligent_tiering", name))
