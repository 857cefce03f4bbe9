"""The definition of the brake, as other programs than the emulator read and run it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import boto3
import botocore.session
import pytest
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from cdk_gpu_clusters.observability.brake import PERIOD_MINUTES, brake_definition

ACCOUNT, BUDGET = "123456789012", "lab"
NONE = {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
OPEN = {"CapacityReservationSpecification": {"CapacityReservationPreference": "open"}}
TARGET = {
    "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}
}
SPOT = {"InstanceMarketOptions": {"MarketType": "spot"}}
BLOCK = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}


def definition(*groups: str, percent: float = 100) -> dict[str, Any]:
    return brake_definition("aws", ACCOUNT, BUDGET, groups or ("workers",), percent=percent)


def states(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for state in one["States"].values():
        yield state
        if "ItemProcessor" in state:
            yield from states(state["ItemProcessor"])


def test_another_parser_reads_the_definition() -> None:
    AmazonStateLanguageParser.parse(json.dumps(definition("one", "two", percent=90.5)))


def test_a_run_ends_before_the_next_one_starts() -> None:
    """Even if every call fails until its last attempt, and every wait is the longest one."""
    made = definition()
    waits = [
        sum(
            min(retry["IntervalSeconds"] * retry["BackoffRate"] ** attempt, retry["MaxDelaySeconds"])
            for attempt in range(retry["MaxAttempts"])
        )
        for state in states(made)
        for retry in state.get("Retry", [])
    ]
    assert len(waits) == 4
    assert sum(waits) < made["TimeoutSeconds"] < PERIOD_MINUTES * 60


def test_every_call_is_one_of_its_service() -> None:
    """Operations and members, by botocore's models; Step Functions writes members with a capital letter first."""
    for state in states(definition()):
        if state["Type"] == "Task":
            service, operation = state["Resource"].split(":")[-2:]
            model = botocore.session.get_session().get_service_model(service)
            taken = model.operation_model(operation[0].upper() + operation[1:]).input_shape
            assert taken is not None
            assert set(state["Arguments"]) <= set(taken.members)


def spend(amount: str, *, limit: str = "1000") -> None:
    budget = {
        "BudgetName": BUDGET,
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": limit, "Unit": "USD"},
        "CalculatedSpend": {"ActualSpend": {"Amount": amount, "Unit": "USD"}},
    }
    boto3.client("budgets").create_budget(AccountId=ACCOUNT, Budget=budget)


def group(name: str, data: dict[str, Any]) -> None:
    template = {"ImageId": "ami-12c6146b", "InstanceType": "g6.xlarge", **data}
    boto3.client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=template)
    boto3.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=1,
        MaxSize=4,
        DesiredCapacity=2,
        AvailabilityZones=["us-east-1a"],
        LaunchTemplate={"LaunchTemplateName": name, "Version": "1"},
    )


def sizes(name: str) -> tuple[int, int, int]:
    [found] = boto3.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])[
        "AutoScalingGroups"
    ]
    return found["MinSize"], found["DesiredCapacity"], found["MaxSize"]


def run(made: dict[str, Any]) -> str:
    """Run the definition by moto's own interpreter; its status."""
    client = boto3.client("stepfunctions")
    machine = client.create_state_machine(
        name="brake", definition=json.dumps(made), roleArn=f"arn:aws:iam::{ACCOUNT}:role/r"
    )["stateMachineArn"]
    started = client.start_execution(stateMachineArn=machine, input="{}")["executionArn"]
    for _ in range(200):
        found = client.describe_execution(executionArn=started)
        if found["status"] != "RUNNING":
            break
        time.sleep(0.05)
    return str(found["status"])


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("spent", "percent", "after"),
    [
        ("999.99", 100, (1, 2, 4)),
        ("1000", 100, (0, 0, 0)),
        ("949.9", 95, (1, 2, 4)),
        ("1.5E3", 150, (0, 0, 0)),
    ],
)
def test_it_stops_a_fleet_when_the_part_of_the_budget_is_spent(
    spent: str, percent: float, after: tuple[int, int, int]
) -> None:
    group("workers", NONE)
    spend(spent)
    assert run(definition(percent=percent)) == "SUCCEEDED"
    assert sizes("workers") == after


@pytest.mark.usefixtures("account")
def test_it_stops_only_what_is_surely_paid_by_the_hour() -> None:
    kinds: dict[str, dict[str, Any]] = {
        "on-demand": NONE,
        "spot": SPOT,
        "block": {**BLOCK, **TARGET},
        "reserved": TARGET,
        "open": OPEN,
        "any": {},
    }
    for name, data in kinds.items():
        group(name, data)
    spend("5000")
    assert run(definition(*kinds, "deleted")) == "FAILED"
    stopped = {name for name in kinds if sizes(name) == (0, 0, 0)}
    assert stopped == {"on-demand", "spot"}
    assert {sizes(name) for name in set(kinds) - stopped} == {(1, 2, 4)}


@pytest.mark.usefixtures("account")
def test_without_a_budget_it_stops_nothing() -> None:
    group("workers", NONE)
    made = definition()
    made["States"]["Look"].pop("Retry")  # moto waits as long as it says
    assert run(made) == "FAILED"
    assert sizes("workers") == (1, 2, 4)
