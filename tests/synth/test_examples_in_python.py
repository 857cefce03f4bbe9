"""The examples that are Python apps, run as a user runs them, with CDK's own validation on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

import cdk_gpu_clusters
from pages import run_by

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


@pytest.mark.validation
@pytest.mark.parametrize("example", HELD)
def test_an_example_app_synthesizes(example: str, tmp_path: Path) -> None:
    context = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / example / "app.py")],
        env={
            **os.environ,
            "CDK_VALIDATION": "true",
            "CDK_OUTDIR": str(tmp_path),
            "CDK_CONTEXT_JSON": json.dumps(context),
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / root) for root in ("constructs", "emulator", "stacks")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (template,) = tmp_path.glob("*.template.json")
    types = {resource["Type"] for resource in json.loads(template.read_text())["Resources"].values()}
    assert types >= HELD[example]
    assert "validation" not in done.stderr.lower() or "0 violations" in done.stderr


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
