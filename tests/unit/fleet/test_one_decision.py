"""A fleet of a cluster file is decided once: by its check, and whatever reads the file afterwards reads that plan."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.rules.capacity import decide_capacity
from cdk_gpu_clusters.rules.capacity_checks import check_capacity
from cdk_gpu_clusters.rules.interfaces import plan_interfaces, uses_efa
from cdk_gpu_clusters.rules.placement import choose_placement
from cdk_gpu_clusters_stacks.manifests import cluster_manifests
from cdk_gpu_clusters_stacks.plan import compare_clusters, plan_cluster
from cdk_gpu_clusters_stacks.preflight.cluster import Cluster
from cdk_gpu_clusters_stacks.spec import ClusterSpec, check_cluster, load_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import decide_fleet
from counted_calls import counted_calls

DECISIONS = (
    instance_type, uses_efa, plan_interfaces, decide_capacity, check_capacity, choose_placement, plan_fleet
)  # fmt: skip
ONCE = {function.__name__: 1 for function in DECISIONS}
HEAD = "version: 1\nname: lab\nregion: us-east-1\n"
NETWORK = "network: { availability_zone: us-east-1a }\n"
TRAINING = "training: { fleets: { one: { instance_type: p5.48xlarge, nodes: 2 } } }\n"
SERVING = """\
inference:
  fleets:
    one:
      instance_type: g6e.24xlarge
      nodes: 30
      server: { image: "vllm/vllm-openai:v0.11.0" }
      load_balancer: { plain_http: true, drain_timeout_seconds: 60 }
"""
#: The instance type of the cluster's own nodes is another one: with an existing cluster none is asked for.
ON_EKS = """\
orchestrator: eks
eks:
  existing: { cluster_name: lab, cluster_security_group_id: sg-0123456789abcdef0, kubernetes_version: "1.34" }
  kubectl: { x86_64: { url: "s3://tools/kubectl", sha256: "%s" } }
""" % ("0" * 64)


@pytest.fixture(autouse=True)
def _nothing_decided_before() -> Iterator[None]:
    decide_fleet.cache_clear()
    yield
    decide_fleet.cache_clear()


def only_loaded(_: ClusterSpec) -> None:
    """Nothing after the load."""


def compared(spec: ClusterSpec) -> object:
    return compare_clusters(spec, spec)


@pytest.mark.parametrize("fleet", [TRAINING, SERVING], ids=["training", "inference"])
@pytest.mark.parametrize("after", [only_loaded, check_cluster, plan_cluster, compared, Cluster.of])
def test_a_fleet_is_decided_once(tmp_path: Path, after: Callable[[ClusterSpec], object], fleet: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + NETWORK + fleet, encoding="utf-8")
    with counted_calls(*DECISIONS) as calls:
        after(load_cluster(file))
    assert calls == ONCE


@pytest.mark.parametrize("after", [only_loaded, check_cluster, plan_cluster, compared, Cluster.of, cluster_manifests])
def test_a_node_group_is_decided_once(tmp_path: Path, after: Callable[[ClusterSpec], object]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + ON_EKS + NETWORK + TRAINING, encoding="utf-8")
    with counted_calls(*DECISIONS) as calls:
        after(load_cluster(file))
    assert calls == ONCE
