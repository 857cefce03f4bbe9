"""Buckets and secrets in the emulator: names, what refuses to go, what `Ref` gives."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from gpu_clusters_emulator import provisioning
from gpu_clusters_emulator.models.registry import creation_faults
from gpu_clusters_emulator.world import World

Json = dict[str, Any]

EXPRESS = "AWS::S3Express::DirectoryBucket"
ONE_ZONE: Json = {"LocationName": "use1-az4", "DataRedundancy": "SingleAvailabilityZone"}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator() as made:
        yield made


EXPRESS_FAULTS = [
    ({"LocationName": "us-east-1a"}, "a directory bucket is placed by a zone id"),
    ({"LocationName": "usw2-az1"}, "the zone belongs to us-west-2, not to us-east-1"),
    ({"BucketName": "llama--use1-az5--x-s3"}, "a bucket in use1-az4 is named <base>--use1-az4--x-s3"),
    ({"BucketName": "llama"}, "a bucket in use1-az4 is named <base>--use1-az4--x-s3"),
    ({"BucketName": f"{'l' * 50}--use1-az4--x-s3"}, "is too long"),
    ({"DataRedundancy": "SingleLocalZone"}, "SingleLocalZone does not go with the zone use1-az4"),
]


@pytest.mark.parametrize(("changes", "message"), EXPRESS_FAULTS)
def test_a_wrong_directory_bucket_is_refused(changes: Json, message: str, world: World) -> None:
    assert creation_faults(EXPRESS, ONE_ZONE, world) == []
    found = creation_faults(EXPRESS, {**ONE_ZONE, **changes}, world)
    assert message in "\n".join(map(str, found))


def test_a_directory_bucket_gets_a_name_with_its_zone(world: World) -> None:
    made = provisioning.create(world, EXPRESS, "Checkpoints", ONE_ZONE, "data").physical_id
    assert made.endswith("--use1-az4--x-s3")
    assert creation_faults(EXPRESS, {**ONE_ZONE, "BucketName": made}, world) == []


def test_another_zone_makes_another_directory_bucket(account: InProcessEmulator) -> None:
    template = {"Resources": {"Checkpoints": {"Type": EXPRESS, "Properties": ONE_ZONE}}}
    account.deploy(template)
    moved = copy.deepcopy(template)
    moved["Resources"]["Checkpoints"]["Properties"] = {**ONE_ZONE, "LocationName": "use1-az5"}
    account.deploy(moved)
    (found,) = account.resources(EXPRESS)
    assert found["physical_id"].endswith("--use1-az5--x-s3")


def test_the_policy_of_a_directory_bucket_needs_the_bucket(world: World) -> None:
    policy = {"Bucket": "gone--use1-az4--x-s3", "PolicyDocument": {"Version": "2012-10-17", "Statement": []}}
    (fault,) = creation_faults("AWS::S3Express::BucketPolicy", policy, world)
    assert "the directory bucket 'gone--use1-az4--x-s3' does not exist" in str(fault)


def test_a_bucket_with_objects_is_not_deleted(account: InProcessEmulator) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "checkpoints-of-llama"}}
    account.deploy({"Resources": {"Checkpoints": bucket}})
    s3 = account.client("s3")
    s3.put_object(Bucket="checkpoints-of-llama", Key="step-1", Body=b"weights")
    with pytest.raises(DeployFailed, match="is not empty"):
        account.destroy()
    s3.delete_object(Bucket="checkpoints-of-llama", Key="step-1")
    account.destroy()
    assert account.resources() == []


def test_a_reference_to_a_secret_is_its_arn(account: InProcessEmulator) -> None:
    secret: Json = {"Type": "AWS::SecretsManager::Secret", "Properties": {"GenerateSecretString": {}}}
    template = {"Resources": {"Hub": secret}, "Outputs": {"Arn": {"Value": {"Ref": "Hub"}}}}
    arn = account.deploy(template)["Arn"]
    secrets = account.client("secretsmanager")
    assert secrets.describe_secret(SecretId=arn)["ARN"] == arn
    described = {**secret, "Properties": {**secret["Properties"], "Description": "token of the hub"}}
    assert account.deploy({**template, "Resources": {"Hub": described}})["Arn"] == arn
    assert secrets.describe_secret(SecretId=arn)["Description"] == "token of the hub"
    account.destroy()
    assert secrets.list_secrets()["SecretList"] == []
