"""The emulated IAM: calls of nodes, state machines and rules are judged by the policies attached at that moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cdk_gpu_clusters.testing import InProcessEmulator
from plain_fleet import BY_NAME, LOG_GROUP, allow, fleet, node_permissions, policy, role

Json = dict[str, Any]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": "2026-11-21T08:00Z"}) as made:
        yield made


def node(account: InProcessEmulator) -> Json:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return {"AutoScalingGroupName": group["AutoScalingGroupName"], "InstanceId": group["Instances"][0]["InstanceId"]}


def complete(account: InProcessEmulator) -> None:
    one = node(account)
    account.node_client(one["InstanceId"], "autoscaling").complete_lifecycle_action(
        **one, LifecycleHookName="node-ready", LifecycleActionResult="CONTINUE"
    )


def denied(account: InProcessEmulator) -> list[tuple[str, str]]:
    return [(one["action"], one["resource"].rsplit(":", 1)[-1]) for one in account.history()["denied"]]


def test_a_node_may_do_what_its_role_allows(account: InProcessEmulator) -> None:
    account.deploy(fleet())
    complete(account)
    assert denied(account) == []
    with pytest.raises(ClientError, match=r"AccessDenied.*not authorized to perform: autoscaling:SetDesiredCapacity"):
        account.node_client(node(account)["InstanceId"], "autoscaling").set_desired_capacity(
            AutoScalingGroupName=node(account)["AutoScalingGroupName"], DesiredCapacity=1
        )
    assert [action for action, _ in denied(account)] == ["autoscaling:SetDesiredCapacity"]


def test_a_policy_counts_as_long_as_it_is_attached(account: InProcessEmulator) -> None:
    made = fleet()
    permissions = made["Resources"].pop("Permissions")
    account.deploy(made)
    with pytest.raises(ClientError, match="AccessDenied"):
        complete(account)
    account.deploy({"Resources": {**made["Resources"], "Permissions": permissions}})
    complete(account)


def test_another_group_is_not_allowed(account: InProcessEmulator) -> None:
    elsewhere = json.loads(json.dumps(BY_NAME).replace("Fleet", "Others"))
    account.deploy(fleet(permissions=node_permissions(elsewhere)))
    with pytest.raises(ClientError, match="AccessDenied"):
        complete(account)


def test_a_deny_wins_and_conditions_count(account: InProcessEmulator) -> None:
    region = {"StringNotEquals": {"aws:RequestedRegion": "us-east-1"}}
    rule = allow("*", "autoscaling:*", Condition=region)
    account.deploy(fleet(Elsewhere=policy("NodeRole", {**rule, "Effect": "Deny"})))
    complete(account)
    account.deploy(fleet(Elsewhere=policy("NodeRole", {**allow("*", "autoscaling:*"), "Effect": "Deny"})))
    with pytest.raises(ClientError, match="AccessDenied"):
        complete(account)


@pytest.mark.parametrize("by_template", [False, True])
@pytest.mark.parametrize(("tag", "allowed"), [("trainers", True), ("servers", False)])
def test_a_node_ends_only_what_its_tag_allows(
    account: InProcessEmulator, tag: str, allowed: bool, by_template: bool
) -> None:
    own = allow("*", "ec2:TerminateInstances", Condition={"StringEquals": {"aws:ResourceTag/fleet": tag}})
    made = fleet(Own=policy("NodeRole", own))
    label = {"Key": "fleet", "Value": "trainers"}
    resources = made["Resources"]
    if by_template:
        launched = [{"ResourceType": "instance", "Tags": [label]}]
        resources["Template"]["Properties"]["LaunchTemplateData"]["TagSpecifications"] = launched
    else:
        resources["Fleet"]["Properties"]["Tags"] = [{**label, "PropagateAtLaunch": True}]
    account.deploy(made)
    identifier = node(account)["InstanceId"]
    if allowed:
        account.node_client(identifier, "ec2").terminate_instances(InstanceIds=[identifier])
        assert node(account)["InstanceId"] != identifier, "the group launched another"
    else:
        with pytest.raises(ClientError, match="AccessDenied"):
            account.node_client(identifier, "ec2").terminate_instances(InstanceIds=[identifier])


def test_calls_that_the_engine_answers_are_judged_too(account: InProcessEmulator) -> None:
    account.deploy(fleet())
    identifier = node(account)["InstanceId"]
    logs = account.node_client(identifier, "logs")
    logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=identifier)
    event = {"timestamp": 1_700_000_000_000, "message": "ready"}
    logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=identifier, logEvents=[event])
    with pytest.raises(ClientError, match="AccessDenied"):
        logs.delete_log_group(logGroupName=LOG_GROUP)
    with pytest.raises(ClientError, match="AccessDenied"):
        account.node_client(identifier, "s3").list_objects_v2(Bucket="evidence")
    assert [action for action, _ in denied(account)] == ["logs:DeleteLogGroup", "s3:ListBucket"]


MACHINE = {
    "StartAt": "Read",
    "States": {
        "Read": {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:autoscaling:describeAutoScalingGroups",
            "Parameters": {},
                 "End": True}
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("trusted", "allowed", "outcome"),
    [
        ("events.amazonaws.com", ("states:StartExecution", "autoscaling:Describe*"), "SUCCEEDED"),
        ("events.amazonaws.com", ("states:StartExecution",), "FAILED"),
        ("events.amazonaws.com", (), "not authorized to perform: states:StartExecution"),
        ("ec2.amazonaws.com", ("states:StartExecution",), "may not assume"),
    ],
)
def test_a_rule_starts_a_machine_and_the_machine_acts_with_their_roles(
    account: InProcessEmulator, trusted: str, allowed: tuple[str, ...], outcome: str
) -> None:
    starting = [name for name in allowed if name.startswith("states")]
    acting = [name for name in allowed if not name.startswith("states")]
    resources: Json = {
        "Starter": role(trusted),
        "Actor": role("states.amazonaws.com"),
        "Machine": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {"DefinitionString": json.dumps(MACHINE), "RoleArn": {"Fn::GetAtt": ["Actor", "Arn"]}},
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["tests"]},
                "Targets": [{"Id": "0", "Arn": {"Ref": "Machine"}, "RoleArn": {"Fn::GetAtt": ["Starter", "Arn"]}}],
            },
        },
    }
    if starting:
        resources["Start"] = policy("Starter", allow({"Ref": "Machine"}, *starting))
    if acting:
        resources["Act"] = policy("Actor", allow("*", *acting))
    account.deploy({"Resources": resources})
    (delivery,) = account.emit({"source": "tests", "detail-type": "a test", "detail": {}})
    assert outcome in delivery.get("error", "") + delivery.get("execution", {}).get("status", "")
    assert bool(account.history()["denied"]) is (
        outcome in ("FAILED", "not authorized to perform: states:StartExecution")
    )


QUEUE_POLICY = {
    "Effect": "Allow",
    "Principal": {"Service": "events.amazonaws.com"},
    "Action": "sqs:SendMessage",
    "Resource": {"Fn::GetAtt": ["Queue", "Arn"]},
    "Condition": {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": ["Rule", "Arn"]}}},
}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, {"dead_letter"}),
        ({"Action": "sqs:ReceiveMessage"}, {"dead_letter_error"}),
        ({"Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:events:us-east-1:1:rule/x"}}}, {"dead_letter_error"}),
        ({"Principal": {"Service": "sns.amazonaws.com"}}, {"dead_letter_error"}),
    ],
)
def test_an_event_that_cannot_be_delivered_goes_to_the_dead_letter_queue(
    account: InProcessEmulator, changes: Json, found: set[str]
) -> None:
    target = {
        "Id": "0",
        "Arn": {"Ref": "Machine"},
        "RoleArn": {"Fn::GetAtt": ["Starter", "Arn"]},
        "DeadLetterConfig": {"Arn": {"Fn::GetAtt": ["Queue", "Arn"]}},
    }
    rule = {"EventPattern": {"source": ["tests"]}, "Targets": [target]}
    machine = {"DefinitionString": json.dumps(MACHINE), "RoleArn": {"Fn::GetAtt": ["Actor", "Arn"]}}
    document = {"Version": "2012-10-17", "Statement": [{**QUEUE_POLICY, **changes}]}
    resources = {
        "Starter": role("events.amazonaws.com"),
        "Actor": role("states.amazonaws.com"),
        "Machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": machine},
        "Queue": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "Rule": {"Type": "AWS::Events::Rule", "Properties": rule},
        "Letters": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": document},
        },
    }
    account.deploy({"Resources": resources})
    (delivery,) = account.emit({"source": "tests", "detail-type": "a test", "detail": {}})
    assert {name for name in delivery if name.startswith("dead_letter")} == found
    account.seed({"lost_events": [{"source": ["tests"]}]})
    assert account.emit({"source": "tests", "detail-type": "a test", "detail": {}}) == []


def test_a_node_without_a_role_makes_no_calls(account: InProcessEmulator) -> None:
    made = fleet()
    del made["Resources"]["Template"]["Properties"]["LaunchTemplateData"]["IamInstanceProfile"]
    account.deploy(made)
    with pytest.raises(ValueError, match="has no instance profile"):
        complete(account)
