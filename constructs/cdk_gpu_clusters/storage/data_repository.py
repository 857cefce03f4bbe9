"""One data repository association of an FSx for Lustre file system, and what its bucket and key must allow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, report, resolved_or_none, stack_of
from cdk_gpu_clusters.errors import ConfigError, Severity, define_rule
from cdk_gpu_clusters.rules.data_repository import S3_URI, DataRepositoryEvent, read_prefix, read_s3_uri

POLICY_BY_HAND = define_rule(
    "GPU-DRA-020",
    "the policy of an imported bucket, and of its key, lets FSx in",
    source='FSx for Lustre user guide, "Linking your file system to an Amazon S3 bucket" and'
    ' "Working with server-side encrypted Amazon S3 buckets"',
)

# What the service-linked role does in a bucket: FSx for Lustre user guide, "Linking your file system to an Amazon S3
# bucket", section on how FSx checks for access.
_BUCKET_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:Get*",
    "s3:List*",
    "s3:PutBucketNotification",
    "s3:PutObject",
)
_KEY_ACTIONS = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey")
# One role for each linked file system. Its id is left out: a key may encrypt both the bucket and the file system.
_ROLE = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryTarget:
    """The S3 side of an association: a bucket construct, or only a name.

    Attributes:
        bucket_name: Name, perhaps a token.
        prefix: Empty, or ending in a slash.
        bucket: The bucket, None if only its name was given.
    """

    bucket_name: str
    prefix: str
    bucket: s3.IBucket | None = None

    @property
    def uri(self) -> str:
        """The path as FSx takes it."""
        return f"s3://{self.bucket_name}/{self.prefix}" if self.prefix else f"s3://{self.bucket_name}"


class DataRepositoryAssociation(ClusterConstruct):
    """A link between a directory of a Lustre file system and an S3 prefix; made by `add_data_repository`.

    Makes one `AWS::FSx::DataRepositoryAssociation`. It outlives its stack, as its file system does: a file system
    that is unlinked can no longer load files whose contents are only in S3. When it is replaced the old one goes,
    since two cannot link the same directory.

    A bucket made in the same app gets the policy that FSx needs, and so does its key. An imported bucket cannot be
    changed from here: the exact statements are in `required_bucket_policy` and `required_key_policy`, in an output
    of the stack, and in a note at synthesis.

    Attributes:
        association_id: `dra-…`, known at deployment.
        required_bucket_policy: Statement for the bucket's policy, as a dictionary.
        required_key_policy: Statement for the policy of the bucket's customer managed key, if it has one.
        policies_by_hand: Whether the statements have to be added by hand.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        file_system_id: str,
        path: str,
        target: RepositoryTarget,
        auto_import: Sequence[DataRepositoryEvent] = (),
        auto_export: Sequence[DataRepositoryEvent] = (),
        batch_import: bool = True,
        imported_file_chunk_mib: int | None = None,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Define the association; `ILustreStore.add_data_repository` documents and checks the arguments."""
        super().__init__(scope, construct_id)
        self.path: str = path
        self.data_repository_path: str = target.uri
        self._target = target
        self._resource = fsx.CfnDataRepositoryAssociation(
            self,
            "Resource",
            file_system_id=file_system_id,
            file_system_path=path,
            data_repository_path=target.uri,
            batch_import_meta_data_on_create=batch_import,
            imported_file_chunk_size=imported_file_chunk_mib,
            s3=_policies(auto_import, auto_export),
        )
        self._resource.apply_removal_policy(removal_policy, apply_to_update_replace_policy=False)
        self._resource.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.DELETE
        self.association_id: str = self._resource.attr_association_id
        self.policies_by_hand: bool = not self._let_fsx_in()
        if self.policies_by_hand:
            self._print_policies()

    @property
    def required_bucket_policy(self) -> dict[str, Any]:
        """What the bucket's policy must allow: the role of FSx of the file system's account."""
        statement: dict[str, Any] = stack_of(self).resolve(self._bucket_statement().to_statement_json())
        return statement

    @property
    def required_key_policy(self) -> dict[str, Any]:
        """What the policy of the bucket's customer managed key must allow."""
        statement: dict[str, Any] = stack_of(self).resolve(self._key_statement().to_statement_json())
        return statement

    def _bucket_arn(self) -> str:
        if self._target.bucket is not None:
            return self._target.bucket.bucket_arn
        return stack_of(self).format_arn(service="s3", region="", account="", resource=self._target.bucket_name)

    def _role_pattern(self) -> str:
        return stack_of(self).format_arn(service="iam", region="", resource="role", resource_name=_ROLE)

    def _bucket_statement(self) -> iam.PolicyStatement:
        # The account as principal, not "*": S3 would take that for a public policy, and refuse it.
        arn = self._bucket_arn()
        return iam.PolicyStatement(
            principals=[iam.AccountPrincipal(stack_of(self).account)],
            actions=list(_BUCKET_ACTIONS),
            resources=[arn, f"{arn}/*"],
            conditions={"ArnLike": {"aws:PrincipalArn": self._role_pattern()}},
        )

    def _key_statement(self, *, own_key: bool = False) -> iam.PolicyStatement:
        # Any principal, as the guide has it: the role has no KMS permissions of its own that a statement for the
        # account could delegate to. The conditions leave only FSx's roles of this account, through S3, for this
        # bucket: by the bucket's ARN with S3 Bucket Keys, by the objects' without. A key that is made in the same
        # template cannot name its bucket, which names the key.
        stack, arn = stack_of(self), self._bucket_arn()
        region = stack.region if self._target.bucket is None else self._target.bucket.env.region
        context = {"kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/*"]}
        return iam.PolicyStatement(
            principals=[iam.AnyPrincipal()],
            actions=list(_KEY_ACTIONS),
            resources=["*"],
            conditions={
                "StringEquals": {
                    "kms:CallerAccount": stack.account,
                    "kms:ViaService": f"s3.{region}.{stack.url_suffix}",
                },
                **({} if own_key and resolved_or_none(self._target.bucket_name) is None else {"StringLike": context}),
                "ArnLike": {"aws:PrincipalArn": self._role_pattern()},
            },
        )

    def _let_fsx_in(self) -> bool:
        """Add the statements to a bucket and key of this app; False if one of them is imported."""
        bucket = self._target.bucket
        if bucket is None:
            return False
        added = bucket.add_to_resource_policy(self._bucket_statement()).statement_added
        if added and bucket.policy is not None:
            self._resource.node.add_dependency(bucket.policy)
        key: kms.IKey | None = bucket.encryption_key
        if key is None:
            return added
        is_allowed = key.add_to_resource_policy(self._key_statement(own_key=True), True).statement_added
        if is_allowed:
            self._resource.node.add_dependency(key)
        return added and is_allowed

    def _print_policies(self) -> None:
        statements = {
            "bucket": self._bucket_statement().to_statement_json(),
            "key_if_customer_managed": self._key_statement().to_statement_json(),
        }
        cdk.CfnOutput(
            self,
            "RequiredPolicies",
            description="Add to the policy of the linked bucket, and of its customer managed key if it has one",
            value=stack_of(self).to_json_string(statements),
        )
        report(
            self,
            [
                POLICY_BY_HAND.finding(
                    cause=f"the bucket linked at {self.path} is not made here, so its policy cannot be changed here",
                    allowed=json.dumps(statements, sort_keys=True),
                    fix="add the statements to the bucket's policy and its key's; not needed if the bucket is in the"
                    " same account and has no customer managed key",
                    severity=Severity.INFO,
                )
            ],
        )


def _policies(
    auto_import: Sequence[DataRepositoryEvent], auto_export: Sequence[DataRepositoryEvent]
) -> fsx.CfnDataRepositoryAssociation.S3Property | None:
    """The S3 part of the resource, None where nothing is automatic."""
    made = fsx.CfnDataRepositoryAssociation
    if not auto_import and not auto_export:
        return None
    return made.S3Property(
        auto_import_policy=made.AutoImportPolicyProperty(events=_values(auto_import)) if auto_import else None,
        auto_export_policy=made.AutoExportPolicyProperty(events=_values(auto_export)) if auto_export else None,
    )


def _values(events: Sequence[DataRepositoryEvent]) -> list[str]:
    """Events in the order of the enum, each once: the order in the template is then the same at every synthesis."""
    wanted = set(events)
    return [event.value for event in DataRepositoryEvent if event in wanted]


def read_target(bucket: s3.IBucket | None, prefix: str, s3_uri: str | None) -> RepositoryTarget:
    """The S3 side as the user gave it: a bucket and a prefix, or a URI.

    Raises:
        ConfigError: GPU-DRA-004.
    """
    if (bucket is None) == (s3_uri is None) or (s3_uri is not None and prefix):
        raise ConfigError(
            [
                S3_URI.finding(
                    cause="a data repository is given by its bucket, or by its URI",
                    got="both" if bucket is not None else "neither, or a URI with a prefix beside it",
                    allowed="bucket and prefix, or s3_uri",
                    fix="give exactly one of the two",
                )
            ]
        )
    if s3_uri is not None:
        name, inner = read_s3_uri(s3_uri)
        return RepositoryTarget(bucket_name=name, prefix=inner)
    assert bucket is not None  # noqa: S101 - the check above says so, mypy cannot
    return RepositoryTarget(bucket_name=bucket.bucket_name, prefix=read_prefix(prefix), bucket=bucket)
