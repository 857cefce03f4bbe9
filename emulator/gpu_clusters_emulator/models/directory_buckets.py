"""What S3 refuses in directory buckets and their policies: the rules of this library, on any template.

Source: Amazon S3 user guide, "Directory bucket naming rules" (the zone of the name is the zone of the bucket) and
"Concepts for directory buckets in Local Zones" (redundancy), stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.errors import errors_in
from cdk_gpu_clusters.rules.checkpoints import check_directory_bucket, directory_bucket_name
from cdk_gpu_clusters.rules.zones import check_zone

from ..faults import Fault
from ..world import DIRECTORY_BUCKET

if TYPE_CHECKING:
    from ..world import World

_PARTS_OF_A_ZONE_ID = 2  # use1-az4; a Local Zone's has one more, use1-dfw2-az1


def directory_bucket_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::S3Express::DirectoryBucket`."""
    zone, name = properties["LocationName"], properties.get("BucketName")
    base, separator, ending = name.partition("--") if name is not None else ("base", "", "")
    for finding in errors_in([*check_directory_bucket(zone, base), *check_zone(world.region, zone)]):
        yield Fault(check=f"express {finding.id}", message=f"{finding.cause}, got {finding.got}")
    if name is not None and f"{separator}{ending}" != directory_bucket_name("", zone):
        yield Fault(
            check="express-name",
            message=f"a bucket in {zone} is named <base>{directory_bucket_name('', zone)}, got {name!r}",
            path="BucketName",
        )
    local = len(zone.split("-")) > _PARTS_OF_A_ZONE_ID
    if local != (properties["DataRedundancy"] == "SingleLocalZone"):
        yield Fault(
            check="express-redundancy",
            message=f"{properties['DataRedundancy']} does not go with the zone {zone}",
            path="DataRedundancy",
        )


def directory_bucket_policy_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::S3Express::BucketPolicy`."""
    if world.find(DIRECTORY_BUCKET, properties["Bucket"]) is None:
        yield Fault(
            check="bucket-missing",
            message=f"the directory bucket {properties['Bucket']!r} does not exist",
            path="Bucket",
        )
