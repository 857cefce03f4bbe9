"""File systems and their links to S3 in the emulator: made, read back, changed, replaced, kept, refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from gpu_clusters_emulator import provisioning
from gpu_clusters_emulator.models.registry import change_faults, creation_faults
from gpu_clusters_emulator.seeds import plant
from gpu_clusters_emulator.world import World
from mutations import drop, put

Json = dict[str, Any]

FILE_SYSTEM = "AWS::FSx::FileSystem"
LINK = "AWS::FSx::DataRepositoryAssociation"
LUSTRE = "LustreConfiguration"
SUBNET, GROUP = "subnet-0aaaaaaaaaaaaaaaa", "sg-0123456789abcdef0"
SEED: Json = {
    "subnets": {SUBNET: "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"},
    "security_groups": [GROUP],
    "buckets": {"my-corpus": "us-east-1", "my-results": "us-east-1", "far": "eu-west-1"},
}


def ssd(**more: Any) -> Json:
    return {
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": 38400,
        "StorageType": "SSD",
        "SubnetIds": [SUBNET],
        "SecurityGroupIds": [GROUP],
        LUSTRE: {
            "DeploymentType": "PERSISTENT_2",
            "PerUnitStorageThroughput": 250,
            "EfaEnabled": True,
            "MetadataConfiguration": {"Mode": "AUTOMATIC"},
            **more,
        },
    }


def tiering() -> Json:
    made = ssd(ThroughputCapacity=8000, DataReadCacheConfiguration={"SizingMode": "NO_CACHE"})
    made |= {"StorageType": "INTELLIGENT_TIERING"}
    made[LUSTRE] |= {"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000}}
    del made["StorageCapacity"], made[LUSTRE]["PerUnitStorageThroughput"]
    return made


def old_kind() -> Json:
    """A PERSISTENT_1 file system: this library does not offer it, FSx does."""
    made = ssd()
    made["FileSystemTypeVersion"] = "2.12"
    made[LUSTRE] = {"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 200}
    return made


def link(file_system: Any, path: str = "/data", uri: str = "s3://my-corpus/tokens/", **more: Any) -> Json:
    return {"FileSystemId": file_system, "FileSystemPath": path, "DataRepositoryPath": uri, **more}


@pytest.fixture
def world() -> World:
    made = World()
    plant(made, SEED)
    return made


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed=SEED) as made:
        yield made


def messages(type_name: str, properties: Json, world: World) -> str:
    return "\n".join(str(fault) for fault in creation_faults(type_name, properties, world))


def make(world: World, type_name: str, properties: Json) -> str:
    assert creation_faults(type_name, properties, world) == []
    number = len(world.resources)
    return provisioning.create(world, type_name, f"Made{number}", properties, "stack").physical_id


def stack(file_system: Json, links: dict[str, Json] | None = None, **attributes: str) -> Json:
    resources: Json = {"Data": {"Type": FILE_SYSTEM, "Properties": file_system, **attributes}}
    for name, properties in (links or {}).items():
        resources[name] = {"Type": LINK, "Properties": properties, **attributes}
    return {
        "Resources": resources,
        "Outputs": {
            "Id": {"Value": {"Ref": "Data"}},
            "DnsName": {"Value": {"Fn::GetAtt": ["Data", "DNSName"]}},
            "MountName": {"Value": {"Fn::GetAtt": ["Data", "LustreMountName"]}},
        },
    }


def edited(template: Json, path: str, value: Any) -> Json:
    after = copy.deepcopy(template)
    put(f"Resources.{path}", value)(after)
    return after


@pytest.mark.parametrize("good", [ssd, tiering, old_kind])
def test_a_right_file_system_is_taken(good: Callable[[], Json], world: World) -> None:
    assert creation_faults(FILE_SYSTEM, good(), world) == []


FAULTS = [
    (put("StorageCapacity", 20_000), "with EFA, a file system of 250 MB/s/TiB grows by one server at a time, got 20000 GiB; allowed: multiples of 19200 GiB"),
    (put(f"{LUSTRE}.PerUnitStorageThroughput", 300), "no such throughput tier, got 300 MB/s/TiB; allowed: 125, 250, 500, 1000"),
    (put(f"{LUSTRE}.PerUnitStorageThroughput", 1200), "at most 1000, got 1200"),
    (put(f"{LUSTRE}.DeploymentType", "PERSISTENT_3"), "'PERSISTENT_3' is not one of SCRATCH_1, SCRATCH_2, PERSISTENT_1, PERSISTENT_2"),
    (put(f"{LUSTRE}.DeploymentType", "SCRATCH_2"), "a SCRATCH_2 file system takes no EFA clients"),
    (drop(f"{LUSTRE}.MetadataConfiguration"), "a file system with EFA does not take this metadata mode, got NONE"),
    (put(f"{LUSTRE}.MetadataConfiguration", {"Mode": "USER_PROVISIONED", "Iops": 13_000}), "so many metadata operations cannot be provisioned, got 13000"),
    (put(f"{LUSTRE}.MetadataConfiguration", {"Iops": 12_000}), "Mode is required"),
    (put("FileSystemTypeVersion", "2.12"), "does not run this version, got 2.12; allowed: 2.15"),
    (put(f"{LUSTRE}.AutomaticBackupRetentionDays", 91), "at most 90, got 91"),
    (put(f"{LUSTRE}.DataCompressionType", "ZSTD"), "'ZSTD' is not one of NONE, LZ4"),
    (put(f"{LUSTRE}.WeeklyMaintenanceStartTime", "8:03:00"), "'8:03:00' does not have the form"),
    (put(f"{LUSTRE}.ImportPath", "s3://my-corpus"), "PERSISTENT_2 takes no ImportPath"),
    (put(f"{LUSTRE}.LogConfiguration", {"Level": "WARN_ERROR", "Destination": "arn:aws:logs:us-east-1:123456789012:log-group:/lustre"}), "the log group's name begins with /aws/fsx, got '/lustre'"),
    (put(f"{LUSTRE}.LogConfiguration", {"Level": "WARN_ERROR", "Destination": "arn:aws:logs:us-east-1:123456789012:log-group:/aws/fsx/a"}), "the log group '/aws/fsx/a' does not exist"),
    (put(f"{LUSTRE}.LogConfiguration", {"Level": "ALL"}), "'ALL' is not one of DISABLED"),
    (put("SubnetIds", [SUBNET, "subnet-0bbbbbbbbbbbbbbbb"]), "a Lustre file system has exactly one subnet, got 2"),
    (put("SubnetIds", ["subnet-0cccccccccccccccc"]), "the subnet 'subnet-0cccccccccccccccc' does not exist"),
    (put("SecurityGroupIds", ["sg-0aaaaaaaaaaaaaaaa"]), "the security group 'sg-0aaaaaaaaaaaaaaaa' does not exist"),
    (put(f"{LUSTRE}.Efa", True), "'Efa' was unexpected"),
]  # fmt: skip


@pytest.mark.parametrize(("mutate", "message"), FAULTS)
def test_a_wrong_file_system_is_refused(mutate: Callable[[Json], None], message: str, world: World) -> None:
    properties = ssd()
    mutate(properties)
    assert message in messages(FILE_SYSTEM, properties, world)


TIERING_FAULTS = [
    (put(f"{LUSTRE}.ThroughputCapacity", 6000), "cannot have this throughput capacity, got 6000 MB/s"),
    (drop(f"{LUSTRE}.DataReadCacheConfiguration"), "needs a read cache, or the sizing mode NO_CACHE"),
    (put("StorageCapacity", 1200), "Intelligent-Tiering storage is elastic"),
    (put(f"{LUSTRE}.MetadataConfiguration", {"Mode": "AUTOMATIC"}), "does not take this metadata mode, got AUTOMATIC"),
]  # fmt: skip


@pytest.mark.parametrize(("mutate", "message"), TIERING_FAULTS)
def test_a_wrong_elastic_file_system_is_refused(mutate: Callable[[Json], None], message: str, world: World) -> None:
    properties = tiering()
    mutate(properties)
    assert message in messages(FILE_SYSTEM, properties, world)


LINK_FAULTS = [
    ({"FileSystemId": "fs-0123456789abcdef0"}, "the file system 'fs-0123456789abcdef0' does not exist"),
    ({"DataRepositoryPath": "s3://nobodys"}, "unable to validate access to the S3 bucket: there is no bucket 'nobodys'"),
    ({"DataRepositoryPath": "https://my-corpus"}, "this is not the S3 URI of a bucket"),
    ({"FileSystemPath": "/linked/inner"}, "one linked directory lies inside another"),
    ({"FileSystemPath": "data"}, "this is not an absolute path of a directory"),
    ({"DataRepositoryPath": "s3://my-results/all/of/it/"}, "one linked S3 prefix lies inside another"),
    ({"DataRepositoryPath": "s3://far", "S3": {"AutoImportPolicy": {"Events": ["NEW"]}}}, "needs its bucket in the file system's Region, got bucket in eu-west-1; allowed: us-east-1"),
    ({"S3": {"AutoImportPolicy": {"Events": ["MOVED"]}}}, "'MOVED' is not one of"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), LINK_FAULTS)
def test_a_wrong_link_is_refused(changes: Json, message: str, world: World) -> None:
    file_system = make(world, FILE_SYSTEM, ssd())
    make(world, LINK, link(file_system, "/linked", "s3://my-results/all/"))
    assert creation_faults(LINK, link(file_system), world) == []
    assert message in messages(LINK, {**link(file_system), **changes}, world)


def test_a_file_system_has_eight_links(world: World) -> None:
    file_system = make(world, FILE_SYSTEM, ssd())
    for number in range(8):
        make(world, LINK, link(file_system, f"/{number}", f"s3://my-corpus/{number}/"))
    ninth = link(file_system, "/9", "s3://my-corpus/9/")
    assert "too many data repository associations, got 9; allowed: at most 8" in messages(LINK, ninth, world)


@pytest.mark.parametrize(
    ("good", "message"),
    [
        (tiering, "an Intelligent-Tiering file system cannot be linked to S3"),
        (
            lambda: ssd(AutomaticBackupRetentionDays=7),
            "a file system that is linked to S3 cannot be backed up",
        ),
    ],
)
def test_some_file_systems_take_no_link(good: Callable[[], Json], message: str, world: World) -> None:
    assert message in messages(LINK, link(make(world, FILE_SYSTEM, good())), world)


CHANGE_FAULTS = [
    (put("StorageCapacity", 19_200), "StorageCapacity of a file system can only grow, got 19200"),
    (put(f"{LUSTRE}.EfaEnabled", False), "EfaEnabled of a file system is settled at its creation"),
    (put("StorageType", "INTELLIGENT_TIERING"), "StorageType of a file system is settled at its creation"),
    (put(f"{LUSTRE}.MetadataConfiguration", {"Mode": "USER_PROVISIONED", "Iops": 6000}), "Iops of a file system can only grow, got 6000"),
    (put(f"{LUSTRE}.AutomaticBackupRetentionDays", 7), "is linked to S3 and cannot be backed up"),
]  # fmt: skip


@pytest.mark.parametrize(("mutate", "message"), CHANGE_FAULTS)
def test_a_change_that_fsx_does_not_make_is_refused(mutate: Callable[[Json], None], message: str, world: World) -> None:
    file_system = make(world, FILE_SYSTEM, ssd())
    make(world, LINK, link(file_system))
    after = ssd()
    mutate(after)
    found = change_faults(FILE_SYSTEM, file_system, ssd(), after, world)
    assert message in "\n".join(map(str, found))


def test_a_file_system_is_read_back_through_its_api(account: InProcessEmulator) -> None:
    outputs = account.deploy(stack(ssd(), {"Corpus": link({"Ref": "Data"})}))
    fsx = account.client("fsx")
    (found,) = fsx.describe_file_systems(FileSystemIds=[outputs["Id"]])["FileSystems"]
    assert found["DNSName"] == outputs["DnsName"] == f"{outputs['Id']}.fsx.us-east-1.amazonaws.com"
    lustre = found["LustreConfiguration"]
    assert (lustre["MountName"], lustre["EfaEnabled"]) == (outputs["MountName"], True)
    assert lustre["MetadataConfiguration"] == {"Mode": "AUTOMATIC", "Iops": 12_000}
    (linked,) = fsx.describe_data_repository_associations(
        Filters=[{"Name": "file-system-id", "Values": [outputs["Id"]]}]
    )["Associations"]
    assert (linked["FileSystemPath"], linked["DataRepositoryPath"]) == ("/data", "s3://my-corpus/tokens/")
    with pytest.raises(fsx.exceptions.FileSystemNotFound):
        fsx.describe_file_systems(FileSystemIds=["fs-0123456789abcdef0"])


def test_more_storage_is_added_in_place(account: InProcessEmulator) -> None:
    before = account.deploy(stack(ssd()))
    after = account.deploy(edited(stack(ssd()), "Data.Properties.StorageCapacity", 57_600))
    assert after == before
    (found,) = account.client("fsx").describe_file_systems()["FileSystems"]
    assert found["StorageCapacity"] == 57_600


def test_less_storage_is_refused_and_nothing_changes(account: InProcessEmulator) -> None:
    account.deploy(stack(ssd()))
    with pytest.raises(DeployFailed, match="can only grow") as failure:
        account.deploy(edited(stack(ssd()), "Data.Properties.StorageCapacity", 19_200))
    assert failure.value.status == "UPDATE_ROLLBACK_COMPLETE"
    (found,) = account.client("fsx").describe_file_systems()["FileSystems"]
    assert found["StorageCapacity"] == 38_400


REPLACING = [
    ("SubnetIds", ["subnet-0bbbbbbbbbbbbbbbb"]),
    ("KmsKeyId", "arn:aws:kms:us-east-1:123456789012:key/a"),
    (f"{LUSTRE}.PerUnitStorageThroughput", 500),
    (f"{LUSTRE}.CopyTagsToBackups", True),
]


@pytest.mark.parametrize(("path", "value"), REPLACING)
def test_a_replacing_change_makes_a_new_file_system(account: InProcessEmulator, path: str, value: Any) -> None:
    before = account.deploy(stack(ssd()))["Id"]
    after = account.deploy(edited(stack(ssd()), f"Data.Properties.{path}", value))["Id"]
    assert after != before
    assert [one["physical_id"] for one in account.resources(FILE_SYSTEM)] == [after]


def test_a_replaced_file_system_is_kept_where_the_template_says_so(account: InProcessEmulator) -> None:
    kept = stack(ssd(), UpdateReplacePolicy="Retain")
    before = account.deploy(kept)["Id"]
    after = account.deploy(edited(kept, f"Data.Properties.{LUSTRE}.PerUnitStorageThroughput", 500))["Id"]
    assert {one["physical_id"] for one in account.resources(FILE_SYSTEM)} == {before, after}


def test_a_change_set_says_that_a_change_may_replace(account: InProcessEmulator) -> None:
    account.deploy(stack(ssd()))
    cloudformation = account.client("cloudformation")
    changed = edited(stack(ssd()), f"Data.Properties.{LUSTRE}.PerUnitStorageThroughput", 500)
    cloudformation.create_change_set(StackName="stack", ChangeSetName="look", TemplateBody=json.dumps(changed))
    cloudformation.get_waiter("change_set_create_complete").wait(
        StackName="stack", ChangeSetName="look", WaiterConfig={"Delay": 1}
    )
    (change,) = cloudformation.describe_change_set(StackName="stack", ChangeSetName="look")["Changes"]
    assert change["ResourceChange"]["Replacement"] == "Conditional"


def test_what_a_link_carries_over_changes_in_place(account: InProcessEmulator) -> None:
    template = stack(ssd(), {"Corpus": link({"Ref": "Data"})})
    account.deploy(template)
    (before,) = account.resources(LINK)
    account.deploy(edited(template, "Corpus.Properties.S3", {"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}}))
    (after,) = account.resources(LINK)
    assert after["physical_id"] == before["physical_id"]
    assert after["properties"]["S3"] == {"AutoExportPolicy": {"Events": ["NEW", "CHANGED"]}}


def test_a_directory_is_not_linked_anew_while_it_is_linked(account: InProcessEmulator) -> None:
    template = stack(ssd(), {"Corpus": link({"Ref": "Data"})})
    account.deploy(template)
    with pytest.raises(DeployFailed, match="one linked directory lies inside another"):
        account.deploy(edited(template, "Corpus.Properties.DataRepositoryPath", "s3://my-results/"))
    (found,) = account.resources(LINK)
    assert found["properties"]["DataRepositoryPath"] == "s3://my-corpus/tokens/"


@pytest.mark.parametrize(("policy", "left"), [("Retain", {FILE_SYSTEM, LINK}), ("Delete", set())])
def test_the_deletion_policy_is_respected(account: InProcessEmulator, policy: str, left: set[str]) -> None:
    account.deploy(stack(ssd(), {"Corpus": link({"Ref": "Data"})}, DeletionPolicy=policy))
    account.destroy()
    assert {one["type"] for one in account.resources()} == left


def test_a_protected_stack_is_not_deleted(account: InProcessEmulator) -> None:
    account.deploy(stack(ssd()), termination_protection=True)
    with pytest.raises(DeployFailed, match="cannot be deleted while TerminationProtection is enabled"):
        account.destroy()
    assert [one["type"] for one in account.resources()] == [FILE_SYSTEM]


def test_the_subnet_of_a_file_system_stays(account: InProcessEmulator) -> None:
    network = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {
                "VpcId": {"Ref": "Vpc"},
                "CidrBlock": "10.0.0.0/20",
                "AvailabilityZone": "us-east-1a",
            },
        },
    }
    outputs = {"SubnetId": {"Value": {"Ref": "Subnet"}}}
    subnet = account.deploy({"Resources": network, "Outputs": outputs}, stack_name="network")["SubnetId"]
    account.deploy(stack({**ssd(), "SubnetIds": [subnet]}), stack_name="data")
    with pytest.raises(DeployFailed, match=f"the subnet '{subnet}' has dependencies"):
        account.destroy("network")
    account.destroy("data")
    account.destroy("network")
    assert account.resources() == []
