"""CDK's own validation, strict: an app with everything on passes, and a planted fault does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from assemblies import Packs
from everything.fleets import ENVIRONMENTS, define_training

STRICT = {
    "@aws-cdk/core:validateAgainstDefaultRules": True,
    "@aws-cdk/core:strictCfnValidateErrors": True,
}


@pytest.fixture
def app(packs: Packs, app_factory: Any) -> cdk.App:
    """An app whose synthesis fails on every error and every warning."""
    made: cdk.App = app_factory(context=STRICT)
    cdk.Validations.of(made).add_plugins(packs.cloudformation)
    return made


def test_everything_on_passes(app: cdk.App) -> None:
    env, zone = ENVIRONMENTS["commercial"]
    define_training(app, env, zone)
    app.synth()
    reports = json.loads((Path(app.outdir) / "validation-report.json").read_text())["pluginReports"]
    assert [(report["pluginName"], report["violations"]) for report in reports] == [("CloudFormation Validate", [])]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"vpc_id": "vpc-1", "cidr_block": "10.0.0.0/24"}, "VpcId"),
        (
            {
                "vpc_id": "vpc-0123456789abcdef0",
                "cidr_block": "10.0.0.0/24",
                "availability_zone": "us-east-1a",
            },
            "Avoid hardcoding availability zones",
        ),
    ],
    ids=["error", "warning"],
)
def test_a_planted_fault_does_not(app: cdk.App, fault: dict[str, str], said: str) -> None:
    ec2.CfnSubnet(cdk.Stack(app, "Stack"), "Subnet", **fault)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=said):
        app.synth()
