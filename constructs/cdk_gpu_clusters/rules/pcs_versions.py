"""Versions of Slurm under AWS PCS, and what each of them has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION, feature_since, slurm_versions, version_of_slurm
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_API = "botocore 1.44.5, pcs service model"
_GUIDE = "AWS PCS user guide"

VERSION = define_rule(
    "GPU-PCS-017",
    "a PCS cluster runs a version of Slurm that PCS offers, and that has not come to its end",
    source=f'{_API}: SchedulerRequest, version; {_GUIDE}, "Slurm versions in AWS PCS", by the catalogue',
)
NEEDS_VERSION = define_rule(
    "GPU-PCS-019",
    "a setting or feature of PCS is used with a version of Slurm that has it",
    source=f'{_GUIDE}, "Configuring custom Slurm settings", "Slurm metrics", "Slurm REST API", "Slurm accounting" and '
    '"Configuring custom GRES settings"; botocore 1.44.5, pcs service model',
)


@check
def check_slurm_version(version: str) -> Iterator[Finding]:
    """Find a version that PCS does not offer; one that is newer than the catalogue, or has an end, is a warning."""
    known = slurm_versions()
    row = known.get(version)
    offered = [one.version for one in known.values() if one.offered]
    if row is not None and row.offered and row.ends is None:
        return
    newer = re.fullmatch(r"\d\d\.\d\d", version) and version_of_slurm(version) > version_of_slurm(offered[-1])
    if row is not None and row.offered:
        cause = f"PCS makes no new cluster of Slurm {version} after {row.ends}"
    elif newer:
        cause = "this version of the library does not know it: its settings were not checked"
    else:
        cause = f"PCS offers Slurm {version} no longer" if row is not None else "PCS offers no such version of Slurm"
    yield VERSION.finding(
        cause=cause,
        got=version,
        allowed=", ".join(offered),
        fix=f'slurm_version="{offered[-1]}"',
        path="slurm_version",
        severity=Severity.WARNING if newer or (row is not None and row.offered) else Severity.ERROR,
    )


@check
def check_feature(feature: str, slurm_version: str | None, *, what: str = "", path: str = "") -> Iterator[Finding]:
    """Find a feature that the version of Slurm does not have under PCS.

    Args:
        feature: As `catalogue.pcs.feature_since` knows it.
        slurm_version: Version of Slurm; None if it is not known.
        what: The feature in words for a message; its name in the catalogue by default.
        path: Where.
    """
    yield from check_since(what or _FEATURES[feature], feature_since(feature), slurm_version, path or feature)


_FEATURES = {
    "accounting": "accounting",
    "rest_api": "the Slurm REST API",
    "metrics": "metrics of Slurm",
    "idle_time_of_group": "an idle time of a node group",
    "gres_autodetect": "AutoDetect of GPUs, and so MIG,",
    "default_topology": "the CPU topology that PCS sets by itself",
}


@check
def check_since(what: str, since: str, slurm_version: str | None, path: str) -> Iterator[Finding]:
    """Find a setting or feature of a newer version of Slurm; a version that is not known is not judged.

    Args:
        what: The setting or feature.
        since: The first version that has it.
        slurm_version: Version of Slurm; None if it is not known.
        path: Where.
    """
    if slurm_version is None or not is_before(slurm_version, since):
        return
    yield NEEDS_VERSION.finding(
        cause=f"PCS has {what} from Slurm {since} on",
        got=f"Slurm {slurm_version}",
        allowed=f"Slurm {since} or later",
        fix=f'slurm_version="{DEFAULT_SLURM_VERSION}", or leave it out',
        path=path,
    )


def is_before(version: str, since: str) -> bool:
    """Whether a version is older; one that has no such form is not."""
    numbers = version_of_slurm(version)
    return bool(numbers) and numbers < version_of_slurm(since)
