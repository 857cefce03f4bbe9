"""Alarms and metrics of a fleet, its log group's key, and what its nodes are told of it."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns

from cdk_gpu_clusters import AlarmSettings, ConfigError, GpuFleet
from cdk_gpu_clusters.compute.metrics import FleetMetrics
from cdk_gpu_clusters.node.gpunode.metrics.names import METRICS, NAMESPACE
from stack_fixtures import Site

ALARM = "AWS::CloudWatch::Alarm"


def fleet(site: Site, instance_type: str = "g6.xlarge", **options: Any) -> GpuFleet:
    return GpuFleet(site.stack, "Fleet", vpc=site.vpc, instance_type=instance_type, node_count=2, **options)


def of_type(site: Site, kind: str) -> dict[str, dict[str, Any]]:
    return {name: one["Properties"] for name, one in site.resources().items() if one["Type"] == kind}


def alarms(site: Site) -> dict[str, dict[str, Any]]:
    """By the name in the fleet."""
    return {name.removeprefix("FleetAlarms")[:-8]: one for name, one in of_type(site, ALARM).items()}


def text_of(value: Any) -> str:
    """A text as a deployment gives it, with the names of what is referred to."""
    match value:
        case {"Fn::Base64": inner} | {"Ref": inner} | {"Fn::GetAtt": [inner, *_]}:
            return text_of(inner)
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(text_of, parts))
    return str(value)


def node_settings(site: Site) -> str:
    (template,) = of_type(site, "AWS::EC2::LaunchTemplate").values()
    return text_of(template["LaunchTemplateData"]["UserData"])


def test_the_alarms_of_a_gpu_fleet(site: Site) -> None:
    made = fleet(site)
    found = alarms(site)
    assert made.alarms is not None
    on_nodes, others = {"UnhealthyNode", "BootFailure", "Xid", "Idle"}, {"LaunchLoop", "UndeliveredEvents"}
    assert set(found) == set(made.alarms.names) == on_nodes | others
    known = {metric.name for metric in METRICS}
    for name, alarm in found.items():
        assert alarm["TreatMissingData"] == "notBreaching", name
        assert "CloudWatch bills each alarm" in json.dumps(alarm["AlarmDescription"]), name
        if name in on_nodes:
            assert (alarm["Namespace"], alarm["MetricName"] in known) == (NAMESPACE, True), name
            assert alarm["Dimensions"] == [{"Name": "Fleet", "Value": made.fleet_path}], name


def test_nodes_measure_under_the_name_that_alarms_and_metrics_read(site: Site) -> None:
    made = fleet(site)
    assert f"GPU_FLEET={made.fleet_path}" in node_settings(site)
    assert made.metric_gpu_utilization().dimensions == {"Fleet": made.fleet_path}


@pytest.mark.parametrize("instance_type", ["m7i.4xlarge", "trn1.2xlarge"])
def test_nodes_without_gpus_have_no_alarm_on_them(site: Site, instance_type: str) -> None:
    fleet(site, instance_type)
    assert set(alarms(site)) == {"UnhealthyNode", "BootFailure", "LaunchLoop", "UndeliveredEvents"}


def test_idle_time_is_the_users_to_choose(site: Site) -> None:
    fleet(site, alarms=AlarmSettings(idle_minutes=15))
    idle = alarms(site)["Idle"]
    assert (idle["Statistic"], idle["Threshold"]) == ("Minimum", 900)
    assert "15 minutes, at the full price" in idle["AlarmDescription"]


def test_no_idle_alarm(site: Site) -> None:
    fleet(site, alarms=AlarmSettings(idle_minutes=None))
    assert "Idle" not in alarms(site)


def test_a_topic_is_told_by_all_of_them(site: Site) -> None:
    made = fleet(site)
    assert made.alarms is not None
    for name in ("Operators", "Others"):
        made.alarms.add_topic(sns.Topic(site.stack, name))
    assert {len(alarm["AlarmActions"]) for alarm in alarms(site).values()} == {2}


def test_an_alarm_can_be_changed_by_hand(site: Site) -> None:
    made = fleet(site)
    assert made.alarms is not None
    made.alarms.cfn_alarm("Xid").threshold = 3
    assert alarms(site)["Xid"]["Threshold"] == 3


def test_the_alarm_says_how_to_go_on(site: Site) -> None:
    fleet(site)
    words = text_of(alarms(site)["LaunchLoop"]["AlarmDescription"])
    assert "aws ssm start-session --target" in words
    assert "aws autoscaling resume-processes --scaling-processes Launch --auto-scaling-group-name" in words
    assert len(words) <= 1024


def test_the_state_machine_may_suspend_its_own_group_and_no_more(site: Site) -> None:
    fleet(site)
    policies = [one for name, one in of_type(site, "AWS::IAM::ManagedPolicy").items() if "StopLaunches" in name]
    allowed = {
        action: text_of(statement["Resource"])
        for policy in policies
        for statement in policy["PolicyDocument"]["Statement"]
        for action in statement["Action"]
        if not action.startswith(("logs:", "xray:"))
    }
    assert set(allowed) == {
        "autoscaling:SuspendProcesses",
        "cloudwatch:DescribeAlarms",
        "states:StartExecution",
    }
    assert "*" not in allowed.values()
    assert allowed["cloudwatch:DescribeAlarms"].endswith(":alarm:*"), "it lists: on one alarm it is denied"
    assert "autoScalingGroupName/" in allowed["autoscaling:SuspendProcesses"]


def test_state_machines_log_where_the_resource_policy_of_the_account_does_not_grow(site: Site) -> None:
    """Outside `/aws/vendedlogs/` each log group takes some of its 5,120 characters (Step Functions guide, "Logging")."""
    fleet(site)
    groups = {name: one for name, one in of_type(site, "AWS::Logs::LogGroup").items() if "StateMachines" in name}
    (machine,) = of_type(site, "AWS::StepFunctions::StateMachine").values()
    (destination,) = machine["LoggingConfiguration"]["Destinations"]
    assert [text_of(destination["CloudWatchLogsLogGroup"]["LogGroupArn"])] == list(groups)
    (group,) = groups.values()
    name = text_of(group["LogGroupName"])
    assert name.startswith("/aws/vendedlogs/states/")
    assert len(name) <= 512


def test_an_event_that_cannot_stop_the_loop_is_kept_and_told(site: Site) -> None:
    fleet(site)
    (queue,) = of_type(site, "AWS::SQS::Queue")
    rules = of_type(site, "AWS::Events::Rule")
    assert len(rules) == 2
    targets = [target for rule in rules.values() for target in rule["Targets"]]
    assert {text_of(target["DeadLetterConfig"]["Arn"]) for target in targets} == {queue}
    (policy,) = of_type(site, "AWS::SQS::QueuePolicy").values()
    (sends,) = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert {text_of(arn) for arn in sends["Condition"]["ArnEquals"]["aws:SourceArn"]} == set(rules)
    (dimension,) = alarms(site)["UndeliveredEvents"]["Dimensions"]
    assert text_of(dimension["Value"]) == queue


def test_an_alarm_alone_has_no_state_machine_and_keeps_no_node(site: Site) -> None:
    fleet(site, alarms=AlarmSettings(suspends_launching=False))
    assert of_type(site, "AWS::StepFunctions::StateMachine") == of_type(site, "AWS::SQS::Queue") == {}
    assert "Launching goes on" in alarms(site)["LaunchLoop"]["AlarmDescription"]
    assert "GPU_INSPECTION=''" in node_settings(site)


def test_a_mute_names_the_alarms_on_nodes_and_no_other(site: Site) -> None:
    made = fleet(site)
    assert made.alarms is not None
    made.alarms.add_mute(
        "Maintenance",
        schedule=cloudwatch.ScheduleExpression.cron(
            minute="0", hour="2", week_day="SUN", time_zone=cdk.TimeZone.EUROPE_BERLIN
        ),
        duration=cdk.Duration.hours(4),
    )
    (rule,) = of_type(site, "AWS::CloudWatch::AlarmMuteRule").values()
    muted = {one["Ref"].removeprefix("FleetAlarms")[:-8] for one in rule["MuteTargets"]["AlarmNames"]}
    assert muted == {"UnhealthyNode", "BootFailure", "Xid", "Idle"}
    assert rule["Rule"]["Schedule"] == {
        "Duration": "PT4H",
        "Expression": "cron(0 2 * * SUN)",
        "Timezone": "Europe/Berlin",
    }


def test_a_fleet_without_alarms(site: Site) -> None:
    assert fleet(site, alarms=None).alarms is None
    assert alarms(site) == {}
    assert "GPU_INSPECTION=''" in node_settings(site)


def test_failed_nodes_are_kept_for_as_long_as_is_said(site: Site) -> None:
    fleet(site, alarms=AlarmSettings(inspection_minutes=30))
    assert "GPU_INSPECTION=1800" in node_settings(site)
    (policy,) = [one for name, one in of_type(site, "AWS::IAM::ManagedPolicy").items() if "NodePermissions" in name]
    assert "autoscaling:RecordLifecycleActionHeartbeat" in json.dumps(policy)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (AlarmSettings(idle_minutes=1), "alarms.idle_minutes"),
        (AlarmSettings(abandoned_launches_per_node=0), "alarms.abandoned_launches_per_node"),
        (AlarmSettings(abandoned_within_minutes=2000), "alarms.abandoned_within_minutes"),
        (AlarmSettings(inspection_minutes=3000), "alarms.inspection_minutes"),
        (AlarmSettings(inspection_minutes=60), "at most 49 minutes"),
    ],
)
def test_numbers_that_aws_refuses_are_named(site: Site, settings: AlarmSettings, words: str) -> None:
    with pytest.raises(ConfigError, match="GPU-ALM-001") as caught:
        fleet(site, alarms=settings, ready_timeout=cdk.Duration.seconds(30))
    assert words in str(caught.value)


def test_the_window_fits_the_boots(site: Site) -> None:
    assert AlarmSettings().window_minutes(ready_timeout_seconds=600) == 60
    assert AlarmSettings().window_minutes(ready_timeout_seconds=1800) == 120
    assert AlarmSettings(abandoned_launches_per_node=50).window_minutes(ready_timeout_seconds=7200) == 1440
    fleet(site, ready_timeout=cdk.Duration.minutes(60))
    periods = {
        query["MetricStat"]["Period"] for query in alarms(site)["LaunchLoop"]["Metrics"] if "MetricStat" in query
    }
    assert periods == {4 * 3600}


def test_every_metric_method_reads_what_nodes_send(site: Site) -> None:
    made = fleet(site)
    known = {metric.name for metric in METRICS}
    usual = {"metric", "metric_of_nodes", "metric_of_node"}
    methods = [name for name in dir(FleetMetrics) if name.startswith("metric") and name not in usual]
    assert len(methods) > 15
    for name in methods:
        metric = getattr(made, name)()
        assert metric.namespace != NAMESPACE or metric.metric_name in known, name
    one = made.metric_of_node("i-0123456789abcdef0", "GpuPowerDrawWatts", statistic="Maximum")
    assert one.dimensions == {"Fleet": made.fleet_path, "InstanceId": "i-0123456789abcdef0"}


def test_the_log_group_may_have_a_key_of_the_users_own(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    fleet(site, log_encryption_key=key, log_retention=logs.RetentionDays.ONE_WEEK)
    groups = of_type(site, "AWS::Logs::LogGroup").values()
    assert sorted(group["RetentionInDays"] for group in groups) == [7, 30]
    assert all("KmsKeyId" in group for group in groups)
    (made,) = of_type(site, "AWS::KMS::Key").values()
    grants = [one for one in made["KeyPolicy"]["Statement"] if "logs." in json.dumps(one["Principal"])]
    (grant,) = grants
    assert "log-group:*" in json.dumps(grant["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"])
