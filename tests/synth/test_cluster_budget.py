"""The budget of a cluster: what it counts, whom it notifies, and what a changed recipient replaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack, Tags
from aws_cdk import aws_sns as sns
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import ClusterBudget, ConfigError
from cdk_gpu_clusters.rules.budget import WITHOUT_BUDGETS
from stack_fixtures import Site

BUDGET = "AWS::Budgets::Budget"
TOPIC = "arn:aws:sns:us-east-1:111122223333:ops"


def budget_of(resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Logical id and properties of the only budget."""
    [(name, one)] = [(name, one) for name, one in resources.items() if one["Type"] == BUDGET]
    return name, one["Properties"]


def test_it_counts_what_carries_the_tag_of_the_cluster(site: Site) -> None:
    ClusterBudget(site.stack, "Budget", cluster="lab", usd_per_month=50_000, emails=["a@example.org"])
    _, made = budget_of(site.resources())
    assert made["Budget"] == {
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": 50_000, "Unit": "USD"},
        "CostFilters": {"TagKeyValue": ["user:gpu-cluster$lab"]},
    }
    at = [
        (one["Notification"]["NotificationType"], one["Notification"]["Threshold"])
        for one in made["NotificationsWithSubscribers"]
    ]
    assert at == [("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]


def test_other_addresses_replace_no_budget(site: Site) -> None:
    """Nothing that CloudFormation can only set at creation knows the addresses."""
    ClusterBudget(site.stack, "One", cluster="lab", usd_per_month=5, emails=["a@example.org"])
    resources = site.resources()
    _, made = budget_of(resources)
    [topic] = [name for name, one in resources.items() if one["Type"] == "AWS::SNS::Topic"]
    fixed = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", BUDGET).schema["createOnlyProperties"]
    assert sorted(fixed) == ["/properties/Budget/BudgetName", "/properties/NotificationsWithSubscribers"]
    assert "BudgetName" not in made["Budget"]
    subscribers = [one for each in made["NotificationsWithSubscribers"] for one in each["Subscribers"]]
    assert subscribers == [{"SubscriptionType": "SNS", "Address": {"Ref": topic}}] * 3
    assert "example.org" not in json.dumps(made)


def test_budgets_of_this_account_publish_before_the_budget_is_made(site: Site) -> None:
    ClusterBudget(site.stack, "Budget", cluster="lab", usd_per_month=5, emails=["a@example.org"])
    resources = site.resources()
    name, _ = budget_of(resources)
    [(policy_name, policy)] = [(key, one) for key, one in resources.items() if one["Type"] == "AWS::SNS::TopicPolicy"]
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    [allowed] = [one for one in statements if one.get("Sid") == "BudgetsOfThisAccount"]
    assert (allowed["Principal"], allowed["Action"]) == ({"Service": "budgets.amazonaws.com"}, "sns:Publish")
    assert set(allowed["Condition"]) == {"ArnLike", "StringEquals"}
    assert ":budgets::" in json.dumps(allowed["Condition"]["ArnLike"])
    assert resources[name]["DependsOn"] == [policy_name]


def test_an_existing_topic_is_notified_and_none_is_made(site: Site) -> None:
    topic = sns.Topic.from_topic_arn(site.stack, "Ops", TOPIC)
    made = ClusterBudget(
        site.stack, "Budget", cluster="lab", usd_per_month=5, topic=topic, actual_percent=[50], forecast_percent=[]
    )
    resources = site.resources()
    _, budget = budget_of(resources)
    assert made.topic is topic
    assert "AWS::SNS::Topic" not in {one["Type"] for one in resources.values()}
    [notification] = budget["NotificationsWithSubscribers"]
    assert notification["Subscribers"] == [{"SubscriptionType": "SNS", "Address": TOPIC}]


def test_tags_of_the_app_reach_the_budget(site: Site) -> None:
    ClusterBudget(site.stack, "Budget", cluster="lab", usd_per_month=5, emails=["a@example.org"])
    Tags.of(site.stack).add("gpu-cluster", "lab")
    _, made = budget_of(site.resources())
    assert {"Key": "gpu-cluster", "Value": "lab"} in made["ResourceTags"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"usd_per_month": 0}, "GPU-BUD-001"),
        ({"usd_per_month": float("inf")}, "GPU-BUD-001"),
        ({"actual_percent": [], "forecast_percent": []}, "GPU-BUD-002"),
        ({"actual_percent": range(10, 110, 10)}, "GPU-BUD-002"),
        ({"actual_percent": [0]}, "GPU-BUD-002"),
        ({"forecast_percent": [100, 100]}, "GPU-BUD-002"),
        ({"emails": []}, "GPU-BUD-004"),
        ({"emails": ["a"]}, "GPU-ALM-002"),
    ],
)
def test_what_aws_refuses_is_refused_here(site: Site, options: dict[str, Any], rule: str) -> None:
    given = {"cluster": "lab", "usd_per_month": 5, "emails": ["a@example.org"], **options}
    with pytest.raises(ConfigError, match=rule):
        ClusterBudget(site.stack, "Budget", **given)


def test_addresses_and_a_topic_are_refused_together(site: Site) -> None:
    topic = sns.Topic.from_topic_arn(site.stack, "Ops", TOPIC)
    with pytest.raises(ConfigError, match="GPU-BUD-004"):
        ClusterBudget(site.stack, "B", cluster="lab", usd_per_month=5, emails=["a@example.org"], topic=topic)


def test_ten_thresholds_are_taken(site: Site) -> None:
    ClusterBudget(
        site.stack,
        "Budget",
        cluster="lab",
        usd_per_month=0.01,
        emails=["a@example.org"],
        actual_percent=range(10, 100, 10),
        forecast_percent=[0.1],
    )
    assert len(budget_of(site.resources())[1]["NotificationsWithSubscribers"]) == 10


def test_regions_without_budgets_are_those_of_the_registry() -> None:
    from cfnlint.helpers import REGIONS

    without = {one for one in REGIONS if BUDGET not in PROVIDER_SCHEMA_MANAGER.get_resource_types(one)}
    assert without == WITHOUT_BUDGETS


@pytest.mark.parametrize("region", ["eu-north-1", "us-gov-west-1"])
def test_a_region_without_budgets_is_refused(app_factory: Callable[[], App], region: str) -> None:
    stack = Stack(app_factory(), "Far", env=Environment(account="111122223333", region=region))
    with pytest.raises(ConfigError, match="GPU-BUD-003"):
        ClusterBudget(stack, "Budget", cluster="lab", usd_per_month=5, emails=["a@example.org"])
