"""The examples that are Python apps. That they pass CDK's own validation is a test of `tests/policy`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

import cdk_gpu_clusters
from pages import run_by
from shared_assemblies import templates_in

REPOSITORY = Path(__file__).parents[2]
#: Example -> what its one template holds besides other things.
HELD = {
    "own_cdk_app": {"AWS::AutoScaling::AutoScalingGroup", "Custom::EC2CapacityReservation"},
    "own_inference_app": {
        "AWS::AutoScaling::AutoScalingGroup",
        "AWS::AutoScaling::ScalingPolicy",
        "AWS::CloudWatch::Alarm",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
    },
}


@pytest.mark.parametrize("example", HELD)
def test_an_example_app_synthesizes(
    example: str, app_factory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_factory(outdir=str(tmp_path))
    monkeypatch.setattr(cdk, "App", lambda: app)
    runpy.run_path(str(REPOSITORY / "examples" / example / "app.py"), run_name="__main__")
    (template,) = templates_in(tmp_path).values()
    assert {resource["Type"] for resource in template["Resources"].values()} >= HELD[example]


def test_every_example_of_an_own_app_is_run() -> None:
    assert {path.parent.name for path in (REPOSITORY / "examples").glob("*/app.py")} == set(HELD)


def test_what_the_cookbook_says_of_existing_things_runs(app_factory: Any) -> None:
    (existing,) = run_by(__file__)
    names: dict[str, Any] = {
        **{name: getattr(cdk_gpu_clusters, name) for name in cdk_gpu_clusters.__all__},
        "app": app_factory(),
        "cdk": cdk,
        "ec2": ec2,
    }
    exec(existing.text, names)  # noqa: S102
    made = cdk_gpu_clusters.GpuFleet(
        names["stack"],
        "Trainers",
        vpc=names["vpc"],
        vpc_subnets=ec2.SubnetSelection(subnets=[names["vpc"].private_subnets[0]]),
        fabric=names["fabric"],
        capacity=names["capacity"],
        instance_type="p4d.24xlarge",
        node_count=4,
    )
    assert made.placement_group is names["group"]
