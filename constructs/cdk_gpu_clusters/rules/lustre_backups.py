"""Backups and keys of an FSx for Lustre file system."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue.lustre import lustre_fact
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.rules.lustre_sizing import LustreSizing

_API = "botocore 1.44.5, fsx service model: CreateFileSystem"

RETENTION = define_rule("GPU-LUS-015", "backups are kept 0 to 90 days, and SCRATCH_2 has none", source=_API)
KEY = define_rule("GPU-LUS-016", "SCRATCH_2 takes no key: FSx encrypts it with its own", source=_API)


def check_backups(sizing: LustreSizing, retention_days: int) -> list[Finding]:
    """Find what is wrong with the days for which automatic backups are kept.

    Example:
        >>> [check_backups(LustreSizing(), days) == [] for days in (0, 90, 91)]
        [True, True, False]
    """
    largest = 0 if sizing.is_scratch else int(lustre_fact("limits", "largest_backup_retention_days"))
    if 0 <= retention_days <= largest:
        return []
    return [
        RETENTION.finding(
            cause="SCRATCH_2 has no backups" if sizing.is_scratch else "backups cannot be kept so long",
            got=f"{retention_days} days",
            allowed="0" if sizing.is_scratch else f"0 to {largest} days",
            fix="set backup_retention_days=0, or use PERSISTENT_2"
            if sizing.is_scratch
            else "choose a number in the range",
        )
    ]


def check_encryption_key(sizing: LustreSizing, *, given: bool) -> list[Finding]:
    """Find a key that the class cannot use."""
    if not (given and sizing.is_scratch):
        return []
    return [
        KEY.finding(
            cause="a SCRATCH_2 file system cannot use a key of yours",
            got="encryption_key",
            allowed="none",
            fix="leave it out, or use PERSISTENT_2",
        )
    ]
