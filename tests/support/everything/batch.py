"""A stack with compute environments of AWS Batch in every capacity, their queues and jobs, with everything on."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    BatchComputeEnvironment,
    BatchJobQueue,
    BatchMultiNodeJob,
    BlockedReason,
    Capacity,
    LustreStore,
    RootVolume,
)
from stack_fixtures import Site

_IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"


def define_batch(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Define the stack."""
    site = Site(app, env)
    stack = site.stack
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    bucket = s3.Bucket.from_bucket_name(stack, "Evidence", "my-logs")
    corpus = LustreStore(
        stack,
        "Corpus",
        vpc=site.vpc,
        subnet=site.vpc.private_subnets[0],
        storage_capacity_gib=38_400,
        throughput_mb_per_s_per_tib=250,
    )
    block = BatchComputeEnvironment(
        stack,
        "Block",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="p5.48xlarge",
        node_count=4,
        capacity=Capacity.capacity_block("cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
        mounts={"/fsx": corpus},
        evidence_bucket=bucket,
        root_volume=RootVolume(size_gib=500, encryption_key=key),
        log_encryption_key=key,
    )
    reserved = BatchComputeEnvironment(
        stack,
        "Reserved",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="p4d.24xlarge",
        node_count=2,
        capacity=Capacity.from_reservation_id("cr-0fedcba9876543210"),
        alarms=None,
    )
    elastic = BatchComputeEnvironment(
        stack,
        "Elastic",
        vpc=site.vpc,
        instance_type="g6.xlarge",
        min_node_count=0,
        max_node_count=8,
        scale_down_delay=cdk.Duration.hours(1),
        job_timeout_on_update=cdk.Duration.hours(4),
    )
    elastic.grant_read_write(bucket)
    queue = BatchJobQueue(
        stack,
        "Large",
        compute_environments=[block, reserved],
        priority=10,
        blocked_limits={BlockedReason.INSUFFICIENT_INSTANCE_CAPACITY: None},
    )
    BatchJobQueue(stack, "Small", compute_environments=[elastic])
    role = iam.Role(stack, "JobRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    job = BatchMultiNodeJob(
        stack,
        "Train",
        compute_environment=block,
        node_count=4,
        image=_IMAGE,
        command=["python3", "train.py"],
        job_role=role,
        timeout=cdk.Duration.days(2),
    )
    BatchMultiNodeJob(stack, "Tune", compute_environment=elastic, node_count=8, image=_IMAGE, attempts=1)
    queue.grant_submit(iam.Role.from_role_name(stack, "People", "people"), jobs=[job])
    return stack
