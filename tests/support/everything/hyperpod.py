"""Clusters of SageMaker HyperPod with every option, on Slurm and on Amazon EKS."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager

from cdk_gpu_clusters import (
    AccountingDatabase,
    Capacity,
    DeepHealthCheck,
    EksGpuCluster,
    HomeService,
    HomeStore,
    HyperPodCluster,
    HyperPodTaint,
    InterfacePolicy,
    LustreStore,
    MigLayout,
    QuotaResource,
    SlurmNodeType,
    TrainingPlan,
)
from stack_fixtures import Site

PLAN = TrainingPlan.from_arn("arn:aws:sagemaker:us-east-1:123456789012:training-plan/research")

VOLUME_KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"


def define_hyperpod(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """Define a stack with both."""
    site = Site(app, env)
    cluster = hyperpod_on_slurm(site)
    cluster.grant_read(iam.Role.from_role_name(site.stack, "Auditors", "auditors"))
    hyperpod_on_eks(site)
    return site.stack


def slurm_of_hyperpod(site: Site, **options: Any) -> HyperPodCluster:
    """A Slurm cluster in one subnet."""
    return HyperPodCluster(site.stack, "HyperPod", vpc=site.vpc, vpc_subnets=site.one_subnet, **options)


def hyperpod_on_slurm(site: Site) -> HyperPodCluster:
    """A Slurm cluster with every option."""
    secret = secretsmanager.Secret.from_secret_name_v2(site.stack, "Secret", "slurm-accounting")
    other = ec2.SecurityGroup.from_security_group_id(site.stack, "Other", "sg-0123456789abcdef1")
    cluster = slurm_of_hyperpod(
        site,
        cluster_name="research",
        security_groups=[other],
        accounting_database=AccountingDatabase(endpoint="db.example.com", secret=secret),
    )
    store = LustreStore.from_lustre_store_attributes(
        site.stack,
        "HyperPodScratch",
        file_system_id="fs-0123456789abcdef0",
        mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(site.stack, "OfStore", "sg-0123456789abcdef2"),
    )
    homes = HomeStore.from_home_store_attributes(
        site.stack,
        "HyperPodHomes",
        service=HomeService.OPENZFS,
        file_system_id="fs-0123456789abcdef1",
        security_group=ec2.SecurityGroup.from_security_group_id(site.stack, "OfHomes", "sg-0123456789abcdef3"),
    )
    mine = ec2.SecurityGroup(site.stack, "Mine", vpc=site.vpc)
    cluster.add_instance_group("Login", instance_type="m7i.xlarge", node_count=1, node_type=SlurmNodeType.LOGIN)
    cluster.add_instance_group(
        "Trainers",
        instance_type="p5.48xlarge",
        node_count=4,
        least_node_count=2,
        partition="train",
        capacity=PLAN,
        deep_health_checks=[DeepHealthCheck.INSTANCE_STRESS, DeepHealthCheck.INSTANCE_CONNECTIVITY],
        mounts={"/fsx": store, "/home": homes},
        volume_gib=500,
        volume_key=kms.Key.from_key_arn(site.stack, "VolumeKey", VOLUME_KEY),
        security_groups=[mine],
        setup_script="#!/bin/sh\necho hello\n",
        environment={"NCCL_DEBUG": "INFO"},
    )
    cluster.add_instance_group(
        "Spot",
        instance_type="ml.g6.12xlarge",
        node_count=2,
        efa=True,
        interface_policy=InterfacePolicy.EFA_PER_CARD,
        capacity=Capacity.spot(),
        threads_per_core=1,
    )
    return cluster


def hyperpod_on_eks(site: Site) -> HyperPodCluster:
    """A cluster on Amazon EKS with MIG, quotas and priorities."""
    kubernetes = EksGpuCluster.from_eks_gpu_cluster_attributes(
        site.stack,
        "Kubernetes",
        vpc=site.vpc,
        cluster_name="research",
        cluster_security_group_id="sg-0123456789abcdef0",
        kubernetes_version="1.33",
    )
    cluster = HyperPodCluster(
        site.stack,
        "Pods",
        eks_cluster=kubernetes,
        vpc_subnets=site.one_subnet,
        tiered_checkpoint_percent=20,
    )
    cluster.add_instance_group(
        "Slices",
        instance_type="p4d.24xlarge",
        node_count=2,
        efa=False,
        mig=MigLayout(["3g.20gb", "4g.20gb"]),
        labels={"team": "vision"},
        taints=[HyperPodTaint(key="nvidia.com/gpu", value="present")],
        image_release="1.2.3",
        threads_per_core=1,
    )
    cluster.add_instance_group("Servers", instance_type="m7i.xlarge", node_count=1, threads_per_core=1)
    cluster.add_instance_group(
        "Bare", instance_type="g5.12xlarge", node_count=1, efa=False, checks=False, threads_per_core=1
    )
    cluster.add_team_quota(
        "Vision",
        team="vision",
        resources=[
            QuotaResource(instance_type="p5.48xlarge", accelerators=16),
            QuotaResource(instance_type="p4d.24xlarge", mig_profile="3g.20gb", mig_count=4),
        ],
        borrow_limit_percent=100,
        fair_share_weight=40,
    )
    cluster.add_scheduler_config("Priorities", priorities={"training": 80, "research": 20})
    return cluster
