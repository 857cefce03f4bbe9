"""A cluster file whose models are chosen by queue and cache: definitions, charts and objects in an order that works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.manifests import cluster_manifests
from cdk_gpu_clusters_stacks.plan import compare_clusters
from cdk_gpu_clusters_stacks.plan.cluster import plan_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from kubernetes_schemas import check_objects
from stack_fixtures import of_type

FILE = """\
version: 1
name: lab
region: us-east-1
orchestrator: eks
network: { availability_zone: us-east-1a }
inference:
  fleets:
    chat:
      instance_type: g6.xlarge
      nodes: 2
      server: { image: "vllm/vllm-openai:v0.21.0", command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384"] }
    slices:
      instance_type: p4d.24xlarge
      nodes: 1
      mig: "3g.20gb,2g.10gb,1g.5gb"
      server: { image: "vllm/vllm-openai:v0.21.0", command: ["--model", "Qwen/Qwen3-0.6B"], port: 9000 }
eks:
  gateway: { plain_http: true, clients: [10.0.0.0/8], hostname: models.example.org, inference_extension: true }
  software: { apply: true }
"""
MODELS = ["chat", "slices-mig-1g-5gb", "slices-mig-2g-10gb", "slices-mig-3g-20gb"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inference") / "cluster.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(file: Path) -> dict[str, str]:
    """What `gpu-clusters manifests` writes."""
    return cluster_manifests(load_cluster(file))


@pytest.fixture(scope="module")
def software(file: Path, app_factory: Any) -> dict[str, Any]:
    """Resources of the stack that installs everything."""
    app = app_factory()
    build_cluster(app, load_cluster(file))
    found: dict[str, Any] = app.synth().get_stack_by_name("lab-software").template["Resources"]
    return found


def objects_of(files: dict[str, str], folder: str) -> list[Any]:
    texts = [text for path, text in files.items() if path.startswith(folder)]
    return [one for text in texts for one in YAML(typ="safe").load_all(text) if one]


def test_written_objects_fit_the_published_crds(files: dict[str, str]) -> None:
    folders = ("definitions/", "cluster/", "services/", "routes/")
    objects = [one for folder in folders for one in objects_of(files, folder)]
    assert check_objects(objects, kubernetes_versions()[-1].version) == len(objects)


def test_each_model_has_a_pool_at_its_port_and_a_route_to_it(files: dict[str, str]) -> None:
    values = {
        path.partition("-")[2].removesuffix(".values.yaml"): YAML(typ="safe").load(text)["router"]["modelServers"]
        for path, text in files.items()
        if path.endswith("-pool.values.yaml")
    }
    assert sorted(values) == [f"{one}-pool" for one in MODELS]
    deployments = [one for one in objects_of(files, "services/") if one["kind"] == "Deployment"]
    assert sorted(one["metadata"]["name"] for one in deployments) == MODELS
    for one in deployments:
        template = one["spec"]["template"]
        found = values[f"{one['metadata']['name']}-pool"]
        assert found["matchLabels"].items() <= template["metadata"]["labels"].items()
        (container,) = template["spec"]["containers"]
        assert [port["containerPort"] for port in container["ports"]] == [found["targetPorts"][0]["number"]]
        # Only the proxies are behind the load balancer.
        assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 10}}
    routes = objects_of(files, "routes/")
    backends = {one["metadata"]["name"]: one["spec"]["rules"][0]["backendRefs"][0]["name"] for one in routes}
    assert backends == {one: f"{one}-pool" for one in MODELS}
    gateways = [one["metadata"]["name"] for one in objects_of(files, "cluster/") if one["kind"] == "Gateway"]
    assert gateways == ["models", "models-inference"]
    assert {one["spec"]["parentRefs"][0]["name"] for one in routes} == {"models-inference"}


def test_proxies_let_the_requests_of_the_servers_end(files: dict[str, str]) -> None:
    (parameters,) = [one for one in objects_of(files, "cluster/") if one["kind"] == "AgentgatewayParameters"]
    assert parameters["spec"]["shutdown"] == {"min": 30, "max": 330}


def test_the_script_defines_pools_before_their_charts_and_waits_for_the_definition(files: dict[str, str]) -> None:
    lines = files["install.sh"].splitlines()
    steps = [
        next(index for index, line in enumerate(lines) if word in line)
        for word in (
            "kubectl apply -f definitions/inference-pools.yaml",
            "kubectl wait --for condition=established",
            "helm upgrade --install agentgateway-crds",
            "helm upgrade --install agentgateway ",
            "helm upgrade --install chat-pool",
            "cluster/inference-gateway.yaml",
            "routes/chat.yaml",
        )
    ]
    assert steps == sorted(steps)


def test_the_deployment_defines_pools_before_its_first_chart(software: dict[str, Any]) -> None:
    manifests = of_type(software, "Custom::AWSCDK-EKS-KubernetesResource")
    (definition,) = [
        name for name, one in manifests.items() if "CustomResourceDefinition" in json.dumps(one["Properties"])
    ]
    charts = of_type(software, "Custom::AWSCDK-EKS-HelmChart")
    releases = {one["Properties"]["Release"]: one for one in charts.values()}
    assert {"agentgateway", "agentgateway-crds", *(f"{one}-pool" for one in MODELS)} <= set(releases)
    # Each step waits for the one before it, so that one chart waits for the definition.
    (first,) = [one for one in releases.values() if definition in one["DependsOn"]]
    assert not set(first["DependsOn"]) & set(charts)


def test_the_plan_names_the_charts(file: Path) -> None:
    planned = plan_cluster(load_cluster(file)).kubernetes
    assert planned is not None
    names = [one.name for one in planned.charts]
    assert names.count("llm-d-router-gateway") == len(MODELS)
    assert {"agentgateway", "agentgateway-crds"} <= set(names)


def test_the_chart_of_a_pool_changes_with_its_model(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "cluster.yaml"
    other.write_text(FILE.replace("port: 9000", "port: 9001"), encoding="utf-8")
    found = compare_clusters(load_cluster(file), load_cluster(other)).changes
    (one,) = [change for change in found if change.stack == "lab-software"]
    assert one.keys == ("inference",)


def test_without_the_key_nothing_of_it_is_made(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "cluster.yaml"
    other.write_text(FILE.replace(", inference_extension: true", ""), encoding="utf-8")
    text = "\n".join(f"{path}\n{one}" for path, one in cluster_manifests(load_cluster(other)).items())
    assert "agentgateway" not in text
    assert "InferencePool" not in text
