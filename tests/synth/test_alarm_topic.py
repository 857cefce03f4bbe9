"""Whom the alarms of a fleet tell: a topic that mails, and what a cluster file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters import AlarmTopic, ConfigError, GpuFleet
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from stack_fixtures import Site

ALARM = "AWS::CloudWatch::Alarm"
CLUSTER = """\
version: 1
name: lab
region: us-east-1
network: {{ availability_zone: us-east-1a }}
training:
  fleets:
    quiet: {{ instance_type: m8g.4xlarge, nodes: 2 }}
    loud: {{ instance_type: m8g.4xlarge, nodes: 2{alarms} }}
"""
TOPIC = "arn:aws:sns:us-east-1:111122223333:ops"


def properties(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one.get("Properties", {}) for one in resources.values() if one["Type"] == kind]


def test_alarms_reach_the_topic_and_the_topic_people(site: Site) -> None:
    fleet = GpuFleet(site.stack, "Fleet", vpc=site.vpc, instance_type="g6.xlarge", node_count=1)
    topic = AlarmTopic(site.stack, "People", emails=["a@example.org", "b@example.org"])
    assert fleet.alarms is not None
    fleet.alarms.add_topic(topic.topic)
    resources = site.resources()
    [made] = [name for name, one in resources.items() if one["Type"] == "AWS::SNS::Topic"]
    assert all(one["AlarmActions"] == [{"Ref": made}] for one in properties(resources, ALARM))
    told = {(one["Protocol"], one["Endpoint"]) for one in properties(resources, "AWS::SNS::Subscription")}
    assert told == {("email", "a@example.org"), ("email", "b@example.org")}


def test_only_alarms_of_this_account_publish_and_only_over_tls(site: Site) -> None:
    AlarmTopic(site.stack, "People", emails=["a@example.org"])
    [policy] = properties(site.resources(), "AWS::SNS::TopicPolicy")
    [refused] = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
    assert refused["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    [allowed] = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert (allowed["Principal"], allowed["Action"]) == (
        {"Service": "cloudwatch.amazonaws.com"},
        "sns:Publish",
    )
    assert set(allowed["Condition"]) == {"ArnLike", "StringEquals"}
    assert ":cloudwatch:" in json.dumps(allowed["Condition"]["ArnLike"])


@pytest.mark.parametrize("emails", [[], ["people"], ["a@b"], ["a@example.org", "a@example.org"], ["a b@example.org"]])
def test_people_that_nobody_reaches_are_named(site: Site, emails: list[str]) -> None:
    with pytest.raises(ConfigError, match="GPU-ALM-002: Site/People"):
        AlarmTopic(site.stack, "People", emails=emails)


def synthesized(app_factory: Any, folder: Path, alarms: str) -> dict[str, str]:
    """The text of each template by file name."""
    folder.mkdir()
    file, app = folder / "cluster.yaml", app_factory()
    file.write_text(CLUSTER.format(alarms=alarms))
    build_cluster(app, load_cluster(file))
    assembly = Path(app.synth().directory)
    return {one.name: one.read_text() for one in assembly.glob("*.template.json")}


@pytest.mark.parametrize(
    ("alarms", "count", "topics"),
    [
        (", alarms: { enabled: false }", 0, 0),
        (f", alarms: {{ topic_arn: '{TOPIC}', emails: [a@example.org] }}", 4, 2),
        (", alarms: { suspends_launching: false }", 3, 0),
    ],
    ids=["off", "told", "goes on"],
)
def test_a_cluster_file_says_it_of_one_fleet_and_changes_no_other_template(
    tmp_path: Path, app_factory: Any, alarms: str, count: int, topics: int
) -> None:
    before = synthesized(app_factory, tmp_path / "before", "")
    after = synthesized(app_factory, tmp_path / "after", alarms)
    name = "lab-fleet-loud.template.json"
    assert {one for one in before if before[one] != after[one]} == {name}
    assert set(before) == set(after)
    found = properties(json.loads(after[name])["Resources"], ALARM)
    assert len(found) == count
    assert all(len(one.get("AlarmActions", [])) >= topics for one in found)
    assert ("AWS::StepFunctions::StateMachine" in after[name]) == ("emails" in alarms)
