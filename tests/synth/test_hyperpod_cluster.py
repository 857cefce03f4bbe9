"""A HyperPod cluster on Slurm and on Amazon EKS: what is said to the service, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Annotations, Match

from cdk_gpu_clusters import (
    AccountingDatabase,
    Capacity,
    ConfigError,
    DeepHealthCheck,
    EksGpuCluster,
    GpuLaunchTemplate,
    HomeService,
    HomeStore,
    HyperPodCluster,
    HyperPodTaint,
    InterfacePolicy,
    LustreStore,
    MigLayout,
    Orchestrator,
    QuotaResource,
    SlurmNodeType,
    TrainingPlan,
)
from stack_fixtures import Resources, Site, SiteFactory, of_type, only

CLUSTER = "AWS::SageMaker::Cluster"
PLAN = TrainingPlan.from_arn("arn:aws:sagemaker:us-east-1:123456789012:training-plan/research")


@dataclass
class Made:
    """A cluster with its template."""

    cluster: HyperPodCluster
    resources: Resources

    @property
    def properties(self) -> dict[str, Any]:
        return only(self.resources, CLUSTER)

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        return {group["InstanceGroupName"]: group for group in self.properties["InstanceGroups"]}


def slurm(site: Site, **options: Any) -> HyperPodCluster:
    return HyperPodCluster(site.stack, "HyperPod", vpc=site.vpc, vpc_subnets=site.one_subnet, **options)


def eks(site: Site, **options: Any) -> HyperPodCluster:
    cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
        site.stack,
        "Kubernetes",
        vpc=site.vpc,
        cluster_name="research",
        cluster_security_group_id="sg-0123456789abcdef0",
        kubernetes_version="1.33",
    )
    return HyperPodCluster(site.stack, "HyperPod", eks_cluster=cluster, vpc_subnets=site.one_subnet, **options)


@pytest.fixture(scope="module")
def on_slurm(app_factory: Any) -> Iterator[Made]:
    """A Slurm cluster with every option, synthesized once."""
    site = Site(app_factory(), None)
    secret = secretsmanager.Secret.from_secret_name_v2(site.stack, "Secret", "slurm-accounting")
    other = ec2.SecurityGroup.from_security_group_id(site.stack, "Other", "sg-0123456789abcdef1")
    cluster = slurm(
        site,
        cluster_name="research",
        security_groups=[other],
        accounting_database=AccountingDatabase(endpoint="db.example.com", secret=secret),
    )
    store = LustreStore.from_lustre_store_attributes(
        site.stack,
        "Scratch",
        file_system_id="fs-0123456789abcdef0",
        mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(site.stack, "OfStore", "sg-0123456789abcdef2"),
    )
    homes = HomeStore.from_home_store_attributes(
        site.stack,
        "Homes",
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
    yield Made(cluster, site.resources())


@pytest.fixture(scope="module")
def on_eks(app_factory: Any) -> Iterator[Made]:
    """A cluster on Amazon EKS with MIG, quotas and priorities, synthesized once."""
    site = Site(app_factory(), None)
    cluster = eks(site, tiered_checkpoint_percent=20)
    cluster.add_instance_group(
        "Slices",
        instance_type="p4d.24xlarge",
        node_count=2,
        efa=False,
        mig=MigLayout(["3g.20gb", "4g.20gb"]),
        labels={"team": "vision"},
        taints=[HyperPodTaint(key="nvidia.com/gpu", value="present")],
        image_release="1.2.3",
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
    yield Made(cluster, site.resources())


def test_debug(on_slurm: Made, on_eks: Made) -> None:
    print(json.dumps(on_slurm.resources, indent=1))
    print(json.dumps(on_eks.resources, indent=1))
    raise AssertionError
