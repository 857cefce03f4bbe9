"""Rules for Prometheus in a workspace of AWS."""

from __future__ import annotations

import pytest
import yaml
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import ConfigError, PrometheusRules, prometheus_rules
from stack_fixtures import Site, only

KIND = "AWS::APS::RuleGroupsNamespace"
WORKSPACE = "arn:aws:aps:us-east-2:111122223333:workspace/ws-0123abcd"


def test_the_workspace_gets_the_rules(site: Site) -> None:
    PrometheusRules(site.stack, "Rules", workspace_arn=WORKSPACE, idle_minutes=30)
    made = only(site.resources(), KIND)
    assert made == {"Name": "gpu-clusters", "Workspace": WORKSPACE, "Data": prometheus_rules(idle_minutes=30)}
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", KIND).schema
    assert set(made) == set(schema["required"])
    assert sorted(schema["createOnlyProperties"]) == ["/properties/Name", "/properties/Workspace"]


@pytest.mark.parametrize(("minutes", "is_there"), [(5, True), (1440, True), (None, False)])
def test_the_idle_alert_has_its_minutes(minutes: int | None, is_there: bool) -> None:
    rules = yaml.safe_load(prometheus_rules(idle_minutes=minutes))["groups"][0]["rules"]
    found = [rule["expr"] for rule in rules if rule["alert"] == "Idle"]
    assert found == ([f"min by (fleet) (gpu_cluster_idle_seconds) >= {60 * (minutes or 0)}"] if is_there else [])


@pytest.mark.parametrize("minutes", [0, 4, 1441, -1])
def test_minutes_out_of_range_are_refused(site: Site, minutes: int) -> None:
    with pytest.raises(ConfigError, match="GPU-ALM-001"):
        PrometheusRules(site.stack, "Rules", workspace_arn=WORKSPACE, idle_minutes=minutes)


def test_runbooks_are_where_people_have_them() -> None:
    text = prometheus_rules(runbook_url="https://wiki.example.org/runbooks")
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in rules} == {
        "https://wiki.example.org/runbooks"
    }


@pytest.mark.parametrize("url", ["docs/alerts.md", "https://", "https://a.example/#b", "wiki.example.org", ""])
def test_an_address_that_no_browser_opens_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="GPU-AMP-006"):
        prometheus_rules(runbook_url=url)
