"""What nodeadm is told, against its schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.node.kubernetes_node import EksCluster, NodeConfig, check_node_config, node_config_text
from kubernetes_schemas import WrongObjectsError
from nodeadm import check_documents

CLUSTER = EksCluster(
    name="${Token[Name.1]}",
    endpoint="${Token[Url.2]}",
    certificate_authority="${Token[Ca.3]}",
    service_cidr="10.100.0.0/16",
)
ALL = NodeConfig(
    cluster=CLUSTER,
    labels={
        "team": "research",
        "example.com/tier": "",
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
    },
    taints=("nvidia.com/gpu=true:NoSchedule", "dedicated:NoExecute"),
    kubelet_config={"topologyManagerPolicy": "single-numa-node", "featureGates": {"X": True}, "maxPods": 58},
    kubelet_flags=("--v=4",),
)


def document(config: NodeConfig, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node_config_text(config, **options))
    check_documents([found])
    return found


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (ALL, {"local_storage": "RAID0"}),
        (NodeConfig(cluster=CLUSTER), {}),
        (NodeConfig(), {"local_storage": "RAID0"}),
        (NodeConfig(kubelet_config={"maxPods": 58}), {}),
        (NodeConfig(kubelet_flags=("--v=4",)), {}),
    ],
)
def test_what_is_written_is_what_nodeadm_reads(config: NodeConfig, options: dict[str, Any]) -> None:
    assert document(config, **options)["spec"]


def test_the_schema_refuses_what_nodeadm_does_not_know() -> None:
    wrong = json.loads(node_config_text(ALL))
    wrong["spec"]["kubelet"]["labels"] = {}
    with pytest.raises(WrongObjectsError, match="'labels' was unexpected"):
        check_documents([wrong])


def test_nothing_to_say_is_no_part() -> None:
    assert node_config_text(NodeConfig()) == ""


def test_labels_and_taints_are_flags_of_kubelet_before_the_users_own() -> None:
    assert document(ALL)["spec"]["kubelet"]["flags"] == [
        "--node-labels=team=research,example.com/tier=,node.kubernetes.io/exclude-from-external-load-balancers=true",
        "--register-with-taints=nvidia.com/gpu=true:NoSchedule,dedicated:NoExecute",
        "--v=4",
    ]


def test_tokens_stay_as_they_are() -> None:
    text = node_config_text(ALL)
    for token in (CLUSTER.name, CLUSTER.endpoint, CLUSTER.certificate_authority):
        assert f'"{token}"' in text


@pytest.mark.parametrize("bootstrapped", [True, False])
def test_all_there_is_can_be_said_with_the_cluster(bootstrapped: bool) -> None:
    assert check_node_config(ALL, bootstrapped=bootstrapped) == []


def test_a_managed_group_takes_the_kubelet_configuration_only() -> None:
    assert check_node_config(NodeConfig(kubelet_config={"maxPods": 58}), bootstrapped=True) == []
    [finding] = check_node_config(
        NodeConfig(labels={"a": "b"}, taints=("a:NoExecute",), kubelet_flags=("--v=4",)), bootstrapped=True
    )
    assert (finding.id, finding.severity) == ("GPU-EKS-002", Severity.ERROR)
    assert finding.got == "labels, taints, kubelet_flags"


@pytest.mark.parametrize(
    ("labels", "taints"),
    [
        ({"kubernetes.io/role": "gpu"}, ()),
        ({"node-role.kubernetes.io/gpu": ""}, ()),
        ({"a b": "c"}, ()),
        ({"-a": "c"}, ()),
        ({"a": "b c"}, ()),
        ({"a": "b,c=d"}, ()),
        ({}, ("gpu",)),
        ({}, ("gpu=true",)),
        ({}, ("gpu=true:Never",)),
        ({}, ("gpu=a=b:NoSchedule",)),
    ],
)
def test_labels_with_which_kubelet_would_not_start_are_refused(labels: dict[str, str], taints: tuple[str, ...]) -> None:
    config = NodeConfig(cluster=CLUSTER, labels=labels, taints=taints)
    [finding] = check_node_config(config, bootstrapped=False)
    assert finding.id == "GPU-EKS-003"


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan")])
def test_a_kubelet_configuration_that_is_no_json_is_refused(value: Any) -> None:
    [finding] = check_node_config(NodeConfig(kubelet_config={"maxPods": value}), bootstrapped=True)
    assert finding.id == "GPU-EKS-004"
