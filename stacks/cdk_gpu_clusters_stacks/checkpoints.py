"""Buckets for checkpoints: made here, in a stack of their own, or existing ones."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk_gpu_clusters._accepted import accept_bucket_grant
from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.node.storage import checkpoint_environment
from cdk_gpu_clusters.storage.checkpoint_store import CheckpointStore
from cdk_gpu_clusters_stacks.data_stack import DataStack, given_key
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.data import CheckpointOptions, ExistingCheckpointsOptions

POLICY_BY_HAND = define_rule(
    "GPU-CKP-020",
    "the policies of an existing bucket, and of its key, let the nodes in",
    source='IAM user guide, "Cross-account policy evaluation logic"; KMS developer guide, "Key policies"',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedCheckpoints:
    """Buckets for checkpoints as the stack of their users sees them.

    Attributes:
        bucket_name: Bucket of the Region.
        key_arn: Customer managed key of the buckets, None for none.
        express_bucket_name: Directory bucket, None for none.
        made_here: Whether their policies are this app's.
    """

    bucket_name: str
    key_arn: str | None
    express_bucket_name: str | None
    made_here: bool

    @property
    def node_environment(self) -> dict[str, str]:
        """Variables by which nodes find the buckets."""
        express = self.express_bucket_name
        return checkpoint_environment(
            s3_uri=f"s3://{self.bucket_name}", express_s3_uri=None if express is None else f"s3://{express}"
        )

    def grant_read_write(self, reader: cdk.Stack, role: iam.IRole) -> None:
        """Let a role read and write checkpoints; the permissions stand with the role.

        The policies of existing buckets cannot be changed from here: what they need is in an output.
        """
        bucket = s3.Bucket.from_bucket_name(reader, "Checkpoints", self.bucket_name)
        grants = {"bucket": bucket.grant_read_write(role)}
        accept_bucket_grant(role, bucket, write=True)
        if self.key_arn is not None:
            key = kms.Key.from_key_arn(reader, "CheckpointKey", self.key_arn)
            grants["key"] = key.grant_encrypt_decrypt(role)
        if self.express_bucket_name is not None:
            arn = reader.format_arn(
                service="s3express", resource="bucket", resource_name=self.express_bucket_name
            )
            grants["express_bucket"] = iam.Grant.add_to_principal(
                grantee=role, actions=["s3express:CreateSession"], resource_arns=[arn]
            )
        if not self.made_here:
            _print_policies(reader, role, grants)


class ExistingCheckpoints:
    """Buckets that exist already."""

    def __init__(self, options: ExistingCheckpointsOptions) -> None:
        """Know them by their names."""
        self._options = options

    def within(self, _reader: cdk.Stack) -> ReachedCheckpoints:
        """The buckets, for a stack whose nodes use them."""
        return ReachedCheckpoints(
            bucket_name=self._options.bucket_name,
            key_arn=self._options.encryption_key_arn,
            express_bucket_name=self._options.express_bucket_name,
            made_here=False,
        )


class CheckpointStack(DataStack):
    """Buckets for checkpoints."""

    def __init__(
        self, scope: Construct, construct_id: str, *, options: CheckpointOptions, env: cdk.Environment
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            options: The buckets as the cluster file has them.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env)
        store = CheckpointStore(
            self,
            "Store",
            bucket_name=options.bucket_name,
            encryption_key=given_key(self, options.encryption_key_arn),
            versioned=options.versioned,
            noncurrent_version_expiration=cdk.Duration.days(options.keep_deleted_days),
            expire_after=_days(options.expire_after_days),
            archive_after=_days(options.archive_after_days),
            express_zone_id=options.express_zone_id,
            express_base_name=options.express_base_name,
            express_expire_after=_days(options.express_expire_after_days),
        )
        self.store = store
        publish(self, "BucketName", store.bucket.bucket_name, description="Bucket for checkpoints")
        publish(self, "KeyArn", store.encryption_key.key_arn, description="Key of the checkpoints")
        if store.express is not None:
            publish(
                self,
                "ExpressBucketName",
                store.express.bucket_name,
                description="Directory bucket for checkpoints",
            )

    def within(self, reader: cdk.Stack) -> ReachedCheckpoints:
        """The buckets, for a stack whose nodes use them."""
        return ReachedCheckpoints(
            bucket_name=read(reader, self, "BucketName"),
            key_arn=read(reader, self, "KeyArn"),
            express_bucket_name=None
            if self.store.express is None
            else read(reader, self, "ExpressBucketName"),
            made_here=True,
        )


def _print_policies(reader: cdk.Stack, role: iam.IRole, grants: dict[str, iam.Grant]) -> None:
    """Print what the policies of existing buckets and keys must allow: the same as the role's own."""
    statements = {
        name: [statement.to_statement_json() for statement in _for_owner(grant, role)]
        for name, grant in grants.items()
    }
    publish(
        reader,
        "CheckpointPolicies",
        reader.to_json_string(statements),
        description="Statements for the policies of the existing buckets and of their key, where they are needed",
    )
    report(
        reader,
        [
            POLICY_BY_HAND.finding(
                cause="the buckets for checkpoints are not made here, so their policies cannot be changed here",
                allowed="the statements in the output CheckpointPolicies of this stack",
                fix="add them to the policies of the buckets and of their key; not needed for buckets of the same"
                " account, nor for a key of it whose policy leaves permissions to IAM",
                severity=Severity.INFO,
            )
        ],
    )


def _for_owner(grant: iam.Grant, role: iam.IRole) -> list[iam.PolicyStatement]:
    """What a grant would add to the policy of its resource."""
    if grant.resource_statements:
        return grant.resource_statements
    return [
        iam.PolicyStatement(
            principals=[iam.ArnPrincipal(role.role_arn)], actions=own.actions, resources=own.resources
        )
        for own in grant.principal_statements
    ]


def _days(number: int | None) -> cdk.Duration | None:
    return None if number is None else cdk.Duration.days(number)
