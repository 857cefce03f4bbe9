"""What must hold for data, keys and permissions, beyond what policy packs see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from security.checks import Check, Json

# Service authorization reference (`tools/refresh_iam_actions.py`).
_RESOURCES_OF_ACTIONS = json.loads((Path(__file__).parent / "iam_actions.json").read_text(encoding="utf-8"))["actions"]
# It takes the calling instance, whose id is unknown before; AWS's own policies for sessions have "*", too.
_CALLING_INSTANCE = "ssm:UpdateInstanceInformation"
_RULE = "Properties.BucketEncryption.ServerSideEncryptionConfiguration.0"
_ADMIN = {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Principal": {"AWS": "*"}}


def _retained(resource: Json) -> bool:
    return (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")) == ("RetainExceptOnCreate", "Retain")


def _file_system(resource: Json) -> bool:
    properties = resource["Properties"]
    if properties["FileSystemType"] == "OPENZFS":
        return _retained(resource) and "KmsKeyId" in properties
    lustre = properties["LustreConfiguration"]
    scratch = lustre["DeploymentType"].startswith("SCRATCH")  # encrypted by a key of FSx, and takes no other
    logged = lustre["LogConfiguration"]["Level"] == "WARN_ERROR"
    return _retained(resource) and (scratch or ("KmsKeyId" in properties and logged))


def _copies_tags(resource: Json) -> bool:
    given = resource["Properties"].get("OpenZFSConfiguration", {})
    return bool(given.get("CopyTagsToBackups") and given.get("CopyTagsToVolumes"))


def _bucket(resource: Json) -> bool:
    properties = resource["Properties"]
    closed = properties["PublicAccessBlockConfiguration"]
    owner = properties["OwnershipControls"]["Rules"][0]["ObjectOwnership"]
    return (
        _retained(resource)
        and len(closed) == 4
        and all(closed.values())
        and owner == "BucketOwnerEnforced"
        and bool(properties["BucketEncryption"]["ServerSideEncryptionConfiguration"])
    )


def _directory_bucket(resource: Json) -> bool:
    (rule,) = resource["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    default = rule["ServerSideEncryptionByDefault"]
    return _retained(resource) and default["SSEAlgorithm"] == "aws:kms" and bool(default["KMSMasterKeyID"])


def _statements(document: Json) -> Iterator[Json]:
    found = document["Statement"]
    yield from found if isinstance(found, list) else [found]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _resource_policy(document: Json) -> bool:
    """Nobody may do anything without a condition."""
    return all(
        one["Effect"] == "Deny" or "Condition" in one or "*" not in str(one["Principal"])
        for one in _statements(document)
    )


def _expires(resource: Json) -> bool:
    rules = resource["Properties"].get("LifecycleConfiguration", {}).get("Rules", [])
    return any(rule["Status"] == "Enabled" for rule in rules)


def _tls_only(resource: Json) -> bool:
    document = resource["Properties"]["PolicyDocument"]
    return _resource_policy(document) and any(
        one["Effect"] == "Deny" and one["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for one in _statements(document)
    )


def _least_privilege(resource: Json) -> bool:
    for one in _statements(resource["Properties"]["PolicyDocument"]):
        actions = _list(one["Action"])
        if any(action == "*" or action.endswith(":*") for action in actions):
            return False
        if "*" in _list(one["Resource"]) and any(map(_takes_resources, actions)) and not _is_of_services(one):
            return False
    return True


def _is_of_services(statement: Json) -> bool:
    """Whether it allows only what an AWS service does in the caller's name (IAM user guide, aws:ViaAWSService)."""
    return bool(statement.get("Condition", {}).get("Bool", {}).get("aws:ViaAWSService") == "true")


def _takes_resources(action: str) -> bool:
    service, _, name = action.partition(":")
    return action != _CALLING_INSTANCE and bool(_RESOURCES_OF_ACTIONS[service][name])


#: Services that act for many accounts by one principal, and name the account that they act for. EC2, Lambda and Pod
#: Identity take a role for one resource of the own account.
_FOR_MANY = {"events", "scheduler", "states", "vpc-flow-logs"}


def _for_own_account(resource: Json) -> bool:
    for one in _statements(resource["Properties"]["AssumeRolePolicyDocument"]):
        services = {name.partition(".")[0] for name in _list(one["Principal"].get("Service", []))}
        asked = one.get("Condition", {}).get("StringEquals", {})
        if services & _FOR_MANY and "aws:SourceAccount" not in asked:
            return False
    return True


def _trusted(resource: Json) -> bool:
    statements = _statements(resource["Properties"]["AssumeRolePolicyDocument"])
    return all(list(one["Principal"]) == ["Service"] for one in statements)


DATA = (
    Check(
        "file systems are of Lustre, or of OpenZFS and copy their tags",
        "AWS::FSx::FileSystem",
        lambda resource: resource["Properties"]["FileSystemType"] == "LUSTRE" or _copies_tags(resource),
        (("Properties.FileSystemType", "WINDOWS"), ("Properties.FileSystemType", "OPENZFS")),
    ),
    Check(
        "buckets have lifecycle rules",
        "AWS::S3::Bucket",
        _expires,
        (("Properties.LifecycleConfiguration", {"Rules": []}),),
    ),
    Check(
        "directory buckets have lifecycle rules",
        "AWS::S3Express::DirectoryBucket",
        _expires,
        (("Properties.LifecycleConfiguration", {"Rules": [{"Status": "Disabled"}]}),),
    ),
    Check(
        "queue policies let in no one without a condition",
        "AWS::SQS::QueuePolicy",
        lambda resource: _resource_policy(resource["Properties"]["PolicyDocument"]),
        (("Properties.PolicyDocument.Statement", [_ADMIN]),),
    ),
    Check(
        "file systems have a customer key and a log, and stay",
        "AWS::FSx::FileSystem",
        _file_system,
        (
            ("DeletionPolicy", "Delete"),
            ("UpdateReplacePolicy", "Snapshot"),
            ("Properties.LustreConfiguration.LogConfiguration.Level", "DISABLED"),
        ),
    ),
    Check(
        "buckets are encrypted, closed to the public, and stay",
        "AWS::S3::Bucket",
        _bucket,
        (
            ("DeletionPolicy", "Delete"),
            ("Properties.PublicAccessBlockConfiguration.BlockPublicAcls", False),
            ("Properties.PublicAccessBlockConfiguration", {}),
            ("Properties.OwnershipControls.Rules.0.ObjectOwnership", "ObjectWriter"),
            ("Properties.BucketEncryption.ServerSideEncryptionConfiguration", []),
        ),
    ),
    Check(
        "bucket policies ask for TLS, and let in no one without a condition",
        "AWS::S3::BucketPolicy",
        _tls_only,
        (
            ("Properties.PolicyDocument.Statement", [_ADMIN]),
            ("Properties.PolicyDocument.Statement.0.Effect", "Allow"),
        ),
    ),
    Check(
        "directory buckets have a customer key, and stay",
        "AWS::S3Express::DirectoryBucket",
        _directory_bucket,
        (
            ("DeletionPolicy", "Delete"),
            (
                f"{_RULE}.ServerSideEncryptionByDefault.SSEAlgorithm",
                "AES256",
            ),
        ),
    ),
    Check(
        "directory bucket policies ask for TLS",
        "AWS::S3Express::BucketPolicy",
        _tls_only,
        (("Properties.PolicyDocument.Statement", []),),
    ),
    Check(
        "keys rotate, stay, and serve no one without a condition",
        "AWS::KMS::Key",
        lambda resource: (
            resource.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")
            and resource["Properties"]["EnableKeyRotation"] is True
            and _resource_policy(resource["Properties"]["KeyPolicy"])
        ),
        (
            ("Properties.EnableKeyRotation", False),
            ("DeletionPolicy", "Delete"),
            ("Properties.KeyPolicy.Statement", [_ADMIN]),
        ),
    ),
    Check(
        "managed policies name their actions, and resources where there are some",
        "AWS::IAM::ManagedPolicy",
        _least_privilege,
        (
            ("Properties.PolicyDocument.Statement", [_ADMIN]),
            ("Properties.PolicyDocument.Statement", [{**_ADMIN, "Action": "s3:GetObject"}]),
        ),
    ),
    Check(
        "inline policies do, too",
        "AWS::IAM::Policy",
        _least_privilege,
        (("Properties.PolicyDocument.Statement", [{**_ADMIN, "Action": "s3:GetObject"}]),),
    ),
    Check(
        "only services assume roles",
        "AWS::IAM::Role",
        _trusted,
        (("Properties.AssumeRolePolicyDocument.Statement.0.Principal", {"AWS": "*"}),),
    ),
    Check(
        "services that act for many accounts take a role for this account only",
        "AWS::IAM::Role",
        _for_own_account,
        (
            (
                "Properties.AssumeRolePolicyDocument.Statement",
                [{"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}],
            ),
            (
                "Properties.AssumeRolePolicyDocument.Statement",
                [
                    {
                        "Effect": "Allow",
                        "Principal": {"Service": ["events.amazonaws.com", "ec2.amazonaws.com"]},
                        "Action": "sts:AssumeRole",
                        "Condition": {"StringEquals": {"aws:RequestTag/own": "yes"}},
                    }
                ],
            ),
        ),
    ),
)
