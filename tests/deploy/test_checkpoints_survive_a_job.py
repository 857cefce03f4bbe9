"""A job with the rights of its node deletes what it can; the checkpoints are there afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError

from cdk_gpu_clusters import CheckpointStore, ClusterNetwork, GpuFleet
from cdk_gpu_clusters.testing import InProcessEmulator

BUCKET = "checkpoints-of-llama"
OWN = [f"trainers/step-{number}" for number in range(3)]
OTHERS = "servers/step-9"


@pytest.fixture(scope="module")
def template(app_factory: Any) -> dict[str, Any]:
    stack = cdk.Stack(app_factory(), "Training")
    network = ClusterNetwork(stack, "Network", availability_zone="us-east-1a")
    trainers = GpuFleet(
        stack, "Trainers", vpc=network.vpc, vpc_subnets=ec2.SubnetSelection(subnets=[network.fleet_subnet]),
        instance_type="g6.xlarge", node_count=1,
    )  # fmt: skip
    checkpoints = CheckpointStore(stack, "Checkpoints", bucket_name=BUCKET)
    checkpoints.grant_read_write(trainers, prefix="trainers/")
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture(scope="module")
def account(template: dict[str, Any]) -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": "2026-11-21T08:00Z"}) as made:
        made.deploy(template)
        operator = made.client("s3")
        operator.put_object(Bucket=BUCKET, Key=OTHERS, Body=b"weights of others")
        yield made


@pytest.fixture(scope="module")
def job(account: InProcessEmulator) -> Any:
    """S3 with the credentials that every process of a node gets."""
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return account.node_client(group["Instances"][0]["InstanceId"], "s3")


def versions(account: InProcessEmulator, key: str) -> list[str]:
    found = account.client("s3").list_object_versions(Bucket=BUCKET, Prefix=key)
    return [one["VersionId"] for one in found.get("Versions", [])]


def test_a_job_works_with_its_checkpoints(job: Any) -> None:
    for key in OWN:
        job.put_object(Bucket=BUCKET, Key=key, Body=b"weights")
    assert [one["Key"] for one in job.list_objects_v2(Bucket=BUCKET, Prefix="trainers/")["Contents"]] == OWN
    assert job.get_object(Bucket=BUCKET, Key=OWN[0])["Body"].read() == b"weights"
    upload = job.create_multipart_upload(Bucket=BUCKET, Key=OWN[0])["UploadId"]
    job.list_parts(Bucket=BUCKET, Key=OWN[0], UploadId=upload)
    job.abort_multipart_upload(Bucket=BUCKET, Key=OWN[0], UploadId=upload)


def test_what_a_job_deletes_can_be_brought_back(account: InProcessEmulator, job: Any) -> None:
    job.put_object(Bucket=BUCKET, Key=OWN[0], Body=b"garbage")
    job.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in OWN]})
    assert "Contents" not in job.list_objects_v2(Bucket=BUCKET, Prefix="trainers/")
    for key in OWN:
        identifiers = versions(account, key)
        for version in identifiers:
            with pytest.raises(ClientError, match="s3:DeleteObjectVersion"):
                job.delete_object(Bucket=BUCKET, Key=key, VersionId=version)
        with pytest.raises(ClientError, match="s3:DeleteObjectVersion"):
            job.delete_objects(
                Bucket=BUCKET, Delete={"Objects": [{"Key": key, "VersionId": one} for one in identifiers]}
            )
        assert versions(account, key) == identifiers
        bodies = [
            account.client("s3").get_object(Bucket=BUCKET, Key=key, VersionId=one)["Body"].read() for one in identifiers
        ]
        assert b"weights" in bodies


@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("get_object", {"Key": OTHERS}),
        ("put_object", {"Key": OTHERS, "Body": b"garbage"}),
        ("put_object", {"Key": "trainers-2/step-1", "Body": b"garbage"}),
        ("delete_object", {"Key": OTHERS}),
        ("list_objects_v2", {}),
        ("list_objects_v2", {"Prefix": "servers/"}),
        ("list_object_versions", {"Prefix": "trainers/"}),
        ("put_bucket_versioning", {"VersioningConfiguration": {"Status": "Suspended"}}),
        ("put_bucket_lifecycle_configuration", {"LifecycleConfiguration": {"Rules": []}}),
        ("delete_bucket_policy", {}),
        ("put_object_retention", {"Key": OWN[0], "Retention": {}}),
        ("put_object_acl", {"Key": OWN[0], "ACL": "public-read"}),
    ],
)
def test_a_job_reaches_nothing_else(job: Any, call: str, options: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        getattr(job, call)(Bucket=BUCKET, **options)
