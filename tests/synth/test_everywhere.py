"""Everything on: in every partition, with and without flags, without credentials, with the same ids."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from everything.fleets import ENVIRONMENTS, define_training
from stack_fixtures import of_type, readable


def everything_on(app: cdk.App, env: cdk.Environment | None, zone: str) -> dict[str, Any]:
    return dict(Template.from_stack(define_training(app, env, zone)).to_json())


@pytest.fixture(scope="module")
def templates(app_factory: Any) -> dict[tuple[str, bool], dict[str, Any]]:
    """The template of each environment, with and without feature flags."""
    return {
        (name, flags): everything_on(app_factory(flags=flags), env, zone)
        for name, (env, zone) in ENVIRONMENTS.items()
        for flags in (True, False)
    }


CASES = [(name, flags) for name in ENVIRONMENTS for flags in (True, False)]


# With a known Region CDK may write the partition out; it must be the right one. Otherwise it stays a reference.
PARTITIONS = {"agnostic": set(), "commercial": {"aws"}, "gov": {"aws-us-gov"}, "china": {"aws-cn"}}


@pytest.mark.parametrize("case", CASES)
def test_no_other_partition_is_written_down(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    text = json.dumps(templates[case])
    assert set(re.findall(r"arn:(aws[a-z-]*):", text)) <= PARTITIONS[case[0]]
    assert "amazonaws.com.cn" not in text or case[0] == "china"


@pytest.mark.parametrize("case", CASES)
def test_reservations_have_the_same_logical_ids_everywhere(
    case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]
) -> None:
    kinds = ("Custom::EC2CapacityReservation", "AWS::EC2::PlacementGroup", "AWS::EC2::Subnet", "AWS::EC2::VPC")
    for kind in kinds:
        here = sorted(of_type(templates[case]["Resources"], kind))
        there = sorted(of_type(templates["agnostic", True]["Resources"], kind))
        assert here == there
    assert list(of_type(templates[case]["Resources"], "Custom::EC2CapacityReservation")) == [
        "ReservationInGroupA7D7E8E8"
    ]


@pytest.mark.parametrize("case", CASES)
def test_everything_is_there(case: tuple[str, bool], templates: dict[tuple[str, bool], dict[str, Any]]) -> None:
    """A template that lost half its resources would pass every other test."""
    resources = templates[case]["Resources"]
    assert len(resources) > 70
    assert len(of_type(resources, "AWS::AutoScaling::AutoScalingGroup")) == 3
    assert len(of_type(resources, "AWS::EC2::VPCEndpoint")) > 10


def test_everything_on_is_as_recorded(templates: dict[tuple[str, bool], dict[str, Any]], snapshot_json: Any) -> None:
    assert readable(templates["commercial", True]) == snapshot_json


def test_synthesis_is_deterministic(app_factory: Any, templates: dict[tuple[str, bool], dict[str, Any]]) -> None:
    env, zone = ENVIRONMENTS["commercial"]
    assert everything_on(app_factory(), env, zone) == templates["commercial", True]
