"""Clusters of SageMaker HyperPod in a cluster file: one word makes them, and what they have by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster, read_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets

#: A training file with the keys that fleets have in common.
COMMON = """\
version: 1
name: lab
region: us-east-1
orchestrator: WORD
network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }
data:
  corpus:
    lustre: { storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 125, efa: true }
  saves:
    checkpoints: { bucket_name: lab-saves, express_zone_id: use1-az4, express_base_name: lab }
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: on_demand
      mounts: { /fsx: corpus }
      checkpoints: saves
      environment: { NCCL_DEBUG: INFO }
      user_data: setup.sh
      watch: { mode: dry-run }
      tags: { team: a }
"""
WORDS = ("ec2", "eks", "pcs", "batch", "parallelcluster", "hyperpod-slurm", "hyperpod-eks")


def load(folder: Path, text: str) -> ClusterSpec:
    (folder / "setup.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    return load_cluster(file)


def fleet(folder: Path, text: str) -> PlannedFleet:
    [found] = planned_fleets(load(folder, text))
    return found


@pytest.mark.parametrize("word", WORDS)
def test_one_word_puts_a_training_file_on_any_orchestrator(word: str, tmp_path: Path) -> None:
    plan = plan_cluster(load(tmp_path, COMMON.replace("WORD", word)))
    [made] = plan.fleets
    assert made.maximum_nodes == 4
    assert (made.instance_group is not None) == word.startswith("hyperpod")
    assert (plan.kubernetes is not None) == (word in ("eks", "hyperpod-eks"))
    assert (made.stack_name == "lab-hyperpod") == word.startswith("hyperpod")


def test_nodes_get_the_names_of_the_buckets_at_synthesis(tmp_path: Path) -> None:
    made = fleet(tmp_path, COMMON.replace("WORD", "hyperpod-slurm"))
    assert made.static_checkpoints == {
        "CHECKPOINT_S3_URI": "s3://lab-saves/trainers",
        "CHECKPOINT_EXPRESS_S3_URI": "s3://lab--use1-az4--x-s3/trainers",
    }


def test_a_fleet_has_a_partition_on_slurm_and_a_label_on_kubernetes(tmp_path: Path) -> None:
    slurm = fleet(tmp_path, COMMON.replace("WORD", "hyperpod-slurm"))
    pods = fleet(tmp_path, COMMON.replace("WORD", "hyperpod-eks"))
    assert (slurm.partition, dict(slurm.group_labels)) == ("trainers", {})
    assert (pods.partition, dict(pods.group_labels)) == (None, {"gpu-cluster/fleet": "trainers"})


def test_addresses_are_counted_as_hyperpod_counts_them(tmp_path: Path) -> None:
    """Amazon SageMaker AI developer guide: pods of a p5 node take 49 addresses beside its own with efa-only."""
    counts = {
        word: fleet(tmp_path, COMMON.replace("WORD", word)).plan.addresses_per_node
        for word in WORDS
        if word.startswith("hyperpod")
    }
    assert counts == {"hyperpod-slurm": 1, "hyperpod-eks": 50}


def test_the_address_of_the_controller_and_of_login_nodes_is_counted(tmp_path: Path) -> None:
    plan = plan_cluster(load(tmp_path, COMMON.replace("WORD", "hyperpod-slurm")))
    uses = {use.kind: use.addresses for use in plan.network.subnets[0].uses}
    assert (uses["controller"], uses["login-nodes"], uses["nodes"]) == (1, 1, 4)


def test_hyperpod_mounts_and_sets_up_disks_by_itself(tmp_path: Path) -> None:
    [made] = plan_cluster(load(tmp_path, COMMON.replace("WORD", "hyperpod-slurm"))).fleets
    assert not {"lustre", "scratch", "metadata"} & set(made.node.boot_stages)
    assert made.node.root_volume is None
    assert made.cost.usd_per_hour is None


@pytest.mark.parametrize(
    ("word", "section", "expected"),
    [
        ("ec2", "hyperpod: { node_recovery: false }\n", "GPU-SPEC-088"),
        ("hyperpod-slurm", "hyperpod: { groups: { trainer: { least_nodes: 2 } } }\n", "GPU-SPEC-090"),
    ],
)
def test_a_section_without_effect_is_told(word: str, section: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "setup.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    file = tmp_path / "cluster.yaml"
    file.write_text(COMMON.replace("WORD", word) + section, encoding="utf-8")
    assert expected in {one.id for one in read_cluster(file).findings}
