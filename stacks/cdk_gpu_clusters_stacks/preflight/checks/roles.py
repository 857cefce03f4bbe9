"""Service-linked roles, which AWS makes at the first use if the deploying principal may make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from cdk_gpu_clusters.errors import Rule, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.spec import LustreSpec

from ..answer import Absent
from ..call import ROLE
from ..check import Check, Inquiry, Verdict, passed, warned, whole
from ..cluster import Cluster, kind_of

AUTO_SCALING = define_rule(
    "GPU-PRE-141",
    "the service-linked role of EC2 Auto Scaling is there",
    source='Amazon EC2 Auto Scaling user guide, "Service-linked roles"',
)
SPOT = define_rule(
    "GPU-PRE-142",
    "the service-linked role of EC2 Spot is there",
    source='AWS EC2 user guide, "Service-linked role for Spot Instance requests"',
)
FSX = define_rule(
    "GPU-PRE-143",
    "the service-linked role of Amazon FSx is there",
    source='FSx for Lustre user guide, "Using service-linked roles for Amazon FSx"; that of a link to S3 is made '
    "for each file system",
)
LOAD_BALANCING = define_rule(
    "GPU-PRE-144",
    "the service-linked role of Elastic Load Balancing is there",
    source='Elastic Load Balancing user guide, "Service-linked role"',
)
EKS = define_rule(
    "GPU-PRE-145",
    "the service-linked role of Amazon EKS is there",
    source='Amazon EKS user guide, "Using roles for Amazon EKS clusters"',
)
EKS_NODES = define_rule(
    "GPU-PRE-146",
    "the service-linked role of EKS node groups is there",
    source='Amazon EKS user guide, "Using roles for Amazon EKS node groups"',
)


def _when(wanted: Callable[[Cluster], object], cluster: Cluster) -> Mapping[str, Cluster]:
    return {"": cluster} if wanted(cluster) else {}


def _spot(cluster: Cluster) -> bool:
    return any(kind_of(fleet) is CapacityKind.SPOT for fleet in cluster.fleets.values())


def _role(
    rule: Rule,
    name: str,
    service: str,
    *,
    subjects: Callable[[Cluster], Mapping[str, Cluster]] = whole,
    unless: str = "always applicable",
) -> Check[Cluster]:
    def judge(_: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
        try:
            inquiry.ask(ROLE, RoleName=name)
        except Absent:
            yield warned(
                f"{name} does not exist: the first deployment makes it, if it may",
                fix=f"aws iam create-service-linked-role --aws-service-name {service}",
            )
        else:
            yield passed(name)

    return Check(rule=rule, calls=(ROLE,), subjects=subjects, judge=judge, unless=unless)


CHECKS = (
    _role(AUTO_SCALING, "AWSServiceRoleForAutoScaling", "autoscaling.amazonaws.com"),
    _role(
        SPOT,
        "AWSServiceRoleForEC2Spot",
        "spot.amazonaws.com",
        subjects=partial(_when, _spot),
        unless="no fleet is spot",
    ),
    _role(
        FSX,
        "AWSServiceRoleForAmazonFSx",
        "fsx.amazonaws.com",
        subjects=partial(_when, lambda cluster: cluster.stores(LustreSpec)),
        unless="no Lustre file system is made",
    ),
    _role(
        LOAD_BALANCING,
        "AWSServiceRoleForElasticLoadBalancing",
        "elasticloadbalancing.amazonaws.com",
        subjects=partial(_when, lambda cluster: cluster.balanced),
        unless="no load balancer is made",
    ),
    _role(
        EKS,
        "AWSServiceRoleForAmazonEKS",
        "eks.amazonaws.com",
        subjects=partial(_when, lambda cluster: cluster.makes_eks),
        unless="no EKS cluster is made",
    ),
    _role(
        EKS_NODES,
        "AWSServiceRoleForAmazonEKSNodegroup",
        "eks-nodegroup.amazonaws.com",
        subjects=partial(_when, lambda cluster: cluster.plan.kubernetes),
        unless="no fleet is on EKS",
    ),
)
