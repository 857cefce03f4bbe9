"""Service-linked roles, KMS keys that the cluster file names, and the default key of volumes."""

from __future__ import annotations

from collections.abc import Callable

from cdk_gpu_clusters.rules.capacity import CapacityKind
from cdk_gpu_clusters_stacks.spec import LustreSpec, OpenZfsSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import EBS_KEY, KEY, KEY_POLICY, ROLE, NoAnswer
from ..check import Inquiry, Outcome, Subjects, Verdict, define_check, failed, passed, warned
from ..cluster import Cluster, fleets_where


def _when(wanted: Callable[[Cluster], object]) -> Subjects[Cluster]:
    return lambda cluster: {"": cluster} if wanted(cluster) else {}


def _role(name: str, service: str) -> Callable[[Cluster, Inquiry], Verdict]:
    """Whether a service-linked role is there."""

    def judge(_: Cluster, inquiry: Inquiry) -> Verdict:
        if inquiry.find(ROLE, RoleName=name) is not None:
            return passed(name)
        return warned(
            f"{name} does not exist: the first deployment makes it, if it may",
            fix=f"aws iam create-service-linked-role --aws-service-name {service}",
        )

    return judge


def _spot_role(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    """Whether the role of EC2 Spot is there, before Karpenter launches: its rights do not include making it."""
    found = _role(_SPOT, "spot.amazonaws.com")(cluster, inquiry)
    launched = any(one.is_pool and one.plan.terms.kind is CapacityKind.SPOT for one in cluster.fleets.values())
    if launched and found.outcome is not Outcome.PASS:
        return failed(f"{_SPOT} does not exist, and Karpenter may not make it: no node is launched", fix=found.fix)
    return found


def _is_scaled(fleet: PlannedFleet) -> bool:
    """Whether EC2 Auto Scaling launches its nodes in the account; AWS Batch lets it do so as well."""
    return not fleet.profile.joins_hyperpod and not fleet.profile.joins_parallelcluster


_scaled = fleets_where(_is_scaled)
_SPOT = "AWSServiceRoleForEC2Spot"
_auto_scaling = define_check(
    "GPU-PRE-141",
    "the service-linked role of EC2 Auto Scaling is there",
    source='Amazon EC2 Auto Scaling user guide, "Service-linked roles"',
    calls=(ROLE,),
    subjects=_when(lambda cluster: cluster.makes_eks or _scaled(cluster)),
    unless="SageMaker or AWS ParallelCluster launches all nodes",
)(_role("AWSServiceRoleForAutoScaling", "autoscaling.amazonaws.com"))
_spot = define_check(
    "GPU-PRE-142",
    "the service-linked role of EC2 Spot is there",
    source='AWS EC2 user guide, "Service-linked role for Spot Instance requests"; aws/karpenter-provider-aws '
    "@ 1d92708, v1.14/troubleshooting.md, Missing Service Linked Role",
    calls=(ROLE,),
    subjects=_when(
        fleets_where(lambda one: one.plan.terms.kind is CapacityKind.SPOT and not one.profile.joins_hyperpod)
    ),
    unless="no fleet is spot in this account",
)(_spot_role)
_fsx = define_check(
    "GPU-PRE-143",
    "the service-linked role of Amazon FSx is there",
    source='FSx for Lustre user guide, "Using service-linked roles for Amazon FSx"; that of a link to S3 is made '
    "for each file system",
    calls=(ROLE,),
    subjects=_when(lambda cluster: {**cluster.stores(LustreSpec), **cluster.stores(OpenZfsSpec)}),
    unless="no FSx file system is made",
)(_role("AWSServiceRoleForAmazonFSx", "fsx.amazonaws.com"))
_load_balancing = define_check(
    "GPU-PRE-144",
    "the service-linked role of Elastic Load Balancing is there",
    source='Elastic Load Balancing user guide, "Service-linked role"',
    calls=(ROLE,),
    subjects=_when(lambda cluster: cluster.balanced),
    unless="no load balancer is made",
)(_role("AWSServiceRoleForElasticLoadBalancing", "elasticloadbalancing.amazonaws.com"))
_eks = define_check(
    "GPU-PRE-145",
    "the service-linked role of Amazon EKS is there",
    source='Amazon EKS user guide, "Using roles for Amazon EKS clusters"',
    calls=(ROLE,),
    subjects=_when(lambda cluster: cluster.makes_eks),
    unless="no EKS cluster is made",
)(_role("AWSServiceRoleForAmazonEKS", "eks.amazonaws.com"))
_eks_nodes = define_check(
    "GPU-PRE-146",
    "the service-linked role of EKS node groups is there",
    source='Amazon EKS user guide, "Using roles for Amazon EKS node groups"',
    calls=(ROLE,),
    subjects=_when(lambda cluster: cluster.plan.kubernetes and (cluster.makes_eks or _scaled(cluster))),
    unless="no node group of EKS is made",
)(_role("AWSServiceRoleForAmazonEKSNodegroup", "eks-nodegroup.amazonaws.com"))
_pcs = define_check(
    "GPU-PRE-147",
    "the service-linked role of AWS PCS is there",
    source='AWS PCS user guide, "Using service-linked roles for AWS PCS"',
    calls=(ROLE,),
    subjects=_when(lambda cluster: cluster.plan.slurm),
    unless="no fleet is on AWS PCS",
)(_role("AWSServiceRoleForPCS", "pcs.amazonaws.com"))
_batch = define_check(
    "GPU-PRE-148",
    "the service-linked role of AWS Batch is there",
    source='AWS Batch user guide, "Using service-linked roles for AWS Batch"',
    calls=(ROLE,),
    subjects=_when(fleets_where(lambda fleet: fleet.profile.joins_batch)),
    unless="no fleet is on AWS Batch",
)(_role("AWSServiceRoleForBatch", "batch.amazonaws.com"))
_hyperpod = define_check(
    "GPU-PRE-149",
    "the service-linked role of SageMaker HyperPod is there",
    source='Amazon SageMaker AI developer guide, "AWS managed policy: AmazonSageMakerHyperPodServiceRolePolicy"',
    calls=(ROLE,),
    subjects=_when(lambda cluster: cluster.plan.hyperpod),
    unless="no fleet is on SageMaker HyperPod",
)(_role("AWSServiceRoleForSageMakerHyperPod", "hyperpod.sagemaker.amazonaws.com"))


# KMS keys that the file names.

_NO_KEY = "the file names no key"


@define_check(
    "GPU-PRE-131",
    "the KMS keys are there and enabled",
    source='AWS KMS developer guide, "Key states of AWS KMS keys"',
    calls=(KEY,),
    subjects=lambda cluster: cluster.keys,
    unless=_NO_KEY,
)
def _key_enabled(arn: str, inquiry: Inquiry) -> Verdict:
    found = inquiry.find(KEY, KeyId=arn)
    if found is None:
        return failed(f"there is no {arn}", fix="correct the ARN")
    state = found["KeyMetadata"].get("KeyState")
    if state != "Enabled":
        return failed(f"{arn} is {state}", fix="enable it, or cancel its deletion")
    return passed(f"{arn} is enabled")


@define_check(
    "GPU-PRE-132",
    "the KMS keys are symmetric, customer managed, and encrypt",
    source="AWS KMS API reference, KeyMetadata; S3 and FSx take symmetric keys only",
    calls=(KEY,),
    subjects=lambda cluster: cluster.keys,
    unless=_NO_KEY,
)
def _key_encrypts(arn: str, inquiry: Inquiry) -> Verdict | None:
    answer = inquiry.find(KEY, KeyId=arn)
    if answer is None:
        raise NoAnswer(f"there is no {arn}", fix="see GPU-PRE-131")
    found = answer["KeyMetadata"]
    spec, usage = found.get("KeySpec", "SYMMETRIC_DEFAULT"), found.get("KeyUsage", "ENCRYPT_DECRYPT")
    if (spec, usage) != ("SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"):
        return failed(f"{arn} is {spec} for {usage}", fix="name a symmetric key that encrypts")
    if found.get("KeyManager") == "AWS":
        return failed(f"{arn} is managed by AWS: its policy cannot let the nodes in", fix="name a key of your own")
    return None


# The key of volumes for which the file names none.

_AWS_EBS_KEY = "alias/aws/ebs"
_LAUNCHES = "AWSServiceRoleForAutoScaling"


@define_check(
    "GPU-PRE-133",
    "EC2 Auto Scaling or Karpenter may use the key that encrypts new volumes by default",
    source='EC2 Auto Scaling user guide, "Required AWS KMS key policy for use with encrypted volumes"; EC2 API '
    "reference, GetEbsDefaultKmsKeyId",
    calls=(EBS_KEY, KEY_POLICY),
    subjects=_when(fleets_where(lambda fleet: _is_scaled(fleet) and fleet.spec.root_volume.encryption_key_arn is None)),
    unless="EC2 Auto Scaling launches no nodes, or every fleet names the key of its volumes",
)
def _default_key_lets_launch(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    key = str(inquiry.ask(EBS_KEY)["KmsKeyId"])
    if key.endswith(_AWS_EBS_KEY):
        return passed(key)
    policy = str(inquiry.ask(KEY_POLICY, KeyId=key, PolicyName="default")["Policy"])
    # The policy of the key that AWS manages admits everyone in the account by way of EC2.
    pooled = any(one.is_pool and one.spec.root_volume.encryption_key_arn is None for one in cluster.fleets.values())
    if '"kms:ViaService"' in policy or (_LAUNCHES in policy and not pooled):
        return passed(f"{key} admits EC2 Auto Scaling")
    if pooled:
        return warned(
            f"new volumes are encrypted with {key}, which the role of Karpenter may not use: no node is launched",
            fix="name the key in root_volume.encryption_key_arn, which gives Karpenter the right",
        )
    return warned(
        f"new volumes are encrypted with {key}, whose policy does not name {_LAUNCHES}: without a grant, every launch "
        "fails with Client.InvalidKMSKey.InvalidState",
        fix=f"allow {_LAUNCHES} in the policy of the key, or name another key in root_volume.encryption_key_arn",
    )
