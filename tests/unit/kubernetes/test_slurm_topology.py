"""The job that tells Slinky where nodes are: its script, run by the real kubectl against an API with nodes, and its rights."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.software import slurm_values
from cdk_gpu_clusters.kubernetes.software.slurm_topology import (
    TOPOLOGY_ANNOTATION,
    layer_labels,
    topology_script,
    topology_spec,
)
from kubernetes_pools import check_everywhere
from services.kubernetes import ADMIN, Kubernetes
from services.programs import install_kubectl

TRAIN = node_pool("train", instance_type="p5.48xlarge", node_count=3)
MORE = node_pool("more", instance_type="p4d.24xlarge", node_count=3)
B200 = node_pool("b200", instance_type="p6-b200.48xlarge", node_count=2)
CPU = node_pool("cpu", instance_type="m7i.4xlarge", node_count=2)
PLACES = {"a": ("nn-1", "nn-2", "nn-4"), "b": ("nn-1", "nn-3", "nn-5"), "late": ("nn-1",), "plain": ()}


def job() -> dict[str, Any]:
    (found,) = [one for one in slurm_values([TRAIN, CPU])["extraObjects"] if one["kind"] == "CronJob"]
    container: dict[str, Any] = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real kubectl."""
    return install_kubectl(tmp_path_factory.mktemp("kubectl"))


def run_job(kubectl: Path, cluster: Kubernetes, user: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the job as a pod does, with the rights of a user."""
    path = f"{kubectl.parent}:{os.environ['PATH']}"
    container = job()
    return subprocess.run(
        [*container["command"], *container["args"]],
        env={"PATH": path, "HOME": str(home), "KUBECONFIG": str(cluster.kubeconfig(user))},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_nodes_get_the_switches_above_them_and_those_without_layers_stay_as_they_are(
    kubectl: Path, tmp_path: Path
) -> None:
    with Kubernetes(tmp_path) as cluster:
        for name, layers in PLACES.items():
            cluster.add_node(name, "i-0123456789abcdef0")
            cluster.nodes[name]["metadata"]["labels"] |= dict(zip(layer_labels(TRAIN), layers, strict=False))
        cluster.nodes["b"]["metadata"]["annotations"] = {TOPOLOGY_ANNOTATION: "ec2-3:ec2-3:nn-1:nn-2:nn-4", "own": "1"}
        done = run_job(kubectl, cluster, ADMIN, tmp_path)
        annotations = {name: one["metadata"].get("annotations", {}) for name, one in cluster.nodes.items()}
    assert done.returncode == 0, done.stderr
    expected = {name: topology_spec(TRAIN, cluster.nodes[name]["metadata"]["labels"]) for name in ("a", "b")}
    assert annotations == {
        "a": {TOPOLOGY_ANNOTATION: expected["a"]},
        "b": {TOPOLOGY_ANNOTATION: expected["b"], "own": "1"},
        "late": {},
        "plain": {},
    }
    assert expected["b"] == "ec2-3:ec2-3:nn-1:nn-3:nn-5"


def test_a_job_that_reads_no_nodes_fails(kubectl: Path, tmp_path: Path) -> None:
    with Kubernetes(tmp_path) as cluster:
        done = run_job(kubectl, cluster, "stranger", tmp_path)
    assert done.returncode != 0
    assert "forbidden" in done.stderr


def test_groups_of_one_depth_are_read_together() -> None:
    lines = topology_script([TRAIN, CPU, B200, MORE]).splitlines()
    selectors = [line.split("'")[1] for line in lines if line.startswith("kubectl get")]
    assert selectors == ["gpu-cluster/fleet in (train,more)", "gpu-cluster/fleet in (b200)"]


def test_the_job_may_read_nodes_and_change_their_metadata_and_no_more() -> None:
    objects = slurm_values([TRAIN, CPU])["extraObjects"]
    check_everywhere(objects)
    by_kind = {one["kind"]: one for one in objects}
    assert by_kind["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}
    ]
    subject = by_kind["ClusterRoleBinding"]["subjects"][0]
    pod = by_kind["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert subject["name"] == pod["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
    assert subject["namespace"] == by_kind["CronJob"]["metadata"]["namespace"] == "slurm"


def test_without_layers_there_is_no_job() -> None:
    assert [one["kind"] for one in slurm_values([CPU])["extraObjects"]] == ["StorageClass"]
