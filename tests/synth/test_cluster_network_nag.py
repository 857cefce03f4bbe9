"""A cluster network is clean under the packs of cdk-nag, and every accepted finding carries its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
import pytest

from cdk_gpu_clusters.network.cluster_network import ClusterNetwork
from cdk_gpu_clusters.network.egress import Egress
from cdk_gpu_clusters.rules.endpoints import Feature


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ({}, {"VPCDefaultSecurityGroupClosed", "VPCNoUnrestrictedRouteToIGW", "CloudWatchLogGroupEncrypted"}),
        ({"egress": Egress.CLOSED}, {"VPCDefaultSecurityGroupClosed", "CloudWatchLogGroupEncrypted"}),
        (
            {"egress": Egress.CLOSED, "cidr": cdk.Fn.import_value("block")},
            {
                "VPCDefaultSecurityGroupClosed",
                "CloudWatchLogGroupEncrypted",
                "EC23",
                "EC2RestrictedCommonPorts",
                "EC2RestrictedSSH",
            },
        ),
    ],
    ids=["nat", "closed", "token-block"],
)
def test_nothing_is_found_but_what_is_accepted(
    options: dict[str, Any], accepted: set[str], tmp_path: Path
) -> None:
    app = cdk.App(analytics_reporting=False, outdir=str(tmp_path))
    stack = cdk.Stack(app, "Net")
    ClusterNetwork(stack, "Network", availability_zone="us-east-1a", features=list(Feature), **options)
    cdk.Validations.of(app).add_plugins(
        cdk_nag.AwsSolutionsChecks(),
        cdk_nag.NIST80053R5Checks(),
        cdk_nag.HIPAASecurityChecks(),
        cdk_nag.PCIDSS321Checks(),
    )
    app.synth()  # raises on a finding
    template = json.loads((tmp_path / "Net.template.json").read_text())
    assert len(template["Resources"]) > 20, "the packs looked at a network"
    reports = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    assert [violation for report in reports for violation in report["violations"]] == []
    suppressed = [each for report in reports for each in report.get("suppressedViolations", [])]
    assert {each["ruleName"].rsplit("-", 1)[-1] for each in suppressed} == accepted
    assert all(len(each["reason"]) > 40 for each in suppressed)
