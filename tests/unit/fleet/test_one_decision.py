"""The file check and the plan of a cluster decide each fleet once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.rules.capacity_checks import check_capacity
from cdk_gpu_clusters.rules.interfaces import plan_interfaces
from cdk_gpu_clusters.rules.placement import choose_placement
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import ClusterSpec, check_cluster, load_cluster
from counted_calls import counted_calls

DECISIONS = (instance_type, plan_interfaces, check_capacity, choose_placement, plan_fleet)
ONCE = {function.__name__: 1 for function in DECISIONS}
TRAINING = "training: { fleets: { one: { instance_type: p5.48xlarge, nodes: 2 } } }\n"
SERVING = """\
inference:
  fleets:
    one:
      instance_type: g6e.24xlarge
      nodes: 30
      server: { image: "vllm/vllm-openai:v0.11.0" }
      load_balancer: { plain_http: true }
"""


@pytest.mark.parametrize("fleet", [TRAINING, SERVING], ids=["training", "inference"])
@pytest.mark.parametrize("decide", [check_cluster, plan_cluster])
def test_a_fleet_of_a_cluster_file_is_decided_once(
    tmp_path: Path, decide: Callable[[ClusterSpec], object], fleet: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: lab\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n" + fleet,
        encoding="utf-8",
    )
    spec = load_cluster(file)
    with counted_calls(*DECISIONS) as calls:
        decide(spec)
    assert calls == ONCE


def test_a_node_group_of_a_cluster_file_is_decided_once(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    head = "version: 1\nname: lab\nregion: us-east-1\norchestrator: eks\n"
    file.write_text(f"{head}network: {{ availability_zone: us-east-1a }}\n{TRAINING}", encoding="utf-8")
    spec = load_cluster(file)
    with counted_calls(*DECISIONS) as calls:
        check_cluster(spec)
    assert {name: calls[name] for name in ONCE if name != "instance_type"} == {
        name: 1 for name in ONCE if name != "instance_type"
    }
