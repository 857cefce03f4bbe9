"""A construct decides its fleet once: type, interfaces, capacity and placement."""

from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import GpuFleet, GpuLaunchTemplate, InferenceFleet, ModelServer
from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.rules.capacity_checks import check_capacity
from cdk_gpu_clusters.rules.interfaces import plan_interfaces
from cdk_gpu_clusters.rules.placement import choose_placement
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from cdk_gpu_clusters_stacks.spec.planned_fleet import decide_fleet
from counted_calls import counted_calls
from node_groups import existing_cluster, node_group
from stack_fixtures import SiteFactory

DECISIONS = (instance_type, plan_interfaces, check_capacity, choose_placement, plan_fleet)
ONCE = {function.__name__: 1 for function in DECISIONS}


def test_a_fleet_is_decided_once(make_site: SiteFactory) -> None:
    site = make_site()
    with counted_calls(*DECISIONS) as calls:
        GpuFleet(
            site.stack,
            "Trainers",
            vpc=site.vpc,
            vpc_subnets=site.one_subnet,
            instance_type="p5.48xlarge",
            node_count=2,
        )
        site.resources()
    assert calls == ONCE


def test_a_node_group_is_decided_once(make_site: SiteFactory) -> None:
    site = make_site()
    cluster = existing_cluster(site)
    with counted_calls(*DECISIONS) as calls:
        node_group(site, cluster=cluster)
        site.resources()
    assert calls == ONCE


def test_a_fleet_of_model_servers_is_decided_once(make_site: SiteFactory) -> None:
    site = make_site()
    with counted_calls(*DECISIONS) as calls:
        InferenceFleet(
            site.stack,
            "Chat",
            vpc=site.vpc,
            instance_type="g6e.24xlarge",
            min_node_count=30,
            server=ModelServer(image="vllm/vllm-openai:v0.11.0"),
            plain_http=True,
        )
        site.resources()
    assert calls == ONCE


def test_a_launch_template_alone_is_decided_by_the_same_plan(make_site: SiteFactory) -> None:
    site = make_site()
    group = ec2.SecurityGroup(site.stack, "Group", vpc=site.vpc)
    with counted_calls(*DECISIONS) as calls:
        GpuLaunchTemplate(site.stack, "Template", instance_type="g6.xlarge", security_groups=[group])
        site.resources()
    assert calls == ONCE


@pytest.mark.parametrize("orchestrator", ["ec2", "eks"])
def test_a_cluster_file_is_decided_by_its_check_and_each_construct_decides_its_own_options(
    tmp_path: Path, app_factory: Callable[[], cdk.App], orchestrator: str
) -> None:
    existing = '{ cluster_name: lab, cluster_security_group_id: sg-0123456789abcdef0, kubernetes_version: "1.34" }'
    eks = f"orchestrator: eks\neks: {{ existing: {existing} }}\n" if orchestrator == "eks" else ""
    file = tmp_path / "cluster.yaml"
    file.write_text(
        f"version: 1\nname: lab\nregion: us-east-1\n{eks}network: {{ availability_zone: us-east-1a }}\n"
        "training:\n  fleets:\n    one: { instance_type: p5.48xlarge, nodes: 2, "
        "capacity: { new_reservation: { unlimited: true } } }\n",
        encoding="utf-8",
    )
    decide_fleet.cache_clear()
    with counted_calls(*DECISIONS) as loading:
        spec = load_cluster(file)
    app = app_factory()
    with counted_calls(*DECISIONS) as making:
        build_cluster(app, spec)
        app.synth()
    assert loading == ONCE
    assert making == {**ONCE, "instance_type": 2}  # the reservation is a construct of its own, which knows its type
