"""Service-linked roles, and KMS keys that the cluster file names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from cdk_gpu_clusters.errors import Rule, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.spec import LustreSpec

from ..call import KEY, ROLE, Absent, NoAnswer
from ..check import Check, Inquiry, Verdict, failed, passed, warned, whole
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


ROLES_CHECKS = (
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


# KMS keys that the file names.

KEY_ENABLED = define_rule(
    "GPU-PRE-131",
    "the KMS keys are there and enabled",
    source='AWS KMS developer guide, "Key states of AWS KMS keys"',
)
KEY_ENCRYPTS = define_rule(
    "GPU-PRE-132",
    "the KMS keys are symmetric, customer managed, and encrypt",
    source="AWS KMS API reference, KeyMetadata; S3 and FSx take symmetric keys only",
)


def _keys(cluster: Cluster) -> Mapping[str, str]:
    return cluster.keys


def _enabled(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(KEY, KeyId=arn)["KeyMetadata"]
    except Absent:
        yield failed(f"there is no {arn}", fix="correct the ARN")
        return
    if found.get("KeyState") != "Enabled":
        yield failed(f"{arn} is {found.get('KeyState')}", fix="enable it, or cancel its deletion")
    else:
        yield passed(f"{arn} is enabled")


def _encrypts(arn: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(KEY, KeyId=arn)["KeyMetadata"]
    except Absent as absent:
        raise NoAnswer(f"there is no {arn}", fix="see GPU-PRE-131") from absent
    spec, usage = found.get("KeySpec", "SYMMETRIC_DEFAULT"), found.get("KeyUsage", "ENCRYPT_DECRYPT")
    if (spec, usage) != ("SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"):
        yield failed(f"{arn} is {spec} for {usage}", fix="name a symmetric key that encrypts")
    elif found.get("KeyManager") == "AWS":
        yield failed(f"{arn} is managed by AWS: its policy cannot let the nodes in", fix="name a key of your own")


_NO_KEY = "the file names no key"

KEYS_CHECKS = (
    Check(rule=KEY_ENABLED, calls=(KEY,), subjects=_keys, judge=_enabled, unless=_NO_KEY),
    Check(rule=KEY_ENCRYPTS, calls=(KEY,), subjects=_keys, judge=_encrypts, unless=_NO_KEY),
)
