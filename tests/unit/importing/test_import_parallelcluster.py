"""ParallelCluster -> AWS PCS, key by key: what stands for it, what is lost, and which faults stop an import."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters_stacks.importing import Imported
from cdk_gpu_clusters_stacks.importing.draft import Change
from foreign_files import import_text

Values = dict[str, Any]
SUBNET = "subnet-0a1b2c3d4e5f60718"


def _resource(**changes: object) -> Values:
    return {"Name": "nodes", "InstanceType": "p5.48xlarge", "MinCount": 0, "MaxCount": 4, **changes}


def _queue(*resources: Values, **changes: object) -> Values:
    return {
        "Name": "gpu",
        "Networking": {"SubnetIds": [SUBNET], "PlacementGroup": {"Enabled": True}},
        "ComputeResources": list(resources or [_resource(Efa={"Enabled": True})]),
        **changes,
    }


def _file(*queues: Values, slurm: Values | None = None, **changes: object) -> Values:
    return {
        "Region": "us-east-1",
        "Image": {"Os": "ubuntu2404"},
        "HeadNode": {"InstanceType": "m7i.large", "Networking": {"SubnetId": SUBNET}},
        "Scheduling": {"Scheduler": "slurm", "SlurmSettings": slurm or {}, "SlurmQueues": list(queues or [_queue()])},
        **changes,
    }


def _import(values: Values) -> Imported:
    return import_text(yaml.safe_dump(values, sort_keys=False), zone="us-east-1a", vpc_id="vpc-0a1b2c3d4e5f60718")


def _cluster(values: Values) -> Any:
    made = _import(values)
    assert made.text is not None, made.findings
    return yaml.safe_load(made.text)


def _fleets(values: Values) -> Any:
    return _cluster(values)["training"]["fleets"]


def _notes(made: Imported, change: Change, what: str) -> list[str]:
    return [note.text for note in made.notes if note.change is change and note.what.endswith(what)]


def test_a_file_whose_values_are_all_known_needs_no_change() -> None:
    made = _import(_file())
    assert made.text is not None
    assert "CHANGE" not in made.text
    assert _cluster(_file()) == {
        "version": 1,
        "name": "theirs",
        "region": "us-east-1",
        "orchestrator": "pcs",
        "network": {
            "vpc_id": "vpc-0a1b2c3d4e5f60718",
            "subnet_ids": [SUBNET],
            "availability_zone": "us-east-1a",
        },
        "data": {"home": {"efs": {}}},
        "pcs": {
            "size": "small",
            "accounting": {"enabled": False},
            "login": {"nodes": 1, "instance_type": "m7i.large", "mounts": {"/home": "home"}},
            "queues": {"gpu": {"fleets": ["gpu"]}},
        },
        "training": {
            "fleets": {
                "gpu": {
                    "instance_type": "p5.48xlarge",
                    "min_nodes": 0,
                    "max_nodes": 4,
                    "placement": "cluster",
                    "efa": True,
                    "image": {"os": "ubuntu-24.04"},
                    "mounts": {"/home": "home"},
                }
            }
        },
    }


# Nodes.


def test_nodes_that_stay_and_nodes_that_come_are_two_fleets_of_one_queue() -> None:
    """AWS PCS has no group of both (GPU-PCS-060)."""
    made = _cluster(_file(_queue(_resource(MinCount=2, MaxCount=8))))
    fleets = made["training"]["fleets"]
    assert fleets["gpu-static"]["nodes"] == 2
    assert (fleets["gpu-dynamic"]["min_nodes"], fleets["gpu-dynamic"]["max_nodes"]) == (0, 6)
    assert made["pcs"]["queues"]["gpu"]["fleets"] == ["gpu-static", "gpu-dynamic"]


def test_numbers_that_the_file_leaves_out_are_those_of_parallelcluster() -> None:
    resource = {"Name": "nodes", "InstanceType": "g6.12xlarge"}
    fleet = _fleets(_file(_queue(resource)))["gpu"]
    assert (fleet["min_nodes"], fleet["max_nodes"]) == (0, 10)


def test_a_size_of_the_cluster_holds_nodes_and_login_node() -> None:
    sizes = [_cluster(_file(_queue(_resource(MaxCount=most))))["pcs"]["size"] for most in (31, 32, 512)]
    assert sizes == ["small", "medium", "large"]


@pytest.mark.parametrize(
    ("queue", "resource", "capacity"),
    [
        ({"CapacityType": "SPOT"}, {}, {"spot": {}}),
        ({}, {"CapacityReservationTarget": {"CapacityReservationId": "cr-0a1b2c3d4e5f60718"}},
         {"reservation": "cr-0a1b2c3d4e5f60718"}),
        ({"CapacityReservationTarget": {"CapacityReservationId": "cr-0a1b2c3d"}}, {}, {"reservation": "cr-0a1b2c3d"}),
        ({"CapacityReservationTarget": {"CapacityReservationResourceGroupArn":
          "arn:aws:resource-groups:us-east-1:111122223333:group/mine"}}, {},
         {"reservation_group": "arn:aws:resource-groups:us-east-1:111122223333:group/mine"}),
        ({"Networking": {"SubnetIds": [SUBNET], "PlacementGroup": {"Name": "rack"}},
          "CapacityReservationTarget": {"CapacityReservationId": "cr-0a1b2c3d"}}, {},
         {"reservation": "cr-0a1b2c3d", "placement_group": "rack"}),
    ],
)  # fmt: skip
def test_capacity(queue: Values, resource: Values, capacity: Values) -> None:
    fleet = _fleets(_file(_queue(_resource(Efa={"Enabled": True}, **resource), **queue)))["gpu"]
    assert fleet["capacity"] == capacity


def test_a_capacity_block_has_a_fixed_number_of_nodes_and_times_to_fill_in() -> None:
    target = {"CapacityReservationId": "cr-0a1b2c3d4e5f60718"}
    queue = _queue(_resource(), CapacityType="CAPACITY_BLOCK", CapacityReservationTarget=target)
    made = _import(_file(queue))
    fleet = _fleets(_file(queue))["gpu"]
    assert (fleet["nodes"], fleet["capacity"]["capacity_block"]) == (4, "cr-0a1b2c3d4e5f60718")
    filled = {note.what for note in made.notes if note.change is Change.FILLED}
    key = "training.fleets.gpu.capacity"
    assert filled == {f"{key}.starts_at", f"{key}.ends_at"}


def test_a_price_limit_of_spot_is_lost_since_aws_pcs_has_none() -> None:
    made = _import(_file(_queue(_resource(SpotPrice=9.5), CapacityType="SPOT")))
    assert made.text is not None
    assert "max_price" not in made.text
    assert _notes(made, Change.LOST, "SpotPrice")


def test_an_existing_placement_group_without_a_reservation_is_replaced() -> None:
    networking = {"SubnetIds": [SUBNET], "PlacementGroup": {"Enabled": True, "Id": "mine"}}
    made = _import(_file(_queue(Networking=networking)))
    assert _notes(made, Change.REPLACED, "PlacementGroup.Id")
    assert _fleets(_file(_queue(Networking=networking)))["gpu"]["placement"] == "cluster"


def test_the_root_volume_keeps_its_size_and_speed() -> None:
    volume = {"Size": 300, "Iops": 6000, "Throughput": 500, "VolumeType": "gp2", "Encrypted": False}
    values = _file(_queue(ComputeSettings={"LocalStorage": {"RootVolume": volume}}))
    assert _fleets(values)["gpu"]["root_volume"] == {"size_gib": 300, "iops": 6000, "throughput_mib_per_s": 500}
    made = _import(values)
    assert {"GPU-COST-004", "GPU-LT-012"} <= {one.id for one in made.broken}
    assert _notes(made, Change.BETTER, "RootVolume") == ["the root volume is encrypted"]


def test_nodes_of_aws_pcs_take_32_addresses_as_with_old_interfaces_and_more_than_with_new_ones() -> None:
    assert _notes(_import(_file(DevSettings={"EfaInterfaceType": "efa"})), Change.REPLACED, "Efa.Enabled") == []
    (text,) = _notes(_import(_file()), Change.REPLACED, "Efa.Enabled")
    assert "takes 32 addresses of the subnet" in text
    assert "took 1:" in text


def test_types_without_accelerators_are_lost_and_others_of_the_queue_stay() -> None:
    queue = _queue(_resource(), _resource(Name="cpu", InstanceType="c5n.18xlarge"))
    assert [*_fleets(_file(queue))] == ["gpu-nodes"]
    assert _notes(_import(_file(queue)), Change.LOST, "ComputeResources[1]")


def test_the_first_of_several_types_is_taken() -> None:
    resource = {"Name": "nodes", "Instances": [{"InstanceType": "g6.12xlarge"}, {"InstanceType": "g5.12xlarge"}]}
    assert _fleets(_file(_queue(resource)))["gpu"]["instance_type"] == "g6.12xlarge"
    assert _notes(_import(_file(_queue(resource))), Change.LOST, "Instances[1]")


# Slurm.


def test_slurm_settings_that_aws_pcs_takes_stay_with_their_spelling() -> None:
    slurm = {
        "ScaledownIdletime": 30,
        "EnableMemoryBasedScheduling": True,
        "CustomSlurmSettings": [{"schedulerparameters": "bf_continue"}],
    }
    queue = _queue(
        _resource(CustomSlurmSettings={"Weight": 5}),
        CustomSlurmSettings={"MaxTime": "1-00:00:00"},
        JobExclusiveAllocation=True,
    )
    pcs = _cluster(_file(queue, slurm=slurm))["pcs"]
    assert pcs["scale_down_idle_minutes"] == 30
    assert pcs["slurm_settings"] == {
        "SchedulerParameters": "bf_continue",
        "SelectTypeParameters": "CR_CPU_Memory",
    }
    assert pcs["queues"]["gpu"]["slurm_settings"] == {"MaxTime": "1-00:00:00", "OverSubscribe": "EXCLUSIVE"}
    assert pcs["node_settings"] == {"gpu": {"Weight": "5"}}


def test_slurm_settings_that_aws_pcs_refuses_are_findings_with_what_stands_for_them() -> None:
    slurm = {"CustomSlurmSettings": [{"JobCompType": "jobcomp/filetxt"}, {"SlurmctldDebug": "debug2"}]}
    made = _import(_file(slurm=slurm))
    found = [one for one in made.findings if one.id == "GPU-IMP-006"]
    assert [one.got for one in found] == ["JobCompType=jobcomp/filetxt", "SlurmctldDebug=debug2"]
    assert "accounting" in found[0].fix
    assert "CloudWatch" in found[1].fix
    assert all(one.severity is Severity.WARNING and one.path.startswith("theirs.yaml:") for one in found)
    assert made.text is not None
    assert "JobCompType" not in made.text


def test_priorities_of_nodes_are_their_weights() -> None:
    """Each compute resource has one for nodes that stay, and one for nodes that come and go."""
    resource = _resource(MinCount=2, MaxCount=8, StaticNodePriority=3, DynamicNodePriority=700)
    settings = _cluster(_file(_queue(resource)))["pcs"]["node_settings"]
    assert settings == {"gpu-static": {"Weight": "3"}, "gpu-dynamic": {"Weight": "700"}}


def test_tags_of_a_queue_are_those_of_its_fleet() -> None:
    queue = _queue(_resource(Tags=[{"Key": "b", "Value": "2"}]), Tags=[{"Key": "a", "Value": "1"}])
    made = _cluster(_file(queue, Tags=[{"Key": "c", "Value": "3"}]))
    assert made["training"]["fleets"]["gpu"]["tags"] == {"a": "1", "b": "2"}
    assert made["tags"] == {"c": "3"}


@pytest.mark.parametrize(("database", "enabled"), [({}, False), ({"Database": {"Uri": "db:3306"}}, True)])
def test_accounting_is_on_where_the_file_has_a_database(database: Values, enabled: bool) -> None:
    assert _cluster(_file(slurm=database))["pcs"]["accounting"] == {"enabled": enabled}


def test_login_nodes_and_their_key() -> None:
    pools = [{"Name": "login", "Count": 2, "InstanceType": "m7i.2xlarge", "Ssh": {"KeyName": "mine"}}]
    login = _cluster(_file(LoginNodes={"Pools": pools}))["pcs"]["login"]
    assert (login["nodes"], login["instance_type"], login["ssh_key_name"]) == (2, "m7i.2xlarge", "mine")


def test_a_directory_by_tls_becomes_that_of_the_nodes_and_one_without_is_lost() -> None:
    directory = {
        "DomainName": "corp.example.com",
        "DomainAddr": "ldaps://ad.example.com",
        "PasswordSecretArn": "arn:aws:secretsmanager:us-east-1:111122223333:secret:reader-AbCdEf",
        "DomainReadOnlyUser": "cn=reader,dc=corp,dc=example,dc=com",
    }
    found = _cluster(_file(DirectoryService=directory))["pcs"]["directory"]
    assert (found["uris"], found["search_base"], found["schema_name"]) == (
        ["ldaps://ad.example.com"],
        "dc=corp,dc=example,dc=com",
        "ad",
    )
    plain = _import(_file(DirectoryService={**directory, "DomainAddr": "ldap://ad.example.com"}))
    assert plain.text is not None
    assert "directory:" not in plain.text
    assert _notes(plain, Change.LOST, "DirectoryService")


# Stores.


@pytest.mark.parametrize(
    ("shared", "store"),
    [
        ({"StorageType": "FsxLustre", "FsxLustreSettings": {"StorageCapacity": 1200}},
         {"lustre": {"deployment_type": "SCRATCH_2", "storage_capacity_gib": 1200}}),
        ({"StorageType": "FsxLustre", "FsxLustreSettings": {
            "StorageCapacity": 2400, "DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 200}},
         {"lustre": {"deployment_type": "PERSISTENT_2", "storage_capacity_gib": 2400,
                     "throughput_mb_per_s_per_tib": 250}}),
        ({"StorageType": "FsxLustre", "FsxLustreSettings": {
            "StorageCapacity": 1200, "ImportPath": "s3://corpus/raw"}},
         {"lustre": {"deployment_type": "SCRATCH_2", "storage_capacity_gib": 1200},
          "repositories": [{"path": "/", "bucket": "corpus", "prefix": "raw"}]}),
        ({"StorageType": "Efs"}, {"efs": {"throughput_mode": "bursting"}}),
        ({"StorageType": "Efs", "EfsSettings": {"ThroughputMode": "provisioned", "ProvisionedThroughput": 512}},
         {"efs": {"throughput_mode": "provisioned", "provisioned_mib_per_s": 512}}),
        ({"StorageType": "Ebs", "EbsSettings": {"Size": 100}}, {"efs": {}}),
    ],
)  # fmt: skip
def test_new_stores(shared: Values, store: Values) -> None:
    made = _cluster(_file(SharedStorage=[{"Name": "Data", "MountDir": "data", **shared}]))
    assert made["data"]["data"] == store
    assert made["training"]["fleets"]["gpu"]["mounts"] == {"/data": "data", "/home": "home"}


def test_existing_stores_keep_their_ids_and_say_what_is_missing() -> None:
    shared = [
        {"Name": "fsx", "MountDir": "/fsx", "StorageType": "FsxLustre",
         "FsxLustreSettings": {"FileSystemId": "fs-0a1b2c3d4e5f60718"}},
        {"Name": "home", "MountDir": "/home", "StorageType": "Efs", "EfsSettings": {"FileSystemId": "fs-0a1b2c3d"}},
    ]  # fmt: skip
    made = _import(_file(SharedStorage=shared))
    data = _cluster(_file(SharedStorage=shared))["data"]
    assert data["fsx"]["existing_lustre"]["file_system_id"] == "fs-0a1b2c3d4e5f60718"
    assert data["home"]["existing_efs"]["file_system_id"] == "fs-0a1b2c3d"
    assert {note.what for note in made.notes if note.change is Change.FILLED} == {
        "data.fsx.existing_lustre.mount_name",
        "data.fsx.existing_lustre.security_group_id",
        "data.home.existing_efs.security_group_id",
    }


def test_a_store_of_another_kind_is_lost() -> None:
    made = _import(_file(SharedStorage=[{"Name": "x", "MountDir": "/x", "StorageType": "FsxOntap"}]))
    assert _notes(made, Change.LOST, "SharedStorage[0]")


# Faults that stop an import.


@pytest.mark.parametrize(
    ("values", "rule", "line"),
    [
        ({**_file(), "Scheduling": {"Scheduler": "awsbatch"}}, "GPU-IMP-005", 9),
        (_file(_queue(_resource(InstanceType="${TYPE}"))), "GPU-IMP-003", 20),
        (_file(_queue(_resource(MaxCount="${COUNT}"))), "GPU-IMP-003", 22),
        (_file(_queue(_resource(MaxCount="many"))), "GPU-IMP-002", 22),
        (_file(_queue(_resource(Efa={"Enabled": "perhaps"}))), "GPU-IMP-002", 24),
        (_file(_queue(Networking="here")), "GPU-IMP-002", 13),
        (_file(_queue(_resource(InstanceType="c5n.18xlarge"))), "GPU-IMP-004", 1),
        (_file(_queue(), _queue(Name="GPU")), "GPU-IMP-007", 32),
        ({"HeadNode": {}}, "GPU-IMP-001", 1),
    ],
)
def test_faults_have_a_line_a_fix_and_no_cluster_file(values: Values, rule: str, line: int) -> None:
    made = _import(values)
    assert made.text is None
    found = {(one.id, int(one.path.rsplit(":", 2)[1])) for one in made.findings if one.severity is Severity.ERROR}
    assert (rule, line) in found
    assert all(one.fix for one in made.findings)


def test_a_value_that_the_cluster_file_refuses_is_a_fault_at_its_line_in_the_file() -> None:
    made = _import(_file(_queue(ComputeSettings={"LocalStorage": {"RootVolume": {"Size": 99_999}}})))
    assert made.text is None
    (fault,) = [one for one in made.findings if one.severity is Severity.ERROR]
    assert fault.path.startswith("theirs.yaml:")
    assert "size_gib" in fault.cause


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "GPU-IMP-001"),
        ("- a\n- b\n", "GPU-IMP-001"),
        ("a: [", "GPU-SPEC-002"),
        ("Image: !Ref Os\nScheduling: {}\n", "GPU-SPEC-002"),
        ("Scheduling: {Scheduler: slurm, Scheduler: slurm}\n", "GPU-SPEC-004"),
        ("a: &a [*a]\nScheduling: {}\nImage: {}\n", "GPU-SPEC-002"),
        ("Scheduling: {}\nImage: " + "[" * 60 + "]" * 60, "GPU-SPEC-002"),
        ("AWSTemplateFormatVersion: '2010-09-09'\nResources: {}\n", "GPU-IMP-001"),
    ],
)
def test_hostile_and_foreign_text_is_a_located_fault(text: str, rule: str) -> None:
    made = import_text(text)
    assert made.text is None
    assert made.findings[0].id == rule
    assert made.findings[0].path.startswith("theirs.yaml:")
    assert "version: 1" not in f"{made.findings[0].fix}{made.findings[0].allowed}"
