"""Keys of a cluster: what is encrypted with a key of your own, and whether the key rotates."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.case import Case, Resource, targets_in
from cdk_gpu_clusters.template_rules.choices import any_surely
from cdk_gpu_clusters.template_rules.lookups.cluster import part_of_cluster
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only
from cdk_gpu_clusters.template_rules.lookups.launches import values_at
from cdk_gpu_clusters.template_rules.lookups.policies import statements_of
from cdk_gpu_clusters.template_rules.lookups.roles import roles_of_cluster
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, define_template_rule

_KEY = "AWS::KMS::Key"


@define_template_rule(
    "GPU-KEY-001",
    "a symmetric key of a GPU cluster rotates",
    source='AWS KMS developer guide, "Enable automatic key rotation"; AWS Foundational Security Best Practices, KMS.4',
    severity=Severity.INFO,
    cause="one key material encrypts the data of all years: who gets hold of it can read all of them",
    fix="set EnableKeyRotation to true; KMS keeps the older material, so that older data stays readable",
    url="https://docs.aws.amazon.com/kms/latest/developerguide/rotating-keys-enable.html",
    on=(_KEY,),
    looks_at=("EnableKeyRotation", "KeySpec", "Origin"),
)
def rotation(resource: Resource) -> Iterator[Fault]:
    part_of_cluster(resource)
    if (resource.get("KeySpec").text() or "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
        raise NotApplicable
    if (resource.get("Origin").text() or "AWS_KMS") != "AWS_KMS":
        raise NotApplicable  # KMS does not rotate what it did not make
    enabled = resource.get("EnableKeyRotation")
    if not enabled.flag():
        yield Fault(at=enabled if enabled.exists else resource, got="no rotation", allowed="EnableKeyRotation: true")


_BUCKET = "AWS::S3::Bucket"
_DIRECTORY_BUCKET = "AWS::S3Express::DirectoryBucket"
_DEFAULT = "BucketEncryption/ServerSideEncryptionConfiguration/*/ServerSideEncryptionByDefault"
_LINK = "AWS::FSx::DataRepositoryAssociation"


@define_template_rule(
    "GPU-KEY-002",
    "a bucket that GPU nodes or jobs use is encrypted with a customer managed KMS key",
    source='Amazon S3 user guide, "Setting default server-side encryption behavior for Amazon S3 buckets": SSE-S3 '
    "encrypts every new object since January 5, 2023",
    severity=Severity.INFO,
    cause="S3 encrypts the objects with keys of its own: reading them takes no second permission, and no key can be "
    "disabled to stop all reading at once",
    fix="set BucketEncryption to aws:kms with a KMSMasterKeyID, and BucketKeyEnabled to true",
    url="https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-encryption.html",
    on=(_BUCKET, _DIRECTORY_BUCKET),
    looks_at=(f"{_DEFAULT}/KMSMasterKeyID", "policies of the roles of nodes and jobs", f"{_LINK}/DataRepositoryPath"),
)
def bucket_key(resource: Resource) -> Iterator[Fault]:
    if any(default.get("KMSMasterKeyID").exists for default in values_at(resource.properties, _DEFAULT)):
        return
    if not _is_used(resource):
        raise NotApplicable
    encryption = resource.get("BucketEncryption")
    at = encryption if encryption.exists else resource
    yield Fault(at=at, got="no customer managed key", allowed="KMSMasterKeyID")


def _is_used(bucket: Resource) -> bool:
    """Whether nodes or jobs use a bucket, by their roles or through a Lustre file system."""
    links = bucket.case.resources_naming(bucket, _LINK)
    if any(bucket in targets_in(link.get("DataRepositoryPath")) for link in links):
        return True
    return any_surely(bucket.case.once(_named), lambda one: one == bucket)


def _named(case: Case) -> list[Resource]:
    """What the policies of the roles of a cluster name."""
    return [
        target
        for role in roles_of_cluster(case)
        for statement in role.once(statements_of)
        for value in statement.resources
        for target in targets_in(value)
    ]


@define_template_rule(
    "GPU-KEY-003",
    "a persistent Lustre file system is encrypted with a customer managed KMS key",
    source='FSx for Lustre guide, "Encrypting data at rest": a persistent file system takes a key, aws/fsx by default; '
    "a scratch file system takes none",
    severity=Severity.INFO,
    cause="FSx encrypts it with the key aws/fsx: no key policy of yours controls who uses the data and its backups; "
    "adding a key later replaces the file system",
    fix="set KmsKeyId to a key that rotates and is retained",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html",
    on=(FILE_SYSTEM,),
    looks_at=("KmsKeyId", "LustreConfiguration/DeploymentType"),
)
def lustre_key(resource: Resource) -> Iterator[Fault]:
    deployment = lustre_only(resource).get("LustreConfiguration", "DeploymentType").text() or ""
    if not deployment.startswith("PERSISTENT"):
        raise NotApplicable
    if not resource.get("KmsKeyId").exists:
        yield Fault(at=resource, got="no KmsKeyId", allowed="a customer managed key")
