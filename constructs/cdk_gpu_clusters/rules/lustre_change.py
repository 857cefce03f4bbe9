"""What can change on a file system that holds data, and what would replace it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.rules.lustre import LustreSizing, MetadataMode

_CREATE_ONLY = (
    "CloudFormation schema of AWS::FSx::FileSystem (cfn-lint 1.58.0); FSx for Lustre user guide,"
    ' "Working with EFA-enabled file systems"'
)
_UPDATE = "botocore 1.44.5, fsx service model: UpdateFileSystem"

REPLACES = define_rule("GPU-LUS-030", "no change replaces a file system that holds data", source=_CREATE_ONLY)
SHRINKS = define_rule("GPU-LUS-031", "storage, throughput capacity and metadata IOPS only grow", source=_UPDATE)
RATE_WITH_EFA = define_rule(
    "GPU-LUS-032",
    "the throughput tier of an EFA file system never changes",
    source='FSx for Lustre user guide, "Working with EFA-enabled file systems" (stored copy of 2026)',
)
REPLACES_BY_TEMPLATE = define_rule(
    "GPU-LUS-033",
    "a template changes neither the throughput tier nor the Lustre version of a file system that holds data",
    source='CloudFormation template reference, AWS::FSx::FileSystem ("Update requires: Replacement" of'
    " PerUnitStorageThroughput and FileSystemTypeVersion), as in the specification inside CDK CLI 2.1148;"
    f" {_UPDATE} could change both",
)

_NEW_STORE = "keep the old value; or define a second file system beside it, copy the data, and remove the first"


@check
def check_lustre_change(before: LustreSizing, after: LustreSizing) -> Iterator[Finding]:
    """Find what cannot be changed on a file system that is deployed.

    CloudFormation does not refuse all of these by itself: `EfaEnabled`, the deployment type, the storage class and the
    throughput tier are not create-only in its schema, and fail or replace only during the deployment.

    Args:
        before: What is deployed.
        after: What the new template asks for; checked by `check_lustre` on its own.

    Example:
        >>> before = LustreSizing(storage_capacity_gib=4800, throughput_mb_per_s_per_tib=1000)
        >>> after = LustreSizing(storage_capacity_gib=4800, throughput_mb_per_s_per_tib=1000, efa=True)
        >>> [finding.id for finding in check_lustre_change(before, after)]
        ['GPU-LUS-030']
    """
    settled = [
        name for name in ("deployment_type", "storage_type", "efa") if getattr(before, name) != getattr(after, name)
    ]
    for name in settled:
        yield _replaces(name, getattr(before, name), getattr(after, name))
    if _number(after.version) < _number(before.version):
        yield _replaces("an older version", before.version, after.version)
    elif _number(after.version) > _number(before.version):
        yield _replaces_by_template("lustre_version", before.version, after.version)
    had = before.effective_metadata_mode is not MetadataMode.NONE
    if had != (after.effective_metadata_mode is not MetadataMode.NONE):
        yield _replaces("metadata_mode", before.effective_metadata_mode, after.effective_metadata_mode)
    for name in ("storage_capacity_gib", "throughput_capacity_mb_per_s", "effective_metadata_iops"):
        old, new = getattr(before, name), getattr(after, name)
        if old is not None and new is not None and new < old:
            yield SHRINKS.finding(
                cause=f"{name.removeprefix('effective_')} of a file system can only grow",
                got=str(new),
                allowed=f"{old} or more",
                fix=_NEW_STORE,
            )
    if not settled:
        yield from _check_rate(before, after)


def _check_rate(before: LustreSizing, after: LustreSizing) -> Iterator[Finding]:
    old, new = before.throughput_mb_per_s_per_tib, after.throughput_mb_per_s_per_tib
    if old == new:
        return
    if not before.efa:
        yield _replaces_by_template("throughput_mb_per_s_per_tib", old, new)
        return
    yield RATE_WITH_EFA.finding(
        cause="the throughput tier of a file system with EFA cannot change",
        got=f"{new} MB/s/TiB",
        allowed=f"{old} MB/s/TiB",
        fix="grow the storage instead: throughput grows with it",
    )


def _number(version: object) -> tuple[int, ...]:
    """`2.15` as numbers, as it is newer than `2.9`."""
    return tuple(int(part) for part in str(getattr(version, "value", version)).split("."))


def _replaces(name: str, before: object, after: object) -> Finding:
    return REPLACES.finding(
        cause=f"{name} would replace the file system: it is settled at its creation",
        got=str(getattr(after, "value", after)),
        allowed=str(getattr(before, "value", before)),
        fix=_NEW_STORE,
    )


def _replaces_by_template(name: str, before: object, after: object) -> Finding:
    return REPLACES_BY_TEMPLATE.finding(
        cause=f"{name} would replace the file system: CloudFormation makes a new one for it",
        got=str(getattr(after, "value", after)),
        allowed=str(getattr(before, "value", before)),
        fix=_NEW_STORE,
    )
