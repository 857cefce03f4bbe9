"""SageMaker HyperPod -> Amazon EKS or AWS PCS, key by key. botocore's service model is the oracle of CreateCluster."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator

from cdk_gpu_clusters_stacks.importing import Imported
from cdk_gpu_clusters_stacks.importing.draft import Change
from cdk_gpu_clusters_stacks.importing.hyperpod import LOST
from cdk_gpu_clusters_stacks.importing.hyperpod_cli import _OF_ITS_STACKS
from cdk_gpu_clusters_stacks.importing.hyperpod_cli import LOST as LOST_OF_CLI
from foreign_files import FOLDER, ForeignFile, foreign_files, import_text, imported

Values = dict[str, Any]
_ARN = "arn:aws:eks:us-west-2:111122223333:cluster/research"
_LUSTRE = {"FsxLustreConfig": {"DnsName": "fs-0a1b2c3d4e5f60715.fsx.us-west-2.amazonaws.com", "MountName": "abcdefgh"}}


def _group(name: str = "trainers", **changes: object) -> Values:
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 4,
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-mine/src", "OnCreate": "on_create.sh"},
        "ExecutionRole": "arn:aws:iam::111122223333:role/nodes",
        **changes,
    }


def _file(*groups: Values, eks: bool = True, **changes: object) -> Values:
    return {
        "ClusterName": "mine",
        **({"Orchestrator": {"Eks": {"ClusterArn": _ARN}}} if eks else {}),
        "InstanceGroups": list(groups) or [_group()],
        "VpcConfig": {"SecurityGroupIds": ["sg-0a1b2c3d4e5f60714"], "Subnets": ["subnet-0a1b2c3d4e5f60711"]},
        "NodeRecovery": "Automatic",
        **changes,
    }


def _import(values: Values, **place: str) -> Imported:
    made = import_text(json.dumps(values, indent=2), **place)
    assert made.text is not None, made.findings
    return made


def _cluster(values: Values, **place: str) -> Any:
    return yaml.safe_load(_import(values, **place).text or "")


def _fleet(values: Values) -> Any:
    (fleet,) = _cluster(values)["training"]["fleets"].values()
    return fleet


def _texts(made: Imported, change: Change, what: str) -> list[str]:
    return [note.text for note in made.notes if note.change is change and what in note.what]


def test_a_cluster_on_amazon_eks_is_joined_by_its_arn() -> None:
    made = _cluster(_file(), vpc_id="vpc-0a1b2c3d4e5f60710", zone="us-west-2a")
    assert made["orchestrator"] == "eks"
    assert made["region"] == "us-west-2"
    assert made["eks"]["existing"]["cluster_name"] == "research"
    assert made["network"] == {
        "vpc_id": "vpc-0a1b2c3d4e5f60710",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60711"],
        "availability_zone": "us-west-2a",
    }
    assert made["training"]["fleets"]["trainers"] == {
        "instance_type": "p5.48xlarge",
        "nodes": 4,
        "placement": "cluster",
        "efa": True,
    }


def test_slurm_becomes_aws_pcs_with_its_partitions_login_nodes_and_file_systems() -> None:
    storage = [_LUSTRE, {"FsxOpenZfsConfig": {"DnsName": "fs-0a1b2c3d4e5f60716.fsx.us-west-2.amazonaws.com"}}]
    slurm = {"NodeType": "Compute", "PartitionNames": ["gpu"]}
    values = _file(
        _group("head", InstanceType="ml.m5.xlarge", InstanceCount=1, SlurmConfig={"NodeType": "Controller"}),
        _group("people", InstanceType="ml.m5.xlarge", InstanceCount=2, SlurmConfig={"NodeType": "Login"}),
        _group("a", SlurmConfig=slurm, InstanceStorageConfigs=storage),
        _group("b", SlurmConfig=slurm, InstanceStorageConfigs=storage[:1]),
        eks=False,
    )
    made = _cluster(values)
    assert made["orchestrator"] == "pcs"
    assert made["region"] == "us-west-2"
    assert made["pcs"]["queues"] == {"gpu": {"fleets": ["a", "b"]}}
    assert made["pcs"]["login"]["nodes"] == 2
    assert made["pcs"]["accounting"] == {"enabled": True}
    assert {name: fleet["mounts"] for name, fleet in made["training"]["fleets"].items()} == {
        "a": {"/fsx": "fsx", "/home": "openzfs"},
        "b": {"/fsx": "fsx"},
    }
    assert made["data"]["fsx"]["existing_lustre"]["file_system_id"] == "fs-0a1b2c3d4e5f60715"
    assert made["data"]["openzfs"]["existing_openzfs"]["file_system_id"] == "fs-0a1b2c3d4e5f60716"


@pytest.mark.parametrize("name", ["controller-machine", "my-login-group"])
def test_without_slurm_config_the_names_of_the_lifecycle_scripts_say_what_nodes_do(name: str) -> None:
    """A controller with a GPU is no fleet either."""
    made = _cluster(_file(_group(), _group(name, InstanceType="ml.g5.2xlarge", InstanceCount=1), eks=False))
    assert list(made["training"]["fleets"]) == ["trainers"]


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({"CapacityRequirements": {"Spot": {}}}, {"spot": {}}),
        ({"CapacityRequirements": {"OnDemand": {}}}, None),
        ({"TrainingPlanArn": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/spring"}, "capacity_block"),
    ],
)
def test_nodes_are_bought_as_before_or_as_the_nearest_thing_of_ec2(changes: Values, capacity: object) -> None:
    made = _fleet(_file(_group(**changes))).get("capacity")
    assert capacity in made if isinstance(capacity, str) else made == capacity


def test_a_training_plan_is_to_be_bought_anew_as_a_block() -> None:
    values = _file(_group(TrainingPlanArn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/spring"))
    assert "Capacity Block" in _texts(_import(values), Change.REPLACED, "TrainingPlanArn")[0]


def test_the_second_volume_gives_the_root_volume_its_size() -> None:
    volume = {"EbsVolumeConfig": {"VolumeSizeInGB": 500}}
    root = {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": "mine"}}
    made = _import(_file(_group(InstanceStorageConfigs=[root, volume])))
    assert made.text is not None
    assert yaml.safe_load(made.text)["training"]["fleets"]["trainers"]["root_volume"] == {"size_gib": 500}
    assert "encryption_key_arn" in _texts(made, Change.LOST, "VolumeKmsKeyId")[0]


@pytest.mark.parametrize(("given", "efa"), [("efa", 32), ("efa-only", 1), (None, 32)])
def test_addresses_are_counted_as_hyperpod_lays_interfaces_out(given: str | None, efa: int) -> None:
    changes: Values = {} if given is None else {"NetworkInterface": {"InterfaceType": given}}
    better = _texts(_import(_file(_group(**changes))), Change.BETTER, "InstanceGroups[0]")
    assert any(f"takes {efa} addresses" in text for text in better) == (efa > 1)


def test_groups_in_other_subnets_take_those_subnets() -> None:
    own = {"SecurityGroupIds": ["sg-0a1b2c3d4e5f60714"], "Subnets": ["subnet-0a1b2c3d4e5f60799"]}
    made = _cluster(_file(_group(OverrideVpcConfig=own)))
    assert made["network"]["subnet_ids"] == ["subnet-0a1b2c3d4e5f60799"]


def test_the_first_of_several_types_is_taken() -> None:
    group = _group(InstanceRequirements={"InstanceTypes": ["ml.p5en.48xlarge", "ml.p5.48xlarge"]})
    del group["InstanceType"]
    made = _import(_file(group))
    assert "p5en.48xlarge" in (made.text or "")
    assert _texts(made, Change.LOST, "InstanceTypes[1]") == ["a fleet has one instance type: the first one"]


@pytest.mark.parametrize(
    ("values", "rule", "key"),
    [
        (_file(NodeRecovery="None"), "GPU-HYP-007", "NodeRecovery"),
        (_file(_group(InstanceType="ml.p5.48xlarge", LifeCycleConfig={"SourceS3Uri": "s3://mine"})),
         "GPU-HYP-004", "SourceS3Uri"),
        (_file(_group(InstanceType="p5.48xlarge")), "GPU-HYP-001", "InstanceType"),
        (_file(_group(InstanceType="ml.g5.48xlarge", TrainingPlanArn="arn:aws:sagemaker:us-west-2:111122223333:"
                      "training-plan/spring")), "GPU-HYP-012", "TrainingPlanArn"),
    ],
)  # fmt: skip
def test_a_rule_that_the_cluster_breaks_is_at_its_line(values: Values, rule: str, key: str) -> None:
    made = import_text(json.dumps(values, indent=2))
    (found,) = [one for one in made.broken if one.id == rule]
    assert f'"{key}"' in json.dumps(values, indent=2).splitlines()[int(found.path.rsplit(":", 2)[1]) - 1]


def test_a_cluster_as_it_should_be_breaks_no_rule() -> None:
    assert _import(_file()).broken == ()


def test_a_file_without_accelerators_has_nothing_to_import() -> None:
    made = import_text(json.dumps(_file(_group(InstanceType="ml.m5.xlarge"))))
    assert [one.id for one in made.findings] == ["GPU-IMP-004"]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"InstanceType": "${TYPE}"}, "GPU-IMP-003"),
        ({"InstanceCount": "four"}, "GPU-IMP-002"),
        ({"InstanceStorageConfigs": {"EbsVolumeConfig": 1}}, "GPU-IMP-002"),
        ({"SlurmConfig": "Compute"}, "GPU-IMP-002"),
    ],
)
def test_wrong_values_are_located_faults(changes: Values, rule: str) -> None:
    made = import_text(json.dumps(_file(_group(**changes), eks=False), indent=2))
    assert made.text is None
    found = next(one for one in made.findings if one.id == rule)
    assert int(found.path.rsplit(":", 2)[1]) > 1


# The service model, and the file that the CLI writes with all of its keys.


@cache
def _request() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateCluster").input_shape


@pytest.mark.parametrize("path", LOST)
def test_create_cluster_has_the_key_that_is_said_to_be_lost(path: str) -> None:
    shape = _request()
    for name in path.split("."):
        shape = shape.member if shape.type_name == "list" else shape
        assert name in shape.members, path
        shape = shape.members[name]


@pytest.mark.parametrize("file", list(foreign_files("hyperpod/")), ids=lambda file: file.name)
def test_sagemaker_knows_every_key_that_is_not_lost(file: ForeignFile) -> None:
    report = ParamValidator().validate(file.values, _request()).generate_report()
    lost = {note.what.rpartition(".")[2] for note in imported(file.name).notes if note.change is Change.LOST}
    assert {*re.findall(r'Unknown parameter in .*: "(\w+)"', report)} <= lost
    assert report.count("Unknown parameter") == (
        {"eks-g5.json": 2, "slurm-hello.json": 1}.get(file.name.rpartition("/")[2], 0)
    )


@pytest.mark.parametrize("path", [*LOST_OF_CLI, *_OF_ITS_STACKS])
def test_the_cli_writes_the_key_that_is_said_to_be_lost_or_replaced(path: str) -> None:
    written = {line.partition(":")[0].lstrip("# ") for line in (FOLDER / "hyperpod-cli/init.yaml").read_text("utf-8")
               .splitlines()}  # fmt: skip
    first, _, rest = path.partition(".")
    assert first in written
    if rest:
        assert rest in _request().members["InstanceGroups"].member.members


# The CLI.


def _cli(**changes: object) -> Any:
    values = yaml.safe_load((FOLDER / "hyperpod-cli/configured.yaml").read_text("utf-8")) | changes
    made = import_text(yaml.safe_dump(values, sort_keys=False))
    assert made.text is not None, made.findings
    return yaml.safe_load(made.text)


def test_the_cli_makes_a_network_and_a_file_system_unless_it_is_given_some() -> None:
    made = _cli(vpc_id=None, private_subnet_ids=None, eks_private_subnet_ids=None, fsx_file_system_id="",
                create_fsx_stack=True)  # fmt: skip
    assert made["network"] == {"availability_zone": "use2-az1", "cidr": "10.192.0.0/16"}
    assert made["data"] == {
        "fsx": {
            "lustre": {
                "storage_capacity_gib": 1200,
                "throughput_mb_per_s_per_tib": 250,
                "compression": False,
                "lustre_version": "2.15",
            }
        }
    }


def test_the_cli_takes_a_network_and_a_file_system_that_exist() -> None:
    made = _cli()
    assert made["network"]["vpc_id"] == "vpc-0a1b2c3d4e5f60710"
    assert made["data"]["fsx"]["existing_lustre"]["file_system_id"] == "fs-0a1b2c3d4e5f60715"
    assert {"data"} & _cli(fsx_file_system_id=None, create_fsx_stack=False).keys() == set()


def test_groups_of_the_cli_without_accelerators_become_the_system_nodes() -> None:
    assert _cli()["eks"] == {"kubernetes_version": "1.34", "system_nodes": {"nodes": 3}}


def test_a_region_is_that_of_a_zone_id() -> None:
    groups = [{"InstanceCount": 1, "InstanceGroupName": "a", "InstanceType": "ml.g6.xlarge",
               "TargetAvailabilityZoneId": "euw1-az2"}]  # fmt: skip
    assert _cli(instance_group_settings=groups)["region"] == "eu-west-1"
