"""Fleets whose nodes run Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import CfnParameter

from cdk_gpu_clusters import ConfigError, GpuFleet, MigLayout, NodeWatch, RayNodes, UserDataPart
from cdk_gpu_clusters.node.ray import check_ray_nodes
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from stack_fixtures import Site, only

TEMPLATE = "AWS::EC2::LaunchTemplate"
OWN = UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\npython3 -m venv /opt/ray\n")


def fleet(site: Site, **options: Any) -> GpuFleet:
    given: dict[str, Any] = {"vpc": site.vpc, "vpc_subnets": site.one_subnet, "instance_type": "g6.xlarge"}
    return GpuFleet(site.stack, "Trainers", **(given | {"node_count": 2} | options))


def user_data(site: Site) -> str:
    """The user data as text, with references as placeholders."""
    encoded = only(site.resources(), TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    _, parts = encoded["Fn::Join"]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def test_ray_is_started_after_the_users_own_parts_and_is_a_job_of_the_node(site: Site) -> None:
    name = CfnParameter(site.stack, "Name").value_as_string
    fleet(site, ray=RayNodes(head=name), user_data_parts=[OWN], watch=NodeWatch(job_units=("own.service",)))
    text = user_data(site)
    assert "RAY_PROGRAM=/opt/ray/bin/ray\n" in text
    assert 'RAY_HEAD={"Ref": "Name"}' in text
    assert text.index("python3 -m venv /opt/ray") < text.index("systemctl start --no-block gpu-ray.service")
    assert "own.service gpu-ray.service" in text


def test_a_fleet_without_ray_says_nothing_of_it(site: Site) -> None:
    fleet(site)
    text = user_data(site)
    assert "ray" not in text.replace("array", "")


def test_the_key_of_the_cluster_file_starts_ray_after_the_script_of_the_fleet(app_factory: Any, tmp_path: Path) -> None:
    (tmp_path / "install.sh").write_text("#!/bin/sh\npython3 -m venv /opt/ray\n")
    file = tmp_path / "cluster.yaml"
    fleet_keys = "instance_type: g6.xlarge, nodes: 2, user_data: install.sh, ray: { head: ray.lab.internal }"
    file.write_text(
        "version: 1\nname: lab\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"
        f"training: {{ fleets: {{ a: {{ {fleet_keys} }} }} }}\n"
    )
    app = app_factory()
    build_cluster(app, load_cluster(file))
    template = json.loads((Path(app.synth().directory) / "lab-fleet-a.template.json").read_text())
    encoded = only(template["Resources"], TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    text = "".join(part for part in encoded["Fn::Join"][1] if isinstance(part, str))
    assert "RAY_HEAD=ray.lab.internal\n" in text
    assert text.index("python3 -m venv /opt/ray") < text.index("systemctl start --no-block gpu-ray.service")
    assert text.count("gpu-ray.service") == 3  # a job of the node, enabled, and started


def test_split_gpus_are_refused(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-RAY-013"):
        fleet(site, instance_type="p4d.24xlarge", efa=False, mig=MigLayout(["1g.5gb"] * 7), ray=RayNodes())


@pytest.mark.parametrize(
    ("ray", "path"),
    [
        (RayNodes(program="ray"), "ray.program"),
        (RayNodes(program="/opt/ray; reboot"), "ray.program"),
        (RayNodes(program="/opt/ray/"), "ray.program"),
        (RayNodes(head=""), "ray.head"),
        (RayNodes(head="ray.lab:6379"), "ray.head"),
        (RayNodes(head="a\nreboot"), "ray.head"),
    ],
)
def test_what_is_no_program_or_no_host_is_refused(ray: RayNodes, path: str) -> None:
    (finding,) = check_ray_nodes(ray, is_split=False)
    assert (finding.id, finding.path) == ("GPU-RAY-012", path)


def test_names_and_addresses_of_heads_are_taken() -> None:
    for head in (None, "ray", "ray.lab.internal", "ip-10-0-0-5.ec2.internal", "10.0.0.5"):
        assert check_ray_nodes(RayNodes(head=head), is_split=False) == []
