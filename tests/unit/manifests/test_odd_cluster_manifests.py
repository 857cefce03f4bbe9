"""Manifests of cluster files at the edges: long names, odd counts, texts that look like variables."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cdk_gpu_clusters.catalogue.kubernetes import kubernetes_versions
from cdk_gpu_clusters_stacks.manifests import cluster_manifests
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from kubernetes_schemas import check_objects

HEAD = """
version: 1
name: odd
region: us-east-1
orchestrator: eks
network: { availability_zone: use1-az4, control_availability_zones: [use1-az4, use1-az6] }
"""
LONG = "a" * 20 + "b" * 20
VLLM = "image: 'vllm/vllm-openai:v0.21.0'"


def files_of(text: str, tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    reading = read_cluster(file)
    assert reading.spec is not None, reading.findings
    return cluster_manifests(reading.spec)


def objects_of(files: dict[str, str], below: str = "") -> list[dict[str, Any]]:
    return [
        one
        for path, text in files.items()
        if path.endswith(".yaml") and path.startswith(below) and not path.startswith("software/")
        for one in YAML(typ="safe", pure=True).load_all(text)
    ]


@pytest.mark.parametrize(
    "fleet",
    [
        "training: { fleets: { %s: { instance_type: p5.48xlarge, nodes: 16 } } }",
        "training: { fleets: { %s: { instance_type: p4d.24xlarge, nodes: 700, efa: false, mig: '1g.5gb+me,1g.5gb' } } }",
        "inference: { fleets: { %s: { instance_type: p4d.24xlarge, nodes: 9, mig: '1g.5gb', server: { image: 'a:1' } } } }",
    ],
)
def test_a_fleet_with_the_longest_name_has_all_its_jobs(fleet: str, tmp_path: Path) -> None:
    text = fleet % LONG
    short = files_of(text.replace(LONG, "short"), tmp_path)
    long = files_of(text + "\neks: { software: { trainer: true } }\n", tmp_path)

    for path in short:
        assert path.replace("short", LONG) in long or path.startswith("software/")
    assert check_objects(objects_of(long), kubernetes_versions()[-1].version) > 0


def test_two_fleets_whose_long_names_begin_alike_have_jobs_of_their_own(tmp_path: Path) -> None:
    fleet = "{ instance_type: p5.48xlarge, nodes: 2 }"
    files = files_of(f"training: {{ fleets: {{ {LONG}: {fleet}, {LONG[:-1]}c: {fleet} }} }}", tmp_path)
    names = [(one["kind"], one["metadata"]["name"]) for one in objects_of(files, "jobs/")]
    assert len(names) == len(set(names))


def test_the_job_of_trainer_is_not_the_job_set_beside_it(tmp_path: Path) -> None:
    text = "training: { fleets: { a: { instance_type: p5.48xlarge, nodes: 2 } } }\neks: { software: { trainer: true } }"
    jobs = objects_of(files_of(text, tmp_path), "jobs/")
    # Trainer makes a JobSet of each TrainJob's name.
    sets = [one["metadata"]["name"] for one in jobs if one["kind"] in ("JobSet", "TrainJob")]
    assert len(sets) == len(set(sets)) == 3


@pytest.mark.parametrize(
    ("bounds", "image", "scales"),
    [
        ("min_nodes: 1, max_nodes: 3", "vllm/vllm-openai:v0.21.0", True),
        ("min_nodes: 1, max_nodes: 3", "registry.example:5000/vllm/vllm-openai", True),
        ("min_nodes: 1, max_nodes: 3", "vllm/vllm-openai@sha256:" + "0" * 64, True),
        ("min_nodes: 1, max_nodes: 3", "registry.example/tgi:vllm", False),
        ("min_nodes: 0, max_nodes: 1", "vllm/vllm-openai:v0.21.0", False),
        ("min_nodes: 0, max_nodes: 2", "vllm/vllm-openai:v0.21.0", True),
    ],
)
def test_servers_scale_where_there_is_room_and_a_metric(bounds: str, image: str, scales: bool, tmp_path: Path) -> None:
    fleet = f"{{ instance_type: g6e.xlarge, {bounds}, server: {{ image: '{image}' }} }}"
    objects = objects_of(files_of(f"inference: {{ fleets: {{ a: {fleet} }} }}", tmp_path), "services/")
    deployment = next(one for one in objects if one["kind"] == "Deployment")
    assert any(one["kind"] == "HorizontalPodAutoscaler" for one in objects) is scales
    assert ("replicas" in deployment["spec"]) is not scales


def test_secrets_with_fields_of_one_name_stay_apart(tmp_path: Path) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret"
    secrets = f"{{ A: {{ arn: '{arn}:one-AbCdEf', json_field: 'the token' }}, B: {{ arn: '{arn}:two-AbCdEf', json_field: 'the token' }} }}"
    fleet = f"{{ instance_type: g6e.xlarge, nodes: 1, server: {{ {VLLM}, secrets: {secrets} }} }}"
    files = files_of(f"inference: {{ fleets: {{ a: {fleet} }} }}", tmp_path)
    (deployment,) = (one for one in objects_of(files) if one["kind"] == "Deployment")
    variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    keys = [one["valueFrom"]["secretKeyRef"]["key"] for one in variables if "valueFrom" in one]

    assert keys == ["A", "B"]
    assert f"its key B holds what field the token of {arn}:two-AbCdEf has" in files["services/a.yaml"]


def test_the_script_puts_in_what_stacks_tell_and_nothing_else(tmp_path: Path) -> None:
    files = files_of(
        "data: { corpus: { lustre: { storage_capacity_gib: 1200, throughput_mb_per_s_per_tib: 250 } } }\n"
        "inference: { fleets: { a: { instance_type: g6e.xlarge, nodes: 1, mounts: { /fsx: corpus }, "
        f"server: {{ {VLLM}, command: [--model, '${{MODEL}}'] }} }} }} }}",
        tmp_path,
    )
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    tools = tmp_path / "bin"
    tools.mkdir()
    # As GNU's: with an argument it puts in the variables that stand there, and all of them without.
    envsubst = (
        "import os, re, sys; n = re.findall(r'[$][{](\\w+)[}]', sys.argv[1]) if sys.argv[1:] else None; "
        "print(re.sub(r'[$][{](\\w+)[}]', lambda m: os.environ.get(m[1], '') if n is None or m[1] in n else m[0], "
        "sys.stdin.read()))"
    )
    fakes = {
        "helm": "true",
        "aws": "echo told",
        "envsubst": f'exec python3 -c "{envsubst}" "$@"',
        "kubectl": 'if [ "$3" = - ]; then cat; else cat "$3"; fi >>"$APPLIED"',
    }
    for tool, body in fakes.items():
        (tools / tool).write_text(f"#!/bin/sh\n{body}\n")
        (tools / tool).chmod(0o755)
    applied = tmp_path / "applied"
    subprocess.run(
        ["sh", str(tmp_path / "install.sh")],
        env={"PATH": f"{tools}:{os.environ['PATH']}", "APPLIED": str(applied)},
        check=True,
    )
    text = applied.read_text()
    assert 'volumeHandle: "told"' in text
    assert "${MODEL}" in text
    assert "CORPUS_" not in text


def test_arm64_nodes_are_told_that_the_image_is_another_ones(tmp_path: Path) -> None:
    text = "training: { fleets: { a: { instance_type: %s, nodes: 2 } } }"
    for type_name, told in (("g5g.xlarge", True), ("g5.xlarge", False)):
        files = files_of(text % type_name, tmp_path)
        for job in ("torchrun", "nccl-test"):
            assert ("arm64" in files[f"jobs/a/{job}.yaml"]) is told


def test_a_workflow_names_an_account_that_may_report_to_argo(tmp_path: Path) -> None:
    text = "training: { fleets: { a: { instance_type: p4d.24xlarge, nodes: 1, efa: false, mig: '1g.5gb' } } }"
    (flow,) = (one for one in objects_of(files_of(text, tmp_path)) if one["kind"] == "Workflow")
    assert flow["spec"]["serviceAccountName"] == "argo-workflow"
