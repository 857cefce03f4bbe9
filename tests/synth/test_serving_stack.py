"""A cluster file with a gateway, KEDA and a canary: roles in a stack of their own, charts and objects after them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.manifests import cluster_manifests
from cdk_gpu_clusters_stacks.plan.cluster import plan_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from kubernetes_schemas import check_objects
from stack_fixtures import Resources, of_type

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
      min_nodes: 1
      max_nodes: 4
      server: { image: "vllm/vllm-openai:v0.21.0", command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384"] }
    embed:
      instance_type: g6.xlarge
      nodes: 2
      canary: { errors_only: true, spare_servers: 1 }
      server: { image: "vllm/vllm-openai:v0.21.0", command: ["--model", "BAAI/bge-m3"] }
monitoring: { metrics: { destination: workspace } }
eks:
  gateway:
    certificate_arn: arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab
    hostname: models.example.org
    clients: [10.0.0.0/8]
    hosted_zone: { zone_id: Z0123456789ABCDEFGHIJ, zone_name: example.org }
  software: { keda: true, argo_rollouts: true, apply: true }
"""
CHARTS = ["gateway-api-crds", "aws-load-balancer-controller", "external-dns", "keda", "argo-rollouts"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serving") / "cluster.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def stacks(file: Path, app_factory: Any) -> dict[str, dict[str, Any]]:
    """The artifacts of the stacks by name, each with its template."""
    app = app_factory()
    build_cluster(app, load_cluster(file))
    folder = Path(app.synth().directory)
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    return {
        name: {**one, "template": json.loads((folder / f"{name}.template.json").read_text())}
        for name, one in artifacts.items()
        if one["type"] == "aws:cloudformation:stack"
    }


@pytest.fixture(scope="module")
def files(file: Path) -> dict[str, str]:
    """What `gpu-clusters manifests` writes."""
    return cluster_manifests(load_cluster(file))


def resources(stacks: dict[str, dict[str, Any]], name: str) -> Resources:
    found: Resources = stacks[name]["template"]["Resources"]
    return found


def test_roles_are_there_before_the_pods_that_take_them(stacks: dict[str, dict[str, Any]]) -> None:
    roles = resources(stacks, "lab-serving")
    accounts = [
        one["Properties"]["ServiceAccount"] for one in of_type(roles, "AWS::EKS::PodIdentityAssociation").values()
    ]
    assert sorted(accounts) == ["argo-rollouts", "aws-load-balancer-controller", "external-dns", "keda-operator"]
    assert "lab-serving" in stacks["lab-software"]["dependencies"]
    assert {"lab-eks", "lab-monitoring"} <= set(stacks["lab-serving"]["dependencies"])


def test_the_plan_names_the_stacks_that_are_made_and_what_they_wait_for(
    stacks: dict[str, dict[str, Any]], file: Path
) -> None:
    planned = {one.name: set(one.depends_on) for one in plan_cluster(load_cluster(file)).stacks}
    assert set(planned) == set(stacks)
    for name in ("lab-serving", "lab-software"):
        made = {one for one in stacks[name]["dependencies"] if one in stacks}
        assert planned[name] == made, name


def test_charts_know_cluster_network_and_workspace_of_this_deployment(stacks: dict[str, dict[str, Any]]) -> None:
    charts = {
        one["Properties"]["Release"]: one["Properties"]
        for one in of_type(resources(stacks, "lab-software"), "Custom::AWSCDK-EKS-HelmChart").values()
    }
    assert set(CHARTS) <= set(charts)
    values = json.dumps(charts["aws-load-balancer-controller"]["Values"])
    assert "VpcId" in values
    assert "ClusterName" in values
    manifests = of_type(resources(stacks, "lab-software"), "Custom::AWSCDK-EKS-KubernetesResource")
    (scaler,) = [one for one in map(json.dumps, manifests.values()) if "ScaledObject" in one]
    assert "WorkspaceId" in scaler
    assert not any("${" in json.dumps(one).replace("${AWS::", "") for one in (*charts.values(), *manifests.values()))


def test_new_servers_are_ready_when_the_load_balancer_has_found_them_healthy(
    stacks: dict[str, dict[str, Any]], files: dict[str, str]
) -> None:
    found = resources(stacks, "lab-software")
    (patch,) = of_type(found, "Custom::AWSCDK-EKS-KubernetesPatch").items()
    assert patch[1]["Properties"]["ResourceName"] == "namespace/default"
    label = json.loads(patch[1]["Properties"]["ApplyPatchJson"])["metadata"]["labels"]
    assert label == {"elbv2.k8s.aws/pod-readiness-gate-inject": "enabled"}
    # Each step waits for the one before: the first of the objects for the label.
    manifests = of_type(found, "Custom::AWSCDK-EKS-KubernetesResource")
    (first,) = [one for one in manifests.values() if patch[0] in one["DependsOn"]]
    assert "ClusterQueue" in json.dumps(first)
    lines = files["install.sh"].splitlines()
    labelled = next(
        index for index, line in enumerate(lines) if line.startswith("kubectl label --overwrite namespace default")
    )
    assert labelled < next(index for index, line in enumerate(lines) if "services/" in line)


def objects_of(files: dict[str, str], folder: str) -> list[Any]:
    texts = [text for path, text in files.items() if path.startswith(folder)]
    return [one for text in texts for one in YAML(typ="safe").load_all(text) if one]


def test_written_objects_fit_the_published_crds(files: dict[str, str]) -> None:
    objects = [one for folder in ("cluster/", "services/", "routes/") for one in objects_of(files, folder)]
    assert check_objects(objects, kubernetes_versions()[-1].version) == len(objects)


def test_each_model_has_a_path_of_its_own(files: dict[str, str]) -> None:
    routes = [one for one in objects_of(files, "routes/") if one["kind"] == "HTTPRoute"]
    paths = {one["metadata"]["name"]: one["spec"]["rules"][0]["matches"][0]["path"]["value"] for one in routes}
    assert paths == {"chat": "/chat", "embed": "/embed"}
    (gateway,) = [one for one in objects_of(files, "cluster/gateway") if one["kind"] == "Gateway"]
    assert {one["spec"]["parentRefs"][0]["name"] for one in routes} == {gateway["metadata"]["name"]}
    models = [one for one in objects_of(files, "services/") if one["kind"] in {"Deployment", "Rollout"}]
    assert len(models) == len(routes)
    for model in models:
        container = model["spec"]["template"]["spec"]["containers"][0]
        assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 30}}


def test_only_the_fleet_with_bounds_is_scaled_and_no_other_autoscaler_is_made(files: dict[str, str]) -> None:
    scalers = [
        one for one in objects_of(files, "services/") if one["kind"] in {"ScaledObject", "HorizontalPodAutoscaler"}
    ]
    assert [(one["kind"], one["metadata"]["name"]) for one in scalers] == [("ScaledObject", "chat")]
    assert (scalers[0]["spec"]["minReplicaCount"], scalers[0]["spec"]["maxReplicaCount"]) == (1, 4)


def test_a_canary_keeps_its_place_free_and_asks_the_workspace_of_this_cluster(files: dict[str, str]) -> None:
    found = {one["kind"]: one for one in objects_of(files, "services/embed")}
    assert "Deployment" not in found
    rollout = found["Rollout"]["spec"]
    assert (rollout["replicas"], rollout["strategy"]["canary"]["maxSurge"]) == (1, 1)
    (errors,) = found["AnalysisTemplate"]["spec"]["metrics"]
    assert errors["provider"]["prometheus"]["address"].endswith("/workspaces/${METRICS_WORKSPACE_ID}")
    assert {one["kind"] for one in objects_of(files, "services/chat")}.isdisjoint({"Rollout", "AnalysisTemplate"})


def test_a_rollout_is_applied_apart_so_that_it_goes_with_its_canary(stacks: dict[str, dict[str, Any]]) -> None:
    # kubectl prunes no custom kinds: the resource of the template is deleted, and with it what it applied.
    kinds = {}
    for name, one in of_type(resources(stacks, "lab-software"), "Custom::AWSCDK-EKS-KubernetesResource").items():
        kinds[name] = set(re.findall(r'"kind":"(\w+)","metadata":\{"name":"embed"', manifest_of(one)))
    (apart,) = [name for name, found in kinds.items() if "Rollout" in found]
    (others,) = [name for name, found in kinds.items() if "Service" in found]
    assert kinds[apart] == {"Rollout", "AnalysisTemplate"}
    assert others in resources(stacks, "lab-software")[apart]["DependsOn"]


def manifest_of(resource: dict[str, Any]) -> str:
    """The objects of a resource as text, without what the deployment puts in."""
    text = resource["Properties"]["Manifest"]
    return text if isinstance(text, str) else "".join(one for one in text["Fn::Join"][1] if isinstance(one, str))


def test_the_script_asks_for_each_name_before_it_is_needed(files: dict[str, str]) -> None:
    lines = files["install.sh"].splitlines()
    for name, user in {
        "CLUSTER_NAME": "aws-load-balancer-controller",
        "VPC_ID": "aws-load-balancer-controller",
        "METRICS_WORKSPACE_ID": "services/chat.yaml",
    }.items():
        asked = next(index for index, line in enumerate(lines) if line.startswith(f"{name}=$(aws cloudformation"))
        used = next(index for index, line in enumerate(lines) if user in line)
        assert asked < used, name
        assert f"\\${{{name}}}" in lines[used]
    assert "OutputKey=='WorkspaceId'" in next(line for line in lines if line.startswith("METRICS_WORKSPACE_ID="))
    charts = [line.partition("--install ")[2].split()[0] for line in lines if "--install" in line]
    assert charts[-len(CHARTS) :] == CHARTS


def test_the_script_keeps_the_servers_of_the_fleet_that_is_scaled(files: dict[str, str]) -> None:
    lines = files["install.sh"].splitlines()
    kept = [index for index, line in enumerate(lines) if line.startswith("keep_servers ")]
    assert [lines[index] for index in kept] == ["keep_servers deployment/chat default"]
    assert "<services/chat.yaml | kubectl apply" in lines[kept[0] + 1]


@pytest.mark.parametrize(
    ("last", "sent"),
    [
        ('{"spec":{"replicas":4,"selector":{"a":"\\n"}}}', '{"spec":{"selector":{"a":"\\n"}}}\n'),
        ('{"spec":{"selector":{}}}', ""),
        ("", ""),  # no such Deployment, or one that was not applied
    ],
)
def test_a_number_that_was_applied_is_taken_out_of_what_was_applied_last(
    files: dict[str, str], tmp_path: Path, last: str, sent: str
) -> None:
    lines = files["install.sh"].splitlines()
    start = lines.index("keep_servers() {")
    script = "\n".join(["set -eu", *lines[start : lines.index("}", start) + 1], "keep_servers deployment/chat default"])
    fake = tmp_path / "kubectl"
    fake.write_text('#!/bin/sh\ncase "$1 $2" in "get "*) printf %s "$LAST" ;; "apply set-last-applied") cat ;; esac\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "LAST": last},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, sent, "")


def test_the_script_is_sound_shell(files: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "install.sh"
    script.write_text(files["install.sh"], encoding="utf-8")
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
