"""Roles of nodes and jobs: managed policies, wildcards, and the versions of checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.node_role import SESSION_ACTIONS
from cdk_gpu_clusters.template_rules.case import Resource, Value, targets_in
from cdk_gpu_clusters.template_rules.lookups.policies import (
    ROLE,
    Statement,
    aws_policies_of,
    statements_in,
    statements_of,
)
from cdk_gpu_clusters.template_rules.lookups.roles import node_or_job_role, node_role
from cdk_gpu_clusters.template_rules.rule import Fault, define_template_rule

_ATTACHED = (
    "Policies/*/PolicyDocument",
    "AWS::IAM::Policy/PolicyDocument",
    "AWS::IAM::ManagedPolicy/PolicyDocument",
    "AWS::IAM::RolePolicy/PolicyDocument",
)

# Both allow ssm:GetParameter and ssm:GetParameters on every resource; the older one also reads and writes every bucket.
_OF_SYSTEMS_MANAGER = ("AmazonSSMManagedInstanceCore", "AmazonEC2RoleforSSM")


@define_template_rule(
    "GPU-IAM-001",
    "the role of GPU nodes allows sessions of Systems Manager, and not its parameters",
    source='AWS managed policy reference, "AmazonSSMManagedInstanceCore": ssm:GetParameter and ssm:GetParameters on '
    'every resource; AWS Systems Manager user guide, "Add Session Manager permissions to an existing IAM role"',
    severity=Severity.WARNING,
    cause="every job that gets the role of its node can read all parameters of the account, with the secure strings "
    "under the key aws/ssm",
    fix=f"replace it with a policy that allows {', '.join(SESSION_ACTIONS)}; allow other parameters by their names",
    url="https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSSMManagedInstanceCore.html",
    on=(ROLE,),
    looks_at=("ManagedPolicyArns",),
)
def session_policy(resource: Resource) -> Iterator[Fault]:
    for value, name in aws_policies_of(node_role(resource)):
        if name in _OF_SYSTEMS_MANAGER:
            yield Fault(at=value, got=name, allowed="a policy with the actions of sessions")


# With these, a job can give itself every permission, or has nearly all of them.
_ADMINISTRATOR = ("AdministratorAccess", "IAMFullAccess", "PowerUserAccess")
_BROAD = ("AmazonS3ReadOnlyAccess", "ReadOnlyAccess", "SecretsManagerReadWrite")


@define_template_rule(
    "GPU-IAM-002",
    "the role of GPU nodes has no managed policy for an entire service, or for the account",
    source='IAM user guide, "Security best practices in IAM": apply least-privilege permissions',
    severity=Severity.WARNING,
    cause="every job that gets the role of its node can use all resources of the service, those of other teams too",
    fix="replace it with a policy that names the actions, and the buckets or other resources, that the nodes use",
    url="https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html",
    on=(ROLE,),
    looks_at=("ManagedPolicyArns",),
)
def managed_policy(resource: Resource) -> Iterator[Fault]:
    for value, name in aws_policies_of(node_role(resource)):
        severity = Severity.ERROR if name in _ADMINISTRATOR else None
        if severity or name in _BROAD or name.endswith("FullAccess"):
            yield Fault(at=value, got=name, allowed="policies that name their resources", severity=severity)


# Actions that read data and secrets, or give further rights.
_SENSITIVE = (
    "iam:PassRole",
    "kms:Decrypt",
    "s3:GetObject",
    "secretsmanager:GetSecretValue",
    "ssm:GetParameter",
    "ssm:GetParameters",
    "ssm:GetParametersByPath",
    "sts:AssumeRole",
)
# Names of everything: `*`, all buckets and objects, or all keys, roles, secrets or parameters of whichever account.
_EVERYTHING = re.compile(r"\*|arn:.*:(\*|\*/\*|(key|role|parameter|secret)[:/]\*)")


@define_template_rule(
    "GPU-IAM-003",
    "the role of GPU nodes allows no entire service, and reads no data or secrets, on every resource",
    source='IAM user guide, "Security best practices in IAM": apply least-privilege permissions; AWS Foundational '
    "Security Best Practices, IAM.21",
    severity=Severity.WARNING,
    cause="every job that gets the role of its node can use these actions on resources of other teams, too",
    fix="name the actions, and the ARNs of the buckets, secrets, keys or roles that the nodes use",
    url="https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html",
    on=(ROLE,),
    looks_at=_ATTACHED,
)
def wildcards(resource: Resource) -> Iterator[Fault]:
    for statement in node_role(resource).once(statements_of):
        if not statement.is_allowing or statement.is_limited:
            continue  # what a condition leaves over, such as one service or one tag, is for the author to say
        actions = _too_broad(statement)
        if actions and _is_on_everything(statement):
            everything = "*" in actions or "iam:*" in actions
            severity = Severity.ERROR if everything else None
            got = f"{', '.join(actions)} on every resource"
            yield Fault(at=statement.value, got=got, allowed="named actions and resources", severity=severity)


def _too_broad(statement: Statement) -> list[str]:
    """Its actions for an entire service, and those that read data or secrets, as it writes them."""
    if statement.value.get("NotAction").exists:
        return ["NotAction"]
    broad = [action for action in statement.actions if action == "*" or action.endswith(":*")]
    sensitive = [action for action in _SENSITIVE if statement.names(action)]
    return broad or sensitive


def _is_on_everything(statement: Statement) -> bool:
    if statement.value.get("NotResource").exists:
        return True
    return any(value.reference is None and _EVERYTHING.fullmatch(_text(value)) for value in statement.resources)


def _text(value: Value) -> str:
    text = value.template_text()
    return value.text() or "" if text is None else text


_BUCKET = "AWS::S3::Bucket"
_BUCKET_POLICY = "AWS::S3::BucketPolicy"
_DELETE_VERSION = "s3:DeleteObjectVersion"


@define_template_rule(
    "GPU-IAM-004",
    "roles of GPU nodes and jobs cannot delete the versions of a versioned bucket",
    source='Amazon S3 user guide, "Deleting object versions from a versioning-enabled bucket": a version that is '
    'deleted by its id is gone; "Required permissions for Amazon S3 API operations"',
    severity=Severity.WARNING,
    cause="one job, or one script with a wrong path, can delete all checkpoints beyond recovery",
    fix="allow s3:DeleteObject, which keeps the older versions, in place of s3:DeleteObject* or s3:*; let a lifecycle "
    "rule expire noncurrent versions",
    url="https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectVersions.html",
    on=(ROLE,),
    looks_at=(*_ATTACHED, f"{_BUCKET}/VersioningConfiguration/Status", f"{_BUCKET_POLICY}/PolicyDocument"),
)
def version_deletion(resource: Resource) -> Iterator[Fault]:
    statements = node_or_job_role(resource).once(statements_of)
    for statement in statements:
        if not statement.is_allowing or statement.is_limited or not statement.names(_DELETE_VERSION):
            continue
        buckets = [one for one in _buckets_of(statement) if _is_versioned(one) and not _keeps_versions(one, statement)]
        if buckets and not any(_denies(one) for one in statements):
            got = f"{_DELETE_VERSION} in {', '.join(bucket.logical_id for bucket in buckets)}"
            yield Fault(at=statement.value, got=got, allowed="s3:DeleteObject")


def _buckets_of(statement: Statement) -> list[Resource]:
    """The buckets whose objects a statement is about."""
    buckets: dict[Resource, None] = {}
    for value in statement.resources:
        if value.reference is not None:
            continue  # a bucket itself: its objects have a path behind it
        text = _text(value)
        if _EVERYTHING.fullmatch(text):
            buckets |= dict.fromkeys(value.case.resources(_BUCKET))
        elif "/" in text or text.endswith("*"):
            named = [one for one in value.case.resources(_BUCKET) if _has_name(one, text)]
            buckets |= dict.fromkeys([*(one for one in targets_in(value) if one.type == _BUCKET), *named])
    return list(buckets)


def _has_name(bucket: Resource, arn: str) -> bool:
    name = bucket.get("BucketName").template_text()
    return name is not None and f":s3:::{name}/" in arn


def _is_versioned(bucket: Resource) -> bool:
    return bucket.get("VersioningConfiguration", "Status").text() == "Enabled"


def _keeps_versions(bucket: Resource, statement: Statement) -> bool:
    """Whether Object Lock or the bucket's own policy keeps its versions from the role."""
    mode = bucket.get("ObjectLockConfiguration", "Rule", "DefaultRetention", "Mode").text()
    if mode == "COMPLIANCE" or (mode == "GOVERNANCE" and not statement.names("s3:BypassGovernanceRetention")):
        return True
    policies = [
        one for one in bucket.case.resources_naming(bucket, _BUCKET_POLICY) if bucket.is_target_of(one.get("Bucket"))
    ]
    return any(_denies(one) for policy in policies for one in statements_in(policy.get("PolicyDocument")))


def _denies(statement: Statement) -> bool:
    return not statement.is_allowing and statement.names(_DELETE_VERSION)
