"""Stores are clean under the packs of cdk-nag, and every accepted finding carries its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import CheckpointStore, ColdFileRelease, LustreStore


@pytest.mark.parametrize("env", [None, cdk.Environment(account="123456789012", region="us-east-1")])
def test_nothing_is_found_but_what_is_accepted(
    env: cdk.Environment | None, tmp_path: Path, app_factory: Any
) -> None:
    app = app_factory(outdir=str(tmp_path))
    stack = cdk.Stack(app, "Data", env=env)
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a"],
        private_subnet_ids=["subnet-0123456789abcdef0"],
        private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
    )
    place: dict[str, Any] = {"vpc": vpc, "subnet": vpc.private_subnets[0]}
    size: dict[str, Any] = {"storage_capacity_gib": 19_200, "throughput_mb_per_s_per_tib": 250}
    fabric = ec2.SecurityGroup.from_security_group_id(stack, "Fabric", "sg-0123456789abcdef0")
    store = LustreStore(stack, "Corpus", **place, **size, efa=True, client_security_group=fabric)
    LustreStore(stack, "Plain", **place, **size, client_security_group=fabric)
    checkpoints = CheckpointStore(stack, "Checkpoints", express_zone_id="use1-az4")
    store.add_data_repository("/checkpoints", bucket=checkpoints.bucket)
    ColdFileRelease(stack, "Release", store=store)
    cdk.Validations.of(app).add_plugins(
        cdk_nag.AwsSolutionsChecks(),
        cdk_nag.NIST80053R5Checks(),
        cdk_nag.HIPAASecurityChecks(),
        cdk_nag.PCIDSS321Checks(),
    )
    app.synth()  # raises on a finding
    template = json.loads((tmp_path / "Data.template.json").read_text())
    assert len(template["Resources"]) > 20, "the packs looked at the stores"
    reports = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    suppressed = [each for report in reports for each in report.get("suppressedViolations", [])]
    assert suppressed
    assert all(len(each["reason"]) > 40 for each in suppressed)
