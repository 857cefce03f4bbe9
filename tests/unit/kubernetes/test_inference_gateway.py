"""A gateway of the inference extension behind a load balancer, and pools of servers that it can choose from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.catalogue.kubernetes import image, kubernetes_versions
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.gateway import ModelGateway, gateway_objects
from cdk_gpu_clusters.kubernetes.inference_gateway import inference_gateway_objects, inference_route
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.namespaces import job_namespace
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from cdk_gpu_clusters.kubernetes.software import ChartRelease
from cdk_gpu_clusters.kubernetes.software.inference import (
    agentgateway_charts,
    inference_pods,
    inference_pool_chart,
    inference_pool_definition,
)
from chart_renderings import MIRROR, inference, rendering
from kubernetes_schemas import CRDS, check_objects

GATEWAY = ModelGateway(plain_http=True, hostname="models.example.org", clients=["10.0.0.0/16"])
SERVER = ServerPod(image="vllm/vllm-openai:v0.21.0")
NEWEST = kubernetes_versions()[-1].version


def one_of(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


def pool_of(release: ChartRelease) -> dict[str, Any]:
    """The InferencePool that real Helm makes of a release."""
    (found,) = rendering(release)["pools"]
    return dict(found)


@pytest.mark.parametrize("version", [row.version for row in kubernetes_versions()])
def test_every_object_fits_the_published_crds_and_their_rules(version: str) -> None:
    closed = replace(GATEWAY, namespace="lab", subnet_cidrs=["10.0.1.0/24"])
    objects = [
        inference_pool_definition(),
        *inference_gateway_objects(GATEWAY),
        *inference_gateway_objects(closed, proxies=3, mirror=MIRROR),
        *inference_gateway_objects(replace(GATEWAY, name="patient", idle_timeout_seconds=4000)),
        inference_route("chat", GATEWAY),
        inference_route("embed", closed, path="/"),
    ]
    assert check_objects(objects, version) == len(objects) == 17


def test_the_definition_of_pools_is_the_one_that_objects_are_held_against() -> None:
    kept = yaml.safe_load((CRDS / "inference.networking.k8s.io_inferencepool.yaml").read_text("utf-8"))
    spec = inference_pool_definition()["spec"]
    (version,) = spec["versions"]
    assert (spec["group"], spec["names"]["kind"], spec["scope"]) == (kept["group"], kept["kind"], kept["scope"])
    schema = version["schema"]["openAPIV3Schema"]
    assert {version["name"]: schema["properties"]["spec"]} == {
        name: one["properties"]["spec"] for name, one in kept["versions"].items()
    }
    # Controllers write the status, and an API server takes a group of Kubernetes only with this annotation.
    assert (version["served"], version["storage"], version["subresources"]) == (True, True, {"status": {}})
    assert "status" in schema["properties"]
    assert "api-approved.kubernetes.io" in inference_pool_definition()["metadata"]["annotations"]


def test_the_load_balancer_sends_all_requests_to_the_proxies_and_asks_these_for_their_health() -> None:
    objects = [*gateway_objects(GATEWAY), *inference_gateway_objects(GATEWAY, drain_seconds=120)]
    outer, inner = (one for one in objects if one["kind"] == "Gateway")
    route, target = one_of(objects, "HTTPRoute")["spec"], one_of(objects, "TargetGroupConfiguration")["spec"]
    assert route["parentRefs"] == [{"name": outer["metadata"]["name"]}]
    assert route["hostnames"] == ["models.example.org"]
    (rule,) = route["rules"]
    (listener,) = inner["spec"]["listeners"]
    # The controller names the Service of the proxies after their gateway, with the ports of its listeners.
    assert rule["backendRefs"] == [{"name": inner["metadata"]["name"], "port": listener["port"]}]
    assert (rule["matches"][0]["path"]["value"], "filters" in rule) == ("/", False)
    health = target["defaultConfiguration"]["healthCheckConfig"]
    assert target["targetReference"]["name"] == inner["metadata"]["name"]
    assert (health["healthCheckPath"], health["healthCheckPort"]) == ("/healthz/ready", "15021")


def test_the_proxies_have_no_load_balancer_of_their_own_and_let_requests_end() -> None:
    objects = inference_gateway_objects(GATEWAY, proxies=3, drain_seconds=120)
    parameters, gateway = one_of(objects, "AgentgatewayParameters"), one_of(objects, "Gateway")
    assert gateway["spec"]["infrastructure"]["parametersRef"]["name"] == parameters["metadata"]["name"]
    spec = parameters["spec"]
    assert spec["service"]["spec"]["type"] == "ClusterIP"
    # A load balancer goes on sending requests for up to 25 seconds.
    assert spec["shutdown"] == {"min": 30, "max": 150}
    assert (spec["deployment"]["spec"]["replicas"], spec["podDisruptionBudget"]["spec"]) == (3, {"maxUnavailable": 1})


@pytest.mark.parametrize(
    ("idle", "kept"),
    [(300, None), (585, None), (586, "601s"), (600, "615s"), (4000, "4015s")],
)
def test_the_proxies_keep_an_idle_connection_longer_than_the_load_balancer(idle: int, kept: str | None) -> None:
    """agentgateway keeps it for ten minutes unless a policy of its gateway says how long."""
    objects = inference_gateway_objects(replace(GATEWAY, idle_timeout_seconds=idle))
    policies = [one for one in objects if one["kind"] == "AgentgatewayPolicy"]
    told = [one["spec"]["frontend"]["http"]["http1IdleTimeout"] for one in policies]
    assert told == ([] if kept is None else [kept])
    for one in policies:
        (target,) = one["spec"]["targetRefs"]
        assert (target["kind"], target["name"]) == ("Gateway", one_of(objects, "Gateway")["metadata"]["name"])


@pytest.mark.parametrize(("mirror", "place"), [(None, "ghcr.io"), (MIRROR, MIRROR.images.partition("/")[0])])
def test_the_image_of_the_proxies_comes_from_the_mirror_if_there_is_one(mirror: Any, place: str) -> None:
    spec = one_of(inference_gateway_objects(GATEWAY, mirror=mirror), "AgentgatewayParameters")["spec"]
    assert spec["image"]["registry"] == place
    assert spec["image"]["repository"].endswith("agentgateway/agentgateway")
    assert spec["image"]["tag"] == image("agentgateway").tag_and_digest
    _, controller = agentgateway_charts(mirror=mirror)
    (workload,) = rendering(controller)["workloads"]
    named = [workload["variables"][f"AGW_PROXY_IMAGE_{key}"] for key in ("REGISTRY", "REPOSITORY", "TAG")]
    assert named == [spec["image"][key] for key in ("registry", "repository", "tag")]
    assert workload["variables"]["AGW_ENABLE_INFER_EXT"] == "true"


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_pool_has_the_servers_of_its_model_and_no_others(nodes: int) -> None:
    pool = node_pool("chat", instance_type="p5.48xlarge", node_count=2)
    release = next(one for one in inference(None) if one.name == ("chat-pool" if nodes == 1 else "large-pool"))
    found = pool_of(release)
    selected = found["selector"]["matchLabels"].items()
    if nodes == 1:
        template = one_of(model_deployment("chat", pool, SERVER, devices_per_server=8), "Deployment")["spec"][
            "template"
        ]
        labels = template["metadata"]["labels"]
        assert selected <= labels.items()
    else:
        # The Service of leaders, whose pods alone answer requests, has the same selector.
        assert (
            dict(selected)
            == one_of(multi_node_model("large", pool, SERVER, nodes_per_server=2), "Service")["spec"]["selector"]
        )
    assert found["targetPorts"] == [{"number": SERVER.port}]
    (picker,) = rendering(release)["workloads"]
    assert found["endpointPickerRef"] == {
        "name": picker["name"],
        "port": {"number": 9002},
        "failureMode": "FailOpen",
    }


def test_a_picker_takes_requests_of_every_path_and_reads_those_that_it_knows() -> None:
    """It answers 400 where no parser takes the path: one without paths takes the rest, and ends the list."""
    for release in inference(None)[2:]:
        (picker,) = rendering(release)["pickers"]
        parsers = [one["pluginRef"] for one in picker["requestHandler"]["parsers"]]
        assert parsers == ["openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"]
        # A parser is a plugin, which the configuration declares once.
        plugins = [one["type"] for one in picker["plugins"]]
        assert [plugins.count(one) for one in parsers] == [1, 1, 1, 1]
        (profile,) = picker["schedulingProfiles"]
        weights = {one["pluginRef"]: one["weight"] for one in profile["plugins"]}
        assert weights == {"queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3}


def test_a_route_leads_to_the_pool_that_the_chart_makes_below_the_path_of_its_model() -> None:
    route = inference_route("chat", GATEWAY)["spec"]
    assert route["parentRefs"] == [{"name": "models-inference"}]
    (rule,) = route["rules"]
    release = inference_pool_chart("chat", SERVER)
    assert rule["backendRefs"] == [
        {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": release.name}
    ]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/chat"}}]
    assert rule["filters"][0]["urlRewrite"]["path"] == {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    # Otherwise ExternalDNS would make a record of the address of the proxies inside the cluster.
    assert "hostnames" not in route
    assert "filters" not in inference_route("chat", GATEWAY, path="/")["spec"]["rules"][0]


def test_the_load_balancer_reaches_the_proxies_in_a_namespace_that_admits_its_own_pods_only() -> None:
    gateway = replace(GATEWAY, namespace="lab", subnet_cidrs=["10.0.1.0/24"])
    objects = [*job_namespace("lab"), *inference_gateway_objects(gateway)]
    (policy,) = [
        one["spec"] for one in objects if one["metadata"]["name"] == "models-inference" and "ingress" in one["spec"]
    ]
    assert policy["podSelector"]["matchLabels"] == {"gateway.networking.k8s.io/gateway-name": "models-inference"}
    (admitted,) = policy["ingress"]
    assert [one["port"] for one in admitted["ports"]] == [80, 15021]
    assert "NetworkPolicy" not in [one["kind"] for one in inference_gateway_objects(GATEWAY)]


@pytest.mark.parametrize(
    ("server", "path"),
    [
        (ServerPod(image="ghcr.io/huggingface/text-generation-inference:3.3"), "server.image"),
        (
            ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--model", "m", "--disable-log-stats"]),
            "server.command",
        ),
    ],
)
def test_a_server_without_the_metrics_of_vllm_is_refused(server: ServerPod, path: str) -> None:
    with pytest.raises(ConfigError) as error:
        inference_pool_chart("chat", server)
    assert [(one.id, one.path) for one in error.value.findings] == [("GPU-SRV-040", path)]
    assert inference_pool_chart("chat", SERVER).name == "chat-pool"


def test_system_nodes_are_asked_for_what_the_pods_ask_for() -> None:
    of_controller, of_proxies, of_pickers = inference_pods(3)
    proxy = one_of(inference_gateway_objects(GATEWAY), "AgentgatewayParameters")["spec"]
    assert proxy["deployment"]["spec"]["replicas"] == of_proxies.replicas
    _, controller, picker, _ = (rendering(one)["workloads"] for one in inference(None))
    asked = [
        *controller[0]["resources"].values(),
        proxy["resources"],
        *picker[0]["resources"].values(),
    ]
    for one, resources in zip((of_controller, of_proxies, of_pickers), asked, strict=True):
        assert resources["requests"] == {"cpu": f"{one.cpu_millicores}m", "memory": f"{one.memory_mib}Mi"}
    assert of_pickers.replicas == 3


def test_pools_of_long_names_differ_where_the_chart_cuts_them() -> None:
    long = [f"{'a' * 35}{end}" for end in ("", "-mig-1g-5gb", "-mig-2g-10gb")]
    names = [inference_pool_chart(one, SERVER).name for one in long]
    assert names[0] == f"{long[0]}-pool"
    assert len({one[:40] for one in names}) == 3
    assert all(len(one) <= 40 for one in names)


def test_all_faults_come_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        inference_pool_chart("Chat", ServerPod(image="tgi:3"), nodes_per_server=0)
    assert [one.id for one in error.value.findings] == ["GPU-K8S-001", "GPU-INF-019", "GPU-SRV-040"]
    with pytest.raises(ConfigError) as error:
        inference_gateway_objects(replace(GATEWAY, clients=()), proxies=0)
    assert [one.id for one in error.value.findings] == ["GPU-SRV-001", "GPU-INF-019"]
    with pytest.raises(ConfigError) as error:
        inference_route("Chat", GATEWAY, path="/chat/*")
    assert [one.id for one in error.value.findings] == ["GPU-K8S-001", "GPU-SRV-002"]
