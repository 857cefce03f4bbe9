"""A directory bucket of S3 Express One Zone: checkpoints within milliseconds, in one zone."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3express as s3express
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, known, report
from cdk_gpu_clusters.rules.checkpoints import check_directory_bucket, directory_bucket_name

# A Local Zone's id names its place: use1-dfw2-az1, where a zone of the Region is use1-az4.
_PARTS_OF_A_ZONE_ID = 2


class ExpressBucket(ClusterConstruct):
    """A directory bucket in one zone, with a policy that asks for TLS; made by `CheckpointStore`.

    It keeps its data in one zone only: copy the checkpoints that matter to the bucket of the Region. It outlives its
    stack. Nodes in a closed network reach it through a gateway endpoint of its own
    (`ec2.GatewayVpcEndpointAwsService.S3_EXPRESS`), not through that of S3.

    Source: Amazon S3 user guide, "S3 Express One Zone" and "Directory buckets" (stored copies of 2026).

    Attributes:
        bucket_name: Name, which ends in `--<zone id>--x-s3`.
        bucket_arn: ARN.
        zone_id: Zone that it is in.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        zone_id: str,
        base_name: str | None = None,
        encryption_key: kms.IKey,
        expire_after: cdk.Duration | None = None,
        abort_incomplete_uploads_after: cdk.Duration,
    ) -> None:
        """Define the bucket.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            zone_id: Zone of the nodes, by id. A change replaces the bucket.
            base_name: First part of the name; CloudFormation makes the name if left out. A change replaces it.
            encryption_key: Customer managed key. A directory bucket keeps its first one for ever.
            expire_after: When objects are deleted; never if left out.
            abort_incomplete_uploads_after: When parts of unfinished uploads are deleted.

        Raises:
            ConfigError: GPU-CKP-001, -002.
        """
        super().__init__(scope, construct_id)
        report(self, check_directory_bucket(known(zone_id), known(base_name)))
        self.zone_id: str = zone_id
        self._key = encryption_key
        self.cfn_bucket: s3express.CfnDirectoryBucket = s3express.CfnDirectoryBucket(
            self,
            "Resource",
            location_name=zone_id,
            data_redundancy=_redundancy(zone_id),
            bucket_name=None if base_name is None else directory_bucket_name(base_name, zone_id),
            bucket_encryption=_encryption(encryption_key),
            lifecycle_configuration=_lifecycle(expire_after, abort_incomplete_uploads_after),
        )
        self.cfn_bucket.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
        self.bucket_name: str = self.cfn_bucket.ref
        self.bucket_arn: str = self.cfn_bucket.attr_arn
        statement = iam.PolicyStatement(
            sid="TlsOnly",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=["s3express:*"],
            resources=[self.bucket_arn],
            conditions={"Bool": {"aws:SecureTransport": "false"}},
        )
        policy = s3express.CfnBucketPolicy(
            self,
            "Policy",
            bucket=self.bucket_name,
            policy_document=iam.PolicyDocument(statements=[statement]),
        )
        policy.apply_removal_policy(cdk.RemovalPolicy.RETAIN)

    def grant_read_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone open sessions, which cover every operation on objects, and use the key."""
        self._key.grant_encrypt_decrypt(grantee)
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["s3express:CreateSession"], resource_arns=[self.bucket_arn]
        )


def _redundancy(zone_id: str) -> str:
    parts = (known(zone_id) or "").split("-")
    return "SingleLocalZone" if len(parts) > _PARTS_OF_A_ZONE_ID else "SingleAvailabilityZone"


def _encryption(key: kms.IKey) -> s3express.CfnDirectoryBucket.BucketEncryptionProperty:
    made = s3express.CfnDirectoryBucket
    return made.BucketEncryptionProperty(
        server_side_encryption_configuration=[
            made.ServerSideEncryptionRuleProperty(
                bucket_key_enabled=True,
                server_side_encryption_by_default=made.ServerSideEncryptionByDefaultProperty(
                    sse_algorithm="aws:kms", kms_master_key_id=key.key_arn
                ),
            )
        ]
    )


def _lifecycle(
    expire_after: cdk.Duration | None, abort_after: cdk.Duration
) -> s3express.CfnDirectoryBucket.LifecycleConfigurationProperty:
    made = s3express.CfnDirectoryBucket
    rules = [
        made.RuleProperty(
            id="unfinished-uploads",
            status="Enabled",
            abort_incomplete_multipart_upload=made.AbortIncompleteMultipartUploadProperty(
                days_after_initiation=abort_after.to_days()
            ),
        )
    ]
    if expire_after is not None:
        rules.append(
            made.RuleProperty(
                id="old-checkpoints", status="Enabled", expiration_in_days=expire_after.to_days()
            )
        )
    return made.LifecycleConfigurationProperty(rules=rules)
