"""Where an ARN says that something stands."""

from __future__ import annotations

from typing import NamedTuple

from cdk_gpu_clusters.catalogue.regions import partition_of


class ForeignPlace(NamedTuple):
    """The beginning of an ARN as it was given, and as the cluster's Region would have it."""

    got: str
    allowed: str


def foreign_place(arn: str, region: str) -> ForeignPlace | None:
    """Say how an ARN stands in another Region or partition; None if it stands in this one.

    Args:
        arn: The ARN.
        region: Region of the cluster, one that the catalogue knows.

    Example:
        >>> foreign_place("arn:aws:acm:us-east-1:111122223333:certificate/a", "eu-west-1")
        ForeignPlace(got='arn:aws:acm:us-east-1:…', allowed='arn:aws:acm:eu-west-1:…')
    """
    _, partition, service, there, *_ = arn.split(":")
    here = partition_of(region)
    if (partition, there) == (here, region):
        return None
    return ForeignPlace(f"arn:{partition}:{service}:{there}:…", f"arn:{here}:{service}:{region}:…")
