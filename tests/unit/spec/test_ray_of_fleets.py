"""`ray` of a training fleet: Ray on the nodes of plain EC2 fleets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.ray import RayNodes
from cdk_gpu_clusters_stacks.plan import Effect, compare_clusters, plan_cluster
from cdk_gpu_clusters_stacks.plan.text import plan_text
from cdk_gpu_clusters_stacks.spec import load_cluster, read_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import planned_fleets

HEAD = "version: 1\nname: demo\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"


def written(tmp_path: Path, fleet: str, head: str = HEAD) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{head}training:\n  fleets:\n    a:\n      instance_type: p4d.24xlarge\n      nodes: 2\n{fleet}")
    return file


def test_ray_has_the_defaults_of_the_library_and_is_a_job_of_the_node(tmp_path: Path) -> None:
    (fleet,) = planned_fleets(load_cluster(written(tmp_path, "      ray: {}\n")))
    assert fleet.ray == RayNodes()
    assert fleet.node_request().watch.job_units == ("gpu-ray.service",)
    (without,) = planned_fleets(load_cluster(written(tmp_path, "")))
    assert without.ray is None
    assert without.node_request().watch.job_units == ()


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        ("      ray: {}\n", []),
        ("      ray: { program: /usr/local/bin/ray, head: 10.0.0.5 }\n", []),
        ("      ray: { program: ray }\n", ["10 GPU-RAY-012"]),
        ("      ray:\n        head: ray.lab:6379\n", ["11 GPU-RAY-012"]),
        ("      efa: false\n      mig: 1g.5gb\n      ray: {}\n", ["12 GPU-RAY-013"]),
        ("      ray: { port: 6379 }\n", ["10 GPU-SPEC-005"]),
    ],
)
def test_what_the_fleet_would_refuse_is_found_at_its_key(fleet: str, expected: list[str], tmp_path: Path) -> None:
    found = read_cluster(written(tmp_path, fleet)).findings
    errors = [one for one in found if one.severity.value == "error"]
    assert [f"{one.path.split(':')[-2]} {one.id}" for one in errors] == expected


@pytest.mark.parametrize(
    ("orchestrator", "fix"), [("eks", "write eks.software.ray: true in its place"), ("pcs", "remove ray")]
)
def test_other_orchestrators_start_jobs_themselves(orchestrator: str, fix: str, tmp_path: Path) -> None:
    head = HEAD + f"orchestrator: {orchestrator}\n"
    found = read_cluster(written(tmp_path, "      ray: {}\n", head)).findings
    (error,) = [one for one in found if one.id == "GPU-SPEC-063"]
    assert (error.path.split(":")[-2], error.fix) == ("11", fix)


def test_model_servers_have_no_ray(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    server = "server: { image: 'a/b:1' }, load_balancer: { plain_http: true, clients: [10.0.0.0/16] }"
    file.write_text(
        f"{HEAD}inference: {{ fleets: {{ a: {{ instance_type: g6.xlarge, nodes: 2, {server}, ray: {{}} }} }} }}\n"
    )
    assert "GPU-SPEC-005" in {one.id for one in read_cluster(file).findings}


def test_the_plan_shows_ray_and_what_a_change_does_to_nodes(tmp_path: Path) -> None:
    chosen, named = (
        load_cluster(written(tmp_path, f"      update: rolling\n      ray: {text}\n"))
        for text in ("{}", "{ head: ray.lab.internal }")
    )
    assert "runs Ray by /opt/ray/bin/ray after the checks of its boot; the nodes choose the head" in " ".join(
        plan_text(plan_cluster(chosen)).split()
    )
    assert "ray.lab.internal is the head" in " ".join(plan_text(plan_cluster(named)).split())
    (change,) = [one for one in compare_clusters(chosen, named).changes if one.resource == "AWS::EC2::LaunchTemplate"]
    assert (change.effect, change.keys) == (Effect.UPDATED, ("training.fleets.a.ray",))
    assert "running nodes are replaced one at a time (update: rolling)" in change.nodes
