"""A bucket for checkpoints, and a faster one in the zone of the nodes."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3express as s3express
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters._object_access import grant_key, grant_objects
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.rules.checkpoints import (
    check_days,
    check_directory_bucket,
    check_object_lock,
    check_order,
    directory_bucket_name,
)

# A Local Zone's id names its place: use1-dfw2-az1, where a zone of the Region is use1-az4.
_PARTS_OF_A_ZONE_ID = 2


class ExpressBucket(ClusterConstruct):
    """A directory bucket in one zone, made by `CheckpointStore`.

    Its policy asks for TLS, and lets S3 Lifecycle delete objects: in a directory bucket a lifecycle rule does nothing
    without that.

    It keeps its data in one zone only, without versions. Whoever may write can erase all of it, because a session is
    for the entire bucket. Copy the checkpoints that matter to the bucket of the Region. It outlives its stack. Nodes
    reach it through a gateway endpoint of its own (`NetworkFeature.S3_EXPRESS`), not through that of S3.

    Source: Amazon S3 user guide, "S3 Express One Zone", "Directory buckets" and "Working with S3 Lifecycle for
    directory buckets" (stored copies of 2026).

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
            encryption_key: Customer managed key. A directory bucket keeps its first one forever.
            expire_after: When objects are deleted; never if left out.
            abort_incomplete_uploads_after: When parts of unfinished uploads are deleted.

        Raises:
            ConfigError: GPU-CKP-001, -002.
        """
        super().__init__(scope, construct_id)
        report(self, check_directory_bucket(resolved_or_none(zone_id), resolved_or_none(base_name)))
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
        self.cfn_bucket.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        self.bucket_name: str = self.cfn_bucket.ref
        self.bucket_arn: str = self.cfn_bucket.attr_arn
        statements = [
            iam.PolicyStatement(
                sid="TlsOnly",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3express:*"],
                resources=[self.bucket_arn],
                conditions={"Bool": {"aws:SecureTransport": "false"}},
            ),
            iam.PolicyStatement(
                sid="LifecycleDeletes",
                principals=[iam.ServicePrincipal("lifecycle.s3.amazonaws.com")],
                actions=["s3express:CreateSession"],
                resources=[self.bucket_arn],
                conditions={"StringEquals": {"s3express:SessionMode": "ReadWrite"}},
            ),
        ]
        policy = s3express.CfnBucketPolicy(
            self,
            "Policy",
            bucket=self.bucket_name,
            policy_document=iam.PolicyDocument(statements=statements),
        )
        policy.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone open sessions that read every object, and use the key."""
        return grant_sessions(grantee, self.bucket_arn, self._key)

    def grant_read_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone open sessions that read, write and delete every object, and use the key."""
        return grant_sessions(grantee, self.bucket_arn, self._key, write=True)


def grant_sessions(grantee: iam.IGrantable, bucket_arn: str, key: kms.IKey | None, *, write: bool = False) -> iam.Grant:
    """Let someone open sessions of a directory bucket: for all of its objects, or to read them only.

    Source: Amazon S3 user guide, "AWS Identity and Access Management (IAM) for S3 Express One Zone" (the only action on
    objects is s3express:CreateSession; its resource is the bucket), and API reference, CreateSession (a session without
    a mode may write).
    """
    mode = None if write else {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}
    grant = iam.Grant.add_to_principal(
        grantee=grantee, actions=["s3express:CreateSession"], resource_arns=[bucket_arn], conditions=mode
    )
    return grant if key is None else grant.combine(grant_key(grantee, key, write=write))


def _redundancy(zone_id: str) -> str:
    parts = (resolved_or_none(zone_id) or "").split("-")
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
            made.RuleProperty(id="old-checkpoints", status="Enabled", expiration_in_days=expire_after.to_days())
        )
    return made.LifecycleConfigurationProperty(rules=rules)


_ONE_COPY = AcceptedFinding(
    cause="`CheckpointStore`: bucket",
    reason="Checkpoints are made again from the last good one; a copy in another Region would double their cost.",
    nist_hipaa_pci=("S3BucketReplicationEnabled",),
)
_NOT_LOGGED = AcceptedFinding(
    cause="`CheckpointStore`: bucket without `access_logs_bucket`",
    reason="access_logs_bucket receives the logs of requests; CloudTrail data events are an alternative.",
    aws_solutions=("S1",),
    nist_hipaa_pci=("S3BucketLoggingEnabled",),
)
_NOT_VERSIONED = AcceptedFinding(
    cause="`CheckpointStore`: bucket with `versioned=False`",
    reason="The user switched versioning off: deleted checkpoints are large, and are paid for while they stay.",
    nist_hipaa_pci=("S3BucketVersioningEnabled",),
)


class CheckpointStore(ClusterConstruct):
    """A bucket for checkpoints, and on request a faster one in the zone of the nodes.

    Makes an S3 bucket (TLS only, no public access, KMS with a bucket key, lifecycle rules), its key with rotation, and
    with `express_zone_id` a directory bucket of S3 Express One Zone. All of them outlive their stack.

    **Versioning** is on, for one day: an administrator can bring back what a job overwrote or deleted, until the next
    day. The grants made here do not allow the deletion of versions. Every deleted checkpoint is paid for that long, so
    that you choose more: a job that writes 1 TB each hour and keeps the last two pays for 24 TB of deleted ones a day,
    and for 168 TB with a week.

    **Object Lock** (`object_lock`) keeps every version for its days, whoever asks: in governance mode all but those
    with `s3:BypassGovernanceRetention`, in compliance mode everyone, the root user included.

    **Old checkpoints** stay until you say `expire_after`: a library cannot know which one is the model.

    Source: Amazon S3 user guide (stored copies of 2026).

    Example:
        >>> from cdk_gpu_clusters import CheckpointStore
        >>> checkpoints = CheckpointStore(
        ...     stack, "Checkpoints", expire_after=cdk.Duration.days(30), express_zone_id="use1-az4"
        ... )
        >>> checkpoints.express is not None
        True

    Attributes:
        bucket: The bucket of the Region.
        encryption_key: Key of both buckets.
        express: The directory bucket, or None.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        versioned: bool = True,
        noncurrent_version_expiration: cdk.Duration | None = None,
        object_lock: s3.ObjectLockRetention | None = None,
        expire_after: cdk.Duration | None = None,
        archive_after: cdk.Duration | None = None,
        abort_incomplete_uploads_after: cdk.Duration | None = None,
        access_logs_bucket: s3.IBucket | None = None,
        express_zone_id: str | None = None,
        express_base_name: str | None = None,
        express_expire_after: cdk.Duration | None = None,
    ) -> None:
        """Define the buckets.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            bucket_name: Name; CloudFormation makes one if left out. A change replaces the bucket.
            encryption_key: Key of the data; a new one with rotation if left out.
            versioned: Whether overwritten and deleted checkpoints can be brought back.
            noncurrent_version_expiration: How long; 1 day if left out.
            object_lock: How long no version can be deleted or overwritten, such as
                `s3.ObjectLockRetention.governance(cdk.Duration.days(7))`; not locked if left out. It cannot be switched
                off later.
            expire_after: When checkpoints are deleted; never if left out.
            archive_after: When checkpoints move to S3 Glacier Instant Retrieval; never if left out.
            abort_incomplete_uploads_after: When parts of unfinished uploads are deleted; after 3 days if left out.
            access_logs_bucket: Where S3 logs requests; nowhere if left out.
            express_zone_id: Zone id of the nodes, such as `use1-az4`, for a directory bucket there; none if left out.
            express_base_name: First part of its name; CloudFormation makes the name if left out.
            express_expire_after: When its objects are deleted; never if left out.

        Raises:
            ConfigError: GPU-CKP-001 to -003, -006, -007.
        """
        super().__init__(scope, construct_id)
        noncurrent = noncurrent_version_expiration or cdk.Duration.days(1)
        unfinished = abort_incomplete_uploads_after or cdk.Duration.days(3)
        times = {
            "noncurrent_version_expiration": noncurrent,
            "expire_after": expire_after,
            "archive_after": archive_after,
            "abort_incomplete_uploads_after": unfinished,
            "express_expire_after": express_expire_after,
        }
        faults = [fault for name, time in times.items() if time for fault in check_days(name, _days(time))]
        faults += check_order(*(None if time is None else _days(time) for time in (archive_after, expire_after)))
        if object_lock is not None:
            faults += check_object_lock(_days(object_lock.duration), versioned=versioned)
        report(self, faults)
        self.encryption_key: kms.IKey = encryption_key or self._own_key()
        self.bucket: s3.Bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=bucket_name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.encryption_key,
            bucket_key_enabled=True,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=versioned,
            object_lock_default_retention=object_lock,
            lifecycle_rules=_lifecycle_rules(
                versioned=versioned,
                noncurrent=noncurrent,
                unfinished=unfinished,
                expire_after=expire_after,
                archive_after=archive_after,
            ),
            server_access_logs_bucket=access_logs_bucket,
            server_access_logs_prefix="checkpoints/" if access_logs_bucket else None,
            removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        if self.bucket.policy is not None:
            # TLS only, as long as the bucket is.
            self.bucket.policy.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        self.node.default_child = self.bucket
        _ONE_COPY.at(self.bucket)
        if access_logs_bucket is None:
            _NOT_LOGGED.at(self.bucket)
        if not versioned:
            _NOT_VERSIONED.at(self.bucket)
        self.express: ExpressBucket | None = None
        if express_zone_id is not None:
            self.express = ExpressBucket(
                self,
                "Express",
                zone_id=express_zone_id,
                base_name=express_base_name,
                encryption_key=self.encryption_key,
                expire_after=express_expire_after,
                abort_incomplete_uploads_after=unfinished,
            )

    @property
    def s3_uri(self) -> str:
        """`s3://…` of the bucket of the Region."""
        return f"s3://{self.bucket.bucket_name}"

    @property
    def express_s3_uri(self) -> str | None:
        """`s3://…` of the directory bucket, None without one."""
        return None if self.express is None else f"s3://{self.express.bucket_name}"

    def grant_read(self, grantee: iam.IGrantable, *, prefix: str = "") -> iam.Grant:
        """Grant permission to read checkpoints in all buckets, and to use their key.

        Args:
            grantee: A role, a user, or a fleet.
            prefix: What the keys begin with, such as `trainers/`; every checkpoint if left out. A directory bucket has
                no permissions by prefix.
        """
        grant = grant_objects(grantee, self.bucket, prefix=prefix)
        return grant if self.express is None else grant.combine(self.express.grant_read(grantee))

    def grant_read_write(self, grantee: iam.IGrantable, *, prefix: str = "") -> iam.Grant:
        """Grant permission to read, write and delete checkpoints in all buckets, and to use their key.

        The old versions in the bucket of the Region stay: their deletion is not granted.

        Args:
            grantee: A role, a user, or a fleet.
            prefix: What the keys begin with, such as `trainers/`; every checkpoint if left out. A directory bucket has
                no permissions by prefix.
        """
        grant = grant_objects(grantee, self.bucket, prefix=prefix, write=True)
        return grant if self.express is None else grant.combine(self.express.grant_read_write(grantee))

    def mountpoint_command(self, path: str, *, express: bool = False) -> str:
        """A shell line that mounts a bucket with Mountpoint for Amazon S3, for programs that need files.

        The node needs the package `mount-s3`, the permissions of `grant_read_write`, and a way to S3 (a directory
        bucket has a gateway endpoint of its own). Files are written once, from start to end, and not changed: write
        a checkpoint under a new name each time.

        Args:
            path: Existing, empty directory of the node.
            express: Whether to mount the directory bucket.

        Raises:
            ValueError: If there is no directory bucket.
        """
        if express and self.express is None:
            raise ValueError(f"{path_of(self)} has no directory bucket: give express_zone_id")
        name = self.express.bucket_name if express and self.express else self.bucket.bucket_name
        return f"mount-s3 --region {stack_of(self).region} --allow-delete --allow-overwrite {name} {path}"

    def _own_key(self) -> kms.Key:
        return kms.Key(
            self,
            "Key",
            description=f"Checkpoints of {path_of(self)}",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )


def _days(time: cdk.Duration) -> float:
    return float(time.to_days(integral=False))


def _lifecycle_rules(
    *,
    versioned: bool,
    noncurrent: cdk.Duration,
    unfinished: cdk.Duration,
    expire_after: cdk.Duration | None,
    archive_after: cdk.Duration | None,
) -> list[s3.LifecycleRule]:
    rules = [s3.LifecycleRule(id="unfinished-uploads", abort_incomplete_multipart_upload_after=unfinished)]
    if versioned:
        versions = s3.LifecycleRule(
            id="old-versions", noncurrent_version_expiration=noncurrent, expired_object_delete_marker=True
        )
        rules.append(versions)
    if expire_after is not None:
        rules.append(s3.LifecycleRule(id="old-checkpoints", expiration=expire_after))
    if archive_after is not None:
        archive = s3.Transition(storage_class=s3.StorageClass.GLACIER_INSTANT_RETRIEVAL, transition_after=archive_after)
        rules.append(s3.LifecycleRule(id="archive", transitions=[archive]))
    return rules
