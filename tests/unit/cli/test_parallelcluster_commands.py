"""Commands over a cluster file of AWS ParallelCluster: what works, and what is refused with what to run."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main

_EXAMPLE = Path(__file__).parents[3] / "examples" / "parallelcluster-p5.yaml"
_CLUSTER = """
version: 1
name: lab
region: us-east-1
orchestrator: parallelcluster
network: { availability_zone: us-east-1a }
parallelcluster: { queues: { work: { fleets: [trainers, batch] } } }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }
    batch: { instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 4 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two fleets and a partition over both."""
    (tmp_path / "cluster.yaml").write_text(_CLUSTER)
    return tmp_path / "cluster.yaml"


@pytest.mark.parametrize("partition", ["trainers", "batch", "work"])
def test_jobs_go_to_the_queue_of_a_fleet_or_to_a_partition(
    file: Path, partition: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--cluster-file", str(file), "--nodes", "2", "--dry-run", "--", "hostname")
    assert main(["run", partition, *given]) == 0
    assert f"#SBATCH --partition={partition}\n" in capsys.readouterr().out


def test_a_partition_that_is_not_there_is_refused_with_those_that_are(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "other", "--cluster-file", str(file), "--nodes", "1", "--dry-run", "--", "hostname"]) == 2
    assert "partitions: trainers, batch, work" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("dashboard", "no collector reads nodes of AWS ParallelCluster"),
        ("manifests", "only eks and hyperpod-eks have manifests"),
    ],
)
def test_what_reads_other_nodes_says_what_does_the_same(
    command: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(_EXAMPLE)]) == 2
    assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "then pcluster create-cluster, after the stacks of the file"),
        ("custom_resource: {}, ", "custom resource in the stack lab-parallelcluster; the cluster stays when"),
        ("custom_resource: { delete_with_stack: true }, ", "the cluster goes with this resource"),
    ],
)
def test_the_plan_and_the_report_say_who_makes_the_cluster(
    key: str, says: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(_CLUSTER.replace("parallelcluster: { ", f"parallelcluster: {{ {key}"))
    assert main(["plan", str(file)]) == 0
    assert says in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(file), "-o", str(file.with_name("report.html"))]) == 0
    page = file.with_name("report.html").read_text()
    assert says in unescape(page)
    assert ("made by the deployment" in page) is bool(key)


def test_the_forecast_counts_the_nodes_beside_the_fleets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(_EXAMPLE), "--at", "2026-12-02", "--json"]) == 0
    names = {part["name"] for part in json.loads(capsys.readouterr().out)["parts"]}
    assert {"fleet trainers", "head node", "login nodes"} <= names
