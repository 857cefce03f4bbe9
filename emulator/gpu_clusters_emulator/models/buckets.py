"""What S3 refuses in directory buckets, and Elastic Load Balancing in the buckets of its logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters.catalogue.regions import region_of_zone

from ..faults import Fault
from ..world import Json, Resource, Type, World

# Sources: Amazon S3 user guide, "Directory bucket naming rules" (the zone of the name is the zone of the bucket) and
# "Concepts for directory buckets in Local Zones" (redundancy), stored copies of 2026.
_ZONE_ID = re.compile(r"[a-z]{2,5}\d+(?P<place>-[a-z]{3}\d+)?-az\d+")  # use1-az4; a Local Zone's is use1-dfw2-az1


def directory_bucket_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::S3Express::DirectoryBucket`."""
    zone, name, redundancy = (
        properties["LocationName"],
        properties.get("BucketName"),
        properties["DataRedundancy"],
    )
    parts, region = _ZONE_ID.fullmatch(zone), region_of_zone(zone)
    if parts is None:
        message = f"a directory bucket is placed by a zone id, got {zone}"
        yield Fault("express-zone", message, "LocationName")
    elif region is not None and region.name != world.region:
        message = f"the zone belongs to {region.name}, not to {world.region}, got {zone}"
        yield Fault("express-zone", message, "LocationName")
    if name is not None and name.partition("--")[2] != f"{zone}--x-s3":
        message = f"a bucket in {zone} is named <base>--{zone}--x-s3, got {name!r}"
        yield Fault("express-name", message, "BucketName")
    if bool(parts and parts["place"]) != (redundancy == "SingleLocalZone"):
        yield Fault("express-redundancy", f"{redundancy} does not go with the zone {zone}", "DataRedundancy")


def directory_bucket_policy_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::S3Express::BucketPolicy`."""
    if world.find(Type.DIRECTORY_BUCKET, properties["Bucket"]) is None:
        message = f"the directory bucket {properties['Bucket']!r} does not exist"
        yield Fault("bucket-missing", message, "Bucket")


# What Elastic Load Balancing refuses in the buckets of its logs. Source: user guide of Application Load Balancers,
# "Enable access logs" (same Region, a policy that lets logdelivery.elasticloadbalancing.amazonaws.com or the
# Region's account put objects, encryption with S3's own keys only); without it the API answers "Access Denied for
# bucket". Stored copies of 2026.

_PATH = "LoadBalancerAttributes"
_KINDS = ("access_logs.s3", "connection_logs.s3", "health_check_logs.s3")
_PUT = frozenset({"s3:PutObject", "s3:Put*", "s3:*", "*"})


def log_bucket_faults(given: list[Json], world: World) -> Iterator[Fault]:
    """Faults of the buckets that a load balancer's attributes name."""
    values = {str(one.get("Key")): str(one.get("Value")) for one in given}
    for kind in _KINDS:
        if values.get(f"{kind}.enabled") == "true":
            for message in _messages(values.get(f"{kind}.bucket", ""), world):
                yield Fault("log-bucket", message, _PATH)


def _messages(name: str, world: World) -> Iterator[str]:
    region = world.region_of_bucket(name)
    if not name:
        yield "logs need the name of a bucket"
    elif region is None:
        yield f"the S3 bucket {name!r} does not exist"
    elif region != world.region:
        yield f"the S3 bucket {name!r} is in {region}, the load balancer in {world.region}"
    made = world.find(Type.BUCKET, name)
    if made is not None:
        yield from _made_bucket_messages(made, world)


def _made_bucket_messages(bucket: Resource, world: World) -> Iterator[str]:
    if "aws:kms" in json.dumps(bucket.properties.get("BucketEncryption", {})):
        yield f"the S3 bucket {bucket.physical_id!r} is encrypted with KMS; logs take S3's own keys only"
    policies = [
        one.properties["PolicyDocument"]
        for one in world.of_type("AWS::S3::BucketPolicy")
        if one.properties.get("Bucket") == bucket.physical_id
    ]
    if not any(_lets_logs_in(statement) for policy in policies for statement in policy.get("Statement", [])):
        yield f"access denied for bucket {bucket.physical_id!r}: its policy does not let Elastic Load Balancing write"


def _lets_logs_in(statement: Json) -> bool:
    actions = statement.get("Action", [])
    principal = statement.get("Principal", {})
    services = principal.get("Service", []) if isinstance(principal, dict) else []
    by_service = any(one.startswith("logdelivery.elasticloadbalancing.") for one in _listed(services))
    by_account = isinstance(principal, dict) and "AWS" in principal
    return (
        statement.get("Effect") == "Allow"
        and "Condition" not in statement  # the published policy has none, and which keys ELB sends is not documented
        and bool(_PUT & set(_listed(actions)))
        and (by_service or by_account or principal == "*")
    )


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
