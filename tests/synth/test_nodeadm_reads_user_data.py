"""nodeadm understands the NodeConfig of every kind of EKS node, and takes it together with what EKS adds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import aws_eks as eks

from cdk_gpu_clusters import EksCluster, NodeConfig, NodeRole, NodeUserData, Orchestrator
from nodeadm import FROM_EKS, node_configs, read_by_nodeadm
from stack_fixtures import Site

MANAGED, SELF = Orchestrator.EKS_MANAGED, Orchestrator.EKS_SELF_MANAGED
CLUSTER = EksCluster(
    name="training",
    endpoint="https://1.gr7.us-east-1.eks.amazonaws.com",
    certificate_authority="LS0t",
    service_cidr="10.100.0.0/16",
)
KUBELET = {
    "maxPods": 29,
    "topologyManagerPolicy": "single-numa-node",
    "cpuManagerPolicy": "static",
    "featureGates": {"MemoryManager": True},
    "evictionHard": {"memory.available": "5%"},
    "allowedUnsafeSysctls": ["net.core.*"],
}
ON_A_MANAGED_NODE = {
    "nothing but disks": NodeConfig(),
    "fewer pods": NodeConfig(kubelet_config={"maxPods": 29}),
    "kubelet": NodeConfig(kubelet_config=KUBELET),
}
ON_A_NODE_OF_ONES_OWN = {
    "the cluster": NodeConfig(cluster=CLUSTER),
    "labels and taints": NodeConfig(
        cluster=CLUSTER,
        labels={"gpu-cluster/fleet": "trainers", "gpu-cluster/gpu": "H100"},
        taints=("nvidia.com/gpu=true:NoSchedule", "dedicated:NoExecute"),
    ),
    "kubelet": NodeConfig(cluster=CLUSTER, kubelet_config=KUBELET, kubelet_flags=("--v=4",)),
}


def documents(site: Site, orchestrator: Orchestrator, config: NodeConfig, **options: Any) -> list[dict[str, Any]]:
    made = NodeUserData(
        site.stack,
        "Nodes",
        instance_type="p5.48xlarge",
        orchestrator=orchestrator,
        role=NodeRole(site.stack, "Role"),
        node_config=config,
        **options,
    )
    return node_configs(made.text)


@pytest.mark.parametrize("config", ON_A_MANAGED_NODE.values(), ids=ON_A_MANAGED_NODE)
def test_a_managed_node_adds_its_disks_and_its_kubelet_to_what_eks_says(site: Site, config: NodeConfig) -> None:
    [own] = documents(site, MANAGED, config)
    assert "cluster" not in own["spec"]
    spec = read_by_nodeadm([own, FROM_EKS])
    assert spec["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert spec["cluster"]["name"] == "lab"
    # The order of the two parts is EKS's to choose: the kubelet's settings that it has none of stay in both.
    for order in ([own, FROM_EKS], [FROM_EKS, own]):
        found = read_by_nodeadm(order)["kubelet"]["config"]
        theirs = FROM_EKS["spec"]["kubelet"]["config"]
        wanted = {name: value for name, value in config.kubelet_config.items() if name not in theirs}
        assert {name: value for name, value in found.items() if name not in theirs} == wanted


@pytest.mark.parametrize("config", ON_A_NODE_OF_ONES_OWN.values(), ids=ON_A_NODE_OF_ONES_OWN)
@pytest.mark.parametrize("scratch", [True, False])
def test_a_node_of_ones_own_says_everything_itself(site: Site, config: NodeConfig, scratch: bool) -> None:
    spec = read_by_nodeadm(documents(site, SELF, config, scratch=scratch))
    assert spec["cluster"] == {
        "name": "training",
        "apiServerEndpoint": "https://1.gr7.us-east-1.eks.amazonaws.com",
        "certificateAuthority": "LS0t",
        "cidr": "10.100.0.0/16",
    }
    assert ("instance" in spec) is scratch
    assert spec.get("kubelet", {}).get("config", {}) == config.kubelet_config
    flags = spec.get("kubelet", {}).get("flags", [])
    assert len(flags) == bool(config.labels) + bool(config.taints) + len(config.kubelet_flags)


def test_a_managed_node_with_nothing_to_say_has_no_document(site: Site) -> None:
    assert documents(site, MANAGED, NodeConfig(), scratch=False) == []


def test_a_cluster_of_cdk_is_told_by_references(site: Site) -> None:
    cluster = eks.Cluster.from_cluster_attributes(
        site.stack,
        "Cluster",
        cluster_name="training",
        cluster_endpoint="https://1.gr7.us-east-1.eks.amazonaws.com",
        cluster_certificate_authority_data="LS0t",
    )
    config = NodeConfig(cluster=EksCluster.of(cluster, service_cidr="10.100.0.0/16"))
    assert read_by_nodeadm(documents(site, SELF, config))["cluster"]["certificateAuthority"] == "LS0t"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cluster/certificateAuthority", ""),
        ("cluster/certificateAuthority", "-----BEGIN CERTIFICATE-----"),
        ("cluster/cidr", "172.20.0.0/33"),
        ("cluster/endpoint", "https://1"),
        ("instance/localStorage/strategy", "raid0"),
        ("instance/localStorage/disabledMounts", ["/var/lib/kubelet"]),
        ("kubelet/labels", {"a": "b"}),
        ("kubelet/flags", "--v=4"),
        ("kubelet/flags", ["v=4"]),
    ],
)
def test_what_nodeadm_refuses_is_refused_here(path: str, value: object) -> None:
    wrong = json.loads(json.dumps(FROM_EKS))
    *parents, last = path.split("/")
    place = wrong["spec"]
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    with pytest.raises((AssertionError, ValueError)):
        read_by_nodeadm([wrong])
