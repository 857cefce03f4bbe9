"""A new version of a model is tried on some of its servers, and taken back on errors."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.canary import Canary, with_canary
from cdk_gpu_clusters.kubernetes.model_deployment import ServerScaling, model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace, QueueScaling
from cdk_gpu_clusters.kubernetes.software.serving import argo_rollouts_chart
from kubernetes_schemas import check_objects

WORKSPACE = PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1")
SCALING = QueueScaling(workspace=WORKSPACE, min_servers=2, max_servers=3)
COMMAND = ["--tensor-parallel-size", "4"]


def deployed(command: list[str] | None = None, model: dict[str, Any] | None = None, **canary: Any) -> dict[str, Any]:
    """The objects of a model on four places, by their kinds."""
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
    server = ServerPod(image="vllm/vllm-openai:v0.21.0", command=command or COMMAND)
    tried = Canary(workspace=WORKSPACE, **canary)
    objects = model_deployment("chat", pool, server, devices_per_server=4, canary=tried, **(model or {}))
    return {one["kind"]: one for one in objects}


def steps(found: dict[str, Any]) -> list[dict[str, Any]]:
    return list(found["Rollout"]["spec"]["strategy"]["canary"]["steps"])


def metrics(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in found["AnalysisTemplate"]["spec"]["metrics"]}


@pytest.mark.parametrize("version", [row.version for row in kubernetes_versions()])
def test_every_object_fits_the_published_crds(version: str) -> None:
    scalers: list[ServerScaling | QueueScaling | None] = [None, SCALING, ServerScaling(min_servers=2)]
    for scaling in scalers:
        objects = list(deployed(model={"scaling": scaling}).values())
        assert check_objects(objects, version) == len(objects)


def test_a_rollout_takes_the_place_of_the_deployment_and_differs_in_its_strategy_only() -> None:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
    server = ServerPod(image="vllm/vllm-openai:v0.21.0", command=COMMAND)
    plain = {one["kind"]: one for one in model_deployment("chat", pool, server, devices_per_server=4)}
    found = deployed()
    assert found.keys() - plain.keys() == {"AnalysisTemplate", "Rollout"}
    assert plain.keys() - found.keys() == {"Deployment"}
    assert found["Rollout"]["metadata"] == plain["Deployment"]["metadata"]
    changed = {"strategy", "progressDeadlineAbort"}
    before, after = plain["Deployment"]["spec"], found["Rollout"]["spec"]
    assert {key: after[key] for key in after.keys() - changed} == {key: before[key] for key in before.keys() - changed}
    assert all(found[kind] == plain[kind] for kind in ("Service", "PodDisruptionBudget"))


def test_each_step_is_judged_before_the_next_one() -> None:
    found = steps(deployed(weights=[5, 25, 75]))
    assert [one.get("setWeight") for one in found] == [5, None, 25, None, 75, None]
    for one in found[1::2]:
        assert one["analysis"]["templates"] == [{"templateName": "chat"}]
        hashes = {arg["name"]: arg["valueFrom"]["podTemplateHashValue"] for arg in one["analysis"]["args"]}
        assert hashes == {"new": "Latest", "present": "Stable"}


def test_a_version_is_taken_back_on_errors_a_steady_latency_or_five_minutes_without_answers() -> None:
    found = metrics(deployed(max_error_percent=0.5, max_first_token_percent=200, step_minutes=30))
    assert {name: one["successCondition"] for name, one in found.items()} == {
        "errors": "result[0] <= 0.5",
        "first-token": "result[0] <= 200",
    }
    for one in found.values():
        assert (one["count"], one["interval"]) == (30, "1m")
        # Without a condition of failure every other answer is one; without an answer result[0] is an error.
        assert "failureCondition" not in one
        # It asks again after ten seconds (argo-rollouts v1.9.0, analysis/analysis.go: DefaultErrorRetryInterval).
        assert one["consecutiveErrorLimit"] * 10 == 300
    # A percentile of a few requests is known to its bucket only: one answer says little, and a share of errors much.
    assert {name: one["failureLimit"] for name, one in found.items()} == {"errors": 0, "first-token": 4}


def test_errors_alone_can_be_judged() -> None:
    assert list(metrics(deployed(max_first_token_percent=None))) == ["errors"]
    assert list(metrics(deployed([*COMMAND, "--disable-log-stats"], max_first_token_percent=None))) == ["errors"]


def test_queries_go_to_the_proxy_that_signs_them_in_the_pods_of_the_controller() -> None:
    (proxy,) = argo_rollouts_chart(region="us-east-1", domain="amazonaws.com").values["controller"]["extraContainers"]
    given = dict(zip(proxy["args"][::2], proxy["args"][1::2], strict=True))
    assert given["--host"] == WORKSPACE.server_address.split("/")[2]
    # No other pod may use the permissions of the controller.
    assert given["--port"].startswith("127.0.0.1:")
    for one in metrics(deployed()).values():
        address = one["provider"]["prometheus"]["address"]
        assert address == f"http://{given['--port']}/workspaces/ws-0123abcd"


def test_servers_of_the_present_version_go_first_where_no_place_is_free() -> None:
    canary = deployed()["Rollout"]["spec"]["strategy"]["canary"]
    assert (canary["maxSurge"], canary["maxUnavailable"]) == (0, "25%")


def test_no_server_goes_first_where_places_are_free() -> None:
    found = deployed(model={"servers": 3}, spare_servers=1)["Rollout"]["spec"]
    assert found["replicas"] == 3
    assert (found["strategy"]["canary"]["maxSurge"], found["strategy"]["canary"]["maxUnavailable"]) == (1, 0)


@pytest.mark.parametrize(
    ("kind", "scaling"),
    [("ScaledObject", SCALING), ("HorizontalPodAutoscaler", ServerScaling(min_servers=2))],
)
def test_autoscalers_change_the_number_of_the_rollout(kind: str, scaling: Any) -> None:
    found = deployed(model={"scaling": scaling})
    target = found[kind]["spec"]["scaleTargetRef"]
    assert target == {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "chat"}
    assert "replicas" not in found["Rollout"]["spec"]


@pytest.mark.parametrize(
    ("model", "canary", "wrong"),
    [
        ({}, {"weights": []}, ["GPU-SRV-030"]),
        ({}, {"weights": [0, 50]}, ["GPU-SRV-030"]),
        ({}, {"weights": [50, 100]}, ["GPU-SRV-030"]),
        ({}, {"weights": [50, 50]}, ["GPU-SRV-030"]),
        ({"servers": 1}, {}, ["GPU-SRV-031"]),
        ({"scaling": QueueScaling(workspace=WORKSPACE)}, {}, ["GPU-SRV-031"]),
        ({}, {"spare_servers": 1}, ["GPU-SRV-031"]),
        ({"servers": 3}, {"spare_servers": -1}, ["GPU-SRV-031"]),
        ({"servers": 0}, {"spare_servers": 2}, ["GPU-K8S-010", "GPU-SRV-031"]),
        ({"scaling": SCALING}, {"spare_servers": 2}, ["GPU-SRV-031"]),
        ({}, {"max_error_percent": 100, "step_minutes": 0}, ["GPU-SRV-032", "GPU-SRV-032"]),
        ({}, {"max_error_percent": -1}, ["GPU-SRV-032"]),
        ({}, {"max_first_token_percent": 99}, ["GPU-SRV-032"]),
    ],
)
def test_a_canary_that_cannot_be_tried_is_refused(
    model: dict[str, Any], canary: dict[str, Any], wrong: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        deployed(model=model, **canary)
    assert [one.id for one in error.value.findings] == wrong


@pytest.mark.parametrize("options", [{"canary": Canary(workspace=WORKSPACE)}, {"scaling": SCALING}, {}])
def test_names_that_kubernetes_would_cut_are_refused_where_queries_look_for_them(options: dict[str, Any]) -> None:
    # The longest pod: name, dash, a hash of 10, dash, and 5 characters, which Kubernetes lets have 63.
    longest = 63 - 5 - 1 - 10 - 1
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
    server = ServerPod(image="vllm/vllm-openai:v0.21.0", command=COMMAND)
    assert model_deployment("a" * longest, pool, server, devices_per_server=4, **options)
    if not options:
        assert model_deployment("a" * (longest + 1), pool, server, devices_per_server=4)
        return
    with pytest.raises(ConfigError) as error:
        model_deployment("a" * (longest + 1), pool, server, devices_per_server=4, **options)
    assert [(one.id, one.path) for one in error.value.findings] == [("GPU-SRV-011", "name")]


def test_a_server_without_metrics_is_refused_where_they_are_asked() -> None:
    with pytest.raises(ConfigError) as error:
        deployed([*COMMAND, "--disable-log-stats"])
    assert [(one.id, one.path) for one in error.value.findings] == [("GPU-SRV-033", "server.command")]


@pytest.mark.parametrize(
    ("model", "canary"),
    [
        ({"servers": 1}, {"spare_servers": 1}),
        ({"servers": 2}, {"weights": [1, 99]}),
        ({"scaling": SCALING}, {"spare_servers": 1, "max_error_percent": 0, "max_first_token_percent": 100}),
    ],
)
def test_the_smallest_canaries_are_taken(model: dict[str, Any], canary: dict[str, Any]) -> None:
    assert steps(deployed(model=model, **canary))


def test_a_model_over_several_nodes_is_refused_and_one_of_a_pod_each_is_not() -> None:
    # Argo Rollouts makes pods of one template; it would leave a LeaderWorkerSet as it is, without a word.
    pool = node_pool("large", instance_type="p5.48xlarge", node_count=4)
    server = ServerPod(image="vllm/vllm-openai:v0.21.0")
    over_nodes = multi_node_model("large", pool, server, nodes_per_server=2)
    with pytest.raises(ConfigError) as error:
        with_canary(over_nodes, Canary(workspace=WORKSPACE))
    (finding,) = error.value.findings
    assert (finding.id, finding.path) == ("GPU-SRV-034", "canary")
    assert "ModelRoute(weights=...)" in finding.fix

    one_pod_each = model_deployment("large", pool, server, devices_per_server=8)
    kinds = [one["kind"] for one in with_canary(one_pod_each, Canary(workspace=WORKSPACE))]
    assert kinds.count("Rollout") == kinds.count("AnalysisTemplate") == 1
