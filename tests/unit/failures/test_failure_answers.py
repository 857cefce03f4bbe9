"""Messages in answers of AWS: every field is of botocore's service models, and no odd answer ends in a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters_stacks.failures import (
    NothingKnown,
    Place,
    as_json,
    failures_of,
    format_failures,
    messages_of,
    messages_of_text,
    read_saved,
    saved_text,
)
from cdk_gpu_clusters_stacks.failures.answers import time_of

SESSION: Any = botocore.session.get_session()
#: Service and operation -> the members of its answer that failures are read from, lists as `[]`.
FIELDS = {
    ("cloudformation", "DescribeStackEvents"): (
        "StackEvents[].ResourceStatus",
        "StackEvents[].ResourceStatusReason",
        "StackEvents[].ResourceType",
        "StackEvents[].LogicalResourceId",
        "StackEvents[].Timestamp",
    ),
    ("cloudformation", "ListStackResources"): (
        "StackResourceSummaries[].ResourceType",
        "StackResourceSummaries[].PhysicalResourceId",
    ),
    ("autoscaling", "DescribeScalingActivities"): (
        "Activities[].StatusCode",
        "Activities[].StatusMessage",
        "Activities[].Description",
        "Activities[].Cause",
        "Activities[].StartTime",
        "Activities[].AutoScalingGroupName",
    ),
    ("autoscaling", "DescribeAutoScalingGroups"): (
        "AutoScalingGroups[].AutoScalingGroupName",
        "AutoScalingGroups[].DesiredCapacity",
        "AutoScalingGroups[].Instances[].LifecycleState",
        "AutoScalingGroups[].SuspendedProcesses[].ProcessName",
        "AutoScalingGroups[].SuspendedProcesses[].SuspensionReason",
    ),
    ("ec2", "DescribeFleets"): (
        "Fleets[].FleetId",
        "Fleets[].Tags[].Key",
        "Fleets[].Errors[].ErrorCode",
        "Fleets[].Errors[].ErrorMessage",
    ),
    ("ec2", "CreateFleet"): ("FleetId", "Errors[].ErrorCode", "Errors[].ErrorMessage"),
    ("ec2", "DescribeFleetHistory"): (
        "FleetId",
        "HistoryRecords[].EventType",
        "HistoryRecords[].Timestamp",
        "HistoryRecords[].EventInformation.EventSubType",
        "HistoryRecords[].EventInformation.EventDescription",
    ),
    ("cloudtrail", "LookupEvents"): (
        "Events[].EventName",
        "Events[].Username",
        "Events[].EventTime",
        "Events[].CloudTrailEvent",
    ),
    ("sts", "DecodeAuthorizationMessage"): ("DecodedMessage",),
    ("eks", "DescribeNodegroup"): (
        "nodegroup.nodegroupName",
        "nodegroup.health.issues[].code",
        "nodegroup.health.issues[].message",
        "nodegroup.resources.autoScalingGroups[].name",
    ),
    ("eks", "DescribeCluster"): ("cluster.name", "cluster.health.issues[].code", "cluster.health.issues[].message"),
    ("pcs", "GetCluster"): ("cluster.name", "cluster.errorInfo[].code", "cluster.errorInfo[].message"),
    ("pcs", "GetComputeNodeGroup"): (
        "computeNodeGroup.name",
        "computeNodeGroup.errorInfo[].code",
        "computeNodeGroup.errorInfo[].message",
    ),
    ("fsx", "DescribeFileSystems"): ("FileSystems[].FileSystemId", "FileSystems[].FailureDetails.Message"),
    ("logs", "FilterLogEvents"): ("events[].message", "events[].timestamp", "events[].logStreamName"),
}


@pytest.mark.parametrize(("operation", "fields"), FIELDS.items(), ids=lambda one: str(one)[:50])
def test_every_field_is_in_the_service_model(operation: tuple[str, str], fields: tuple[str, ...]) -> None:
    service, name = operation
    answer: Any = SESSION.get_service_model(service).operation_model(name).output_shape
    for field in fields:
        shape = answer
        for part in field.split("."):
            shape = shape.members[part.removesuffix("[]")]
            if part.endswith("[]"):
                assert shape.type_name == "list"
                shape = shape.member


def test_the_states_that_are_compared_are_in_the_service_models() -> None:
    scaling = SESSION.get_service_model("autoscaling")
    assert {"Failed", "Cancelled"} <= set(scaling.shape_for("ScalingActivityStatusCode").enum)
    assert "InService" in scaling.shape_for("LifecycleState").enum
    assert "service-error" in SESSION.get_service_model("ec2").shape_for("FleetEventType").enum


# What the AWS CLI prints: `aws autoscaling describe-scaling-activities` and the like.

ACTIVITIES = {
    "Activities": [
        {
            "ActivityId": "d25597f4-007b-e8ad-2474-fb39d1b0e21b",
            "AutoScalingGroupName": "nodes-1a.kops-dev.k8s.local",
            "Description": "Launching a new EC2 instance.  Status Reason: You have requested more instances (7) than "
            "your current instance limit of 6 allows for the specified instance type.",
            "Cause": "At 2018-09-21T16:39:26Z an instance was started in response to a difference",
            "StartTime": "2018-09-21T16:39:28.250Z",
            "EndTime": "2018-09-21T16:39:28Z",
            "StatusCode": "Failed",
            "StatusMessage": "You have requested more instances (7) than your current instance limit of 6 allows",
        },
        {"StatusCode": "Successful", "Cause": "an instance was started"},
        {
            "StatusCode": "Successful",
            "StartTime": "2026-12-02T11:00:00+00:00",
            "Cause": "At 2026-12-02T11:00:00Z an instance was taken out of service in response to a user health-check.",
        },
    ]
}


def test_failed_activities_and_lost_health_are_failures() -> None:
    failed, lost = messages_of(ACTIVITIES)
    assert failed.text.startswith("You have requested more instances (7)")
    assert (failed.place, failed.subject) == (Place.ACTIVITY, "nodes-1a.kops-dev.k8s.local")
    assert failed.when == datetime(2018, 9, 21, 16, 39, 28, 250000, UTC)
    assert "user health-check" in lost.text


def test_events_of_a_stack_that_failed_are_failures() -> None:
    events = [
        {"ResourceStatus": "CREATE_FAILED", "ResourceType": "AWS::EC2::EIP", "LogicalResourceId": "Address"},
        {"ResourceStatus": "ROLLBACK_IN_PROGRESS", "ResourceStatusReason": "The following resource(s) failed"},
        {"ResourceStatus": "ROLLBACK_IN_PROGRESS"},
        {"ResourceStatus": "CREATE_COMPLETE", "ResourceStatusReason": "fine"},
    ]
    first, second = messages_of({"StackEvents": events})
    assert (first.text, first.subject) == (
        "CREATE_FAILED, and CloudFormation gives no reason",
        "AWS::EC2::EIP Address",
    )
    assert second.text == "The following resource(s) failed"


def test_a_group_that_launches_nothing_is_a_failure() -> None:
    processes = [
        {"ProcessName": "Launch", "SuspensionReason": "User suspended at 2026-12-02T11:00:00Z"},
        {"ProcessName": "AZRebalance", "SuspensionReason": "User suspended"},
    ]
    group = {"AutoScalingGroupName": "trainers", "SuspendedProcesses": processes}
    shape = SESSION.get_service_model("autoscaling").shape_for("SuspendedProcess")
    assert set(shape.members) == {"ProcessName", "SuspensionReason"}
    (found,) = messages_of({"AutoScalingGroups": [group]})
    assert found.text == "Launch is suspended: User suspended at 2026-12-02T11:00:00Z"


def test_errors_of_fleets_are_failures() -> None:
    error = {"ErrorCode": "InsufficientInstanceCapacity", "ErrorMessage": "none"}
    history = [
        {
            "EventType": "service-error",
            "EventInformation": {"EventSubType": "launchFailed", "EventDescription": "none"},
            "Timestamp": "2026-12-02T11:00:00Z",
        },
        {"EventType": "instance-change", "EventInformation": {"EventSubType": "launched"}},
    ]
    assert [one.text for one in messages_of({"FleetId": "fleet-1", "Errors": [error]})] == [
        "InsufficientInstanceCapacity: none"
    ]
    assert [one.text for one in messages_of({"Fleets": [{"Errors": [error]}, {}]})] == [
        "InsufficientInstanceCapacity: none"
    ]
    assert [one.text for one in messages_of({"HistoryRecords": history})] == ["launchFailed: none"]


@pytest.mark.parametrize("one_or_many", [dict, list])
def test_errors_in_cloudtrail_are_failures_also_those_of_an_instant_fleet(one_or_many: type) -> None:
    """As CloudTrail writes XML: `item` is one error, or a list of them."""
    failed = {"errorCode": "Client.UnauthorizedOperation", "errorMessage": "You are not authorized"}
    tried = {
        "errorCode": "Client.DryRunOperation",
        "errorMessage": "Request would have succeeded, but DryRun flag is set.",
    }
    error = {"errorCode": "VcpuLimitExceeded", "errorMessage": "too many"}
    errors = {"item": error if one_or_many is dict else [error, error]}
    instant = {"responseElements": {"CreateFleetResponse": {"errorSet": errors}}}
    events = [
        {"EventName": name, "Username": "me", "EventTime": 1764673200.0, "CloudTrailEvent": json.dumps(event)}
        for name, event in (
            ("RunInstances", failed),
            ("CreateFleet", instant),
            ("RunInstances", tried),
            ("RunInstances", {}),
        )
    ]
    found = messages_of({"Events": events})
    assert [one.text for one in found] == [
        "Client.UnauthorizedOperation: You are not authorized",
        "VcpuLimitExceeded: too many",
    ]
    assert found[0].subject == "RunInstances by me"


def test_issues_and_error_infos_of_services_are_failures() -> None:
    issue = {"code": "NodeCreationFailure", "message": "Instances failed to join the kubernetes cluster"}
    for answer, place in (
        ({"nodegroup": {"nodegroupName": "trainers", "health": {"issues": [issue]}}}, Place.NODE_GROUP),
        ({"cluster": {"name": "llama", "errorInfo": [issue]}}, Place.PCS),
        ({"computeNodeGroup": {"name": "trainers", "errorInfo": [issue]}}, Place.PCS),
    ):
        (found,) = messages_of(answer)
        assert (found.place, found.text) == (
            place,
            "NodeCreationFailure: Instances failed to join the kubernetes cluster",
        )
    (found,) = messages_of({"FileSystems": [{"FileSystemId": "fs-1", "FailureDetails": {"Message": "no room"}}, {}]})
    assert (found.place, found.subject, found.text) == (Place.FILE_SYSTEM, "fs-1", "no room")


def record(**changes: Any) -> str:
    """A record as `gpunode.events` writes it."""
    made = {
        "time": "2026-12-02T11:00:00Z",
        "instance_id": "i-0123456789abcdef0",
        "stage": "node",
        "state": "failed",
        "seconds": 900.0,
        "reason": "driver: 7 of 8 GPUs answer",
        "fix": "the host may be faulty: the node is replaced",
    }
    return json.dumps(made | changes)


def test_failed_boots_are_failures_with_what_the_node_proposes() -> None:
    lines = [
        record(),
        record(stage="driver", state="waiting"),
        record(stage="driver"),  # of a stage: the node repeats it
        record(stage="software", reason="s3://bucket/key: NoSuchKey", fix=""),
        "plain words",
        "fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory",
    ]
    events = [{"message": line, "timestamp": 1764673200000, "logStreamName": "i-1"} for line in lines]
    boot, software, slurm = messages_of({"events": events})
    assert (boot.text, boot.subject) == ("driver: 7 of 8 GPUs answer", "i-0123456789abcdef0")
    assert boot.fix == "the host may be faulty: the node is replaced"
    assert software.text == "software: s3://bucket/key: NoSuchKey"
    assert (slurm.place, slurm.when) == (Place.PCS_BOOT, datetime(2025, 12, 2, 11, 0, tzinfo=UTC))


def test_the_result_of_a_boot_is_read() -> None:
    (found,) = messages_of(json.loads(record(stage="")) | {"events": []})
    assert found.text == "driver: 7 of 8 GPUs answer"
    assert messages_of({"state": "ready", "reason": ""}) == []


# Text.


def test_of_a_log_only_lines_that_are_known_are_failures() -> None:
    log = f"starting\nerror: Max spot instance count exceeded\n{record()}\nmore words\n"
    assert [one.text for one in messages_of_text(log)] == [
        "error: Max spot instance count exceeded",
        "driver: 7 of 8 GPUs answer",
    ]


def test_a_text_that_is_unknown_stays_whole() -> None:
    text = "something odd\nin two lines"
    assert [one.text for one in messages_of_text(f"{text}\n\n")] == [text]
    assert messages_of_text(" \n") == []


# Odd answers.


@pytest.mark.parametrize("content", ["[]", "{}", '{"Reservations": []}', "[1, 2]", "", " \n"])
def test_a_document_without_anything_known_is_refused(content: str) -> None:
    with pytest.raises(NothingKnown):
        read_saved(content)


@pytest.mark.parametrize("key", ["Activities", "StackEvents", "Events", "events", "nodegroup", "cluster", "Fleets"])
@pytest.mark.parametrize("value", [None, [], {}, "x", 1, [None, 1, "x", []], [{}], {"health": 1, "errorInfo": [1]}])
def test_partial_answers_are_read_as_far_as_they_go(key: str, value: Any) -> None:
    assert all(one.text for one in messages_of({key: value}))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["Activities", "StatusCode", "StackEvents", "ResourceStatus", "Events", "CloudTrailEvent", "events", "message",
         "nodegroup", "health", "issues", "code", "answers", "answer", "unread", "decoded", "since", "absent", "state",
         "AutoScalingGroups", "Instances", "DesiredCapacity", "AutoScalingGroupName", "about", "cluster", "errorInfo"]
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_no_document_ends_in_a_traceback(content: Any) -> None:
    with suppress(NothingKnown):
        reading = read_saved(json.dumps(content))
        found = failures_of(reading)
        assert list(format_failures(reading, found, rule_titles={}))
        assert as_json(reading, found)
        assert saved_text(reading)


@pytest.mark.parametrize("value", [None, True, "", "yesterday", 10**30, float("inf"), float("nan"), [], {}])
def test_what_is_no_time_is_none(value: Any) -> None:
    assert time_of(value) is None
