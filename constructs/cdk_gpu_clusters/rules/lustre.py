"""Whether an FSx for Lustre file system of a class, size and speed can be made."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.lustre import (
    LustreDeploymentType,
    LustreStorageType,
    lustre_fact,
    lustre_tiers,
    lustre_version_allows,
    lustre_versions_of,
)
from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.rules.lustre_metadata import check_metadata
from cdk_gpu_clusters.rules.lustre_sizing import LustreSizing, capacities_near
from cdk_gpu_clusters.rules.lustre_tiering import check_tiering

_API = "botocore 1.44.5, fsx service model: CreateFileSystem"
_START = (
    'FSx for Lustre user guide, "Getting started" and "Increasing storage capacity" (stored copies of 2026)'
)
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
    "a file system stays within the account's default quotas, or the quota was raised",
    source='FSx for Lustre user guide, "Quotas" (stored copy of 2026)',
)
EFA_POSSIBLE = define_rule(
    "GPU-LUS-011", "EFA is chosen knowingly, as it can never be switched on later", source=_EFA
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
    findings = _check_storage_type(sizing)
    if findings:
        return findings
    findings += check_tiering(sizing) if sizing.is_tiering else _check_ssd(sizing)
    findings += _check_efa_class(sizing) + check_metadata(sizing) + _check_version(sizing)
    return findings + (_advise(sizing) if not findings else [])


def _not_offered(deployment_type: str) -> Finding:
    return DEPLOYMENT.finding(
        cause=f"{deployment_type} file systems are not offered"
        if deployment_type in ("PERSISTENT_1", "SCRATCH_1")
        else "this is not a deployment type",
        got=deployment_type,
        allowed="PERSISTENT_2, SCRATCH_2",
        fix="use SCRATCH_2" if deployment_type.startswith("SCRATCH") else "use PERSISTENT_2",
    )


def _check_storage_type(sizing: LustreSizing) -> list[Finding]:
    if sizing.storage_type in tuple(LustreStorageType) and not (sizing.is_tiering and sizing.is_scratch):
        return []
    return [
        STORAGE_TYPE.finding(
            cause=f"{_name(sizing.deployment_type)} has no such storage class",
            got=_name(sizing.storage_type),
            allowed="SSD" if sizing.is_scratch else "SSD, INTELLIGENT_TIERING",
            fix="use SSD, or PERSISTENT_2" if sizing.is_tiering else "use SSD",
        )
    ]


def _check_ssd(sizing: LustreSizing) -> list[Finding]:
    findings = []
    if (
        sizing.throughput_capacity_mb_per_s is not None
        or sizing.read_cache is not None
        or sizing.read_cache_gib
    ):
        findings.append(
            STORAGE_TYPE.finding(
                cause="throughput capacity and read cache belong to Intelligent-Tiering",
                got="SSD",
                allowed="storage_capacity_gib and throughput_mb_per_s_per_tib",
                fix="leave them out, or use storage_type INTELLIGENT_TIERING",
            )
        )
    tiers = [tier for tier in lustre_tiers() if tier.deployment_type == sizing.deployment_type]
    if sizing.tier is None:
        rates = [str(tier.throughput_mb_per_s_per_tib) for tier in tiers if tier.throughput_mb_per_s_per_tib]
        got = sizing.throughput_mb_per_s_per_tib
        findings.append(
            THROUGHPUT.finding(
                cause=f"{_name(sizing.deployment_type)} has no such throughput tier",
                got="none" if got is None else f"{got} MB/s/TiB",
                allowed=", ".join(rates) + " MB/s/TiB"
                if rates
                else "none: it has one fixed rate, 200 MB/s/TiB",
                fix=f"use one of {', '.join(rates)}" if rates else "leave throughput_mb_per_s_per_tib out",
            )
        )
    return findings + _check_capacity(sizing)


def _check_capacity(sizing: LustreSizing) -> list[Finding]:
    capacity = sizing.storage_capacity_gib
    smallest = int(lustre_fact("ssd_capacity", "smallest_gib"))
    step = int(lustre_fact("ssd_capacity", "step_gib"))
    efa_step = sizing.tier.efa_step_gib if sizing.efa and sizing.tier else None
    if capacity is not None and efa_step is not None:
        return (
            [] if capacity > 0 and capacity % efa_step == 0 else [_efa_capacity(sizing, capacity, efa_step)]
        )
    if capacity is not None and (capacity == smallest or (capacity > 0 and capacity % step == 0)):
        return []
    near = (smallest, step) if capacity is None else capacities_near(capacity, step, smallest_gib=smallest)
    return [
        CAPACITY.finding(
            cause="an SSD file system cannot have this capacity",
            got="none" if capacity is None else f"{capacity} GiB",
            allowed="1200 GiB, 2400 GiB, or a multiple of 2400 GiB",
            fix=f"use {_or(near)} GiB",
        )
    ]


def _efa_capacity(sizing: LustreSizing, capacity: int, step: int) -> Finding:
    return EFA_CAPACITY.finding(
        cause=f"with EFA, a file system of {sizing.throughput_mb_per_s_per_tib} MB/s/TiB grows by whole servers",
        got=f"{capacity} GiB",
        allowed=f"multiples of {step} GiB",
        fix=f"use {_or(capacities_near(capacity, step))} GiB",
    )


def _check_efa_class(sizing: LustreSizing) -> list[Finding]:
    if not (sizing.efa and sizing.is_scratch):
        return []
    return [
        EFA_CLASS.finding(
            cause="a SCRATCH_2 file system takes no EFA clients",
            got="SCRATCH_2 with EFA",
            allowed="PERSISTENT_2",
            fix="use PERSISTENT_2, or efa=False",
        )
    ]


def _check_version(sizing: LustreSizing) -> list[Finding]:
    version, deployment = _name(sizing.version), _name(sizing.deployment_type)
    configured = sizing.effective_metadata_mode.value != "NONE"
    versions = [
        one
        for one in lustre_versions_of(deployment)
        if not configured or lustre_version_allows(one, "metadata_configuration")
    ]
    if version in versions:
        return []
    return [
        VERSION.finding(
            cause=f"{deployment}{' with a metadata configuration' if configured else ''} does not run this version",
            got=version,
            allowed=", ".join(versions),
            fix="use 2.15",
        )
    ]


def _advise(sizing: LustreSizing) -> list[Finding]:
    capacity, quota = sizing.storage_capacity_gib, int(lustre_fact("limits", "storage_quota_gib"))
    findings = []
    if capacity is not None and capacity > quota:
        findings.append(
            STORAGE_QUOTA.finding(
                cause="the file system is larger than an account's default quota",
                got=f"{capacity} GiB",
                allowed=f"{quota} GiB by default",
                fix="raise the quota in Service Quotas before deploying",
                severity=Severity.WARNING,
            )
        )
    step = sizing.tier.efa_step_gib if sizing.tier else None
    if not sizing.efa and step and capacity and capacity % step == 0:
        findings.append(
            EFA_POSSIBLE.finding(
                cause="this file system could serve its clients over EFA, and it can never be switched on later",
                got="efa=False",
                allowed="efa=True or False",
                fix="set efa=True if its clients have EFA and stand in its zone; worth it above 10 GB/s",
                severity=Severity.INFO,
            )
        )
    return findings


def _name(value: object) -> str:
    return str(getattr(value, "value", value))


def _or(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))
