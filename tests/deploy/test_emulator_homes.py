"""Home directories in the emulator: deployed from a cluster file, changed in place, replaced, kept, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.testing import InProcessEmulator
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from gpu_clusters_emulator import provisioning
from gpu_clusters_emulator.models.registry import change_faults, creation_faults, deletion_faults
from gpu_clusters_emulator.seeds import plant
from gpu_clusters_emulator.world import World
from mutations import Mutation, drop, put

Json = dict[str, Any]

FSX, EFS, TARGET = "AWS::FSx::FileSystem", "AWS::EFS::FileSystem", "AWS::EFS::MountTarget"
SUBNET, OTHER, GROUP = "subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb", "sg-0123456789abcdef0"
SEED: Json = {"subnets": {SUBNET: "us-east-1a", OTHER: "us-east-1b"}, "security_groups": [GROUP]}


def openzfs() -> Json:
    return {
        "FileSystemType": "OPENZFS",
        "StorageType": "SSD",
        "StorageCapacity": 1024,
        "SubnetIds": [SUBNET],
        "SecurityGroupIds": [GROUP],
        "OpenZFSConfiguration": {
            "DeploymentType": "SINGLE_AZ_HA_2",
            "ThroughputCapacity": 320,
            "RootVolumeConfiguration": {"DataCompressionType": "ZSTD", "RecordSizeKiB": 128},
        },
    }


def changed(mutation: Mutation) -> Json:
    made = openzfs()
    mutation(made)
    return made


@pytest.fixture
def world() -> World:
    made = World()
    plant(made, SEED)
    return made


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator() as made:
        yield made


def test_file_systems_as_the_library_makes_them_are_taken(world: World) -> None:
    assert creation_faults(FSX, openzfs(), world) == []
    assert creation_faults(EFS, {"Encrypted": True, "ThroughputMode": "elastic"}, world) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (put("SubnetIds", [SUBNET, OTHER]), "openzfs-subnets"),
        (put("SubnetIds", ["subnet-0cccccccccccccccc"]), "subnet-missing"),
        (put("SecurityGroupIds", ["sg-0cccccccccccccccc"]), "security-group-missing"),
        (put("StorageCapacity", 32), "openzfs-size"),
        (put("OpenZFSConfiguration.ThroughputCapacity", 300), "openzfs-throughput"),
        (put("OpenZFSConfiguration.RootVolumeConfiguration.RecordSizeKiB", 100), "openzfs-record"),
        (put("OpenZFSConfiguration.DeploymentType", "MULTI_AZ_1"), "openzfs-subnets"),
        (put("OpenZFSConfiguration.DeploymentType", "SINGLE_AZ_9"), "api-model"),
        (drop("OpenZFSConfiguration.DeploymentType"), "schema"),
    ],
)
def test_what_fsx_refuses(world: World, change: Mutation, fault: str) -> None:
    found = [one.check for one in creation_faults(FSX, changed(change), world)]
    assert fault in found, found


def test_storage_only_grows(world: World) -> None:
    assert change_faults(FSX, "fs-1", openzfs(), changed(put("StorageCapacity", 2048)), world) == []
    shrunk = change_faults(FSX, "fs-1", openzfs(), changed(put("StorageCapacity", 512)), world)
    assert [one.check for one in shrunk] == ["openzfs-shrinks"]


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        (put("OpenZFSConfiguration.DeploymentType", "SINGLE_AZ_2"), True),
        (put("SubnetIds", [OTHER]), True),
        (put("OpenZFSConfiguration.ThroughputCapacity", 640), False),
        (put("OpenZFSConfiguration.RootVolumeConfiguration.RecordSizeKiB", 64), False),
        (put("StorageCapacity", 2048), False),
    ],
)
def test_what_replaces_a_file_system(change: Mutation, replaced: bool) -> None:
    assert provisioning.replaces(FSX, openzfs(), changed(change)) is replaced


def test_efs_takes_one_mount_target_in_each_zone_and_stays_with_them(world: World) -> None:
    made = provisioning.create(world, EFS, "Homes", {"Encrypted": True}, "data")
    target = {"FileSystemId": made.physical_id, "SubnetId": SUBNET, "SecurityGroups": [GROUP]}
    assert creation_faults(TARGET, target, world) == []
    provisioning.create(world, TARGET, "Target", target, "data")
    assert [one.check for one in creation_faults(TARGET, target, world)] == ["mount-target-conflict"]
    assert creation_faults(TARGET, {**target, "SubnetId": OTHER}, world) == []
    missing = {**target, "SubnetId": OTHER, "FileSystemId": "fs-0123456789abcdef9"}
    assert [one.check for one in creation_faults(TARGET, missing, world)] == ["efs-missing"]
    assert [one.check for one in deletion_faults(EFS, made.physical_id, world)] == ["efs-in-use"]


@pytest.mark.parametrize(
    ("properties", "fault"),
    [
        ({"ThroughputMode": "provisioned"}, "efs-throughput"),
        ({"ThroughputMode": "elastic", "ProvisionedThroughputInMibps": 10}, "efs-throughput"),
        ({"KmsKeyId": "alias/mine"}, "efs-encryption"),
        ({"ThroughputMode": "fast"}, "schema"),
    ],
)
def test_what_efs_refuses(world: World, properties: Json, fault: str) -> None:
    assert [one.check for one in creation_faults(EFS, properties, world)][:1] == [fault]


CLUSTER = """version: 1
name: lab
region: us-east-1
account: "111122223333"
network: {availability_zone: us-east-1a}
data:
  homes: {openzfs: {storage_capacity_gib: 1024, quotas: [{id: 2001, storage_gib: 100}]}}
  tools: {efs: {}}
training:
  fleets:
    dev: {instance_type: g6.xlarge, nodes: 1, mounts: {/home: homes, /opt/shared: tools}}
"""


def test_homes_outlive_the_fleets_and_grow_in_place(
    account: InProcessEmulator, app_factory: Any, tmp_path: Path
) -> None:
    deployed: dict[str, Json] = {}

    def deploy(text: str) -> list[str]:
        file = tmp_path / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        app = app_factory()
        build_cluster(app, load_cluster(file))
        stacks = app.synth().stacks
        for stack in stacks:
            template = json.loads(Path(stack.template_full_path).read_text())
            if deployed.get(stack.stack_name) != template:
                account.deploy(template, stack_name=stack.stack_name)
            deployed[stack.stack_name] = template
        return [stack.stack_name for stack in stacks]

    def held() -> dict[str, str]:
        kept = (FSX, EFS, TARGET, "AWS::KMS::Key")
        return {
            f"{one['stack']}/{one['logical_id']}": one["physical_id"]
            for one in account.resources()
            if one["type"] in kept
        }

    names, before = deploy(CLUSTER), held()
    assert len(before) == 5
    mounted = [one for one in account.resources() if one["type"] == "AWS::EC2::SecurityGroupIngress"]
    assert len(mounted) == 7  # six of FSx for OpenZFS, and one of EFS
    deploy(CLUSTER.replace("1024", "2048"))
    assert held() == before
    (file_system,) = account.client("fsx").describe_file_systems()["FileSystems"]
    assert file_system["StorageCapacity"] == 2048
    for name in reversed(names):
        if "-fleet-" in name:
            account.destroy(name)
    assert held() == before
