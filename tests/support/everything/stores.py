"""A stack of file systems and buckets of every kind, and a fleet that uses them."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    Capacity,
    CheckpointStore,
    ColdFileRelease,
    EfaSecurityGroup,
    GpuFleet,
    LustreDeploymentType,
    LustreStorageType,
    LustreStore,
    ReadCacheMode,
    RootVolume,
)
from everything.fleets import existing_vpc


def define_stores(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Every class of file system, every kind of bucket, and a fleet that uses them, in one stack."""
    stack = cdk.Stack(app, "Storage", env=env)
    vpc = existing_vpc(stack, zone)
    place: dict[str, Any] = {"vpc": vpc, "subnet": vpc.private_subnets[0]}
    size: dict[str, Any] = {"storage_capacity_gib": 19_200, "throughput_mb_per_s_per_tib": 250}
    fabric = EfaSecurityGroup(stack, "Fabric", vpc=vpc)
    corpus = LustreStore(stack, "Corpus", **place, **size, efa=True, client_security_group=fabric)
    linked = LustreStore(stack, "Linked", **place, **size, metadata_iops=12_000)
    LustreStore(
        stack,
        "Scratch",
        **place,
        storage_capacity_gib=2400,
        deployment_type=LustreDeploymentType.SCRATCH_2,
        logging=False,
    )
    LustreStore(
        stack,
        "Elastic",
        **place,
        storage_type=LustreStorageType.INTELLIGENT_TIERING,
        throughput_capacity_mb_per_s=4000,
        read_cache=ReadCacheMode.NO_CACHE,
        metadata_iops=6000,
        backup_retention_days=7,
        weekly_maintenance_start_time="7:03:00",
    )
    logs_bucket = s3.Bucket.from_bucket_name(stack, "Logs", "access-logs")
    checkpoints = CheckpointStore(
        stack,
        "Checkpoints",
        access_logs_bucket=logs_bucket,
        express_zone_id="use1-az4",
        expire_after=cdk.Duration.days(30),
        archive_after=cdk.Duration.days(7),
    )
    plain = CheckpointStore(stack, "Plain", versioned=False)
    linked.add_data_repository("/checkpoints", bucket=checkpoints.bucket)
    ColdFileRelease(stack, "Release", store=linked)
    trainers = GpuFleet(
        stack,
        "Trainers",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
        instance_type="p5.48xlarge",
        node_count=2,
        capacity=Capacity.from_reservation_id("cr-0123456789abcdef0"),
        fabric=fabric,
        mounts={"/fsx": corpus, "/data": linked},
        root_volume=RootVolume(encryption_key=checkpoints.encryption_key),
    )
    checkpoints.grant_read_write(trainers)
    plain.grant_read_write(trainers)
    trainers.grant_read(s3.Bucket.from_bucket_name(stack, "Dataset", "dataset"))
    return stack
