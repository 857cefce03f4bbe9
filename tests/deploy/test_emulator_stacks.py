"""Stacks in the emulator inside this process: create, update, replace, refuse, delete, and a Capacity Block's life."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cdk_gpu_clusters.testing import DeployFailed, InProcessEmulator
from plain_fleet import BY_NAME, allow, policy, role

Json = dict[str, Any]
BLOCK = "cr-0fedcba9876543210"
ZONE = "us-east-1a"
EDITIONS = [
    ("Capacity Block Delivered", "Capacity Block Expiration Warning"),
    ("Capacity Block Reservation Delivered", "Capacity Block Reservation Expiration Warning"),
]


@pytest.fixture
def account() -> Iterator[InProcessEmulator]:
    with InProcessEmulator(seed={"now": "2026-11-21T08:00Z"}) as made:
        yield made


def _interfaces(group: Any) -> list[Json]:
    primary: Json = {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "interface"}
    fabric: list[Json] = [
        {"DeviceIndex": 1 if card == 0 else 0, "NetworkCardIndex": card, "InterfaceType": "efa-only"}
        for card in range(32)
    ]
    return [{**item, "Groups": [group]} for item in [primary, *fabric]]


def network() -> Json:
    group, vpc = {"Ref": "Group"}, {"Ref": "Vpc"}
    return {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": vpc, "CidrBlock": "10.0.0.0/20", "AvailabilityZone": ZONE},
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "fabric", "VpcId": vpc},
        },
        "In": {
            "Type": "AWS::EC2::SecurityGroupIngress",
            "Properties": {"GroupId": group, "IpProtocol": "-1", "SourceSecurityGroupId": group},
        },
        "Out": {
            "Type": "AWS::EC2::SecurityGroupEgress",
            "Properties": {"GroupId": group, "IpProtocol": "-1", "DestinationSecurityGroupId": group},
        },
    }


def fleet(data: Json, **more: Any) -> Json:
    return {
        "Template": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateData": {
                    "InstanceType": "p5.48xlarge",
                    "ImageId": {"Ref": "Image"},
                    "NetworkInterfaces": _interfaces({"Ref": "Group"}),
                    **data,
                }
            },
        },
        "Fleet": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "MinSize": "0",
                "MaxSize": "4",
                "VPCZoneIdentifier": [{"Ref": "Subnet"}],
                "LaunchTemplate": {
                    "LaunchTemplateId": {"Ref": "Template"},
                    "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
                },
                **more,
            },
        },
    }


def template(resources: Json) -> Json:
    image = {
        "Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
        "Default": "/aws/service/some-image/x86_64/latest/ami-id",
    }
    return {
        "Parameters": {"Image": image},
        "Resources": resources,
        "Outputs": {"Fleet": {"Value": {"Ref": "Fleet"}}},
    }


def reserved() -> Json:
    """A fleet of four in a reservation of four, made in a placement group."""
    arn = {"Fn::Sub": "arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}:placement-group/${Rack}"}
    reservation = {
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "InstanceCount": 4,
        "AvailabilityZone": ZONE,
        "EndDateType": "limited",
        "EndDate": "2026-12-31T00:00:00Z",
        "PlacementGroupArn": arn,
    }
    data = {
        "Placement": {"GroupName": {"Ref": "Rack"}},
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": {"Ref": "Four"}}},
    }
    return template(
        {
            **network(),
            "Rack": {"Type": "AWS::EC2::PlacementGroup", "Properties": {"Strategy": "cluster"}},
            "Four": {"Type": "AWS::EC2::CapacityReservation", "Properties": reservation},
            **fleet(data, DesiredCapacity="4"),
        }
    )


def _sizes(account: InProcessEmulator) -> tuple[int, int]:
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return group["DesiredCapacity"], len(group["Instances"])


def test_what_was_deployed_is_described(account: InProcessEmulator) -> None:
    name = account.deploy(reserved())["Fleet"]
    ec2 = account.client("ec2")
    (version,) = ec2.describe_launch_template_versions(
        LaunchTemplateId=account.resources("AWS::EC2::LaunchTemplate")[0]["physical_id"]
    )["LaunchTemplateVersions"]
    interfaces = version["LaunchTemplateData"]["NetworkInterfaces"]
    assert [item["NetworkCardIndex"] for item in interfaces if item["InterfaceType"] == "efa-only"] == list(range(32))
    assert version["LaunchTemplateData"]["ImageId"].startswith("ami-")
    (reservation,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert (
        reservation["State"],
        reservation["TotalInstanceCount"],
        reservation["AvailableInstanceCount"],
    ) == ("active", 4, 0)
    (rack,) = ec2.describe_placement_groups()["PlacementGroups"]
    assert reservation["PlacementGroupArn"].endswith(rack["GroupName"])
    (group,) = account.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])[
        "AutoScalingGroups"
    ]
    assert {one["InstanceType"] for one in group["Instances"]} == {"p5.48xlarge"}
    assert (len(group["Instances"]), group["AvailabilityZones"]) == (4, [ZONE])
    fabric = interfaces[1]["Groups"][0]
    (described,) = ec2.describe_security_groups(GroupIds=[fabric])["SecurityGroups"]
    for side in ("IpPermissions", "IpPermissionsEgress"):
        peers = [pair["GroupId"] for rule in described[side] for pair in rule["UserIdGroupPairs"]]
        assert peers == [fabric]


def test_a_suspended_launch_survives_until_it_is_resumed(account: InProcessEmulator) -> None:
    account.deploy(template({**network(), **fleet({"InstanceType": "g6.xlarge", "NetworkInterfaces": []})}))
    scaling = account.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    name = {"AutoScalingGroupName": group["AutoScalingGroupName"]}
    scaling.suspend_processes(**name, ScalingProcesses=["Launch"])
    scaling.set_desired_capacity(**name, DesiredCapacity=2)
    account.move_clock("2026-12-21T08:00Z")
    assert _sizes(account) == (2, 0)
    scaling.resume_processes(**name, ScalingProcesses=["Launch"])
    assert _sizes(account) == (2, 2)


@pytest.mark.parametrize(("policy", "left"), [("Retain", 1), ("RetainExceptOnCreate", 0), ("Delete", 0)])
def test_what_a_failed_first_deployment_leaves(account: InProcessEmulator, policy: str, left: int) -> None:
    """A retry makes another store beside one that was retained, and both bill."""
    store = {
        "Type": "AWS::FSx::FileSystem",
        "DeletionPolicy": policy,
        "Properties": {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": 1200,
            "SubnetIds": [{"Ref": "Subnet"}],
            "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
        },
    }
    link = {
        "Type": "AWS::FSx::DataRepositoryAssociation",
        "Properties": {
            "FileSystemId": {"Ref": "Store"}, "FileSystemPath": "/", "DataRepositoryPath": "s3://not-there",
        },
    }  # fmt: skip
    with pytest.raises(DeployFailed, match="not-there"):
        account.deploy({"Resources": {**network(), "Store": store, "Link": link}})
    assert len(account.client("fsx").describe_file_systems()["FileSystems"]) == left


def test_nodes_outlive_a_reservation_and_bill_on_demand(account: InProcessEmulator) -> None:
    account.deploy(reserved())
    account.move_clock("2027-01-01T00:00Z")
    assert _sizes(account) == (4, 4)
    (reservation,) = account.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    assert reservation["State"] == "expired"
    activities = account.client("autoscaling").describe_scaling_activities()["Activities"]
    assert sum(one["Description"].endswith("runs on demand") for one in activities) == 4


def test_a_pattern_that_no_text_matches_can_be_enforced(account: InProcessEmulator) -> None:
    account.seed({"patterns_as_published": True})
    with pytest.raises(DeployFailed, match=r"PlacementGroupArn: .*does not match") as failure:
        account.deploy(reserved())
    assert failure.value.status == "ROLLBACK_COMPLETE"


@pytest.mark.parametrize(
    ("cidr", "message"),
    [
        ("10.1.0.0/20", "it is not in the VPC's"),
        ("10.0.1.0/24", "conflicts with another subnet"),
        ("10.0.32.0/29", "a subnet is a /16 to a /28"),
        ("10.0.0.1/20", "has host bits set"),
    ],
)
def test_ranges_of_subnets_are_checked(account: InProcessEmulator, cidr: str, message: str) -> None:
    made = network()
    second = copy.deepcopy(made["Subnet"])
    second["Properties"]["CidrBlock"] = cidr
    with pytest.raises(DeployFailed, match=message):
        account.deploy({"Resources": {**made, "Second": {**second, "DependsOn": "Subnet"}}})


def test_a_subnet_runs_out_of_addresses(account: InProcessEmulator) -> None:
    """A /28 has sixteen addresses, and five of them are AWS's."""
    made = template(
        {**network(), **fleet({"InstanceType": "g6.xlarge", "NetworkInterfaces": []}, DesiredCapacity="12")}
    )
    made["Resources"]["Subnet"]["Properties"]["CidrBlock"] = "10.0.0.0/28"
    made["Resources"]["Fleet"]["Properties"]["MaxSize"] = "12"
    account.deploy(made)
    assert _sizes(account) == (12, 11)
    (activity, *_) = account.client("autoscaling").describe_scaling_activities()["Activities"]
    assert activity["StatusMessage"].startswith("InsufficientFreeAddressesInSubnet")


def test_a_template_that_is_too_large_for_a_request_goes_through_a_bucket(account: InProcessEmulator) -> None:
    groups = {
        f"Group{number}": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "x" * 255, "VpcId": {"Ref": "Vpc"}},
        }
        for number in range(150)
    }
    large = {"Resources": {**network(), **groups}}
    with pytest.raises(ClientError, match="length less than or equal to 51200"):
        account.client("cloudformation").create_stack(StackName="large", TemplateBody=json.dumps(large))
    account.deploy(large, stack_name="large")
    assert len(account.resources("AWS::EC2::SecurityGroup")) == 151


def test_every_resource_says_who_answered(account: InProcessEmulator) -> None:
    account.deploy(reserved())
    answered = {one["logical_id"]: one["answered_by"] for one in account.resources()}
    assert {key for key, value in answered.items() if value == "emulator"} == {"Vpc", "Subnet", "Group"}
    assert {key for key, value in answered.items() if value == "model"} == {
        "In",
        "Out",
        "Rack",
        "Four",
        "Template",
        "Fleet",
    }


def test_an_update_makes_a_new_template_version(account: InProcessEmulator) -> None:
    before = reserved()
    account.deploy(before)
    after = copy.deepcopy(before)
    after["Resources"]["Template"]["Properties"]["LaunchTemplateData"]["EbsOptimized"] = True
    account.deploy(after)
    (lt,) = account.client("ec2").describe_launch_templates()["LaunchTemplates"]
    assert (lt["DefaultVersionNumber"], lt["LatestVersionNumber"]) == (1, 2)
    (group,) = account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert group["LaunchTemplate"]["Version"] == "2"
    assert {one["LaunchTemplate"]["Version"] for one in group["Instances"]} == {"1"}, "running nodes stay"


def test_a_refused_update_leaves_the_stack_as_it_was(account: InProcessEmulator) -> None:
    account.deploy(reserved())
    wrong = reserved()
    wrong["Resources"]["Fleet"]["Properties"]["MaxSize"] = "3"
    with pytest.raises(DeployFailed, match="DesiredCapacity 4 is not between MinSize 0 and MaxSize 3") as failure:
        account.deploy(wrong)
    assert failure.value.status == "UPDATE_ROLLBACK_COMPLETE"
    assert _sizes(account) == (4, 4)


def test_a_refused_stack_leaves_nothing(account: InProcessEmulator) -> None:
    wrong = reserved()
    wrong["Resources"]["Template"]["Properties"]["LaunchTemplateData"]["InstanceType"] = "p6-b200.48xlarge"
    with pytest.raises(DeployFailed, match=r"p6-b200\.48xlarge has no network card 31"):
        account.deploy(wrong)
    assert account.resources() == []


def test_a_create_only_change_replaces(account: InProcessEmulator) -> None:
    first = reserved()
    del first["Resources"]["Template"], first["Resources"]["Fleet"], first["Outputs"]
    account.deploy(first)
    (before,) = account.resources("AWS::EC2::CapacityReservation")
    second = copy.deepcopy(first)
    second["Resources"]["Four"]["Properties"]["InstanceType"] = "p5en.48xlarge"
    account.deploy(second)
    (after,) = account.resources("AWS::EC2::CapacityReservation")
    assert after["physical_id"] != before["physical_id"]
    assert after["properties"]["InstanceType"] == "p5en.48xlarge"


def test_a_named_resource_is_not_replaced_silently(account: InProcessEmulator) -> None:
    stack = reserved()
    stack["Resources"]["Fleet"]["Properties"]["AutoScalingGroupName"] = "trainers"
    account.deploy(stack)
    changed = copy.deepcopy(stack)
    changed["Resources"]["Fleet"]["Properties"]["InstanceId"] = "i-0123456789abcdef0"
    del changed["Resources"]["Fleet"]["Properties"]["LaunchTemplate"]
    with pytest.raises(DeployFailed, match="cannot update a stack when a custom-named resource requires replacing"):
        account.deploy(changed)


def test_nothing_is_left_after_deletion(account: InProcessEmulator) -> None:
    account.deploy(reserved())
    account.destroy()
    assert account.resources() == []
    assert account.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []


def test_a_weak_reference_reads_another_stacks_output(account: InProcessEmulator) -> None:
    producer = {"Resources": network(), "Outputs": {"FabricId": {"Value": {"Ref": "Group"}}}}
    account.deploy(producer, stack_name="network")
    weak = {"Fn::GetStackOutput": {"StackName": "network", "OutputName": "FabricId"}}
    rule = {
        "GroupId": weak,
        "IpProtocol": "tcp",
        "FromPort": 988,
        "ToPort": 988,
        "SourceSecurityGroupId": weak,
    }
    consumer = {"Resources": {"Lustre": {"Type": "AWS::EC2::SecurityGroupIngress", "Properties": rule}}}
    account.deploy(consumer, stack_name="data")
    fabric = account.resources("AWS::EC2::SecurityGroup")[0]["physical_id"]
    assert [one["properties"]["GroupId"] for one in account.resources() if one["logical_id"] == "Lustre"] == [fabric]


def test_a_desired_capacity_in_the_template_is_written_back(account: InProcessEmulator) -> None:
    stack = reserved()
    account.deploy(stack)
    name = account.resources("AWS::AutoScaling::AutoScalingGroup")[0]["physical_id"]
    account.client("autoscaling").set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=1)
    assert _sizes(account) == (1, 1)
    stack["Resources"]["Fleet"]["Properties"]["HealthCheckGracePeriod"] = 600
    account.deploy(stack)
    assert _sizes(account) == (4, 4)


def test_a_launching_hook_holds_a_node_until_it_is_completed(account: InProcessEmulator) -> None:
    stack = reserved()
    hook = {
        "LifecycleHookName": "ready",
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
        "HeartbeatTimeout": 600,
    }
    stack["Resources"]["Fleet"]["Properties"]["LifecycleHookSpecificationList"] = [hook]
    name = account.deploy(stack)["Fleet"]
    scaling = account.client("autoscaling")
    (described,) = scaling.describe_lifecycle_hooks(AutoScalingGroupName=name)["LifecycleHooks"]
    assert (described["HeartbeatTimeout"], described["DefaultResult"]) == (600, "ABANDON")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert {one["LifecycleState"] for one in group["Instances"]} == {"Pending:Wait"}
    first, second, *_ = (one["InstanceId"] for one in group["Instances"])
    for node, result in ((first, "CONTINUE"), (second, "ABANDON")):
        scaling.complete_lifecycle_action(
            LifecycleHookName="ready",
            AutoScalingGroupName=name,
            InstanceId=node,
            LifecycleActionResult=result,
        )
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    states = {one["InstanceId"]: one["LifecycleState"] for one in group["Instances"]}
    assert states[first] == "InService"
    assert second not in states
    assert len(states) == 4, "an abandoned launch is tried again"


def _machine(name: Any) -> str | Json:
    group = {"AutoScalingGroupName": "${Fleet}"}
    definition = {
        "StartAt": "Which",
        "States": {
            "Which": {
                "Type": "Choice",
                "Choices": [
                    {
                        "And": [
                            {
                                "Variable": "$$.State.EnteredTime",
                                "TimestampGreaterThanEquals": "2026-12-01T11:30:00Z",
                            },
                            {"Variable": "$$.State.EnteredTime", "TimestampLessThan": "2026-12-15T10:50:00Z"},
                        ],
                        "Next": "Fill",
                    }
                ],
                "Default": "Drain",
            },
            "Fill": _set(group, 4),
            "Drain": _set(group, 0),
        },
    }
    return {"Fn::Sub": [json.dumps(definition), {"Fleet": name}]}


def _set(group: Json, size: int) -> Json:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:autoscaling:setDesiredCapacity",
        "Parameters": {**group, "DesiredCapacity": size},
        "End": True,
    }


def block(*, size: str | None = None) -> Json:
    """A fleet on a Capacity Block, filled at its delivery and drained at its warning by a state machine."""
    data = {
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": BLOCK}},
    }
    acting = allow(BY_NAME, "autoscaling:SetDesiredCapacity")
    target = {"Id": "Machine", "Arn": {"Ref": "Machine"}, "RoleArn": {"Fn::GetAtt": ["Starter", "Arn"]}}
    pattern = {
        "source": ["aws.ec2"],
        "detail-type": [name for edition in EDITIONS for name in edition],
        "detail": {"capacity-reservation-id": [BLOCK]},
    }
    updated = {
        "source": ["aws.cloudformation"],
        "detail-type": ["CloudFormation Resource Status Change"],
        "detail": {
            "logical-resource-id": ["Fleet"],
            "status-details": {"status": ["CREATE_COMPLETE", "UPDATE_COMPLETE"]},
        },
    }
    rules: dict[str, Json] = {
        "Block": {"EventPattern": pattern},
        "Deployed": {"EventPattern": updated},
        "Backup": {"ScheduleExpression": "cron(35 11 1 12 ? 2026)"},
    }
    return template(
        {
            **network(),
            **fleet(data, **({"DesiredCapacity": size} if size else {})),
            "Role": role("states.amazonaws.com"),
            "Act": policy("Role", acting),
            "Starter": role("events.amazonaws.com"),
            "Start": policy("Starter", allow({"Ref": "Machine"}, "states:StartExecution")),
            "Machine": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                    "DefinitionString": _machine({"Ref": "Fleet"}),
                },
            },
            **{
                name: {"Type": "AWS::Events::Rule", "Properties": {**given, "Targets": [target]}}
                for name, given in rules.items()
            },
        }
    )


def _seed_block(account: InProcessEmulator, edition: tuple[str, str] = EDITIONS[0]) -> None:
    reservation = {
        "id": BLOCK,
        "instance_type": "p5.48xlarge",
        "availability_zone": ZONE,
        "count": 4,
        "kind": "capacity-block",
        "starts_at": "2026-12-01T11:30Z",
        "ends_at": "2026-12-15T11:30Z",
    }
    account.seed({"reservations": [reservation], "block_event_names": edition})


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_block_fleet_lives_with_its_block(account: InProcessEmulator, edition: tuple[str, str]) -> None:
    _seed_block(account, edition)
    account.deploy(block())
    assert _sizes(account) == (0, 0)
    happened = account.move_clock("2026-12-01T11:30Z")
    assert [(one["time"], one["kind"]) for one in happened] == [("2026-12-01T11:30:00Z", "block delivered")]
    assert _sizes(account) == (4, 4)
    account.move_clock("2026-12-15T10:49Z")
    assert _sizes(account) == (4, 4)
    account.move_clock("2026-12-15T10:50Z")
    assert _sizes(account) == (0, 0)
    account.move_clock("2026-12-15T12:00Z")
    statuses = {one["status"] for one in account.history()["executions"]}
    assert statuses == {"SUCCEEDED"}
    (reservation,) = account.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    assert (reservation["State"], reservation["ReservationType"]) == ("expired", "capacity-block")


def test_a_schedule_stands_in_for_a_lost_event(account: InProcessEmulator) -> None:
    _seed_block(account, ("Lost", "Lost too"))
    account.deploy(block())
    account.move_clock("2026-12-01T11:34Z")
    assert _sizes(account) == (0, 0)
    account.move_clock("2026-12-01T11:36Z")
    assert _sizes(account) == (4, 4)


def test_a_redeploy_during_the_block_keeps_its_size(account: InProcessEmulator) -> None:
    _seed_block(account)
    account.deploy(block())
    account.move_clock("2026-12-05T00:00Z")
    assert _sizes(account) == (4, 4)
    changed = block()
    changed["Resources"]["Fleet"]["Properties"]["HealthCheckGracePeriod"] = 600
    account.deploy(changed)
    assert _sizes(account) == (4, 4)
    assert account.history()["executions"][-1]["states"] == ["Which", "Fill"], "the update itself asks the machine"


def test_a_launch_before_the_block_fails_and_says_why(account: InProcessEmulator) -> None:
    _seed_block(account)
    name = account.deploy(block(size="4"))["Fleet"]
    assert _sizes(account) == (4, 0)
    activity = account.client("autoscaling").describe_scaling_activities(AutoScalingGroupName=name)["Activities"][0]
    assert activity["StatusCode"] == "Failed"
    assert f"{BLOCK} is scheduled" in activity["StatusMessage"]


def test_a_fleet_that_is_not_drained_loses_its_nodes(account: InProcessEmulator) -> None:
    _seed_block(account)
    stack = block(size="4")
    for rule in ("Block", "Deployed", "Backup"):
        stack["Resources"][rule]["Properties"]["State"] = "DISABLED"
    account.deploy(stack)
    account.move_clock("2026-12-01T11:31Z")
    assert _sizes(account) == (4, 4)
    account.move_clock("2026-12-15T11:00Z")
    assert _sizes(account) == (4, 0), "EC2 ends the nodes thirty minutes before the end"


def test_scheduled_actions_act_on_the_clock(account: InProcessEmulator) -> None:
    stack = reserved()
    stack["Resources"]["Night"] = {
        "Type": "AWS::AutoScaling::ScheduledAction",
        "Properties": {
            "AutoScalingGroupName": {"Ref": "Fleet"},
            "DesiredCapacity": 1,
            "Recurrence": "0 20 * * *",
        },
    }
    account.deploy(stack)
    account.move_clock("2026-11-21T20:00Z")
    assert _sizes(account) == (1, 1)


def test_the_clock_does_not_go_back(account: InProcessEmulator) -> None:
    account.move_clock("2026-12-01T00:00Z")
    with pytest.raises(ValueError, match="the clock cannot go back"):
        account.move_clock("2026-11-30T00:00Z")


def test_an_unknown_seed_is_refused(account: InProcessEmulator) -> None:
    with pytest.raises(ValueError, match="unknown seeds: reservation; allowed"):
        account.seed({"reservation": []})


def test_the_emulator_forgets(account: InProcessEmulator) -> None:
    _seed_block(account)
    account.deploy(block())
    account.reset()
    assert account.resources() == []
    assert account.client("ec2").describe_capacity_reservations()["CapacityReservations"] == []
    assert account.client("cloudformation").describe_stacks()["Stacks"] == []
