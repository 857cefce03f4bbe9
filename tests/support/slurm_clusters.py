"""Clusters of AWS PCS and their node groups, for tests."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import ClusterSize, IPcsCluster, PcsCluster, PcsNodeGroup
from stack_fixtures import Site

CLUSTER_ID = "pcs_abc123def4"
CONTROLLER_GROUP = "sg-0fedcba9876543210"
VERSION = "26.05"


def existing_slurm(site: Site, **more: Any) -> IPcsCluster:
    """A cluster that exists already."""
    group = ec2.SecurityGroup.from_security_group_id(site.stack, "Controller", CONTROLLER_GROUP)
    given = {"slurm_version": VERSION, "size": ClusterSize.SMALL, "security_groups": [group], **more}
    return PcsCluster.from_pcs_cluster_attributes(site.stack, "Slurm", vpc=site.vpc, cluster_id=CLUSTER_ID, **given)


def slurm_cluster(site: Site, name: str = "Slurm", **options: Any) -> PcsCluster:
    """A new cluster; small unless the options say otherwise."""
    given = {"size": ClusterSize.SMALL, "subnet": site.vpc.private_subnets[0], **options}
    return PcsCluster(site.stack, name, vpc=site.vpc, **given)


def slurm_nodes(
    site: Site, name: str = "Trainers", *, cluster: IPcsCluster | None = None, **options: Any
) -> PcsNodeGroup:
    """A node group in one subnet; two p5 on demand unless the options say otherwise."""
    given = {"instance_type": "p5.48xlarge", "node_count": 2, "vpc_subnets": site.one_subnet, **options}
    return PcsNodeGroup(site.stack, name, cluster=cluster or existing_slurm(site), **given)
