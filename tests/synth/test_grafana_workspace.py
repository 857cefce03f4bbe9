"""A workspace of Amazon Managed Grafana: what AWS gets, who signs in, and what it reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import ConfigError, GrafanaAuthentication, GrafanaWorkspace, MetricsWorkspace
from cdk_gpu_clusters.rules.grafana import WITH_GRAFANA, check_grafana
from stack_fixtures import Site, of_type, only

KIND = "AWS::Grafana::Workspace"
SCHEMA: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", KIND).schema
#: Of the classified and the sovereign partitions, for which the catalogue has no instance types.
ISOLATED = ("us-iso", "eu-iso", "eusc")


def test_a_workspace_reads_cloudwatch_and_its_metrics_only(site: Site) -> None:
    metrics = MetricsWorkspace(site.stack, "Metrics")
    GrafanaWorkspace(
        site.stack, "Grafana", authentication=list(GrafanaAuthentication), metrics=[metrics], name="training"
    )
    resources = site.resources()
    ((_, made),) = of_type(resources, KIND).items()
    assert (made["DeletionPolicy"], made["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert set(made["Properties"]) <= set(SCHEMA["properties"])
    assert set(SCHEMA["required"]) <= set(made["Properties"])
    assert made["Properties"]["AuthenticationProviders"] == SCHEMA["definitions"]["AuthenticationProviderTypes"]["enum"]
    (role,) = [one["Properties"] for one in of_type(resources, "AWS::IAM::Role").values()]
    assert "AmazonGrafanaCloudWatchAccess" in json.dumps(role["ManagedPolicyArns"])
    assert "aws:SourceArn" in json.dumps(role["AssumeRolePolicyDocument"])
    query, listing = only(resources, "AWS::IAM::ManagedPolicy")["PolicyDocument"]["Statement"]
    ((workspace, _),) = of_type(resources, "AWS::APS::Workspace").items()
    assert query["Resource"] == {"Fn::GetAtt": [workspace, "Arn"]}
    assert query["Action"] == [
        "aps:DescribeWorkspace",
        "aps:GetLabels",
        "aps:GetMetricMetadata",
        "aps:GetSeries",
        "aps:QueryMetrics",
    ]
    assert (listing["Action"], listing["Resource"]) == ("aps:ListWorkspaces", "*")


def test_without_metrics_it_reads_cloudwatch_only(site: Site) -> None:
    GrafanaWorkspace(site.stack, "Grafana", authentication=[GrafanaAuthentication.SAML])
    assert of_type(site.resources(), "AWS::IAM::ManagedPolicy") == {}


@pytest.mark.parametrize("ways", [[], [GrafanaAuthentication.SAML] * 2])
def test_ways_to_sign_in_that_aws_refuses(site: Site, ways: list[GrafanaAuthentication]) -> None:
    with pytest.raises(ConfigError, match="GPU-GRF-001"):
        GrafanaWorkspace(site.stack, "Grafana", authentication=ways)


def test_the_regions_are_those_of_the_registry() -> None:
    found = {one for one in REGIONS if KIND in PROVIDER_SCHEMA_MANAGER.get_resource_types(one)}
    assert {one for one in found if not one.startswith(ISOLATED)} == WITH_GRAFANA
    (finding,) = check_grafana(["SAML"], region="eu-north-1")
    assert finding.id == "GPU-GRF-002"
