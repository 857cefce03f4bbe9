"""ParallelCluster, key by key: what stands for it, what is lost, and which faults stop an import.

It becomes AWS PCS, or stays ParallelCluster with `--to parallelcluster`.
"""

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


def _import(values: Values, orchestrator: str | None = None) -> Imported:
    text = yaml.safe_dump(values, sort_keys=False)
    return import_text(text, orchestrator=orchestrator, zone="us-east-1a", vpc_id="vpc-0a1b2c3d4e5f60718")


def _cluster(values: Values, orchestrator: str | None = None) -> Any:
    made = _import(values, orchestrator)
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


@pytest.mark.parametrize("orchestrator", ["pcs", "parallelcluster"])
def test_health_checks_before_jobs_are_replaced_and_those_that_are_off_are_not(orchestrator: str) -> None:
    checks: Values = {"HealthChecks": {"Gpu": {"Enabled": True}}}
    for values in (_file(_queue(**checks)), _file(_queue(_resource(**checks)))):
        (text,) = _notes(_import(values, orchestrator), Change.REPLACED, "HealthChecks.Gpu.Enabled")
        assert "level 2 before each job" in text
        assert "level 1 at the boot" in text
    made = _import(_file(_queue(HealthChecks={"Gpu": {"Enabled": False}})), orchestrator)
    assert made.text is not None
    assert [note for note in made.notes if "HealthChecks" in note.what] == []


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


@pytest.mark.parametrize("orchestrator", ["pcs", "parallelcluster"])
@pytest.mark.parametrize("others", [[], [_queue()]], ids=["alone", "beside another queue"])
@pytest.mark.parametrize("kind", ["CAPACITY_BLOCK", "ONDEMAND"])
def test_nodes_whose_type_only_their_reservation_has_are_not_lost(
    kind: str, others: list[Values], orchestrator: str
) -> None:
    target = {"CapacityReservationId": "cr-0a1b2c3d4e5f60718"}
    resource = {"Name": "block", "MinCount": 2, "MaxCount": 2, "CapacityReservationTarget": target}
    made = _import(_file(*others, _queue(resource, Name="block", CapacityType=kind)), orchestrator)
    assert made.text is None
    (fault,) = made.findings
    assert (fault.id, fault.severity, fault.allowed) == (
        "GPU-IMP-010", Severity.ERROR, "the type is that of reservation cr-0a1b2c3d4e5f60718"
    )  # fmt: skip
    assert fault.cause.startswith(f"Scheduling.SlurmQueues[{len(others)}].ComputeResources[0]: ")
    assert fault.path.startswith("theirs.yaml:")
    assert "describe-capacity-reservations --capacity-reservation-ids cr-0a1b2c3d4e5f60718" in fault.fix
    assert "add InstanceType" in fault.fix


def test_nodes_without_a_type_and_a_reservation_are_a_fault_too() -> None:
    (fault,) = _import(_file(_queue({"Name": "nodes", "MaxCount": 2}), _queue(Name="other"))).findings
    assert (fault.id, fault.fix) == ("GPU-IMP-010", "add InstanceType to a copy of the file")


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


# `--to parallelcluster`.

_STAYS = "parallelcluster"


def _section(values: Values) -> Any:
    return _cluster(values, _STAYS)["parallelcluster"]


def test_a_cluster_stays_one_of_parallelcluster() -> None:
    assert _cluster(_file(), _STAYS) == {
        "version": 1,
        "name": "theirs",
        "region": "us-east-1",
        "orchestrator": "parallelcluster",
        "network": {
            "vpc_id": "vpc-0a1b2c3d4e5f60718",
            "subnet_ids": [SUBNET],
            "availability_zone": "us-east-1a",
        },
        "parallelcluster": {"head_node": {"instance_type": "m7i.large"}},
        "training": {
            "fleets": {
                "gpu": {
                    "instance_type": "p5.48xlarge",
                    "min_nodes": 0,
                    "max_nodes": 4,
                    "placement": "cluster",
                    "efa": True,
                    "image": {"os": "ubuntu-24.04"},
                }
            }
        },
    }


def test_nodes_that_stay_and_nodes_that_come_are_one_fleet_of_parallelcluster() -> None:
    made = _cluster(_file(_queue(_resource(MinCount=2, MaxCount=8))), _STAYS)
    (fleet,) = made["training"]["fleets"].values()
    assert (fleet["min_nodes"], fleet["max_nodes"]) == (2, 8)


def test_a_price_limit_of_spot_stays() -> None:
    queue = _queue(_resource(SpotPrice=20.5), CapacityType="SPOT")
    (fleet,) = _cluster(_file(queue), _STAYS)["training"]["fleets"].values()
    assert fleet["capacity"] == {"spot": {"max_price_usd_per_hour": 20.5}}


def test_a_queue_with_several_fleets_is_a_partition_over_theirs() -> None:
    queue = _queue(_resource(Name="a"), _resource(Name="b"), JobExclusiveAllocation=True)
    made = _import(_file(queue), _STAYS)
    assert _section(_file(queue))["queues"] == {
        "gpu": {"fleets": ["gpu-a", "gpu-b"], "slurm_settings": {"OverSubscribe": "EXCLUSIVE"}}
    }
    assert any("gpu-a, gpu-b" in note.text for note in made.notes if note.change is Change.REPLACED)


def test_settings_stay_but_those_that_parallelcluster_sets() -> None:
    """JobAcctGatherType is in SLURM_SETTINGS_DENY_LIST of aws-parallelcluster 3.16.1."""
    rows = [{"JobCompType": "jobcomp/filetxt"}, {"JobAcctGatherType": "jobacct_gather/linux"},
            {"PartitionName": "all", "Nodes": "ALL"}]  # fmt: skip
    slurm = {"ScaledownIdletime": 30, "CustomSlurmSettings": rows}
    queue = _queue(_resource(DynamicNodePriority=5, CustomSlurmSettings={"Feature": "fast"}),
                   CustomSlurmSettings={"MaxTime": "60"})  # fmt: skip
    values = _file(queue, slurm=slurm)
    section = _section(values)
    assert section["slurm_settings"] == {"JobCompType": "jobcomp/filetxt"}
    assert section["scale_down_idle_minutes"] == 30
    assert section["queues"]["gpu"]["slurm_settings"] == {"MaxTime": "60"}
    assert section["node_settings"]["gpu"] == {"Feature": "fast", "Weight": "5"}
    made = _import(values, _STAYS)
    assert _notes(made, Change.LOST, "JobAcctGatherType") == [
        "ParallelCluster sets this itself at the level of the cluster"
    ]
    assert "queues" in _notes(made, Change.LOST, "CustomSlurmSettings[2]")[0]


@pytest.mark.parametrize(
    ("given", "kept"),
    [("m7i.2xlarge", "m7i.2xlarge"), ("m5.4xlarge", "m7i.4xlarge"), ("c6gn.2xlarge", None), ("t2.nano", "m7i.xlarge")],
)
def test_the_head_node_keeps_its_size(given: str, kept: str | None) -> None:
    """The last but one has a processor of another architecture than the nodes, and is refused."""
    made = _import(_file(HeadNode={"InstanceType": given}), _STAYS)
    if kept is None:
        assert "GPU-PCL-011" in {one.id for one in made.findings}
        return
    assert yaml.safe_load(made.text or "")["parallelcluster"]["head_node"]["instance_type"] == kept


@pytest.mark.parametrize(("given", "kept"), [(None, None), ("203.0.113.0/24", None), ("10.1.0.0/16", "10.1.0.0/16")])
def test_ssh_stays_open_to_the_inside_only(given: str | None, kept: str | None) -> None:
    ssh = {"KeyName": "mine", **({"AllowedIps": given} if given else {})}
    values = _file(HeadNode={"InstanceType": "m7i.large", "Ssh": ssh})
    assert _section(values)["head_node"].get("ssh_cidr") == kept
    better = [note.text for note in _import(values, _STAYS).notes if note.change is Change.BETTER]
    assert any("SSH of the head node" in text for text in better) == (kept is None)


def test_login_nodes_are_one_pool() -> None:
    pools = [{"Name": "a", "Count": 2, "InstanceType": "m7i.xlarge"}, {"Name": "b", "Count": 1}]
    values = _file(LoginNodes={"Pools": pools})
    assert _section(values)["login"] == {"nodes": 2, "instance_type": "m7i.xlarge"}
    assert _notes(_import(values, _STAYS), Change.LOST, "Pools[1]")


def test_an_own_image_of_parallelcluster_stays() -> None:
    first, second = _queue(Image={"CustomAmi": "ami-0a1b2c3d4e5f60717"}), _queue(Name="other")
    values = _file(first, second, Image={"Os": "ubuntu2404", "CustomAmi": "ami-0a1b2c3d4e5f60718"})
    fleets = _cluster(values, _STAYS)["training"]["fleets"]
    assert fleets["gpu"]["image"] == {"id": "ami-0a1b2c3d4e5f60717", "os": "ubuntu-24.04"}
    assert fleets["other"]["image"] == {"id": "ami-0a1b2c3d4e5f60718", "os": "ubuntu-24.04"}


@pytest.mark.parametrize(("given", "kept"), [("fsvol-0a1b2c3d4e5f60715", "fsvol-0a1b2c3d4e5f60715"),
                                             ("${VOLUME}", "fsvol-0123456789abcdef0")])  # fmt: skip
def test_a_volume_of_openzfs_is_mounted_by_its_id(given: str, kept: str) -> None:
    store = {
        "Name": "homes",
        "StorageType": "FsxOpenZfs",
        "MountDir": "home2",
        "FsxOpenZfsSettings": {"VolumeId": given},
    }
    assert _section(_file(SharedStorage=[store]))["volumes"] == {"homes": kept}


def test_parallelcluster_does_not_become_amazon_eks() -> None:
    (found,) = _import(_file(), "eks").findings
    assert (found.id, found.allowed) == ("GPU-IMP-009", "pcs, parallelcluster")
