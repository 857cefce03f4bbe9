"""A gateway takes requests for several models, and refuses what its load balancer would not take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.gateway import ModelGateway, ModelRoute, gateway_objects, model_route
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import SecretKey, ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.namespaces import job_namespace
from cdk_gpu_clusters.kubernetes.node_pool import node_pool
from kubernetes_schemas import check_objects

CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"
GATEWAY = ModelGateway(certificate_arn=CERTIFICATE, hostname="models.example.org", clients=["10.0.0.0/16"])
SERVER = ServerPod(image="vllm/vllm-openai:v0.21.0", health_path="/ready", drain_seconds=120, stop_delay_seconds=30)


def spec_of(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one["spec"] for one in objects if one["kind"] == kind]
    return dict(found)


def ids(error: pytest.ExceptionInfo[ConfigError]) -> list[str]:
    return [one.id for one in error.value.findings]


@pytest.mark.parametrize("version", [row.version for row in kubernetes_versions()])
def test_every_object_fits_the_published_crds_and_their_rules(version: str) -> None:
    full = replace(
        GATEWAY,
        clients=["10.0.0.0/16", "pl-0123456789abcdef0"],
        subnet_ids=["subnet-0a", "subnet-0b"],
        access_log_bucket="logs-of-models",
        internet_facing=True,
    )
    objects = [
        *gateway_objects(full),
        *gateway_objects(ModelGateway(name="inside", plain_http=True, clients=["pl-0123456789abcdef0"])),
        *model_route("chat", full, SERVER),
        *model_route("embed", full, SERVER, ModelRoute(path="/", headers={"x-model": "embed"})),
        *model_route("next", full, SERVER, ModelRoute(path="/a/b", weights={"chat": 95, "chat-next": 5})),
    ]
    assert check_objects(objects, version) == len(objects) == 13


def test_a_gateway_is_internal_and_speaks_tls_unless_it_says_otherwise() -> None:
    objects = gateway_objects(GATEWAY)
    balancer, gateway = spec_of(objects, "LoadBalancerConfiguration"), spec_of(objects, "Gateway")
    assert balancer["scheme"] == "internal"
    assert balancer["sourceRanges"] == ["10.0.0.0/16"]
    (listener,) = balancer["listenerConfigurations"]
    assert (listener["defaultCertificate"], listener["sslPolicy"]) == (
        CERTIFICATE,
        "ELBSecurityPolicy-TLS13-1-2-2021-06",
    )
    assert [(one["protocol"], one["port"], one["hostname"]) for one in gateway["listeners"]] == [
        ("HTTPS", 443, "models.example.org")
    ]


def test_plain_http_has_port_80_and_no_certificate() -> None:
    objects = gateway_objects(ModelGateway(plain_http=True, clients=["10.0.0.0/16"]))
    assert "listenerConfigurations" not in spec_of(objects, "LoadBalancerConfiguration")
    assert [(one["protocol"], one["port"]) for one in spec_of(objects, "Gateway")["listeners"]] == [("HTTP", 80)]


def test_prefix_lists_alone_admit_no_other_address() -> None:
    objects = gateway_objects(replace(GATEWAY, clients=["pl-0123456789abcdef0"]))
    balancer = spec_of(objects, "LoadBalancerConfiguration")
    # The controller admits all addresses where the list is left out (model_build_security_group.go).
    assert (balancer["securityGroupPrefixes"], balancer["sourceRanges"]) == (["pl-0123456789abcdef0"], [])
    ranges_alone = spec_of(gateway_objects(GATEWAY), "LoadBalancerConfiguration")
    assert (ranges_alone["sourceRanges"], "securityGroupPrefixes" in ranges_alone) == (["10.0.0.0/16"], False)


def test_servers_do_not_see_the_path_of_their_model() -> None:
    (rule,) = spec_of(model_route("chat", GATEWAY, SERVER), "HTTPRoute")["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/chat"}}]
    assert rule["filters"][0]["urlRewrite"]["path"] == {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    (alone,) = spec_of(model_route("chat", GATEWAY, SERVER, ModelRoute(path="/")), "HTTPRoute")["rules"]
    assert "filters" not in alone


def test_the_route_leads_to_the_service_of_the_deployment() -> None:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
    services = [one for one in model_deployment("chat", pool, SERVER, devices_per_server=8) if one["kind"] == "Service"]
    (rule,) = spec_of(model_route("chat", GATEWAY, SERVER), "HTTPRoute")["rules"]
    (backend,) = rule["backendRefs"]
    assert [(one["metadata"]["name"], one["spec"]["ports"][0]["port"]) for one in services] == [
        (backend["name"], backend["port"])
    ]


def test_the_load_balancer_asks_the_server_itself_and_lets_requests_end() -> None:
    target = spec_of(model_route("chat", GATEWAY, SERVER), "TargetGroupConfiguration")
    assert target["targetReference"] == {"name": "chat"}
    settings = target["defaultConfiguration"]
    assert (settings["targetType"], settings["healthCheckConfig"]["healthCheckPath"]) == ("ip", "/ready")
    attributes = {one["key"]: one["value"] for one in settings["targetGroupAttributes"]}
    assert attributes["deregistration_delay.timeout_seconds"] == "120"


@pytest.mark.parametrize("kind", ["Deployment", "LeaderWorkerSet"])
def test_a_load_balancer_reaches_servers_in_a_namespace_that_admits_its_own_pods_only(kind: str) -> None:
    pool = node_pool("chat", instance_type="p5.48xlarge", node_count=2)
    if kind == "Deployment":
        made, service = model_deployment("chat", pool, SERVER, devices_per_server=8, namespace="lab"), "chat"
        labels = spec_of(made, kind)["template"]["metadata"]["labels"]
    else:
        made, service = multi_node_model("chat", pool, SERVER, nodes_per_server=2, namespace="lab"), "chat-leader"
        labels = spec_of(made, kind)["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["labels"]
    gateway = replace(GATEWAY, namespace="lab", subnet_cidrs=["10.0.1.0/24", "10.0.2.0/24"])
    route = model_route("chat", gateway, SERVER, ModelRoute(weights={service: 1}))
    policy = spec_of(route, "NetworkPolicy")
    (term,) = policy["podSelector"]["matchExpressions"]
    assert labels[term["key"]] in term["values"]
    assert policy["ingress"] == [
        {
            "from": [{"ipBlock": {"cidr": "10.0.1.0/24"}}, {"ipBlock": {"cidr": "10.0.2.0/24"}}],
            "ports": [{"protocol": "TCP", "port": SERVER.port}],
        }
    ]
    objects = [*job_namespace("lab"), *made, *gateway_objects(gateway), *route]
    assert check_objects(objects, kubernetes_versions()[-1].version) == len(objects)
    assert {one["metadata"].get("namespace", "lab") for one in objects} == {"lab"}


def test_without_ranges_of_subnets_no_policy_closes_the_servers_to_others() -> None:
    assert "NetworkPolicy" not in [one["kind"] for one in model_route("chat", GATEWAY, SERVER)]


def test_a_server_behind_a_load_balancer_takes_requests_for_longer() -> None:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
    deployment = model_deployment("chat", pool, SERVER, devices_per_server=8)[0]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 30}}
    assert pod["terminationGracePeriodSeconds"] == 150


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"clients": []}, ["GPU-SRV-001"]),
        ({"clients": ["10.0.0.1/16"]}, ["GPU-SRV-001"]),
        ({"clients": ["sg-0123456789abcdef0"]}, ["GPU-SRV-001"]),
        ({"clients": ["10.0.0.1"]}, ["GPU-SRV-001"]),
        ({"subnet_cidrs": ["10.0.1.0/24", "subnet-0a"]}, ["GPU-SRV-005"]),
        ({"hostname": "Models"}, ["GPU-SRV-002"]),
        ({"hostname": "*.example.org"}, ["GPU-SRV-002"]),
        ({"certificate_arn": None}, ["GPU-INF-012"]),
        ({"plain_http": True}, ["GPU-INF-012"]),
        ({"plain_http": True, "certificate_arn": None, "internet_facing": True}, ["GPU-INF-012"]),
        ({"idle_timeout_seconds": 4001}, ["GPU-INF-013"]),
        ({"name": "Models", "namespace": "A", "clients": []}, ["GPU-K8S-001", "GPU-K8S-001", "GPU-SRV-001"]),
    ],
)
def test_a_wrong_gateway_is_refused(change: dict[str, Any], wrong: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        gateway_objects(replace(GATEWAY, **change))
    assert ids(error) == wrong


@pytest.mark.parametrize(
    ("route", "wrong"),
    [
        (ModelRoute(path="chat"), ["GPU-SRV-002"]),
        (ModelRoute(path="/chat/"), ["GPU-SRV-002"]),
        (ModelRoute(path="/v1.0"), ["GPU-SRV-002"]),
        (ModelRoute(headers={"a": "1", "b": "2", "c": "3"}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a b": "1"}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a": ""}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a": "x" * 129}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a": "b,c"}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a": "b\\c"}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a": "b*"}), ["GPU-SRV-003"]),
        (ModelRoute(headers={"a": "b?"}), ["GPU-SRV-003"]),
        (ModelRoute(weights={f"chat-{number}": 1 for number in range(6)}), ["GPU-SRV-004"]),
        (ModelRoute(weights={"chat": 1000}), ["GPU-SRV-004"]),
        (ModelRoute(weights={"chat": 0}), ["GPU-SRV-004"]),
        (ModelRoute(path="chat", weights={"Chat": 1}), ["GPU-SRV-002", "GPU-K8S-001"]),
    ],
)
def test_a_wrong_route_is_refused(route: ModelRoute, wrong: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        model_route("chat", GATEWAY, SERVER, route)
    assert ids(error) == wrong


def test_a_route_is_refused_for_ranges_that_are_none() -> None:
    with pytest.raises(ConfigError) as error:
        model_route("chat", replace(GATEWAY, subnet_cidrs=["pl-0123456789abcdef0"]), SERVER)
    assert ids(error) == ["GPU-SRV-005"]


def test_as_many_services_as_an_action_holds_are_taken() -> None:
    weights = {f"chat-{number}": number for number in range(5)}
    (rule,) = spec_of(model_route("chat", GATEWAY, SERVER, ModelRoute(weights=weights)), "HTTPRoute")["rules"]
    assert {one["name"]: one["weight"] for one in rule["backendRefs"]} == weights


def test_as_many_headers_as_a_rule_holds_are_taken() -> None:
    assert model_route("chat", GATEWAY, SERVER, ModelRoute(headers={"a": "x" * 128, "b": "Qwen/Qwen3-8B; v=1"}))
    nameless = replace(GATEWAY, hostname=None)
    assert model_route("chat", nameless, SERVER, ModelRoute(headers={"a": "1", "b": "2", "c": "3"}))


@pytest.mark.parametrize("idle", [1, 60, 300, 900, 4000])
@pytest.mark.parametrize("nodes", [1, 2])
def test_vllm_keeps_an_idle_connection_longer_than_the_load_balancer(idle: int, nodes: int) -> None:
    """Otherwise the load balancer sends requests on connections that uvicorn is closing, and answers 502."""
    gateway, server = replace(GATEWAY, idle_timeout_seconds=idle), replace(SERVER, idle_timeout_seconds=idle)
    pool = node_pool("chat", instance_type="p5.48xlarge", node_count=2)
    objects = (
        model_deployment("chat", pool, server, devices_per_server=8)
        if nodes == 1
        else multi_node_model("chat", pool, server, nodes_per_server=nodes)
    )
    balancer = spec_of(gateway_objects(gateway), "LoadBalancerConfiguration")["loadBalancerAttributes"]
    (waits,) = (int(one["value"]) for one in balancer if one["key"] == "idle_timeout.timeout_seconds")
    (kept,) = set(kept_connections(objects))
    # Proxies inside the cluster keep idle connections for 90 seconds.
    assert (waits, kept) == (idle, str(max(120, idle + 15)))
    assert model_route("chat", gateway, server)


def test_by_default_a_server_suits_a_gateway_by_default() -> None:
    assert model_route("chat", ModelGateway(plain_http=True, clients=["10.0.0.0/16"]), ServerPod(image=SERVER.image))


def test_a_server_that_closes_connections_before_its_load_balancer_is_refused() -> None:
    patient = replace(GATEWAY, idle_timeout_seconds=301)
    with pytest.raises(ConfigError) as error:
        model_route("chat", patient, SERVER)
    (found,) = error.value.findings
    assert (found.id, found.fix) == ("GPU-SRV-041", "set idle_timeout_seconds=301 in ServerPod")
    # Not of vLLM, or with a value of the user's own.
    assert model_route("chat", patient, replace(SERVER, image="ghcr.io/huggingface/text-generation-inference:3.3"))
    assert model_route("chat", patient, replace(SERVER, environment={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "900"}))


def test_only_vllm_is_told_and_the_users_own_value_stands() -> None:
    pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=1, efa=False)
    own = replace(SERVER, environment={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "900"})
    assert kept_connections(model_deployment("chat", pool, own)) == ["900"]
    secret = replace(SERVER, secrets={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": SecretKey(name="s", key="k")})
    assert kept_connections(model_deployment("chat", pool, secret)) == [None]
    other = replace(SERVER, image="ghcr.io/huggingface/text-generation-inference:3.3")
    assert kept_connections(model_deployment("chat", pool, other)) == []


def kept_connections(objects: list[dict[str, Any]]) -> list[str | None]:
    """The values of vLLM's variable in all pods of some objects."""
    (workload,) = (one["spec"] for one in objects if one["kind"] in ("Deployment", "LeaderWorkerSet"))
    group = workload.get("leaderWorkerTemplate", {})
    templates = [group["leaderTemplate"], group["workerTemplate"]] if group else [workload["template"]]
    variables = [one for template in templates for one in template["spec"]["containers"][0]["env"]]
    return [one.get("value") for one in variables if one["name"] == "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]
