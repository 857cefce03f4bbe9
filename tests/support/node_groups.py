"""Node groups of EKS in an existing cluster, for tests."""

from __future__ import annotations

from typing import Any

from cdk_gpu_clusters import EksGpuCluster, EksGpuNodeGroup, IEksGpuCluster
from stack_fixtures import Site

CLUSTER_GROUP = "sg-0fedcba9876543210"
VERSION = "1.34"


def existing_cluster(site: Site, **more: Any) -> IEksGpuCluster:
    """A cluster that exists already."""
    given = {"kubernetes_version": VERSION, "cluster_name": "research", **more}
    return EksGpuCluster.from_eks_gpu_cluster_attributes(
        site.stack,
        "Cluster",
        vpc=site.vpc,
        cluster_security_group_id=CLUSTER_GROUP,
        **given,
    )


def node_group(
    site: Site, name: str = "Trainers", *, cluster: IEksGpuCluster | None = None, **options: Any
) -> EksGpuNodeGroup:
    """A node group in one subnet; two p5 on demand unless the options say otherwise."""
    given = {"instance_type": "p5.48xlarge", "node_count": 2, "vpc_subnets": site.one_subnet, **options}
    return EksGpuNodeGroup(site.stack, name, cluster=cluster or existing_cluster(site), **given)
