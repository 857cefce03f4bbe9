"""Checkpoint stores: private, encrypted, bounded in cost, and there when everything else is gone."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from cdk_gpu_clusters import CheckpointStore, ConfigError, GpuFleet
from stack_fixtures import Site, SiteFactory, of_type, only

BUCKET = "AWS::S3::Bucket"
EXPRESS = "AWS::S3Express::DirectoryBucket"


def test_the_bucket(site: Site) -> None:
    CheckpointStore(site.stack, "Checkpoints")
    resources = site.resources()
    bucket = only(resources, BUCKET)
    (key,) = of_type(resources, "AWS::KMS::Key")
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["BucketKeyEnabled"] is True
    assert encryption["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == {"Fn::GetAtt": [key, "Arn"]}
    assert resources[key]["Properties"]["EnableKeyRotation"] is True
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "LoggingConfiguration" not in bucket
    (statement,) = only(resources, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Condition"]) == (
        "Deny",
        {"Bool": {"aws:SecureTransport": "false"}},
    )
    assert not of_type(resources, EXPRESS)


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({}, {"unfinished-uploads", "old-versions"}),
        ({"versioned": False}, {"unfinished-uploads"}),
        (
            {"expire_after": cdk.Duration.days(30), "archive_after": cdk.Duration.days(7)},
            {"unfinished-uploads", "old-versions", "old-checkpoints", "archive"},
        ),
    ],
)
def test_lifecycle(site: Site, options: dict[str, Any], rules: set[str]) -> None:
    CheckpointStore(site.stack, "Checkpoints", **options)
    by_id = {rule["Id"]: rule for rule in only(site.resources(), BUCKET)["LifecycleConfiguration"]["Rules"]}
    assert set(by_id) == rules
    assert by_id["unfinished-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 3}
    if "old-versions" in rules:
        assert by_id["old-versions"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
        assert by_id["old-versions"]["ExpiredObjectDeleteMarker"] is True
    if "archive" in rules:
        assert by_id["old-checkpoints"]["ExpirationInDays"] == 30
        (transition,) = by_id["archive"]["Transitions"]
        assert (transition["StorageClass"], transition["TransitionInDays"]) == ("GLACIER_IR", 7)


def test_the_directory_bucket(site: Site) -> None:
    made = CheckpointStore(
        site.stack,
        "Checkpoints",
        express_zone_id="use1-az4",
        express_base_name="llama",
        express_expire_after=cdk.Duration.days(2),
    )
    assert made.express_s3_uri is not None
    assert made.express_s3_uri.startswith("s3://")
    resources = site.resources()
    bucket = only(resources, EXPRESS)
    assert (bucket["LocationName"], bucket["DataRedundancy"]) == ("use1-az4", "SingleAvailabilityZone")
    assert bucket["BucketName"] == "llama--use1-az4--x-s3"
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert [rule.get("ExpirationInDays") for rule in bucket["LifecycleConfiguration"]["Rules"]] == [None, 2]
    tls, lifecycle = only(resources, "AWS::S3Express::BucketPolicy")["PolicyDocument"]["Statement"]
    assert (tls["Effect"], tls["Action"]) == ("Deny", "s3express:*")
    # Amazon S3 user guide, "Working with S3 Lifecycle for directory buckets": without it nothing expires.
    assert lifecycle["Effect"] == "Allow"
    assert lifecycle["Principal"] == {"Service": "lifecycle.s3.amazonaws.com"}
    assert lifecycle["Action"] == "s3express:CreateSession"
    assert lifecycle["Condition"] == {"StringEquals": {"s3express:SessionMode": "ReadWrite"}}
    assert lifecycle["Resource"] == tls["Resource"]


def test_local_zones_have_a_word_of_their_own(site: Site) -> None:
    CheckpointStore(site.stack, "Checkpoints", express_zone_id="use1-dfw2-az1")
    assert only(site.resources(), EXPRESS)["DataRedundancy"] == "SingleLocalZone"


def test_what_holds_data_stays_and_keeps_its_logical_id(site: Site) -> None:
    """A change of these ids is a major version: CloudFormation would make empty buckets."""
    CheckpointStore(site.stack, "Checkpoints", express_zone_id="use1-az4")
    stays = {
        name: resource["Type"]
        for name, resource in site.resources().items()
        if (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")) == ("RetainExceptOnCreate", "Retain")
    }
    assert stays == {
        "CheckpointsKeyB7C23FB2": "AWS::KMS::Key",
        "CheckpointsBucket6BA0C50D": BUCKET,
        "CheckpointsBucketPolicyFFC3DCA4": "AWS::S3::BucketPolicy",
        "CheckpointsExpressF23C92D8": EXPRESS,
        "CheckpointsExpressPolicy60959ED7": "AWS::S3Express::BucketPolicy",
    }


def test_fleets_and_roles_may_read_and_write_everywhere(site: Site) -> None:
    made = CheckpointStore(site.stack, "Checkpoints", express_zone_id="use1-az4")
    fleet = GpuFleet(
        site.stack,
        "Trainers",
        vpc=site.vpc,
        vpc_subnets=site.one_subnet,
        instance_type="p5.48xlarge",
        node_count=2,
    )
    role = iam.Role(site.stack, "Reader", assumed_by=iam.AccountRootPrincipal())
    made.grant_read_write(fleet)
    made.grant_read_write(role)
    policies = of_type(site.resources(), "AWS::IAM::Policy")
    granted = [
        text
        for policy in policies.values()
        if "s3express" in (text := json.dumps(policy["Properties"]["PolicyDocument"]))
    ]
    assert len(granted) == 2
    for text in granted:
        for action in (
            "s3express:CreateSession",
            "s3:PutObject",
            "s3:GetObject",
            "kms:Decrypt",
            "kms:GenerateDataKey",
        ):
            assert f'"{action}"' in text
        assert '*"' not in text.replace('"/*"', ""), "no action is named by its first letters"


def test_readers_change_nothing(site: Site) -> None:
    made = CheckpointStore(site.stack, "Checkpoints", express_zone_id="use1-az4")
    role = iam.Role(site.stack, "Reader", assumed_by=iam.AccountRootPrincipal())
    made.grant_read(role, prefix="trainers/")
    policy = only(site.resources(), "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    actions = {
        action for one in policy for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert actions == {
        "s3:GetObject", "s3:GetObjectTagging", "s3:GetBucketLocation", "s3:ListBucket", "kms:Decrypt",
        "s3express:CreateSession",
    }  # fmt: skip
    conditions = [one["Condition"] for one in policy if "Condition" in one]
    assert conditions == [
        {"StringLike": {"s3:prefix": "trainers/*"}},
        {"StringEquals": {"s3express:SessionMode": "ReadOnly"}},
    ]


def test_object_lock(site: Site) -> None:
    CheckpointStore(site.stack, "Checkpoints", object_lock=s3.ObjectLockRetention.governance(cdk.Duration.days(7)))
    bucket = only(site.resources(), BUCKET)
    assert bucket["ObjectLockEnabled"] is True
    assert bucket["ObjectLockConfiguration"]["Rule"] == {"DefaultRetention": {"Days": 7, "Mode": "GOVERNANCE"}}


def test_a_given_key_and_logs_bucket_are_used(site: Site) -> None:
    key = kms.Key.from_key_arn(
        site.stack, "Key", "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
    )
    logs = s3.Bucket(site.stack, "Logs")
    CheckpointStore(site.stack, "Checkpoints", encryption_key=key, access_logs_bucket=logs)
    resources = site.resources()
    assert not of_type(resources, "AWS::KMS::Key")
    (bucket,) = (row for name, row in of_type(resources, BUCKET).items() if name.startswith("Checkpoints"))
    assert bucket["Properties"]["LoggingConfiguration"]["LogFilePrefix"] == "checkpoints/"


def test_mountpoint(site: Site) -> None:
    made = CheckpointStore(site.stack, "Checkpoints")
    assert made.mountpoint_command("/ckpt").startswith("mount-s3 --region ")
    assert made.mountpoint_command("/ckpt").endswith(" /ckpt")
    with pytest.raises(ValueError, match="express_zone_id"):
        made.mountpoint_command("/ckpt", express=True)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"express_zone_id": "us-east-1a"}, "GPU-CKP-001"),
        ({"express_zone_id": "use1-az4", "express_base_name": "Llama"}, "GPU-CKP-002"),
        ({"expire_after": cdk.Duration.hours(12)}, "GPU-CKP-003"),
        (
            {"object_lock": s3.ObjectLockRetention.compliance(cdk.Duration.days(7)), "versioned": False},
            "GPU-CKP-006",
        ),
    ],
)
def test_wrong_stores(site: Site, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError) as error:
        CheckpointStore(site.stack, "Checkpoints", **options)
    assert [finding.id for finding in error.value.findings] == [rule]
    assert error.value.findings[0].path.startswith("Site/Checkpoints")


@pytest.mark.parametrize("region", ["us-gov-west-1", "cn-north-1"])
def test_nothing_is_bound_to_one_partition(make_site: SiteFactory, region: str) -> None:
    site = make_site(env=cdk.Environment(account="123456789012", region=region))
    CheckpointStore(site.stack, "Checkpoints", express_zone_id=cdk.Fn.import_value("zone-id"))
    assert "arn:aws:" not in json.dumps(site.template())
