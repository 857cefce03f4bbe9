"""What nodes and jobs may do with the objects of a bucket: below one prefix, and never with their old versions.

CDK's own grants allow `s3:DeleteObject*`, which includes the deletion of versions, and name actions by their first
letters. Here each action is named, so that a new one of S3 is not granted by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from aws_cdk import aws_iam as iam
from constructs import IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource

if TYPE_CHECKING:  # take long to load
    from aws_cdk import aws_kms as kms
    from aws_cdk import aws_s3 as s3

_PREFIX = AcceptedFinding(
    cause="Roles: what `grant_read` and `grant_read_write` of fleets and stores add",
    reason="A grant names its actions, its bucket and a prefix; `*` means the objects below it.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)

# Amazon S3 user guide, "Required permissions for Amazon S3 API operations": HeadObject is s3:GetObject, the calls of a
# multipart upload are s3:PutObject, and the AWS CLI reads and writes tags if it copies an object in parts.
_READ = ("s3:GetObject", "s3:GetObjectTagging")
_WRITE = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
)
# Amazon S3 user guide, "Using server-side encryption with AWS KMS keys": uploads need a data key; multipart uploads and
# downloads decrypt.
_READ_KEY = ("kms:Decrypt",)
_WRITE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")


def grant_objects(grantee: iam.IGrantable, bucket: s3.IBucket, *, prefix: str = "", write: bool = False) -> iam.Grant:
    """Let someone list and read the objects below a prefix, or write and delete them too, and use the bucket's key.

    A delete then hides an object of a versioned bucket, and does not remove it. Nothing of the bucket itself can be
    changed: its policy, its lifecycle rules, its versioning, or a lock of Object Lock.

    Args:
        grantee: A role, a user, or a fleet.
        bucket: The bucket.
        prefix: What the keys begin with, such as `trainers/`; every object if left out.
        write: Whether objects may be written, too.
    """
    objects = bucket.arn_for_objects(f"{prefix}*")
    grant = _grant(grantee, bucket, sorted((*_READ, *(_WRITE if write else ()))), objects)
    if prefix.endswith("/"):
        # s3fs and PyTorch ask whether the folder itself is there, by HeadObject without the slash: no object is an
        # answer, and a refusal is an error.
        grant = grant.combine(_grant(grantee, bucket, ["s3:GetObject"], bucket.arn_for_objects(prefix[:-1])))
    grant = grant.combine(_grant(grantee, bucket, ["s3:GetBucketLocation"], bucket.bucket_arn))
    listed = {"StringLike": {"s3:prefix": f"{prefix}*"}} if prefix else None
    grant = grant.combine(_grant(grantee, bucket, ["s3:ListBucket"], bucket.bucket_arn, conditions=listed))
    # The principal of a policy is none of its own: whoever gets the policy.
    holder = cast("IConstruct", grantee if isinstance(grantee, iam.ManagedPolicy) else grantee.grant_principal)
    if hasattr(holder, "node"):  # a service or an account holds no policy of its own
        _PREFIX.at(holder, named_resource(holder, objects))
    if bucket.encryption_key is not None:
        grant = grant.combine(grant_key(grantee, bucket.encryption_key, write=write))
    return grant


def grant_key(grantee: iam.IGrantable, key: kms.IKey, *, write: bool = False) -> iam.Grant:
    """Let someone read what a key encrypts in S3, or write it too."""
    return key.grant(grantee, *(_WRITE_KEY if write else _READ_KEY))


def _grant(
    grantee: iam.IGrantable,
    bucket: s3.IBucket,
    actions: Sequence[str],
    arn: str,
    *,
    conditions: dict[str, dict[str, str]] | None = None,
) -> iam.Grant:
    return iam.Grant.add_to_principal_or_resource(
        grantee=grantee, actions=actions, resource_arns=[arn], resource=bucket, conditions=conditions
    )
