"""Rules of EventBridge and state machines in the emulator: what their services refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from gpu_clusters_emulator.models.registry import creation_faults
from gpu_clusters_emulator.world import World
from mutations import Mutation, put

Json = dict[str, Any]

RULE, MACHINE = "AWS::Events::Rule", "AWS::StepFunctions::StateMachine"
MACHINE_ARN = "arn:aws:states:us-east-1:123456789012:stateMachine:keep"


def rule() -> Json:
    return {
        "ScheduleExpression": "rate(5 minutes)",
        "EventPattern": {"source": ["aws.ec2"], "detail": {"state": ["running"]}},
        "Targets": [{"Id": "Run", "Arn": MACHINE_ARN, "RoleArn": "arn:aws:iam::123456789012:role/starts"}],
    }


RULE_FAULTS = [
    (put("ScheduleExpression", "rate(1 minutes)"), "Parameter ScheduleExpression is not valid"),
    (put("ScheduleExpression", "rate(5 minute)"), "Parameter ScheduleExpression is not valid"),
    (put("ScheduleExpression", "cron(0 10 * * * *)"), "Parameter ScheduleExpression is not valid"),
    (put("EventPattern.source", "aws.ec2"), "must be an object or an array"),
    (put("EventPattern.detail.state", []), "must be an object or an array"),
    (put("EventPattern.detail.state", ["r" * 2_048]), "at most 2048"),
    (put("Targets.0", {"Id": "Run", "Arn": MACHINE_ARN}), "RoleArn is required for target"),
]


@pytest.mark.parametrize(("mutate", "message"), RULE_FAULTS)
def test_a_wrong_rule_is_refused(mutate: Mutation, message: str) -> None:
    properties = rule()
    assert creation_faults(RULE, properties, World()) == []
    mutate(properties)
    assert message in "\n".join(map(str, creation_faults(RULE, properties, World())))


@pytest.mark.parametrize(
    "schedule", ["rate(1 minute)", "rate(12 hours)", "cron(30 11 1 12 ? 2026)", "cron(0 8 ? * MON *)"]
)
def test_schedules_of_the_guide_are_taken(schedule: str) -> None:
    assert creation_faults(RULE, {**rule(), "ScheduleExpression": schedule}, World()) == []


def definition() -> Json:
    return {
        "QueryLanguage": "JSONata",
        "StartAt": "Look",
        "States": {
            "Look": {"Type": "Choice", "Choices": [{"Condition": "{% true %}", "Next": "Each"}], "Default": "Done"},
            "Each": {
                "Type": "Map",
                "Items": [1],
                "ItemProcessor": {"StartAt": "One", "States": {"One": {"Type": "Pass", "End": True}}},
                "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Done"}],
                "Next": "Done",
            },
            "Done": {"Type": "Succeed"},
        },
    }


DEFINITION_FAULTS = [
    (put("StartAt", "Loook"), "target: Loook at /StartAt"),
    (put("States.Look.Default", "End"), "target: End at /States/Look/Default"),
    (put("States.Look.Choices.0.Next", "None"), "target: None at /States/Look/Next"),
    (put("States.Each.Catch.0.Next", "Gone"), "target: Gone"),
    (put("States.Each.ItemProcessor.StartAt", "Two"), "target: Two at /States/Each/StartAt"),
    (put("States.Done.InputPath", "$.a"), "InputPath in JSONata"),
]


@pytest.mark.parametrize(("mutate", "message"), DEFINITION_FAULTS)
def test_a_wrong_definition_is_refused(mutate: Mutation, message: str) -> None:
    given = definition()
    properties = {"RoleArn": "arn:aws:iam::123456789012:role/unknown", "DefinitionString": json.dumps(given)}
    assert creation_faults(MACHINE, properties, World()) == []
    mutate(given)
    properties["DefinitionString"] = json.dumps(given)
    assert message in "\n".join(map(str, creation_faults(MACHINE, properties, World())))


# ----- its role, at the moment of its creation


def stack(*, trusted: str = "states.amazonaws.com", waits: bool = True) -> Json:
    trust = {"Effect": "Allow", "Principal": {"Service": trusted}, "Action": "sts:AssumeRole"}
    deliver = ("Create", "Get", "Update", "Delete", "List")
    actions = [f"logs:{verb}LogDeliver{'ies' if verb == 'List' else 'y'}" for verb in deliver]
    actions += ["logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups"]
    machine = {
        "Type": MACHINE,
        "Properties": {
            "DefinitionString": json.dumps(definition()),
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "LoggingConfiguration": {
                "Level": "ERROR",
                "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": {"Fn::GetAtt": ["Logs", "Arn"]}}}],
            },
        },
        **({"DependsOn": ["Policy"]} if waits else {}),
    }
    allowed = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    return {
        "Resources": {
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}},
            },
            "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {}},
            "Policy": {
                "Type": "AWS::IAM::Policy",
                "Properties": {
                    "PolicyName": "logs",
                    "Roles": [{"Ref": "Role"}],
                    "PolicyDocument": {"Version": "2012-10-17", "Statement": [allowed]},
                },
            },
            "Machine": machine,
        }
    }


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator() as made:
        yield made


def test_a_machine_that_waits_for_its_permissions_is_made(account: InProcessEmulator) -> None:
    account.deploy(copy.deepcopy(stack()))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (stack(waits=False), "not authorized to access the Log Destination"),
        (stack(trusted="events.amazonaws.com"), "is authorized to assume the provided role"),
    ],
    ids=["permissions come later", "another service is trusted"],
)
def test_a_machine_without_its_permissions_is_refused(account: InProcessEmulator, template: Json, message: str) -> None:
    with pytest.raises(DeployFailed, match=message):
        account.deploy(template)
