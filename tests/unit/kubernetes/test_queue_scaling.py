"""The number of vLLM servers follows their queue, their cache and their tokens, between its bounds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace, QueueScaling, scaled_model
from kubernetes_schemas import check_objects

WORKSPACE = PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1")
SCALING = QueueScaling(workspace=WORKSPACE, tokens_per_second_per_server=2000)
#: vllm-project/vllm @ 005a810, vllm/v1/metrics/loggers.py: gauges, and counters with the ending of Prometheus' client.
PUBLISHED = {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:generation_tokens_total"}


def deployed(scaling: QueueScaling, **options: Any) -> list[dict[str, Any]]:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
    server = ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--tensor-parallel-size", "4"], start_seconds=900)
    return model_deployment("chat", pool, server, devices_per_server=4, scaling=scaling, **options)


def scaled(scaling: QueueScaling) -> dict[str, Any]:
    (found,) = [one["spec"] for one in deployed(scaling) if one["kind"] == "ScaledObject"]
    return dict(found)


@pytest.mark.parametrize("version", [row.version for row in kubernetes_versions()])
def test_every_object_fits_the_published_crds(version: str) -> None:
    objects = deployed(SCALING)
    assert check_objects(objects, version) == len(objects)
    kinds = [one["kind"] for one in objects]
    assert kinds == ["Deployment", "Service", "PodDisruptionBudget", "TriggerAuthentication", "ScaledObject"]
    assert "replicas" not in objects[0]["spec"]


def test_it_follows_metrics_that_vllm_has() -> None:
    queries = [one["metadata"]["query"] for one in scaled(SCALING)["triggers"]]
    assert {name for query in queries for name in re.findall(r"vllm:\w+", query)} == PUBLISHED
    assert len(scaled(QueueScaling(workspace=WORKSPACE))["triggers"]) == 2


def test_queries_count_the_pods_of_the_deployment_and_no_others() -> None:
    for trigger in scaled(SCALING)["triggers"]:
        (pattern,) = re.findall(r'pod=~"([^"]+)"', trigger["metadata"]["query"])
        assert re.fullmatch(pattern, "chat-7d9f6c5b8d-x2v9k")
        assert not re.fullmatch(pattern, "chat-large-7d9f6c5b8d-x2v9k")
        assert 'namespace="default"' in trigger["metadata"]["query"]


def test_it_signs_with_the_role_of_the_operator() -> None:
    login, found = (one["spec"] for one in scaled_model("chat", SCALING, 4))
    assert login == {"podIdentity": {"provider": "aws"}}
    for trigger in found["triggers"]:
        assert trigger["authenticationRef"] == {"name": "chat"}
        assert trigger["metadata"]["serverAddress"] == WORKSPACE.server_address
        assert trigger["metadata"]["awsRegion"] == "us-east-1"


def test_the_workspace_is_asked_no_more_often_than_keda_polls() -> None:
    found = scaled(SCALING)
    assert found["pollingInterval"] == 30
    assert all(one["useCachedMetrics"] for one in found["triggers"])


def test_servers_stay_where_metrics_are_missing() -> None:
    assert {one["metadata"]["ignoreNullValues"] for one in scaled(SCALING)["triggers"]} == {"false"}


@pytest.mark.parametrize(("start", "calm"), [(60, 600), (900, 900), (7200, 3600)])
def test_a_server_stays_for_as_long_as_another_one_would_load(start: int, calm: int) -> None:
    _, found = scaled_model("chat", SCALING, 4, start_seconds=start)
    behavior = found["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == calm
    assert behavior["scaleDown"]["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 60}]


def test_the_number_stays_between_its_bounds() -> None:
    found = scaled(QueueScaling(workspace=WORKSPACE, min_servers=2))
    assert (found["minReplicaCount"], found["maxReplicaCount"]) == (2, 4)
    found = scaled(QueueScaling(workspace=WORKSPACE, max_servers=3))
    assert (found["minReplicaCount"], found["maxReplicaCount"]) == (1, 3)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"waiting_per_server": 0}, ["GPU-SRV-010"]),
        ({"cache_percent": 101}, ["GPU-SRV-010"]),
        ({"tokens_per_second_per_server": 0, "cache_percent": 0}, ["GPU-SRV-010", "GPU-SRV-010"]),
        ({"max_servers": 5}, ["GPU-INF-016"]),
        ({"min_servers": 4}, ["GPU-INF-016"]),
        ({"min_servers": 0}, ["GPU-INF-019"]),
    ],
)
def test_targets_and_bounds_that_cannot_be_kept_are_refused(options: dict[str, Any], wrong: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        deployed(QueueScaling(workspace=WORKSPACE, **options))
    assert [one.id for one in error.value.findings] == wrong


def test_the_greatest_targets_are_taken() -> None:
    assert scaled(QueueScaling(workspace=WORKSPACE, cache_percent=100, waiting_per_server=1))["triggers"]
