"""The JSON Schema: current, right about all examples, and of one mind with the models."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cdk_gpu_clusters_stacks.spec import read_cluster, schema
from cdk_gpu_clusters_stacks.spec._document import parse
from cdk_gpu_clusters_stacks.spec.schema import SCHEMA_FILE, cluster_schema, schema_text
from cluster_files.inference import EVERYTHING, MINIMAL, PUBLIC

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
VALIDATOR = Draft202012Validator(cluster_schema())


def test_the_schema_that_is_checked_in_is_current() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run python tools/write_schema.py"


def test_the_tool_says_when_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = tmp_path / "stale.json"
    stale.write_text("{}\n")
    monkeypatch.setattr(schema, "SCHEMA_FILE", stale)
    monkeypatch.syspath_prepend(ROOT / "tools")

    def write_schema(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["write_schema.py", *arguments])
        with pytest.raises(SystemExit) as done:
            runpy.run_path(str(ROOT / "tools" / "write_schema.py"), run_name="__main__")
        return done.value.code

    assert write_schema("--check") == 1
    assert stale.read_text() == "{}\n"
    assert write_schema() == 0
    assert write_schema("--check") == 0
    assert stale.read_text() == schema_text()


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(cluster_schema())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid_and_point_to_the_schema(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert [fault.message for fault in VALIDATOR.iter_errors(parse(text).data)] == []
    hint = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (example.parent / hint).resolve() == SCHEMA_FILE


def walk(part: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every schema of a key, by its path."""
    found = []
    for name, inner in part.get("properties", {}).items():
        found.append((f"{path}.{name}", inner))
    for name, inner in part.get("$defs", {}).items():
        found += walk(inner, name)
    return found


def test_every_key_explains_itself() -> None:
    keys = walk(cluster_schema())
    assert len(keys) > 40
    assert [path for path, key in keys if len(key.get("description", "")) < 10] == []


def test_every_mapping_is_closed() -> None:
    parts = [cluster_schema(), *cluster_schema()["$defs"].values()]
    objects = [part for part in parts if part.get("type") == "object"]
    assert len(objects) > 10
    assert [part["description"] for part in objects if part.get("additionalProperties") is not False] == []


BASE = {
    "version": 1,
    "name": "demo",
    "region": "us-east-1",
    "network": {"availability_zone": "us-east-1a"},
    "training": {"fleets": {"a": {"instance_type": "g6.xlarge", "nodes": 1}}},
}
CHANGES: dict[str, Any] = {
    "version": 2,
    "name": "Demo",
    "region": 1,
    "account": "12",
    "orchestrator": "slurm",
    "eks": {"kubernetes_version": 1.34},
    "tags": {"a": 1},
    "network": {},
    "training": {"fleets": {}},
    "data": {"corpus": {}},
}
FLEET_CHANGES: dict[str, Any] = {
    "nodes": "1",
    "min_nodes": 1,
    "capacity": "block",
    "efa": "yes",
    "interface_policy": "none",
    "placement": "near",
    "image": {},
    "root_volume": {"size": 1},
    "update": "always",
    "environment": {"1": "b"},
    "user_data": 3,
    "fabric": "A B",
    "tags": [],
    "mounts": {"/fsx": 1},
    "checkpoints": "A B",
    "mig": {"a": "b"},
    "fabric_manager_order": "never",
    "scratch": "yes",
    "watch": {"mode": "maybe"},
    "evidence_bucket": "No_Bucket",
    "ray": {"program": 3},
}
INFERENCE = {
    "instance_type": "g6.xlarge",
    "nodes": 1,
    "server": {"image": "vllm/vllm-openai:v0.11.0"},
    "load_balancer": {"plain_http": True},
}
INFERENCE_CHANGES: dict[str, Any] = {
    "efa": True,
    "placement": "cluster",
    "update": "always",
    "mig": [],
    "devices_per_server": "4",
    "ready_timeout_seconds": "1h",
    "min_servers_per_node": 1.5,
    "requests_per_minute_per_node": "many",
    "server": {},
    "load_balancer": {"clients": "10.0.0.0/16"},
}
SERVER_CHANGES: dict[str, Any] = {
    "image": 1,
    "command": ["--port", 8000],
    "port": "80",
    "health_path": "",
    "environment": {"A-B": "c"},
    "secrets": {"A": "hunter2"},
    "registry_login": "me",
    "weights": {"uri": "s3://b"},
    "cache_path": "",
    "shared_memory_gib": "8",
    "max_concurrent_requests": 1.5,
}
BALANCER_CHANGES: dict[str, Any] = {
    "certificate_arn": "mine",
    "plain_http": "yes",
    "internet_facing": 1,
    "clients": ["everybody"],
    "idle_timeout_seconds": "300",
    "drain_timeout_seconds": "300",
    "access_log_bucket": "A",
}
EXISTING = {
    "cluster_name": "research",
    "cluster_security_group_id": "sg-0123456789abcdef0",
    "kubernetes_version": "1.34",
}
EKS_CHANGES: dict[str, Any] = {
    "existing": {**EXISTING, "cluster_security_group_id": "default"},
    "kubernetes_version": "v1.34",
    "public_access_cidrs": "203.0.113.0/24",
    "admin_principal_arns": ["me"],
    "system_nodes": {"nodes": 1},
    "software": {"mirror": "https://mirror.example"},
    "teams": {"research": {"quotas": [{"fleet": "a", "nominal": -1}]}},
    "kubectl": {"x86_64": {"url": "kubectl", "sha256": "0" * 64}},
}


@pytest.mark.parametrize("key", CHANGES)
def test_schema_and_model_refuse_the_same_keys(key: str, tmp_path: Path) -> None:
    assert_both_refuse({**BASE, key: CHANGES[key]}, tmp_path)


@pytest.mark.parametrize("key", FLEET_CHANGES)
def test_schema_and_model_refuse_the_same_fleet_keys(key: str, tmp_path: Path) -> None:
    fleet = {"instance_type": "g6.xlarge", "nodes": 1, key: FLEET_CHANGES[key]}
    assert_both_refuse({**BASE, "training": {"fleets": {"a": fleet}}}, tmp_path)


@pytest.mark.parametrize("key", INFERENCE_CHANGES)
def test_schema_and_model_refuse_the_same_inference_keys(key: str, tmp_path: Path) -> None:
    assert_both_refuse(serving({key: INFERENCE_CHANGES[key]}), tmp_path)


@pytest.mark.parametrize("key", SERVER_CHANGES)
def test_schema_and_model_refuse_the_same_server_keys(key: str, tmp_path: Path) -> None:
    server = {"image": "vllm/vllm-openai:v0.11.0", key: SERVER_CHANGES[key]}
    assert_both_refuse(serving({"server": server}), tmp_path)


@pytest.mark.parametrize("key", BALANCER_CHANGES)
def test_schema_and_model_refuse_the_same_load_balancer_keys(key: str, tmp_path: Path) -> None:
    balancer = {"plain_http": True, key: BALANCER_CHANGES[key]}
    assert_both_refuse(serving({"load_balancer": balancer}), tmp_path)


@pytest.mark.parametrize("key", EKS_CHANGES)
def test_schema_and_model_refuse_the_same_eks_keys(key: str, tmp_path: Path) -> None:
    assert_both_refuse({**BASE, "orchestrator": "eks", "eks": {key: EKS_CHANGES[key]}}, tmp_path)


@pytest.mark.parametrize("kinds", [{}, {"training": {}}, {"training": {"fleets": {}}, "inference": {}}])
def test_schema_and_model_refuse_a_cluster_without_fleets(kinds: dict[str, Any], tmp_path: Path) -> None:
    bare = {key: value for key, value in BASE.items() if key != "training"}
    assert_both_refuse({**bare, **kinds}, tmp_path)


@pytest.mark.parametrize("text", [MINIMAL, EVERYTHING, PUBLIC], ids=["minimal", "everything", "public"])
def test_clusters_that_serve_are_valid(text: str) -> None:
    assert [fault.message for fault in VALIDATOR.iter_errors(parse(text).data)] == []


def serving(fleet: dict[str, Any]) -> dict[str, Any]:
    """A cluster whose one inference fleet has these keys, right but for them."""
    bare = {key: value for key, value in BASE.items() if key != "training"}
    assert VALIDATOR.is_valid({**bare, "inference": {"fleets": {"a": INFERENCE}}})
    return {**bare, "inference": {"fleets": {"a": {**INFERENCE, **fleet}}}}


def assert_both_refuse(data: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(json.dumps(BASE))
    assert VALIDATOR.is_valid(BASE)
    assert read_cluster(file).spec is not None
    file.write_text(json.dumps(data))
    assert not VALIDATOR.is_valid(data)
    assert read_cluster(file).spec is None
