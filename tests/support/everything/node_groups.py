"""A stack with node groups of EKS, in every capacity and with everything on."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import Capacity, LustreStore, MigLayout, RootVolume, UpdatePolicy
from node_groups import existing_cluster, node_group
from stack_fixtures import Site


def define_node_groups(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Define the stack; the zone is the network's own."""
    site = Site(app, env)
    cluster = existing_cluster(site)
    bucket = s3.Bucket.from_bucket_name(site.stack, "Evidence", "my-logs")
    key = kms.Key(site.stack, "Key", enable_key_rotation=True)
    corpus = LustreStore(
        site.stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
    )
    block = Capacity.capacity_block("cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z")
    node_group(
        site,
        "Block",
        cluster=cluster,
        capacity=block,
        mounts={"/fsx": corpus},
        evidence_bucket=bucket,
        root_volume=RootVolume(encryption_key=key),
        log_encryption_key=key,
    )
    node_group(
        site,
        "Slices",
        cluster=cluster,
        instance_type="p4d.24xlarge",
        efa=False,
        mig=MigLayout(["1g.5gb"] * 7),
        update_policy=UpdatePolicy.ROLLING,
    )
    reservation = Capacity.from_reservation_id("cr-0fedcba9876543210")
    node_group(site, "Reserved", cluster=cluster, instance_type="g6.xlarge", capacity=reservation)
    spot = node_group(
        site,
        "Spot",
        cluster=cluster,
        instance_type="inf2.48xlarge",
        capacity=Capacity.spot(),
        node_count=None,
        min_node_count=0,
        max_node_count=8,
    )
    spot.grant_read_write(bucket)
    return site.stack
