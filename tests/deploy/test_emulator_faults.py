"""Every fault that the emulator's models find beyond the schemas, one mutation of a good resource each."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from typing import Any

import pytest

from gpu_clusters_emulator import provisioning
from gpu_clusters_emulator.models.registry import creation_faults, deletion_faults
from gpu_clusters_emulator.seeds import plant
from gpu_clusters_emulator.world import World
from mutations import drop, put

Json = dict[str, Any]

TEMPLATE = "AWS::EC2::LaunchTemplate"
RESERVATION = "AWS::EC2::CapacityReservation"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
HOOK = "AWS::AutoScaling::LifecycleHook"
SCHEDULE = "AWS::AutoScaling::ScheduledAction"
WARM_POOL = "AWS::AutoScaling::WarmPool"
INGRESS = "AWS::EC2::SecurityGroupIngress"

ODCR = "cr-0123456789abcdef0"
BLOCK = "cr-0fedcba9876543210"
ENDED = "cr-00000000000000dead"
SEED: Json = {
    "now": "2026-11-21T08:00Z",
    "reservations": [
        {
            "id": ODCR,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "placement_group": "rack",
        },
        {
            "id": BLOCK,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "kind": "capacity-block",
            "starts_at": "2026-12-01T11:30Z",
            "ends_at": "2026-12-15T11:30Z",
        },
        {
            "id": ENDED,
            "instance_type": "p5.48xlarge",
            "availability_zone": "us-east-1a",
            "count": 4,
            "kind": "capacity-block",
            "ends_at": "2026-11-01T11:30Z",
        },
    ],
    "placement_groups": {"rack": "cluster", "wide": "spread"},
    "subnets": {"subnet-0aaaaaaaaaaaaaaaa": "us-east-1a", "subnet-0bbbbbbbbbbbbbbbb": "us-east-1b"},
    "security_groups": ["sg-0123456789abcdef0"],
}


@pytest.fixture
def world() -> World:
    made = World()
    plant(made, SEED)
    return made


def _interfaces() -> list[Json]:
    primary: Json = {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "interface"}
    fabric: list[Json] = [
        {"DeviceIndex": 1 if card == 0 else 0, "NetworkCardIndex": card, "InterfaceType": "efa-only"}
        for card in range(32)
    ]
    return [{**item, "Groups": ["sg-0123456789abcdef0"]} for item in [primary, *fabric]]


def _target(reservation: str) -> Json:
    return {"CapacityReservationTarget": {"CapacityReservationId": reservation}}


def reserved() -> Json:
    """A launch template into the On-Demand Capacity Reservation."""
    return {
        "LaunchTemplateData": {
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": _interfaces(),
            "Placement": {"GroupName": "rack"},
            "CapacityReservationSpecification": _target(ODCR),
        }
    }


def block() -> Json:
    """A launch template into the Capacity Block."""
    return {
        "LaunchTemplateData": {
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": _interfaces(),
            "InstanceMarketOptions": {"MarketType": "capacity-block"},
            "CapacityReservationSpecification": _target(BLOCK),
        }
    }


def odcr() -> Json:
    return {
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "InstanceCount": 4,
        "AvailabilityZone": "us-east-1a",
        "EndDateType": "limited",
        "EndDate": "2026-12-31T00:00:00Z",
    }


DATA = "LaunchTemplateData"
NICS = f"{DATA}.NetworkInterfaces"
EBS = f"{DATA}.BlockDeviceMappings"


def _volume(**ebs: Any) -> Callable[[Json], None]:
    return put(EBS, [{"DeviceName": "/dev/xvda", "Ebs": ebs}])


TEMPLATE_FAULTS: list[tuple[Callable[[], Json], Callable[[Json], None], str]] = [
    (reserved, put(f"{DATA}.InstanceType", "p7.48xlarge"), "there is no instance type 'p7.48xlarge'"),
    (reserved, put(f"{DATA}.InstanceType", "p5en.48xlarge"), "reserves p5.48xlarge, the template launches p5en.48xlarge"),
    (reserved, put(f"{NICS}.0.InterfaceType", "efa-only"), "the primary interface needs an IP address"),
    (reserved, put(f"{NICS}.2.NetworkCardIndex", 32), "p5.48xlarge has no network card 32"),
    (reserved, put(f"{NICS}.2.NetworkCardIndex", 3), "more than one EFA interface"),
    (reserved, put(f"{NICS}.0.InterfaceType", "efa"), "more than one EFA interface"),
    (reserved, put(f"{NICS}.5.InterfaceType", "efa-onlyy"), "'efa-onlyy' is no interface type"),
    (reserved, put(f"{NICS}.0.AssociatePublicIpAddress", True), "cannot be given a public address at launch"),
    (reserved, put(f"{NICS}.4.Ipv6AddressCount", 1), "an efa-only interface has no IP device"),
    (reserved, put(f"{DATA}.SecurityGroupIds", ["sg-0123456789abcdef0"]), "may not be given at the top level too"),
    (reserved, put(f"{DATA}.CapacityReservationSpecification", _target("cr-0aaaaaaaaaaaaaaaa")), "'cr-0aaaaaaaaaaaaaaaa' does not exist"),
    (reserved, put(f"{DATA}.InstanceMarketOptions", {"MarketType": "capacity-block"}), "is an On-Demand Capacity Reservation, not a Capacity Block"),
    (reserved, put(f"{DATA}.InstanceMarketOptions", {"MarketType": "spot"}), "Spot instances cannot use a reservation"),
    (reserved, drop(f"{DATA}.Placement"), "was made in the placement group 'rack'; the template names ''"),
    (reserved, put(f"{DATA}.Placement.GroupName", "gone"), "the placement group 'gone' does not exist"),
    (reserved, put(f"{DATA}.Placement.AvailabilityZone", "us-east-1b"), "is in us-east-1a, the template launches in us-east-1b"),
    (reserved, put(f"{DATA}.CapacityReservationSpecification.CapacityReservationPreference", "none"), "preference none cannot be combined with a target"),
    (reserved, put(f"{DATA}.CapacityReservationSpecification.CapacityReservationTarget", {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:us-east-1:123456789012:group/gone"}), "group/gone' does not exist"),
    (block, drop(f"{DATA}.CapacityReservationSpecification"), "market type capacity-block needs the reservation"),
    (block, drop(f"{DATA}.InstanceMarketOptions"), "is a Capacity Block: the market type must be capacity-block"),
    (block, put(f"{DATA}.Placement", {"GroupName": "rack"}), "Capacity Blocks do not support placement groups"),
    (reserved, put(f"{DATA}.UserData", base64.b64encode(b"#" * 16_385).decode()), "user data has 16,385 bytes raw; the limit is 16,384"),
    (reserved, put(f"{DATA}.UserData", "#!/bin/bash"), "user data is not base64"),
    (reserved, _volume(VolumeType="gp3", VolumeSize=200, Iops=80_001), "gp3 volumes have 3,000 to 80,000 IOPS, got 80,001"),
    (reserved, _volume(VolumeType="gp3", VolumeSize=200, Iops=9_000, Throughput=2_001), "gp3 volumes have 125 to 2,000 MiB/s, got 2,001"),
    (reserved, _volume(VolumeType="gp3", VolumeSize=200, Throughput=1_000), "at most 0.25 MiB/s per IOPS, got 1000 MiB/s for 3,000 IOPS"),
    (reserved, _volume(VolumeType="gp2", VolumeSize=200, Iops=3_000), "gp2 volumes take no IOPS"),
    (reserved, _volume(VolumeType="io2", VolumeSize=200), "io2 volumes need Iops"),
]  # fmt: skip


def test_a_template_into_a_block_that_is_over_is_taken(world: World) -> None:
    properties = block()
    properties[DATA]["CapacityReservationSpecification"] = _target(ENDED)
    assert creation_faults(TEMPLATE, properties, world) == [], "a redeploy after the block must work"


def _messages(type_name: str, properties: Json, world: World) -> str:
    return "\n".join(str(fault) for fault in creation_faults(type_name, properties, world))


@pytest.mark.parametrize("good", [reserved, block])
def test_a_right_launch_template_is_taken(good: Callable[[], Json], world: World) -> None:
    assert creation_faults(TEMPLATE, good(), world) == []


@pytest.mark.parametrize(("good", "mutate", "message"), TEMPLATE_FAULTS)
def test_a_wrong_launch_template_is_refused(
    good: Callable[[], Json], mutate: Callable[[Json], None], message: str, world: World
) -> None:
    properties = good()
    mutate(properties)
    assert message in _messages(TEMPLATE, properties, world)


RESERVATION_FAULTS = [
    ({"InstanceType": "p7.48xlarge"}, "there is no instance type 'p7.48xlarge'"),
    ({"InstanceCount": 1_001}, "a reservation has 1 to 1,000 instances, got 1001"),
    ({"EndDate": None}, "EndDateType limited needs an EndDate"),
    ({"EndDateType": "unlimited"}, "EndDateType unlimited allows no EndDate"),
    ({"EndDate": "2026-11-20T00:00:00Z"}, "the end 2026-11-20T00:00:00Z is in the past"),
    ({"EndDate": "next year"}, "'next year' is no ISO 8601 time"),
    ({"AvailabilityZone": None}, "give either AvailabilityZone or AvailabilityZoneId"),
    (
        {"PlacementGroupArn": "arn:aws:ec2:us-east-1:123456789012:placement-group/wide"},
        "'wide' is a spread group",
    ),
    (
        {"PlacementGroupArn": "arn:aws:ec2:us-east-1:123456789012:placement-group/gone"},
        "'gone' does not exist",
    ),
]


@pytest.mark.parametrize(("changes", "message"), RESERVATION_FAULTS)
def test_a_wrong_reservation_is_refused(changes: Json, message: str, world: World) -> None:
    assert creation_faults(RESERVATION, odcr(), world) == []
    properties = {key: value for key, value in {**odcr(), **changes}.items() if value is not None}
    assert message in _messages(RESERVATION, properties, world)


def test_an_end_that_the_clock_has_passed_is_refused(world: World) -> None:
    plant(world, {"now": "2027-01-01T00:00Z"})
    assert "is in the past; it is 2027-01-01T00:00" in _messages(RESERVATION, odcr(), world)


def _make(world: World, type_name: str, properties: Json) -> str:
    assert creation_faults(type_name, properties, world) == []
    made = provisioning.create(world, type_name, type_name.rsplit(":", 1)[-1], properties, "stack")
    return made.physical_id


def _group(template: str) -> Json:
    return {
        "MinSize": "0",
        "MaxSize": "4",
        "VPCZoneIdentifier": ["subnet-0aaaaaaaaaaaaaaaa"],
        "LaunchTemplate": {"LaunchTemplateId": template, "Version": "1"},
    }


def _mixed(template: str) -> Json:
    specification = {"LaunchTemplateId": template, "Version": "1"}
    return {"LaunchTemplate": {"LaunchTemplateSpecification": specification}}


GROUP_FAULTS = [
    ({"MinSize": "5"}, "MaxSize 4 is below MinSize 5"),
    ({"DesiredCapacity": "5"}, "DesiredCapacity 5 is not between MinSize 0 and MaxSize 4"),
    ({"LaunchTemplate": {"LaunchTemplateId": "lt-0123456789abcdef0", "Version": "1"}}, "does not exist"),
    ({"LaunchTemplate": {"LaunchTemplateId": "TEMPLATE", "Version": "2"}}, "the launch template has no version '2'"),
    ({"VPCZoneIdentifier": ["subnet-0bbbbbbbbbbbbbbbb"]}, "is in us-east-1b, the reservation cr-0fedcba9876543210 in us-east-1a"),
    ({"VPCZoneIdentifier": ["subnet-0cccccccccccccccc"]}, "the subnet 'subnet-0cccccccccccccccc' does not exist"),
    ({"InstanceMaintenancePolicy": {"MinHealthyPercentage": 0, "MaxHealthyPercentage": 150}}, "the percentages differ by at most 100"),
    ({"InstanceMaintenancePolicy": {"MinHealthyPercentage": 90}}, "are given together"),
    ({"InstanceMaintenancePolicy": {"MinHealthyPercentage": 50, "MaxHealthyPercentage": 99}}, "MaxHealthyPercentage is 100 to 200, got 99"),
    ({"LifecycleHookSpecificationList": [{"LifecycleHookName": "ready", "LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "HeartbeatTimeout": 29}]}, "a lifecycle hook waits 30 to 7,200 seconds, got 29"),
    ({"LaunchTemplate": None, "MixedInstancesPolicy": _mixed("TEMPLATE")}, "a group with a Capacity Block has no mixed instances policy"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), GROUP_FAULTS)
def test_a_wrong_group_is_refused(changes: Json, message: str, world: World) -> None:
    template = _make(world, TEMPLATE, block())
    assert creation_faults(GROUP, _group(template), world) == []
    given = {key: value for key, value in {**_group(template), **copy.deepcopy(changes)}.items() if value is not None}
    given = _replaced(given, template)
    assert message in _messages(GROUP, given, world)


def _replaced(value: Any, template: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, template) for key, item in value.items()}
    return template if value == "TEMPLATE" else value


OWNED_FAULTS = [
    (HOOK, {"LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING", "HeartbeatTimeout": 7_201}, "a lifecycle hook waits 30 to 7,200 seconds, got 7201"),
    (SCHEDULE, {"DesiredCapacity": 0, "StartTime": "2026-11-20T08:00:00Z"}, "the start 2026-11-20T08:00:00Z is in the past"),
    (SCHEDULE, {"Recurrence": "0 8 * * *"}, "give at least one of MinSize, MaxSize and DesiredCapacity"),
    (WARM_POOL, {}, "a group with a Capacity Block has no warm pool"),
]  # fmt: skip


@pytest.mark.parametrize(("type_name", "properties", "message"), OWNED_FAULTS)
def test_what_belongs_to_a_group_is_checked(type_name: str, properties: Json, message: str, world: World) -> None:
    group = _make(world, GROUP, _group(_make(world, TEMPLATE, block())))
    assert message in _messages(type_name, {**properties, "AutoScalingGroupName": group}, world)
    assert "the group 'gone' does not exist" in _messages(
        type_name, {**properties, "AutoScalingGroupName": "gone"}, world
    )


def test_a_rule_needs_its_groups(world: World) -> None:
    rule = {
        "GroupId": "sg-0123456789abcdef0",
        "IpProtocol": "-1",
        "SourceSecurityGroupId": "sg-0aaaaaaaaaaaaaaaa",
    }
    assert "the security group 'sg-0aaaaaaaaaaaaaaaa' does not exist" in _messages(INGRESS, rule, world)
    assert creation_faults(INGRESS, {**rule, "SourceSecurityGroupId": "sg-0123456789abcdef0"}, world) == []


def test_a_group_that_holds_a_reservation_stays(world: World) -> None:
    name = _make(world, "AWS::EC2::PlacementGroup", {"Strategy": "cluster"})
    arn = f"arn:aws:ec2:us-east-1:123456789012:placement-group/{name}"
    reservation = _make(world, RESERVATION, {**odcr(), "PlacementGroupArn": arn})
    (fault,) = deletion_faults("AWS::EC2::PlacementGroup", name, world)
    assert (
        str(fault) == f"[placement-group-in-use] the placement group {name!r} still holds the reservation {reservation}"
    )
    provisioning.delete(world, RESERVATION, reservation)
    assert deletion_faults("AWS::EC2::PlacementGroup", name, world) == []


SCHEMA_FAULTS = [
    (TEMPLATE, {"LaunchTemplateData": {"InstanceTyp": "p5.48xlarge"}}, "'InstanceTyp' was unexpected"),
    (TEMPLATE, {"LaunchTemplateData": {"NetworkInterfaces": [{"NetworkCardIndx": 1}]}}, "'NetworkCardIndx' was unexpected"),
    (TEMPLATE, {}, "'LaunchTemplateData' is a required property"),
    (TEMPLATE, {"LaunchTemplateData": {"InstanceMarketOptions": {"MarketType": "block"}}}, "'block' is not one of"),
    (TEMPLATE, {"LaunchTemplateData": {"Placement": {"Tenancy": "mine"}}}, "'mine' is not one of"),
    (TEMPLATE, {"LaunchTemplateData": {"CapacityReservationSpecification": {"CapacityReservationPreference": "only"}}}, "'only' is not one of"),
    (TEMPLATE, {"LaunchTemplateData": {"EbsOptimized": "perhaps"}}, "'perhaps' is not of type 'boolean'"),
    ("AWS::EC2::PlacementGroup", {"Strategy": "clustered"}, "'clustered' is not one of"),
    (RESERVATION, {**odcr(), "Id": ODCR}, "Id is read-only"),
    (GROUP, {"MinSize": "0", "MaxSize": "1"}, "exactly one of"),
]  # fmt: skip


@pytest.mark.parametrize(("type_name", "properties", "message"), SCHEMA_FAULTS)
def test_the_schema_is_checked_at_every_depth(type_name: str, properties: Json, message: str, world: World) -> None:
    assert message in _messages(type_name, properties, world)


def test_every_fault_is_told_at_once(world: World) -> None:
    properties = reserved()
    properties[DATA]["InstanceType"] = "p7.48xlarge"
    properties[DATA]["UserData"] = "not base64"
    checks = {fault.check for fault in creation_faults(TEMPLATE, properties, world)}
    assert {"instance-type", "user-data-encoding", "reservation-type"} <= checks
