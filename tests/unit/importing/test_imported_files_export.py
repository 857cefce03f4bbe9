"""Public files, imported and exported again to ParallelCluster, mean the same to ParallelCluster's own schema.

They go over AWS PCS (`exported`), or stay clusters of ParallelCluster (`stayed`). What differs on purpose is in the
report of the import, and is stated here: a volume that the head node shares is on Amazon EFS, home directories are a
store of their own on AWS PCS, and reserved capacity has no placement group of the tool.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.instances import instance_types
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters_stacks.export import ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.export.deployed import AskedOutputs
from cdk_gpu_clusters_stacks.spec import Reading, read_cluster
from foreign_files import ForeignFile, foreign_files, imported
from parallelcluster import installed
from parallelcluster.installed import run_in_parallelcluster

_MEANINGS = Path(installed.__file__).with_name("meanings.py")
_VOLUME = "fsvol-0a1b2c3d4e5f60715"
PARALLELCLUSTER = [file.name for file in foreign_files("parallelcluster/")]
#: AWS's images for plain EC2 and ParallelCluster do not serve p3dn, those of ParallelCluster have no driver of Neuron, and
#: those of EKS serve both.
_ON_EKS_ONLY = {"eksctl/kubeflow-spot.yaml", "eksctl/trn1n-inf2.yaml"}
EKSCTL = [file for file in foreign_files("eksctl/") if file.name not in _ON_EKS_ONLY]
_ACCELERATED = {name for name, kind in instance_types().items() if kind.accelerator is not None}


#: End of the name of an output -> a value of it.
_VALUES = {
    "FileSystemId": "fs-0a1b2c3d4e5f60717",
    "SubnetId": "subnet-0a1b2c3d4e5f60711",
    "GroupId": "sg-0a1b2c3d4e5f60711",
    "Url": "s3://assets/script.sh",
}


def _output(_stack: str, name: str) -> str:
    """An output of a stack that was deployed."""
    return next(value for end, value in _VALUES.items() if name.endswith(end))


def _read(name: str, orchestrator: str | None = None) -> Reading:
    """What a file becomes; clusters of EKS with one word changed, and their section is a warning then."""
    text = imported(name, orchestrator).text
    assert text is not None
    return read_cluster("cluster.yaml", content=text.replace("orchestrator: eks", "orchestrator: ec2").encode())


@cache
def exported(name: str, orchestrator: str | None = None) -> str:
    """A file, imported, and exported as one of ParallelCluster."""
    reading = _read(name, orchestrator)
    assert reading.spec is not None, reading.findings
    volumes = {"homedirs": _VOLUME} if orchestrator is None else {}
    options = ExportOptions(volumes=volumes, outputs=AskedOutputs(_output))
    made = export_parallelcluster(reading.spec, options)
    assert "cluster-config.yaml" in made.files, made.faults
    assert not [fault for fault in made.faults if fault.finding.severity.value == "error"]
    return made.files["cluster-config.yaml"]


@pytest.fixture(scope="module")
def meanings() -> dict[str, Any]:
    """What ParallelCluster understands of the original and of the exported files; one process reads all."""
    # ParallelCluster 3.16 does not take Amazon Linux 2 and Ubuntu 20.04 any more; images are not compared.
    originals = {
        f"original {file.name}": re.sub(r"Os: (alinux2|ubuntu2004)$", "Os: alinux2023", file.text, flags=re.MULTILINE)
        for file in foreign_files("parallelcluster/")
    }
    texts = {
        **originals,
        **{f"exported {name}": exported(name) for name in (*PARALLELCLUSTER, *(file.name for file in EKSCTL))},
        **{f"stayed {name}": exported(name, "parallelcluster") for name in PARALLELCLUSTER},
    }
    done = run_in_parallelcluster(_MEANINGS, stdin=json.dumps([*texts.values()]))
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(texts, json.loads(done.stdout), strict=True))


def _nodes(meaning: Any) -> Counter[tuple[object, ...]]:
    """Least and most nodes by type, capacity, reservation, EFA and placement; nodes that stay count for both."""
    found: Counter[tuple[object, ...]] = Counter()
    for one in meaning["resources"]:
        kind = one["types"][0]
        if kind in _ACCELERATED:
            placed = one["placed"] and not one["reservation"]
            key = (kind, one["capacity"], one["reservation"], one["efa"], placed, one["exclusive"])
            found[(*key, "min")] += one["min"]
            found[(*key, "max")] += one["max"]
    return found


@pytest.mark.parametrize("way", ["exported", "stayed"])
@pytest.mark.parametrize("name", PARALLELCLUSTER)
def test_nodes_mean_the_same_to_parallelcluster(name: str, way: str, meanings: dict[str, Any]) -> None:
    assert _nodes(meanings[f"{way} {name}"]) == _nodes(meanings[f"original {name}"])


@pytest.mark.parametrize("name", PARALLELCLUSTER)
def test_nodes_stay_as_many_compute_resources(name: str, meanings: dict[str, Any]) -> None:
    """Nodes that stay and nodes that come are one compute resource still, unlike on the way over AWS PCS."""
    before = [one for one in meanings[f"original {name}"]["resources"] if one["types"][0] in _ACCELERATED]
    assert len(meanings[f"stayed {name}"]["resources"]) == len(before)


@pytest.mark.parametrize("name", PARALLELCLUSTER)
def test_what_is_around_the_nodes_stays_the_same_to_parallelcluster(name: str, meanings: dict[str, Any]) -> None:
    before, after = meanings[f"original {name}"], meanings[f"stayed {name}"]
    assert (after["logins"], after["key"]) == (before["logins"], before["key"])
    # Nodes that never end by themselves are lost, with a line of the report.
    assert after["idle_minutes"] == (10 if before["idle_minutes"] == -1 else before["idle_minutes"])
    assert after["tags"].items() >= before["tags"].items()


def _stores(meaning: Any) -> dict[str, tuple[str, str | None]]:
    return {one["directory"]: (one["kind"], one["id"]) for one in meaning["storage"]}


@pytest.mark.parametrize("way", ["exported", "stayed"])
@pytest.mark.parametrize("name", PARALLELCLUSTER)
def test_directories_mean_the_same_to_parallelcluster(name: str, way: str, meanings: dict[str, Any]) -> None:
    before, after = _stores(meanings[f"original {name}"]), _stores(meanings[f"{way} {name}"])
    assert {*after} == {*before, *(["/home"] if way == "exported" else [])}
    for directory, (kind, file_system) in before.items():
        assert after[directory][0] == ("EFS" if kind == "EBS" else kind)
        assert file_system is None or after[directory][1] == file_system


def _of_eksctl(values: Any) -> Iterable[tuple[tuple[object, ...], int]]:
    for one in [*values.get("managedNodeGroups", ()), *values.get("nodeGroups", ())]:
        kind = one.get("instanceType") or one["instancesDistribution"]["instanceTypes"][0]
        if kind not in _ACCELERATED:
            continue
        is_block, is_spot = "instanceMarketOptions" in one, "instancesDistribution" in one
        capacity = "CAPACITY_BLOCK" if is_block else "SPOT" if is_spot else "ONDEMAND"
        reserved = "cr-0123456789abcdef0" if "capacityReservation" in one else None
        efa = bool(one.get("efaEnabled")) and instance_types()[kind].supports_efa
        key = (kind, capacity, reserved, efa, bool(one.get("efaEnabled")) and not reserved, False)
        yield (*key, "min"), one["desiredCapacity"] if is_block else one.get("minSize", 0)
        yield (*key, "max"), one["desiredCapacity"] if is_block else one["maxSize"]


@pytest.mark.parametrize("file", EKSCTL, ids=lambda file: file.name)
def test_nodes_of_eksctl_mean_the_same_to_parallelcluster(file: ForeignFile, meanings: dict[str, Any]) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    for key, count in _of_eksctl(file.values):
        expected[key] += count
    assert _nodes(meanings[f"exported {file.name}"]) == expected


def test_twenty_files_come_back_and_two_have_no_image_outside_eks() -> None:
    assert len(PARALLELCLUSTER) + len(EKSCTL) >= 20
    assert {one.id for one in _read("eksctl/kubeflow-spot.yaml").findings if one.severity is Severity.ERROR} == {
        "GPU-AMI-003"
    }
