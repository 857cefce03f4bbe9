"""SageMaker HyperPod stays HyperPod, key by key. botocore's service model is the oracle of CreateCluster."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator

from cdk_gpu_clusters_stacks.importing.draft import Change
from cdk_gpu_clusters_stacks.importing.hyperpod import lost_of_hyperpod
from cdk_gpu_clusters_stacks.importing.hyperpod_cli import _OF_ITS_STACKS, lost_of_hyperpod_cli
from foreign_files import FOLDER, ForeignFile, foreign_files, import_text, imported
from hyperpod_requests import (
    LUSTRE,
    OPENZFS,
    PLAN_ARN,
    Values,
    cluster,
    cluster_of_cli,
    group,
    request,
    taken,
    texts,
    tried,
)


def _parts(values: Values) -> tuple[Any, Any]:
    """The one fleet of a cluster file, and what only HyperPod has of it."""
    made = cluster(values)
    ((name, fleet),) = made["training"]["fleets"].items()
    return fleet, made.get("hyperpod", {}).get("groups", {}).get(name)


def test_a_cluster_on_amazon_eks_stays_one_of_hyperpod() -> None:
    made = cluster(request(), vpc_id="vpc-0a1b2c3d4e5f60710", zone="us-west-2a")
    assert made == {
        "version": 1,
        "name": "mine",
        "region": "us-west-2",
        "orchestrator": "hyperpod-eks",
        "network": {
            "vpc_id": "vpc-0a1b2c3d4e5f60710",
            "subnet_ids": ["subnet-0a1b2c3d4e5f60711"],
            "availability_zone": "us-west-2a",
        },
        "hyperpod": {"node_recovery": True},
        "eks": {
            "existing": {
                "cluster_name": "research",
                "cluster_security_group_id": "sg-0123456789abcdef0",
                "kubernetes_version": "1.34",
            }
        },
        "training": {"fleets": {"trainers": {"instance_type": "p5.48xlarge", "nodes": 4, "efa": True}}},
    }


def test_the_old_cluster_is_in_the_way_of_the_new_one_on_amazon_eks() -> None:
    assert "delete the old one" in texts(taken(request()), Change.REPLACED, "ClusterArn")[0]


def test_slurm_keeps_controller_login_nodes_partitions_and_file_systems() -> None:
    slurm = {"NodeType": "Compute", "PartitionNames": ["gpu", "all"]}
    values = request(
        group("head", InstanceType="ml.m7i.8xlarge", InstanceCount=1, SlurmConfig={"NodeType": "Controller"}),
        group("people", InstanceType="ml.m5.xlarge", InstanceCount=2, SlurmConfig={"NodeType": "Login"},
              InstanceStorageConfigs=[LUSTRE]),
        group("a", SlurmConfig=slurm, InstanceStorageConfigs=[LUSTRE, OPENZFS]),
        group("b", InstanceStorageConfigs=[LUSTRE]),
        eks=False,
    )  # fmt: skip
    made, report = cluster(values), taken(values)
    assert made["orchestrator"] == "hyperpod-slurm"
    assert made["hyperpod"] == {
        "node_recovery": True,
        "controller": {"instance_type": "m7i.8xlarge"},
        "login": {"nodes": 2, "instance_type": "m7i.xlarge", "mounts": {"/fsx": "fsx"}},
        "groups": {"a": {"partition": "gpu"}},
    }
    assert {name: fleet["mounts"] for name, fleet in made["training"]["fleets"].items()} == {
        "a": {"/fsx": "fsx", "/home": "openzfs"},
        "b": {"/fsx": "fsx"},
    }
    assert made["data"]["fsx"]["existing_lustre"]["file_system_id"] == "fs-0a1b2c3d4e5f60715"
    assert made["data"]["openzfs"]["existing_openzfs"]["file_system_id"] == "fs-0a1b2c3d4e5f60716"
    assert "first one" in texts(report, Change.LOST, "PartitionNames[1]")[0]
    assert "m7i.xlarge takes its place" in texts(report, Change.REPLACED, "InstanceGroups[1].InstanceType")[0]


def test_without_login_nodes_none_are_made() -> None:
    values = request(group(), group("controller", InstanceType="ml.c5.xlarge"), eks=False)
    made = cluster(values)["hyperpod"]
    assert made["login"] == {"nodes": 0}
    assert made["controller"] == {"instance_type": "m7i.xlarge"}


def test_a_size_that_m7i_does_not_have_becomes_the_usual_one() -> None:
    values = request(group(), group("controller", InstanceType="ml.t2.micro"), eks=False)
    assert cluster(values)["hyperpod"]["controller"] == {"instance_type": "m7i.12xlarge"}


def test_an_accounting_database_stays() -> None:
    secret = "arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf"
    given = {"Endpoint": "db.example.com", "Port": 3307, "Name": "jobs", "SecretArn": secret}
    slurm = {"Slurm": {"SlurmConfigStrategy": "Managed", "AccountingDatabase": given}}
    values = request(eks=False, Orchestrator=slurm, NodeProvisioningMode="Continuous")
    made = cluster(values)["hyperpod"]
    database = {"endpoint": "db.example.com", "secret_arn": secret, "port": 3307, "name": "jobs"}
    assert (made["accounting_database"], made["continuous_provisioning"]) == (database, True)
    assert "merges" in texts(taken(values), Change.REPLACED, "SlurmConfigStrategy")[0]


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({"CapacityRequirements": {"Spot": {}}}, {"spot": {}}),
        ({"CapacityRequirements": {"OnDemand": {}}}, None),
        ({"TrainingPlanArn": PLAN_ARN}, {"training_plan": PLAN_ARN}),
    ],
)
def test_nodes_are_bought_as_before(changes: Values, capacity: object) -> None:
    values = request(group(**changes))
    assert _parts(values)[0].get("capacity") == capacity
    assert not texts(taken(values), Change.LOST, next(iter(changes)))


def test_a_plan_that_is_a_placeholder_is_to_be_filled_in() -> None:
    made = taken(request(group(TrainingPlanArn="${PLAN}")))
    assert "# CHANGE: the ARN of your training plan (the file has ${PLAN})" in (made.text or "")


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"ThreadsPerCore": 1}, {"threads_per_core": 1}),
        ({"MinInstanceCount": 2}, {"least_nodes": 2}),
        ({"OnStartDeepHealthChecks": ["InstanceStress"]}, {"deep_health_checks": ["InstanceStress"]}),
        ({"ImageReleaseVersion": "1.2.3"}, {"image_release": "1.2.3"}),
        ({"InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 500}}]}, {"volume_gib": 500}),
    ],
)
def test_what_only_hyperpod_has_of_a_group_stays(changes: Values, options: Values) -> None:
    assert _parts(request(group(**changes)))[1] == options


@pytest.mark.parametrize(
    ("given", "image"), [("ami-0a1b2c3d4e5f60717", {"id": "ami-0a1b2c3d4e5f60717"}), ("default", None)]
)
def test_a_custom_image_stays(given: str, image: object) -> None:
    assert _parts(request(group(ImageId=given)))[0].get("image") == image


def test_an_image_release_that_is_a_placeholder_is_the_latest() -> None:
    values = request(group(ImageReleaseVersion="${RELEASE}"))
    assert _parts(values)[1] is None
    assert "latest image" in texts(taken(values), Change.LOST, "ImageReleaseVersion")[0]


def test_keys_of_volumes_are_lost() -> None:
    volume = {"EbsVolumeConfig": {"VolumeSizeInGB": 500, "VolumeKmsKeyId": "mine"}}
    root = {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": "mine"}}
    values = request(group(InstanceStorageConfigs=[root, volume]))
    assert _parts(values)[1] == {"volume_gib": 500}
    assert len(texts(taken(values), Change.LOST, "VolumeKmsKeyId")) == 2


@pytest.mark.parametrize(
    ("given", "eks", "before", "after"),
    [("efa", False, 32, 1), (None, False, 32, 1), ("efa-only", False, None, 1), (None, True, 81, 50)],
)
def test_addresses_are_counted_as_hyperpod_counts_them(
    given: str | None, eks: bool, before: int | None, after: int
) -> None:
    """32 and 81 for p5: Amazon SageMaker AI developer guide, "Prerequisites for using SageMaker HyperPod"."""
    changes: Values = {} if given is None else {"NetworkInterface": {"InterfaceType": given}}
    better = texts(taken(request(group(**changes), eks=eks)), Change.BETTER, "InstanceGroups[0]")
    assert len(better) == (before is not None)
    assert all(f"takes {before} addresses" in text and f"takes {after}," in text for text in better)


@pytest.mark.parametrize(("given", "kept"), [("Automatic", True), ("None", False)])
def test_who_replaces_nodes_stays(given: str, kept: bool) -> None:
    assert cluster(request(NodeRecovery=given))["hyperpod"]["node_recovery"] is kept


def test_continuous_provisioning_is_better_where_the_file_has_none() -> None:
    kept = request(NodeProvisioningMode="Continuous")
    assert cluster(kept)["hyperpod"]["continuous_provisioning"] is True
    said = "SageMaker goes on to add them"
    assert any(said in text for text in texts(taken(request()), Change.BETTER, ""))
    assert any(said in text for text in texts(taken(request(eks=False)), Change.BETTER, ""))
    assert not any(said in text for text in texts(taken(kept), Change.BETTER, ""))


@pytest.mark.parametrize(
    ("given", "percent"),
    [({"Mode": "Enable", "InstanceMemoryAllocationPercentage": 30}, 30), ({"Mode": "Enable"}, 20),
     ({"Mode": "Disable", "InstanceMemoryAllocationPercentage": 30}, None)],
)  # fmt: skip
def test_tiered_checkpoints_stay(given: Values, percent: int | None) -> None:
    assert cluster(request(TieredStorageConfig=given))["hyperpod"].get("tiered_checkpoint_percent") == percent


def test_tiered_checkpoints_are_lost_on_slurm() -> None:
    values = request(eks=False, TieredStorageConfig={"Mode": "Enable", "InstanceMemoryAllocationPercentage": 30})
    assert "tiered_checkpoint_percent" not in cluster(values)["hyperpod"]
    assert "Amazon EKS alone" in texts(taken(values), Change.LOST, "TieredStorageConfig")[0]


def test_nothing_has_no_nodes() -> None:
    values = request(group(InstanceCount=0))
    assert _parts(values)[0]["nodes"] == 1
    assert "0 nodes become 1" in texts(taken(values), Change.REPLACED, "InstanceCount")[0]


@pytest.mark.parametrize("name", ["controller-machine", "my-login-group"])
def test_without_slurm_config_the_names_of_the_lifecycle_scripts_say_what_nodes_do(name: str) -> None:
    """A controller with a GPU is no fleet either."""
    made = cluster(request(group(), group(name, InstanceType="ml.g5.2xlarge", InstanceCount=1), eks=False))
    assert list(made["training"]["fleets"]) == ["trainers"]


def test_groups_in_other_subnets_take_those_subnets() -> None:
    own = {"SecurityGroupIds": ["sg-0a1b2c3d4e5f60714"], "Subnets": ["subnet-0a1b2c3d4e5f60799"]}
    made = cluster(request(group(OverrideVpcConfig=own)))
    assert made["network"]["subnet_ids"] == ["subnet-0a1b2c3d4e5f60799"]


def test_the_first_of_several_types_is_taken() -> None:
    given = group(InstanceRequirements={"InstanceTypes": ["ml.p5en.48xlarge", "ml.p5.48xlarge"]})
    del given["InstanceType"]
    made = taken(request(given))
    assert "p5en.48xlarge" in (made.text or "")
    assert texts(made, Change.LOST, "InstanceTypes[1]") == ["a fleet has one instance type: the first one"]


@pytest.mark.parametrize(
    ("values", "rule", "key"),
    [
        (request(NodeRecovery="None"), "GPU-HYP-007", "NodeRecovery"),
        (request(group(InstanceType="ml.p5.48xlarge", LifeCycleConfig={"SourceS3Uri": "s3://mine"})),
         "GPU-HYP-004", "SourceS3Uri"),
        (request(group(InstanceType="p5.48xlarge")), "GPU-HYP-001", "InstanceType"),
        (request(group(InstanceType="ml.g5.48xlarge", TrainingPlanArn=PLAN_ARN)), "GPU-HYP-012", "TrainingPlanArn"),
    ],
)  # fmt: skip
def test_a_rule_that_the_cluster_breaks_is_at_its_line(values: Values, rule: str, key: str) -> None:
    made = tried(values)
    (found,) = [one for one in made.broken if one.id == rule]
    assert f'"{key}"' in json.dumps(values, indent=2).splitlines()[int(found.path.rsplit(":", 2)[1]) - 1]


def test_a_cluster_as_it_should_be_breaks_no_rule() -> None:
    assert taken(request()).broken == ()


def test_a_file_without_accelerators_has_nothing_to_import() -> None:
    made = tried(request(group(InstanceType="ml.m5.xlarge")))
    assert [one.id for one in made.findings] == ["GPU-IMP-004"]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"InstanceType": "${TYPE}"}, "GPU-IMP-003"),
        ({"InstanceCount": "four"}, "GPU-IMP-002"),
        ({"InstanceStorageConfigs": {"EbsVolumeConfig": 1}}, "GPU-IMP-002"),
        ({"SlurmConfig": "Compute"}, "GPU-IMP-002"),
        ({"ThreadsPerCore": 3}, "GPU-SPEC-008"),
    ],
)
def test_wrong_values_are_located_faults(changes: Values, rule: str) -> None:
    made = tried(request(group(**changes), eks=False))
    assert made.text is None
    found = next(one for one in made.findings if one.id == rule)
    assert int(found.path.rsplit(":", 2)[1]) > 1


# The service model, and the file that the CLI writes with all of its keys.


@cache
def _request() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateCluster").input_shape


@pytest.mark.parametrize("path", sorted({*lost_of_hyperpod("hyperpod-eks"), *lost_of_hyperpod("eks")}))
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


@pytest.mark.parametrize(
    "path", sorted({*lost_of_hyperpod_cli("hyperpod-eks"), *lost_of_hyperpod_cli("eks"), *_OF_ITS_STACKS})
)
def test_the_cli_writes_the_key_that_is_said_to_be_lost_or_replaced(path: str) -> None:
    written = {line.partition(":")[0].lstrip("# ") for line in (FOLDER / "hyperpod-cli/init.yaml").read_text("utf-8")
               .splitlines()}  # fmt: skip
    first, _, rest = path.partition(".")
    assert first in written
    if rest:
        assert rest in _request().members["InstanceGroups"].member.members


# The CLI.


def test_the_cli_makes_a_network_and_a_file_system_unless_it_is_given_some() -> None:
    made = cluster_of_cli(vpc_id=None, private_subnet_ids=None, eks_private_subnet_ids=None, fsx_file_system_id="",
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
    made = cluster_of_cli()
    assert made["network"]["vpc_id"] == "vpc-0a1b2c3d4e5f60710"
    assert made["data"]["fsx"]["existing_lustre"]["file_system_id"] == "fs-0a1b2c3d4e5f60715"
    assert {"data"} & cluster_of_cli(fsx_file_system_id=None, create_fsx_stack=False).keys() == set()


@pytest.mark.parametrize("orchestrator", [None, "eks"])
def test_the_cli_keeps_a_cluster_of_amazon_eks_that_it_did_not_make(orchestrator: str | None) -> None:
    made = cluster_of_cli(orchestrator, create_eks_cluster_stack=False, eks_cluster_name="research")
    assert made["eks"] == {
        "existing": {
            "cluster_name": "research",
            "cluster_security_group_id": "sg-0123456789abcdef0",
            "kubernetes_version": "1.34",
        }
    }
    assert made["network"]["vpc_id"] == "vpc-0a1b2c3d4e5f60710"
    assert "service_subnets" not in made["network"]


def test_a_cluster_of_amazon_eks_that_the_cli_did_not_make_asks_for_what_its_file_does_not_have() -> None:
    values = yaml.safe_load((FOLDER / "hyperpod-cli/configured.yaml").read_text("utf-8"))
    values |= {"create_eks_cluster_stack": False, "vpc_id": None, "private_subnet_ids": None, "eks_cluster_name": None}
    made = import_text(yaml.safe_dump(values, sort_keys=False))
    assert {note.what for note in made.notes if note.change is Change.FILLED} >= {
        "eks.existing.cluster_name",
        "eks.existing.cluster_security_group_id",
        "eks.existing.kubernetes_version",
        "network.vpc_id",
        "network.subnet_ids",
    }
    assert "# CHANGE: its version (the file has 1.34)" in (made.text or "")
    assert any("general has no accelerators" in note.text for note in made.notes if note.change is Change.LOST)
    assert any("delete the old one" in note.text for note in made.notes)


def test_groups_of_the_cli_without_accelerators_become_the_system_nodes() -> None:
    assert cluster_of_cli()["eks"] == {"kubernetes_version": "1.34", "system_nodes": {"nodes": 3}}


def test_a_region_is_that_of_a_zone_id() -> None:
    groups = [{"InstanceCount": 1, "InstanceGroupName": "a", "InstanceType": "ml.g6.xlarge",
               "TargetAvailabilityZoneId": "euw1-az2"}]  # fmt: skip
    assert cluster_of_cli(instance_group_settings=groups)["region"] == "eu-west-1"
