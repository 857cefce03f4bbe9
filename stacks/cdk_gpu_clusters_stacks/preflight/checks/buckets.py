"""Buckets: existing ones that the file names, and names that new ones are to have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters_stacks.spec import CheckpointsSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.data import ExistingCheckpointsSpec
from cdk_gpu_clusters_stacks.stack_names import data_stack

from ..answer import Absent, Denied
from ..call import BUCKET, DIRECTORY_BUCKETS, STACKS
from ..check import Check, Inquiry, Verdict, cannot_tell, failed, passed, warned
from ..cluster import Cluster

_HEAD = "Amazon S3 API reference, HeadBucket"

THERE = define_rule("GPU-PRE-121", "the buckets are there, and let the caller list them", source=_HEAD)
SAME_REGION = define_rule(
    "GPU-PRE-122",
    "the buckets are in the Region that the file gives, or in the cluster's",
    source=f'{_HEAD}; FSx for Lustre user guide, "Linking your file system to an Amazon S3 bucket"; traffic '
    "between Regions is charged",
)
NAME_FREE = define_rule(
    "GPU-PRE-123",
    "the name of a new bucket is free",
    source='Amazon S3 user guide, "General purpose bucket naming rules": names are unique in a partition',
)
DIRECTORY_BUCKET = define_rule(
    "GPU-PRE-124",
    "existing directory buckets are there",
    source="Amazon S3 API reference, ListDirectoryBuckets",
)


def _existing(cluster: Cluster) -> Mapping[str, str]:
    return cluster.buckets


def _there(name: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        inquiry.ask(BUCKET, Bucket=name)
    except Absent:
        yield failed(f"there is no bucket {name}", fix="correct the name, or make the bucket first")
    except Denied:
        yield cannot_tell(
            f"bucket {name} is there and refuses: it is another account's, or s3:ListBucket is missing",
            fix="let the caller in by the bucket's policy, or allow s3:ListBucket",
            permission="s3:ListBucket",
        )


def _placed(cluster: Cluster) -> Mapping[str, tuple[str, str, bool]]:
    """Bucket, its Region, and whether another one is an error."""
    found = {where: (name, cluster.region, False) for where, name in cluster.buckets.items()}
    for where, store in cluster.stores(LustreSpec).items():
        for index, link in enumerate(store.repositories):
            region = link.bucket_region or cluster.region
            found[f"{where}.repositories.{index}.bucket"] = (link.bucket, region, True)
    for where, name in cluster.buckets.items():
        if where.endswith("access_log_bucket"):
            found[where] = (name, cluster.region, True)
    return found


def _same_region(named: tuple[str, str, bool], inquiry: Inquiry) -> Iterator[Verdict]:
    name, wanted, must = named
    try:
        found = inquiry.ask(BUCKET, Bucket=name).get("BucketRegion")
    except Absent:
        yield cannot_tell(f"there is no bucket {name}", fix="see GPU-PRE-121")
        return
    if found is None:
        yield cannot_tell(f"S3 does not say where {name} lies")
    elif found == wanted:
        yield passed(f"{name} in {found}")
    elif must:
        yield failed(
            f"{name} lies in {found}, and {wanted} is expected",
            fix=f"for a repository say bucket_region: {found}; access logs need a bucket of {wanted}",
        )
    else:
        yield warned(
            f"{name} lies in {found}: each GB to {wanted} is charged", fix=f"use a bucket in {wanted}"
        )


def _new(cluster: Cluster) -> Mapping[str, tuple[str, str]]:
    """Name of a new bucket, and the stack that makes it."""
    return {
        f"{where}.checkpoints.bucket_name": (
            store.checkpoints.bucket_name,
            data_stack(cluster.spec.name, where.removeprefix("data.")),
        )
        for where, store in cluster.stores(CheckpointsSpec).items()
        if store.checkpoints.bucket_name is not None
    }


def _free(named: tuple[str, str], inquiry: Inquiry) -> Iterator[Verdict]:
    name, stack = named
    inquiry.start(STACKS, StackName=stack)
    try:
        inquiry.ask(BUCKET, Bucket=name)
    except Absent:
        yield passed(f"{name} is free")
        return
    except Denied:
        yield failed(f"{name} is another account's, or hidden from the caller", fix="choose another name")
        return
    try:
        inquiry.ask(STACKS, StackName=stack)
    except Absent:
        yield failed(
            f"{name} is there already, and stack {stack} is not",
            fix="choose another name, or name it as existing_checkpoints",
        )
    else:
        yield passed(f"{name} is there, and so is stack {stack}")


def _directory(cluster: Cluster) -> Mapping[str, str]:
    return {
        f"{where}.existing_checkpoints.express_bucket_name": name
        for where, store in cluster.stores(ExistingCheckpointsSpec).items()
        if (name := store.existing_checkpoints.express_bucket_name) is not None
    }


def _directory_there(name: str, inquiry: Inquiry) -> Iterator[Verdict]:
    names = {one["Name"] for one in inquiry.ask(DIRECTORY_BUCKETS).get("Buckets", ())}
    if name not in names:
        yield failed(
            f"the account has no directory bucket {name} in {inquiry.cluster.region}",
            fix="correct the name, or the Region",
        )


_NO_BUCKET = "the file names no existing bucket"

CHECKS = (
    Check(rule=THERE, calls=(BUCKET,), subjects=_existing, judge=_there, unless=_NO_BUCKET),
    Check(rule=SAME_REGION, calls=(BUCKET,), subjects=_placed, judge=_same_region, unless=_NO_BUCKET),
    Check(
        rule=NAME_FREE,
        calls=(BUCKET, STACKS),
        subjects=_new,
        judge=_free,
        unless="no new bucket has a name of its own",
    ),
    Check(
        rule=DIRECTORY_BUCKET,
        calls=(DIRECTORY_BUCKETS,),
        subjects=_directory,
        judge=_directory_there,
        unless="the file names no directory bucket",
    ),
)
