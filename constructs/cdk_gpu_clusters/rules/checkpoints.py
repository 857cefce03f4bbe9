"""Directory buckets (S3 Express One Zone) for checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.regions import s3_express_zone_ids
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.zones import is_zone_id

_PAGE = 'Amazon S3 user guide, "Directory bucket naming rules" (stored copy of 2026)'

ZONE_ID = define_rule(
    "GPU-CKP-001",
    "a directory bucket's place is a zone id",
    source="CloudFormation schema of AWS::S3Express::DirectoryBucket (cfn-lint 1.58.0): LocationName",
)
BASE_NAME = define_rule(
    "GPU-CKP-002",
    "a directory bucket is named <base>--<zone id>--x-s3, with 3 to 63 characters in all",
    source=_PAGE,
)
DAYS = define_rule(
    "GPU-CKP-003",
    "a lifecycle rule waits for a number of days, one or more",
    source='Amazon S3 user guide, "Setting an S3 Lifecycle configuration"',
)
BUCKET_NAME = define_rule(
    "GPU-CKP-004",
    "a bucket of the Region is named by S3's rules; names that end in --x-s3 are those of directory buckets",
    source='Amazon S3 user guide, "General purpose bucket naming rules"',
)

HAS_EXPRESS = define_rule(
    "GPU-CKP-005",
    "the zone of a directory bucket has S3 Express One Zone",
    source='Amazon S3 user guide, "S3 Express One Zone Availability Zones and Regions"',
)
OBJECT_LOCK = define_rule(
    "GPU-CKP-006",
    "Object Lock keeps the versions of a versioned bucket for 1 to 36500 days",
    source='Amazon S3 user guide, "Locking objects with Object Lock"; API reference, DefaultRetention and "Object Lock'
    ' considerations" (100 years)',
)

_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_BUCKET = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_ADDRESS = re.compile(r"\d+(\.\d+){3}")
_DIRECTORY_BUCKET = re.compile(r"(?P<base>.+)--(?P<zone>[a-z0-9-]+?)--x-s3")
_BASE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_AVAILABILITY_ZONE = re.compile(r"[a-z]+\d+-az\d+")
_LONGEST = 63
_LONGEST_LOCK_DAYS = 36_500


def directory_bucket_name(base: str, zone_id: str) -> str:
    """The full name of a directory bucket.

    Example:
        >>> directory_bucket_name("llama", "use1-az4")
        'llama--use1-az4--x-s3'
    """
    return f"{base}--{zone_id}--x-s3"


def read_directory_bucket_name(name: str) -> tuple[str, str]:
    """The base and the zone id in the full name of a directory bucket.

    Example:
        >>> read_directory_bucket_name("llama--use1-az4--x-s3")
        ('llama', 'use1-az4')
    """
    found = _DIRECTORY_BUCKET.fullmatch(name)
    if found is None:
        raise ValueError(f"not the name of a directory bucket: {name}")
    return found["base"], found["zone"]


@check
def check_bucket_name(name: str) -> Iterator[Finding]:
    """Find a name that no bucket of a Region has.

    Args:
        name: Name of 3 to 63 lower-case letters, digits, dots and hyphens.

    Example:
        >>> [finding.id for finding in check_bucket_name("llama--use1-az4--x-s3")]
        ['GPU-CKP-004']
    """
    is_directory = name.endswith("--x-s3")
    if not _BUCKET.fullmatch(name) or _ADDRESS.fullmatch(name) or is_directory:
        yield BUCKET_NAME.finding(
            cause="this is the name of a directory bucket of S3 Express One Zone"
            if is_directory
            else "a bucket cannot have this name",
            got=name,
            allowed="letters or digits around each dot, no IP address, no --x-s3 at the end",
            fix="name the bucket of the Region here" if is_directory else "correct the name",
        )


@check
def check_directory_bucket(zone_id: str | None, base: str | None) -> Iterator[Finding]:
    """Find what is wrong with a directory bucket's zone or name.

    Args:
        zone_id: Such as `use1-az4` or, in a Local Zone, `use1-dfw2-az1`; None if unknown.
        base: First part of the name, None to let CloudFormation make one.

    Example:
        >>> [finding.id for finding in check_directory_bucket("us-east-1a", "Llama")]
        ['GPU-CKP-001', 'GPU-CKP-002']
    """
    if zone_id is not None and not is_zone_id(zone_id):
        yield ZONE_ID.finding(
            cause="a directory bucket is placed by a zone id, as zone names differ between accounts",
            got=zone_id,
            allowed="an id such as use1-az4",
            fix="look it up: aws ec2 describe-availability-zones --query 'AvailabilityZones[].[ZoneName,ZoneId]'",
        )
    elif zone_id is not None and _AVAILABILITY_ZONE.fullmatch(zone_id) and zone_id not in s3_express_zone_ids():
        near = [one for one in s3_express_zone_ids() if one.partition("-")[0] == zone_id.partition("-")[0]]
        yield HAS_EXPRESS.finding(
            cause="the S3 user guide lists no S3 Express One Zone in this zone, so the bucket may not be made",
            got=zone_id,
            allowed=", ".join(near) or "no zone of this Region",
            fix="see the guide, whose list grows; choose another zone, or leave the directory bucket out",
            severity=Severity.WARNING,
        )
    longest = _LONGEST - len(directory_bucket_name("", zone_id or "use1-az4"))
    if base is not None and (not _BASE.fullmatch(base) or len(base) > longest):
        yield BASE_NAME.finding(
            cause="a directory bucket cannot have this name",
            got=base,
            allowed=f"1 to {longest} lower-case letters, digits and hyphens, with a letter or digit at both ends",
            fix="change the name, or leave it out",
        )


@check
def check_object_lock(days: float, *, versioned: bool) -> Iterator[Finding]:
    """Find a retention that Object Lock does not have, or a bucket without versions.

    Example:
        >>> [finding.id for finding in check_object_lock(7, versioned=False)]
        ['GPU-CKP-006']
    """
    if not versioned:
        yield OBJECT_LOCK.finding(
            cause="Object Lock protects versions, and this bucket has none",
            got="versioned off",
            fix="leave versioning on, or leave Object Lock out",
            path="object_lock",
        )
    if days != int(days) or not 1 <= days <= _LONGEST_LOCK_DAYS:
        yield OBJECT_LOCK.finding(
            cause="Object Lock has no such retention",
            got=f"{days:g} days",
            allowed=f"1 to {_LONGEST_LOCK_DAYS} days",
            fix="change the days",
            path="object_lock",
        )


ORDER = define_rule(
    "GPU-CKP-007",
    "objects are deleted after they are archived, not before",
    source='Amazon S3 user guide, "Transitioning objects using Amazon S3 Lifecycle": the expiration must come later '
    "than the transition",
)


@check
def check_order(archive_after_days: float | None, expire_after_days: float | None) -> Iterator[Finding]:
    """Find objects that would be archived when they are deleted already, which S3 refuses.

    Example:
        >>> [finding.id for finding in check_order(10, 5)]
        ['GPU-CKP-007']
    """
    if archive_after_days is None or expire_after_days is None or archive_after_days < expire_after_days:
        return
    yield ORDER.finding(
        cause="objects are deleted before they would be archived, and S3 refuses such a lifecycle",
        got=f"deleted after {expire_after_days:g} days, archived after {archive_after_days:g}",
        allowed=f"more than {archive_after_days:g} days",
        fix=f"delete them after {archive_after_days + 1:g} days or more, or do not archive them",
        path="expire_after",
    )


@check
def check_days(name: str, days: float) -> Iterator[Finding]:
    """Find a time that a lifecycle rule cannot wait for."""
    if days < 1 or days != int(days):
        yield DAYS.finding(
            cause=f"{name} is not a number of days",
            got=f"{days:g} days",
            allowed="1 or more",
            fix="use cdk.Duration.days(...)",
        )
