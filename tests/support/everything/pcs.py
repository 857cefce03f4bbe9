"""A stack with clusters of AWS PCS, in every capacity and with everything on."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import (
    Capacity,
    ClusterSize,
    LifecycleScript,
    LifecycleStage,
    LustreStore,
    MigLayout,
    PcsLoginNodes,
    RootVolume,
)
from slurm_clusters import existing_slurm, slurm_cluster, slurm_nodes
from stack_fixtures import Site


def define_pcs(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Define the stack; the zone is the network's own."""
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
    slurm_cluster(site, "Plain")
    cluster = slurm_cluster(
        site,
        "Whole",
        size=ClusterSize.MEDIUM,
        network_type="IPV6",
        accounting_purge_days=365,
        slurm_settings={"AccountingStorageEnforce": "limits"},
        slurmdbd_settings={"PrivateData": "jobs"},
        cgroup_settings={"ConstrainDevices": "yes"},
        slurm_rest=True,
        metrics=True,
        scale_down_idle_time=cdk.Duration.minutes(20),
        log_encryption_key=key,
    )
    block = slurm_nodes(
        site,
        "Block",
        cluster=cluster,
        capacity=Capacity.capacity_block(
            "cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z"
        ),
        mounts={"/fsx": corpus},
        evidence_bucket=bucket,
        root_volume=RootVolume(size_gib=500, encryption_key=key),
        log_encryption_key=key,
        lifecycle_scripts=[
            LifecycleScript(name="motd", stage=LifecycleStage.NODE_READY, content="#!/bin/sh\nuptime\n")
        ],
    )
    slices = slurm_nodes(
        site, "Slices", cluster=cluster, instance_type="p4d.24xlarge", efa=False, mig=MigLayout(["1g.5gb"] * 7)
    )
    reservation = Capacity.from_reservation_id("cr-0fedcba9876543210", ends_at="2026-12-15T11:30Z")
    slurm_nodes(site, "Reserved", cluster=cluster, instance_type="g6.xlarge", capacity=reservation)
    spot = slurm_nodes(
        site,
        "Spot",
        cluster=cluster,
        instance_type="g6e.12xlarge",
        capacity=Capacity.spot(),
        node_count=None,
        min_node_count=0,
        max_node_count=8,
        vpc_subnets=None,
        efa=False,
        weight=10,
        scale_down_idle_time=cdk.Duration.minutes(5),
    )
    spot.grant_read_write(bucket)
    cluster.add_queue("train", node_groups=[block, slices], slurm_settings={"Default": "YES"})
    cluster.add_queue("elastic", node_groups=[spot])
    login = cluster.add_login_nodes("Login", mounts={"/fsx": corpus})
    login.grant_sessions(iam.Role.from_role_name(stack, "People", "people"))
    cluster.grant_read(iam.Role.from_role_name(stack, "Auditors", "auditors"))
    PcsLoginNodes(stack, "OtherLogin", cluster=existing_slurm(site), instance_type="m8g.xlarge")
    return stack
