"""Metadata operations of an FSx for Lustre file system."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.lustre import lustre_fact
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.lustre_sizing import LustreSizing, MetadataMode

_PAGE = 'FSx for Lustre user guide, "Lustre metadata performance configuration" (stored copy of 2026)'

METADATA = define_rule(
    "GPU-LUS-007",
    "metadata IOPS are 1500, 3000, 6000 or multiples of 12000 up to 192000; 6000 or 12000 with Intelligent-Tiering",
    source=_PAGE,
)
METADATA_MODE = define_rule(
    "GPU-LUS-008", "the metadata mode is one of the class, and EFA has a metadata configuration", source=_PAGE
)


def check_metadata(sizing: LustreSizing) -> list[Finding]:
    """Find what is wrong with the metadata mode, or with the operations to provision.

    Example:
        >>> check_metadata(LustreSizing(metadata_iops=13_000, storage_capacity_gib=1200))[0].allowed
        '1500, 3000, 6000, or multiples of 12000 up to 192000'
    """
    mode = sizing.effective_metadata_mode
    findings = []
    if mode not in _modes(sizing):
        findings.append(
            METADATA_MODE.finding(
                cause=f"a file system {_describe(sizing)} does not take this metadata mode",
                got=mode.value,
                allowed=", ".join(one.value for one in _modes(sizing)),
                fix="leave metadata_mode out, or use an allowed one",
            )
        )
    if mode is MetadataMode.USER_PROVISIONED:
        return findings + _check_iops(sizing)
    if sizing.metadata_iops is not None:
        findings.append(
            METADATA_MODE.finding(
                cause="metadata_iops are given in a mode that takes none",
                got=f"{sizing.metadata_iops} with {mode.value}",
                allowed="metadata_iops with USER_PROVISIONED only",
                fix="leave metadata_iops out"
                if sizing.is_scratch
                else "use USER_PROVISIONED, or leave them out",
            )
        )
    return findings


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


def _check_iops(sizing: LustreSizing) -> list[Finding]:
    iops = sizing.metadata_iops
    if iops is not None and valid_metadata_iops(iops, tiering=sizing.is_tiering):
        return []
    allowed = "6000, 12000" if sizing.is_tiering else "1500, 3000, 6000, or multiples of 12000 up to 192000"
    near = "6000 or 12000" if sizing.is_tiering else " or ".join(map(str, _nearest(iops or 0)))
    return [
        METADATA.finding(
            cause="so many metadata operations cannot be provisioned"
            if iops is not None
            else "this metadata mode needs metadata_iops",
            got="none" if iops is None else str(iops),
            allowed=allowed,
            fix=f"use {near}",
        )
    ]


def _nearest(iops: int) -> list[int]:
    server, largest = lustre_fact("metadata", "server_iops"), lustre_fact("metadata", "ssd_largest")
    valid = [*lustre_fact("metadata", "ssd_small"), *range(server, largest + 1, server)]
    below = [value for value in valid if value < iops][-1:]
    return below + [value for value in valid if value > iops][:1]
