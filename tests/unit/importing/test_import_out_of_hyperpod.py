"""SageMaker HyperPod -> Amazon EKS or AWS PCS, where the user asks for it: nodes leave SageMaker."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters_stacks.importing.draft import Change
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


def _fleet(values: Values) -> Any:
    (fleet,) = cluster(values, "eks")["training"]["fleets"].values()
    return fleet


def test_a_cluster_on_amazon_eks_is_joined_by_its_arn() -> None:
    made = cluster(request(), "eks", vpc_id="vpc-0a1b2c3d4e5f60710", zone="us-west-2a")
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
    assert "hyperpod" not in made


def test_slurm_becomes_aws_pcs_with_its_partitions_login_nodes_and_file_systems() -> None:
    slurm = {"NodeType": "Compute", "PartitionNames": ["gpu"]}
    values = request(
        group("head", InstanceType="ml.m5.xlarge", InstanceCount=1, SlurmConfig={"NodeType": "Controller"}),
        group("people", InstanceType="ml.m5.xlarge", InstanceCount=2, SlurmConfig={"NodeType": "Login"}),
        group("a", SlurmConfig=slurm, InstanceStorageConfigs=[LUSTRE, OPENZFS]),
        group("b", SlurmConfig=slurm, InstanceStorageConfigs=[LUSTRE]),
        eks=False,
    )
    made = cluster(values, "pcs")
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


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({"CapacityRequirements": {"Spot": {}}}, {"spot": {}}),
        ({"CapacityRequirements": {"OnDemand": {}}}, None),
        ({"TrainingPlanArn": PLAN_ARN}, "capacity_block"),
    ],
)
def test_nodes_are_bought_as_before_or_as_the_nearest_thing_of_ec2(changes: Values, capacity: object) -> None:
    made = _fleet(request(group(**changes))).get("capacity")
    assert capacity in made if isinstance(capacity, str) else made == capacity


def test_a_training_plan_is_to_be_bought_anew_as_a_block() -> None:
    made = taken(request(group(TrainingPlanArn=PLAN_ARN)), "eks")
    assert "Capacity Block" in texts(made, Change.REPLACED, "TrainingPlanArn")[0]


def test_the_second_volume_gives_the_root_volume_its_size() -> None:
    volume = {"EbsVolumeConfig": {"VolumeSizeInGB": 500}}
    root = {"EbsVolumeConfig": {"RootVolume": True, "VolumeKmsKeyId": "mine"}}
    values = request(group(InstanceStorageConfigs=[root, volume]))
    assert _fleet(values)["root_volume"] == {"size_gib": 500}
    assert "encryption_key_arn" in texts(taken(values, "eks"), Change.LOST, "VolumeKmsKeyId")[0]


@pytest.mark.parametrize(("given", "efa"), [("efa", 32), ("efa-only", 1), (None, 32)])
def test_addresses_are_counted_as_hyperpod_lays_interfaces_out(given: str | None, efa: int) -> None:
    changes: Values = {} if given is None else {"NetworkInterface": {"InterfaceType": given}}
    better = texts(taken(request(group(**changes)), "eks"), Change.BETTER, "InstanceGroups[0]")
    assert any(f"takes {efa} addresses" in text for text in better) == (efa > 1)


def test_the_cli_becomes_a_cluster_of_amazon_eks() -> None:
    made = cluster_of_cli("eks")
    assert made["orchestrator"] == "eks"
    assert "hyperpod" not in made
    assert made["training"]["fleets"]["trainers"]["root_volume"] == {"size_gib": 1000}


@pytest.mark.parametrize(("eks", "word", "words"), [(True, "pcs", "hyperpod-eks, eks"), (False, "eks", "hyperpod-slurm, pcs"),
                                                    (True, "hyperpod-slurm", "hyperpod-eks, eks")])  # fmt: skip
def test_pods_stay_pods_and_jobs_of_slurm_stay_jobs_of_slurm(eks: bool, word: str, words: str) -> None:
    made = tried(request(eks=eks), word)
    (found,) = made.findings
    assert (found.id, found.got, found.allowed) == ("GPU-IMP-009", word, words)
    assert made.text is None
