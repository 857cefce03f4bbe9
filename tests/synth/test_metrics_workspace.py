"""A workspace of Amazon Managed Service for Prometheus: what AWS gets, what it keeps, and who may use it."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from aws_cdk import App, Environment, RemovalPolicy, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import AlarmTopic, ConfigError, MetricsWorkspace
from cdk_gpu_clusters.rules.metrics_workspace import WITHOUT_WORKSPACES
from stack_fixtures import Site, of_type, only

KIND = "AWS::APS::Workspace"
ARN = "arn:aws:aps:us-east-2:111122223333:workspace/ws-0123abcd"


def schema() -> dict[str, Any]:
    found: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", KIND).schema
    return found


def test_a_workspace_of_all_defaults_is_kept(site: Site) -> None:
    MetricsWorkspace(site.stack, "Metrics")
    resources = site.resources()
    (made,) = of_type(resources, KIND).values()
    assert (made["DeletionPolicy"], made["UpdateReplacePolicy"]) == ("Retain", "Retain")
    ((group, logs),) = of_type(resources, "AWS::Logs::LogGroup").items()
    assert made["Properties"] == {
        "Alias": "Site/Metrics",
        "LoggingConfiguration": {"LogGroupArn": {"Fn::GetAtt": [group, "Arn"]}},
    }
    assert logs["Properties"].pop("LogGroupName").startswith("/aws/vendedlogs/prometheus/Site-Metrics-")
    assert (logs["Properties"], logs["DeletionPolicy"]) == ({"RetentionInDays": 30}, "Delete")


def test_every_setting_is_one_of_the_registry_schema(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    MetricsWorkspace(
        site.stack,
        "Metrics",
        alias="training",
        retention_days=1_095,
        encryption_key=key,
        alert_manager_definition="alertmanager_config: |\n",
        removal_policy=RemovalPolicy.DESTROY,
    )
    made = only(site.resources(), KIND)
    assert set(made) <= set(schema()["properties"])
    assert made["WorkspaceConfiguration"] == {"RetentionPeriodInDays": 1_095}
    assert made["KmsKeyArn"]["Fn::GetAtt"][1] == "Arn"
    # What the docstring says of the key.
    assert schema()["createOnlyProperties"] == ["/properties/KmsKeyArn"]


def test_the_rules_of_the_library_go_into_it(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics")
    workspace.add_rules("Rules", idle_minutes=None)
    resources = site.resources()
    ((name, _),) = of_type(resources, KIND).items()
    assert only(resources, "AWS::APS::RuleGroupsNamespace")["Workspace"] == {"Fn::GetAtt": [name, "Arn"]}


@pytest.mark.parametrize("is_imported", [False, True])
def test_grants_are_for_the_workspace_only(site: Site, is_imported: bool) -> None:
    workspace = (
        MetricsWorkspace.from_metrics_workspace_attributes(site.stack, "Shared", workspace_arn=ARN)
        if is_imported
        else MetricsWorkspace(site.stack, "Metrics")
    )
    role = iam.Role(site.stack, "Role", assumed_by=iam.AnyPrincipal())
    workspace.grant_query(role)
    workspace.grant_remote_write(role)
    resources = site.resources()
    (name,) = of_type(resources, KIND) or [""]
    (statement,) = only(resources, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    # AWS managed policies AmazonPrometheusQueryAccess and AmazonPrometheusRemoteWriteAccess.
    actions = ["GetLabels", "GetMetricMetadata", "GetSeries", "QueryMetrics", "RemoteWrite"]
    assert statement["Action"] == [f"aps:{one}" for one in actions]
    assert statement["Resource"] == (ARN if is_imported else {"Fn::GetAtt": [name, "Arn"]})


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"retention_days": 0}, "GPU-AMP-001"),
        ({"retention_days": 1_096}, "GPU-AMP-001"),
        ({"alias": ""}, "GPU-AMP-002"),
        ({"alias": "a" * 101}, "GPU-AMP-002"),
        ({"alias": " a"}, "GPU-AMP-002"),
    ],
)
def test_what_aws_refuses_is_refused_here(site: Site, options: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        MetricsWorkspace(site.stack, "Metrics", **options)


def test_what_aws_takes_is_taken(site: Site) -> None:
    MetricsWorkspace(site.stack, "Least", alias="a", retention_days=1)
    MetricsWorkspace(site.stack, "Most", alias="a" * 100, retention_days=cast("int", Token.as_number({"Ref": "Days"})))


def test_regions_without_workspaces_are_those_of_the_registry() -> None:
    found = {name for name in REGIONS if not _has_workspaces(name)}
    assert found == WITHOUT_WORKSPACES
    stack = Stack(App(), "Stack", env=Environment(account="111122223333", region="cn-north-1"))
    with pytest.raises(ConfigError, match="GPU-AMP-003"):
        MetricsWorkspace(stack, "Metrics")


def _has_workspaces(region: str) -> bool:
    return KIND in PROVIDER_SCHEMA_MANAGER.get_resource_types(region)


@pytest.mark.parametrize("arn", ["ws-0123abcd", f"{ARN}/", "arn:aws:aps:us-east-2:1:scraper/s-1"])
def test_only_arns_of_workspaces_are_imported(site: Site, arn: str) -> None:
    pattern = schema()["properties"]["Arn"]["pattern"]
    assert not re.fullmatch(pattern.strip("^$"), arn)
    with pytest.raises(ConfigError, match="GPU-AMP-004"):
        MetricsWorkspace.from_metrics_workspace_attributes(site.stack, "Shared", workspace_arn=arn)


def test_a_token_is_imported(site: Site) -> None:
    token = Token.as_string({"Fn::ImportValue": "Workspace"})
    made = MetricsWorkspace.from_metrics_workspace_attributes(site.stack, "Shared", workspace_arn=token)
    assert made.workspace_arn == token


def test_alerts_notify_topics_that_let_the_workspace_publish(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics")
    own = AlarmTopic(site.stack, "Operators", emails=["operators@example.org"]).topic
    imported = sns.Topic.from_topic_arn(site.stack, "Given", "arn:aws:sns:us-east-2:111122223333:ops")
    for topic in (own, imported):
        workspace.add_alert_topic(topic)
    resources = site.resources()
    ((name, made),) = of_type(resources, KIND).items()
    before, arn, after = made["Properties"]["AlertManagerDefinition"]["Fn::Join"][1][:3]
    ((topic_name, _),) = of_type(resources, "AWS::SNS::Topic").items()
    assert arn == {"Ref": topic_name}
    assert before.startswith("alertmanager_config: |\n  route:\n")
    assert "111122223333:ops" in json.dumps(after) + json.dumps(made["Properties"]["AlertManagerDefinition"])
    statements = only(resources, "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    (published,) = [one for one in statements if one.get("Principal") == {"Service": "aps.amazonaws.com"}]
    assert published["Condition"]["ArnLike"] == {"aws:SourceArn": {"Fn::GetAtt": [name, "Arn"]}}


def test_two_workspaces_notify_a_topic_of_another_stack(site: Site) -> None:
    operators = Stack(site.app, "Operators")
    topic = sns.Topic(operators, "Topic")
    for name in ("One", "Two"):
        MetricsWorkspace(site.stack, name).add_alert_topic(topic)
    (policy,) = of_type(
        site.app.synth().get_stack_by_name("Operators").template["Resources"], "AWS::SNS::TopicPolicy"
    ).values()
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    assert len(statements) == 1, "statements that are equal are one, and those that differ have ids that differ"
    assert "workspace/*" in json.dumps(statements[0]["Condition"]["ArnLike"])


def test_a_topic_beside_an_own_definition_is_refused(site: Site) -> None:
    workspace = MetricsWorkspace(site.stack, "Metrics", alert_manager_definition="alertmanager_config: |\n")
    with pytest.raises(ConfigError, match="GPU-AMP-005"):
        workspace.add_alert_topic(sns.Topic(site.stack, "Topic"))
