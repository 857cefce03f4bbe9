"""A reservation inside a placement group: its function is run by the emulator, with the policies of the template."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from cdk_gpu_clusters import CapacityReservation, ClusterPlacementGroup
from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator

ZONE = "us-east-1a"
NOW = "2026-12-01T00:00Z"
TYPE = "Custom::EC2CapacityReservation"


@cache
def _synthesized() -> dict[str, Any]:
    app = cdk.App()
    stack = cdk.Stack(app, "stack", env=cdk.Environment(region="us-east-1"))
    made = CapacityReservation(
        stack,
        "Reservation",
        instance_type="p4d.24xlarge",
        instance_count=4,
        availability_zone=ZONE,
        placement_group=ClusterPlacementGroup(stack, "Placement"),
        ends_at="2027-01-31T00:00Z",
    )
    cdk.Tags.of(made).add("project", "vision")
    cdk.CfnOutput(stack, "Id", value=made.reservation_id)
    return dict(Template.from_stack(stack).to_json())


def template(**properties: Any) -> dict[str, Any]:
    made = copy.deepcopy(_synthesized())
    [custom] = [one for one in made["Resources"].values() if one["Type"] == TYPE]
    custom["Properties"].update(properties)
    return made


def with_failure(made: dict[str, Any]) -> dict[str, Any]:
    """The stack with a resource that cannot be made once the reservation is there."""
    [name] = [key for key, one in made["Resources"].items() if one["Type"] == TYPE]
    subnet = {"VpcId": "vpc-none", "CidrBlock": "10.0.0.0/29", "MapPublicIpOnLaunch": "perhaps"}
    made["Resources"]["Wrong"] = {"Type": "AWS::EC2::Subnet", "Properties": subnet, "DependsOn": name}
    return made


@pytest.fixture
def account(request: pytest.FixtureRequest) -> Iterator[InProcessEmulator]:
    """An account that enforces patterns as they are published, unless a test says otherwise."""
    strict = getattr(request, "param", True)
    with InProcessEmulator(seed={"now": NOW, "patterns_as_published": strict}) as made:
        yield made
        assert made.history()["denied"] == []


def reservations(account: InProcessEmulator) -> list[Any]:
    found: list[Any] = account.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    return found


@pytest.mark.parametrize("account", [False, True], indirect=True, ids=["patterns-as-meant", "patterns-as-published"])
def test_it_deploys_and_is_cancelled_with_its_stack(account: InProcessEmulator) -> None:
    identifier = account.deploy(template())["Id"]
    [made] = reservations(account)
    assert (made["CapacityReservationId"], made["State"], made["TotalInstanceCount"]) == (identifier, "active", 4)
    [group] = account.resources("AWS::EC2::PlacementGroup")
    assert made["PlacementGroupArn"].endswith(f":placement-group/{group['physical_id']}")
    assert made["EndDateType"] == "limited"
    tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
    assert (tags["Name"], tags["project"]) == ("stack/Reservation", "vision")
    account.destroy()
    assert reservations(account) == []


def test_what_ec2_can_change_changes_in_place(account: InProcessEmulator) -> None:
    before = account.deploy(template())["Id"]
    changed = template(
        InstanceCount=6, EndDate="2027-02-28T00:00:00Z", Tags={"Name": "stack/Reservation", "team": "speech"}
    )
    assert account.deploy(changed)["Id"] == before
    [made] = reservations(account)
    assert (made["TotalInstanceCount"], made["EndDate"].month) == (6, 2)
    tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
    assert tags["team"] == "speech"
    assert "project" not in tags
    account.destroy()
    assert reservations(account) == []


def test_another_type_is_another_reservation(account: InProcessEmulator) -> None:
    before = account.deploy(template())["Id"]
    after = account.deploy(template(InstanceType="p5.48xlarge"))["Id"]
    assert after != before
    [made] = reservations(account)
    assert (made["CapacityReservationId"], made["InstanceType"]) == (after, "p5.48xlarge")


def test_a_change_that_is_rolled_back_keeps_the_reservation_and_leaves_no_other(account: InProcessEmulator) -> None:
    before = account.deploy(template())["Id"]
    with pytest.raises(DeployFailed):
        account.deploy(with_failure(template(InstanceType="p5.48xlarge")))
    [made] = reservations(account)
    assert (made["CapacityReservationId"], made["InstanceType"]) == (before, "p4d.24xlarge")


def test_a_first_deployment_that_fails_leaves_nothing_that_bills(account: InProcessEmulator) -> None:
    with pytest.raises(DeployFailed):
        account.deploy(with_failure(template()))
    assert reservations(account) == []


def test_what_ec2_refuses_is_the_reason_of_the_failure(account: InProcessEmulator) -> None:
    with pytest.raises(DeployFailed, match="the end 2026-11-01T00:00:00Z is in the past"):
        account.deploy(template(EndDate="2026-11-01T00:00:00Z"))
    assert reservations(account) == []


def test_a_reservation_whose_id_was_lost_is_cancelled(account: InProcessEmulator) -> None:
    lost = {"service": "ec2", "operation": "CreateCapacityReservation", "error": "Unavailable", "performed": True}
    account.seed({"failing_calls": [lost]})
    with pytest.raises(DeployFailed, match="Unavailable"):
        account.deploy(template())
    assert reservations(account) == []
    before = account.deploy(template(), stack_name="second")["Id"]
    account.seed({"failing_calls": [lost]})
    with pytest.raises(DeployFailed, match="Unavailable"):
        account.deploy(template(InstanceType="p5.48xlarge"), stack_name="second")
    [made] = reservations(account)
    assert made["CapacityReservationId"] == before


def test_one_that_has_ended_does_not_keep_its_stack(account: InProcessEmulator) -> None:
    account.deploy(template())
    account.move_clock("2027-02-01T00:00Z")
    account.destroy()
    assert account.resources(TYPE) == []


def test_the_function_changes_and_cancels_what_its_stack_made_and_nothing_else() -> None:
    foreign = template(InstanceCount=6)
    [policy] = [one for one in foreign["Resources"].values() if one["Type"] == "AWS::IAM::ManagedPolicy"]
    for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
        tags = statement.get("Condition", {}).get("StringEquals", {})
        if "aws:ResourceTag/gpu-clusters:stack" in tags:
            tags["aws:ResourceTag/gpu-clusters:stack"] = "arn:aws:cloudformation:us-east-1:123456789012:stack/other/0"
    with InProcessEmulator(seed={"now": NOW}) as account:
        account.deploy(template())
        with pytest.raises(DeployFailed, match="ec2:ModifyCapacityReservation"):
            account.deploy(foreign)
        denied = {one["action"] for one in account.history()["denied"]}
    assert denied == {"ec2:ModifyCapacityReservation"}
