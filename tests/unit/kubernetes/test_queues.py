"""Queues of Kueue for groups of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue.instances import has_topology, network_layers, topology_labels
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.mig import mig_fan_out
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.rules.mig import MigStrategy
from kubernetes_pools import (
    MIXED,
    check_everywhere,
    containers,
    kinds,
    number,
    pool_of,
    requests,
    slices,
    trainers,
)

DEV = node_pool("dev", instance_type="g5.xlarge", node_count=3)


def quotas(objects: list[dict[str, Any]], flavor: str) -> dict[str, Any]:
    (queue,) = (one for one in objects if one["kind"] == "ClusterQueue")
    (group,) = queue["spec"]["resourceGroups"]
    (found,) = (one for one in group["flavors"] if one["name"] == flavor)
    # Kueue wants all resources of a group in each flavor, in one order.
    assert [one["name"] for one in found["resources"]] == group["coveredResources"]
    return {one["name"]: number(one["nominalQuota"]) for one in found["resources"]}


def test_groups_queues_and_topologies_are_objects_of_kueue() -> None:
    objects = queues([trainers(), slices(MIXED), DEV], namespaces=["default", "team"])
    check_everywhere(objects)
    assert kinds(objects) == [
        *["Topology"] * 2,
        *["ResourceFlavor"] * 3,
        "ClusterQueue",
        *["LocalQueue"] * 2,
    ]
    assert [one["metadata"].get("namespace") for one in objects] == [*[None] * 6, "default", "team"]
    assert all(one["spec"]["clusterQueue"] == "gpu-cluster" for one in objects[-2:])


def test_a_flavor_is_the_nodes_of_a_group() -> None:
    flavor = queues([DEV])[1]["spec"]
    assert flavor["nodeLabels"] == {"gpu-cluster/fleet": "dev"}
    assert flavor["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    ]
    assert flavor["topologyName"] == "hosts"


def test_quotas_are_what_the_nodes_of_each_group_have() -> None:
    objects = queues([trainers(), slices(MIXED, node_count=2)])
    ours = quotas(objects, "trainers")
    assert (ours["nvidia.com/gpu"], ours["vpc.amazonaws.com/efa"]) == (128, 512)
    assert ours["nvidia.com/mig-1g.5gb"] == 0
    theirs = quotas(objects, "slices")
    assert (theirs["nvidia.com/gpu"], theirs["vpc.amazonaws.com/efa"], theirs["hugepages-2Mi"]) == (0, 0, 0)
    assert [theirs[f"nvidia.com/mig-{name}"] for name in ("1g.5gb", "2g.10gb", "3g.20gb")] == [32, 16, 16]


def test_slices_that_are_shown_as_gpus_count_as_gpus() -> None:
    assert quotas(queues([slices(strategy=MigStrategy.SINGLE)]), "slices")["nvidia.com/gpu"] == 56


@pytest.mark.parametrize(
    "pool", [trainers(), slices(MIXED), slices(), pool_of("g6e.48xlarge"), DEV], ids=lambda one: one.name
)
def test_a_job_that_fills_its_group_fits_the_quota(pool: Any) -> None:
    if pool.mig is None:
        objects = torchrun_job("job", pool, node_count=pool.node_count, image="a:1", command=["train.py"])
    else:
        objects = mig_fan_out("job", pool, image="a:1")
    wanted: dict[str, Any] = {}
    for item in objects:
        spec = item["spec"].get("replicatedJobs", [{"template": item}])[0]["template"]["spec"]
        (container,) = containers(item)
        for name, value in requests(container).items():
            wanted[name] = wanted.get(name, 0) + value * spec["parallelism"]
    given = quotas(queues([pool]), pool.name)
    # A resource that no quota covers would keep the job out for ever.
    assert set(wanted) <= set(given)
    assert {name: value for name, value in wanted.items() if value > given[name]} == {}


def test_topologies_go_from_the_top_of_the_network_to_the_host() -> None:
    layers = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)]
    for name, count in {"p5.48xlarge": 3, "p6-b300.48xlarge": 4, "g6.48xlarge": 0, "g6e.48xlarge": 0}.items():
        topology = queues([pool_of(name)])[0]
        found = [one["nodeLabel"] for one in topology["spec"]["levels"]]
        assert found == [*layers[:count], "kubernetes.io/hostname"], name


def test_a_group_whose_nodes_come_for_pods_has_quotas_and_no_topology() -> None:
    """Kueue places pods on nodes that exist: with a topology, no job would get its first node."""
    scaled = node_pool("scaled", instance_type="p5.48xlarge", node_count=4, scales=True)
    objects = queues([trainers(), scaled])
    check_everywhere(objects)
    flavors = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "ResourceFlavor"}
    assert flavors["trainers"]["topologyName"] == "aws-network-3"
    assert "topologyName" not in flavors["scaled"]
    assert quotas(objects, "scaled")["nvidia.com/gpu"] == 32
    assert kinds(queues([scaled])) == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]
    (job,) = torchrun_job("job", scaled, node_count=2, image="a:1", command=["train.py"])
    check_everywhere([job])
    assert "topology" not in str(job)
    with pytest.raises(ConfigError, match=r"GPU-K8S-015.*nodes that exist"):
        torchrun_job("job", scaled, node_count=2, image="a:1", command=["train.py"], same_layer=3)


def test_where_ec2_tells_no_topology_nodes_are_placed_by_hosts_alone() -> None:
    assert has_topology("us-gov-west-1")
    assert not has_topology("cn-north-1")
    pool = pool_of("p5.48xlarge", network_topology=False)
    topology = queues([pool])[0]
    assert [one["nodeLabel"] for one in topology["spec"]["levels"]] == ["kubernetes.io/hostname"]
    (job,) = torchrun_job("job", pool, node_count=2, image="a:1", command=["train.py"])
    assert "kubernetes.io/hostname" in str(job)
    assert "network-node-layer" not in str(job)
    with pytest.raises(ConfigError, match="GPU-K8S-015"):
        torchrun_job("job", pool, node_count=2, image="a:1", command=["train.py"], same_layer=3)


def test_layers_are_known_for_types_that_ec2_lists_and_no_others() -> None:
    listed = {name for name, one in instance_types().items() if network_layers(one)}
    assert {"p5.48xlarge", "p4d.24xlarge", "trn1.2xlarge", "g6e.xlarge", "p6e-gb200.36xlarge"} <= listed
    assert not {"p5.4xlarge", "trn2.3xlarge", "g5.48xlarge", "g6.48xlarge", "m8g.4xlarge"} & listed
    # Nodes of these become ready without labels: Kueue would leave them out.
    assert topology_labels(instance_types()["g6e.48xlarge"]) == ()


def test_faults_of_groups_and_names_are_told_at_once() -> None:
    empty = node_pool("empty", instance_type="g5.xlarge", node_count=0)
    odd = node_pool("Odd", instance_type="g5.xlarge", node_count=1)
    with pytest.raises(ConfigError) as caught:
        queues([DEV, DEV, empty, odd], namespaces=["No"], queue="no_", cluster_queue="")
    found = [(finding.id, finding.path) for finding in caught.value.findings]
    assert found == [
        ("GPU-K8S-014", "pools"),
        ("GPU-K8S-014", "pools"),
        ("GPU-K8S-001", "pools[Odd]"),
        ("GPU-K8S-001", "namespaces"),
        ("GPU-K8S-001", "queue"),
        ("GPU-K8S-001", "cluster_queue"),
    ]
    with pytest.raises(ConfigError, match="0 groups"):
        queues([])
