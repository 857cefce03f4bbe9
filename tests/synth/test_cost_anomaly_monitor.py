"""The anomaly monitor of a cluster, held against the registry and the service model of Cost Explorer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import botocore.session
import jsonschema
import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_sns as sns
from botocore.validate import ParamValidator
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import ConfigError, CostAnomalyMonitor
from cdk_gpu_clusters.rules.budget import WITHOUT_ANOMALIES
from stack_fixtures import Site, of_type, only

MONITOR, SUBSCRIPTION = "AWS::CE::AnomalyMonitor", "AWS::CE::AnomalySubscription"
TOPIC = "arn:aws:sns:us-east-1:111122223333:ops"
MODEL = botocore.session.get_session().get_service_model("ce")


def expression_faults(shape: str, member: str, text: str) -> str:
    taken = MODEL.shape_for(shape).members[member]  # type: ignore[attr-defined]
    return str(ParamValidator().validate(json.loads(text), taken).generate_report())


def test_it_monitors_the_tag_of_the_cluster(site: Site) -> None:
    topic = sns.Topic.from_topic_arn(site.stack, "Ops", TOPIC)
    CostAnomalyMonitor(site.stack, "Anomalies", cluster="lab", topic=topic, least_usd=500, least_percent=40)
    resources = site.resources()
    monitor, subscription = only(resources, MONITOR), only(resources, SUBSCRIPTION)
    assert monitor["MonitorType"] == "CUSTOM"
    assert "MonitorDimension" not in monitor
    assert json.loads(monitor["MonitorSpecification"]) == {"Tags": {"Key": "gpu-cluster", "Values": ["lab"]}}
    assert expression_faults("AnomalyMonitor", "MonitorSpecification", monitor["MonitorSpecification"]) == ""
    assert (subscription["Frequency"], subscription["Subscribers"]) == (
        "IMMEDIATE",
        [{"Type": "SNS", "Address": TOPIC}],
    )
    threshold = subscription["ThresholdExpression"]
    assert expression_faults("AnomalySubscription", "ThresholdExpression", threshold) == ""
    least = {one["Dimensions"]["Key"]: float(one["Dimensions"]["Values"][0]) for one in json.loads(threshold)["And"]}
    assert least == {"ANOMALY_TOTAL_IMPACT_ABSOLUTE": 500, "ANOMALY_TOTAL_IMPACT_PERCENTAGE": 40}
    [name] = of_type(resources, MONITOR)
    assert subscription["MonitorArnList"] == [{"Fn::GetAtt": [name, "MonitorArn"]}]
    known = {**subscription, "MonitorArnList": ["arn:aws:ce::111122223333:anomalymonitor/1-2"]}
    for kind, properties in ((MONITOR, monitor), (SUBSCRIPTION, known)):
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
        assert [one.message for one in jsonschema.Draft7Validator(schema).iter_errors(properties)] == []


def test_one_threshold_stands_alone(site: Site) -> None:
    CostAnomalyMonitor(site.stack, "Anomalies", cluster="lab", emails=["a@example.org"], least_usd=1e9)
    threshold = only(site.resources(), SUBSCRIPTION)["ThresholdExpression"]
    assert expression_faults("AnomalySubscription", "ThresholdExpression", threshold) == ""
    assert json.loads(threshold)["Dimensions"]["Values"] == ["1000000000.000000"]


def test_its_own_topic_takes_anomalies_of_this_account_before_it_subscribes(site: Site) -> None:
    CostAnomalyMonitor(site.stack, "Anomalies", cluster="lab", emails=["a@example.org"])
    resources = site.resources()
    [(policy_name, policy)] = of_type(resources, "AWS::SNS::TopicPolicy").items()
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    [allowed] = [one for one in statements if one.get("Sid") == "AnomaliesOfThisAccount"]
    assert (allowed["Principal"], allowed["Action"]) == ({"Service": "costalerts.amazonaws.com"}, "sns:Publish")
    assert list(allowed["Condition"]) == ["StringEquals"]
    [subscription] = of_type(resources, SUBSCRIPTION).values()
    assert subscription["DependsOn"] == [policy_name]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"least_usd": -1}, "GPU-BUD-010"),
        ({"least_usd": float("nan")}, "GPU-BUD-010"),
        ({"least_percent": 1e11}, "GPU-BUD-010"),
        ({"emails": []}, "GPU-BUD-004.*monitor notifies no one"),
        ({"emails": ["a"]}, "GPU-ALM-002"),
    ],
)
def test_what_aws_refuses_is_refused_here(site: Site, options: dict[str, Any], rule: str) -> None:
    given = {"cluster": "lab", "emails": ["a@example.org"], **options}
    with pytest.raises(ConfigError, match=rule):
        CostAnomalyMonitor(site.stack, "Anomalies", **given)


def test_regions_without_monitors_are_those_of_the_registry() -> None:
    from cfnlint.helpers import REGIONS

    for kind in (MONITOR, SUBSCRIPTION):
        without = {one for one in REGIONS if kind not in PROVIDER_SCHEMA_MANAGER.get_resource_types(one)}
        assert without == WITHOUT_ANOMALIES


def test_a_region_without_monitors_is_refused(app_factory: Callable[[], App]) -> None:
    stack = Stack(app_factory(), "Far", env=Environment(account="111122223333", region="mx-central-1"))
    with pytest.raises(ConfigError, match="GPU-BUD-009"):
        CostAnomalyMonitor(stack, "Anomalies", cluster="lab", emails=["a@example.org"])
