"""Fleets: one Auto Scaling group, right for its capacity."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    ClusterNetwork,
    ClusterPlacementGroup,
    ConfigError,
    EfaSecurityGroup,
    GpuFleet,
    GpuLaunchTemplate,
    NodeImage,
    PlacementStrategy,
    RootVolume,
    UpdatePolicy,
    UserDataPart,
)
from cdk_gpu_clusters.rules.capacity import BlockTerms, TargetCapacityType
from cdk_gpu_clusters.rules.images import choose_image, image_context_key
from stack_fixtures import Site, SiteFactory, node_roles, of_type, only

GROUP = "AWS::AutoScaling::AutoScalingGroup"
TEMPLATE = "AWS::EC2::LaunchTemplate"
PLACEMENT = "AWS::EC2::PlacementGroup"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", starts_at="2026-12-01T11:30Z", ends_at="2026-12-15T11:30Z")


def fleet(site: Site, **options: Any) -> GpuFleet:
    given: dict[str, Any] = {
        "vpc": site.vpc,
        "vpc_subnets": site.one_subnet,
        "instance_type": "p5.48xlarge",
        "node_count": 16,
    }
    return GpuFleet(site.stack, "Trainers", **(given | options))


def user_data(resources: dict[str, dict[str, Any]]) -> str:
    """The user data as text, with references as placeholders."""
    encoded = only(resources, TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    if isinstance(encoded, str):
        return encoded
    _, parts = encoded["Fn::Join"]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


@pytest.mark.parametrize(
    ("capacity", "placed", "minimum", "replacement"),
    [
        (Capacity.on_demand(), True, "16", None),
        (Capacity.spot(), True, "16", None),
        (
            Capacity.from_reservation_id("cr-0123456789abcdef0"),
            False,
            "0",
            {"MinHealthyPercentage": 0, "MaxHealthyPercentage": 100},
        ),
        (BLOCK, False, "0", {"MinHealthyPercentage": 0, "MaxHealthyPercentage": 100}),
    ],
)
def test_each_row_of_the_capacity_table(
    site: Site, capacity: Capacity, placed: bool, minimum: str, replacement: dict[str, int] | None
) -> None:
    fleet(site, capacity=capacity)
    resources = site.resources()
    group = only(resources, GROUP)
    assert "DesiredCapacity" not in group
    assert (group["MinSize"], group["MaxSize"]) == (minimum, "16")
    assert group.get("InstanceMaintenancePolicy") == replacement
    assert bool(of_type(resources, PLACEMENT)) is placed
    assert ("Placement" in only(resources, TEMPLATE)["LaunchTemplateData"]) is placed


def test_an_ultraserver_block_is_targeted_by_its_group_and_drained_earlier(site: Site) -> None:
    arn = "arn:aws:resource-groups:us-east-1:123456789012:group/rack"
    made = fleet(
        site,
        instance_type="p6e-gb200.36xlarge",
        node_count=9,
        capacity=Capacity.ultraserver_block(arn, reservation_id="cr-0123456789abcdef0", ends_at="2026-12-15T11:30Z"),
    )
    (window,) = made.plan.windows
    assert f"{window.drain_at:%H:%M}" == "10:20"
    resources = site.resources()
    data = only(resources, TEMPLATE)["LaunchTemplateData"]
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationResourceGroupArn": arn}
    assert not of_type(resources, PLACEMENT)


def test_a_reservation_made_here_lies_in_the_group_that_is_launched_into(site: Site) -> None:
    group = ClusterPlacementGroup(site.stack, "Placement")
    reservation = CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p4d.24xlarge",
        instance_count=4,
        availability_zone="us-east-1a",
        placement_group=group,
        ends_at="2027-01-31T00:00Z",
    )
    fleet(site, instance_type="p4d.24xlarge", node_count=4, capacity=Capacity.reservation(reservation))
    resources = site.resources()
    (group_id,) = of_type(resources, PLACEMENT)
    data = only(resources, TEMPLATE)["LaunchTemplateData"]
    name = {"Fn::GetAtt": [group_id, "GroupName"]}
    assert data["Placement"] == {"GroupName": name}
    (reservation_id,) = of_type(resources, "Custom::EC2CapacityReservation")
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": {"Ref": reservation_id}}
    made = only(resources, "Custom::EC2CapacityReservation")
    assert name in made["PlacementGroupArn"]["Fn::Join"][1]
    assert (made["EndDateType"], made["EndDate"]) == ("limited", "2027-01-31T00:00:00Z")
    assert made["InstanceMatchCriteria"] == "targeted"


def test_the_function_that_reserves_in_groups_is_one_for_a_stack_and_fits_into_a_template(site: Site) -> None:
    for name in ("First", "Second"):
        CapacityReservation(
            site.stack,
            name,
            instance_type="p4d.24xlarge",
            instance_count=4,
            availability_zone="us-east-1a",
            placement_group=ClusterPlacementGroup(site.stack, f"{name}Group"),
            unlimited=True,
        )
    resources = site.resources()
    (function,) = of_type(resources, "AWS::Lambda::Function")
    tokens = [
        one["Properties"]["ServiceToken"] for one in of_type(resources, "Custom::EC2CapacityReservation").values()
    ]
    assert tokens == [{"Fn::GetAtt": [function, "Arn"]}] * 2
    code = only(resources, "AWS::Lambda::Function")["Code"]["ZipFile"]
    assert len(code) <= 4096  # what CloudFormation has always taken
    compile(code, "index.py", "exec")
    assert "\nimport cfnresponse\n" in code  # the line by which CloudFormation knows to add the module


@pytest.mark.parametrize(
    ("image", "is_looked_up", "advised"),
    [(None, False, True), (None, True, False), (NodeImage.latest(), False, False)],
)
def test_a_fleet_with_efa_is_told_that_its_image_moves_unless_you_chose_that(
    make_site: SiteFactory, image: NodeImage | None, is_looked_up: bool, advised: bool
) -> None:
    key = image_context_key("us-east-1", choose_image("p5.48xlarge").parameter)
    site = make_site(
        env=cdk.Environment(region="us-east-1"), context={key: "ami-0fedcba9876543210"} if is_looked_up else {}
    )
    fleet(site, **({} if image is None else {"image": image}))
    found = Annotations.from_stack(site.stack).find_info("*", Match.string_like_regexp("GPU-AMI-102"))
    assert bool(found) is advised


def test_an_unused_reservation_raises_an_alarm_by_default(site: Site) -> None:
    for name, alarm in (("Watched", True), ("Unwatched", False)):
        CapacityReservation(
            site.stack,
            name,
            instance_type="p4d.24xlarge",
            instance_count=1,
            availability_zone="use1-az1",
            unlimited=True,
            unused_alarm=alarm,
        )
    resources = site.resources()
    alarm_properties = only(resources, "AWS::CloudWatch::Alarm")
    assert alarm_properties["MetricName"] == "AvailableInstanceCount"
    assert alarm_properties["Statistic"] == "Minimum"
    assert alarm_properties["EvaluationPeriods"] * alarm_properties["Period"] == 3600
    for made in of_type(resources, "AWS::EC2::CapacityReservation").values():
        assert made["Properties"]["AvailabilityZoneId"] == "use1-az1"
        assert made["Properties"]["EndDateType"] == "unlimited"


@pytest.mark.parametrize(("capacity", "expected"), [(BLOCK, "prevent-force-deletion"), (Capacity.spot(), None)])
def test_a_group_on_reserved_capacity_refuses_to_go_without_its_hooks(
    site: Site, capacity: Capacity, expected: str | None
) -> None:
    fleet(site, capacity=capacity)
    assert only(site.resources(), GROUP).get("DeletionProtection") == expected


def test_hooks_stand_in_the_group_itself(site: Site) -> None:
    fleet(site, ready_timeout=cdk.Duration.minutes(20), drain_timeout=cdk.Duration.minutes(10))
    hooks = {
        hook["LifecycleTransition"].rpartition("_")[2]: hook
        for hook in only(site.resources(), GROUP)["LifecycleHookSpecificationList"]
    }
    assert hooks["LAUNCHING"]["DefaultResult"] == "ABANDON"
    assert hooks["LAUNCHING"]["HeartbeatTimeout"] == 1200
    assert hooks["TERMINATING"]["DefaultResult"] == "CONTINUE"
    assert hooks["TERMINATING"]["HeartbeatTimeout"] == 600


def test_the_boot_completes_the_hook_that_the_group_has(site: Site) -> None:
    fleet(site)
    resources = site.resources()
    names = {hook["LifecycleHookName"] for hook in only(resources, GROUP)["LifecycleHookSpecificationList"]}
    text = user_data(resources)
    for variable in ("GPU_LAUNCH_HOOK", "GPU_TERMINATE_HOOK"):
        (line,) = [line for line in text.splitlines() if f"{variable}=" in line]
        assert line.partition("=")[2] in names
    assert "GPU_EFA_COUNT=32" in text
    assert "GPU_ACCELERATOR_COUNT=8" in text
    assert base64.b64encode(text.encode())
    assert len(text) < 16_384


def test_running_nodes_are_replaced_only_on_request(make_site: SiteFactory) -> None:
    site = make_site()
    fleet(site)
    (group,) = of_type(site.resources(), GROUP).values()
    assert "UpdatePolicy" not in group
    site = make_site()
    fleet(site, update_policy=UpdatePolicy.ROLLING)
    (group,) = of_type(site.resources(), GROUP).values()
    refresh = group["UpdatePolicy"]["AutoScalingInstanceRefresh"]
    assert refresh["Strategy"] == "Rolling"
    assert refresh["Preferences"]["StandbyInstances"] == "Ignore"


def test_failing_launches_end_a_rolling_update(site: Site) -> None:
    """Launching is suspended then, and the refresh would wait for up to 36 hours."""
    fleet(site, update_policy=UpdatePolicy.ROLLING)
    (group,) = of_type(site.resources(), GROUP).values()
    names = [one["Properties"].get("AlarmName") for one in of_type(site.resources(), "AWS::CloudWatch::Alarm").values()]
    (watched,) = group["UpdatePolicy"]["AutoScalingInstanceRefresh"]["Preferences"]["AlarmSpecification"]["Alarms"]
    assert watched in [name for name in names if name]


def test_a_fleet_without_alarms_rolls_without_one(site: Site) -> None:
    fleet(site, update_policy=UpdatePolicy.ROLLING, alarms=None)
    (group,) = of_type(site.resources(), GROUP).values()
    assert "AlarmSpecification" not in group["UpdatePolicy"]["AutoScalingInstanceRefresh"]["Preferences"]


def test_nodes_on_the_smallest_of_several_blocks_end_before_others_start(site: Site) -> None:
    """The percentage is one of the desired size, which is that of the block (API reference, RefreshPreferences)."""
    first, last = datetime(2027, 1, 1, 11, 30, tzinfo=UTC), datetime(2027, 1, 8, 11, 30, tzinfo=UTC)
    blocks = [
        BlockTerms(reservation_id="cr-0123456789abcdef0", ends_at=first, node_count=2),
        BlockTerms(reservation_id="cr-0aaaaaaaaaaaaaaaa", starts_at=first, ends_at=last),
    ]
    fleet(
        site,
        update_policy=UpdatePolicy.ROLLING,
        node_count=4,
        capacity=Capacity.capacity_blocks(blocks),
        vpc_subnets=site.one_subnet,
    )
    (group,) = of_type(site.resources(), GROUP).values()
    preferences = group["UpdatePolicy"]["AutoScalingInstanceRefresh"]["Preferences"]
    assert (preferences["MinHealthyPercentage"], preferences["MaxHealthyPercentage"]) == (50, 100)
    assert_takes_name(only(site.resources(), "AWS::ResourceGroups::Group")["Name"]["Fn::Join"])


_MIXED_GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/trainers"


def test_reservations_of_several_types_are_used_in_order(site: Site) -> None:
    """As the guide has it: the target on the group, no other preference than default, the order in one segment."""
    order = [TargetCapacityType.ON_DEMAND_RESERVATION, TargetCapacityType.CAPACITY_BLOCK, TargetCapacityType.ON_DEMAND]
    fleet(
        site,
        instance_type="p5.48xlarge",
        node_count=2,
        capacity=Capacity.segments(_MIXED_GROUP, capacity_types=order, ends_at="2027-01-08T11:30Z"),
        vpc_subnets=site.one_subnet,
    )
    resources = site.resources()
    group, data = only(resources, GROUP), only(resources, TEMPLATE)["LaunchTemplateData"]
    assert "LaunchTemplate" not in group
    assert group["MixedInstancesPolicy"]["InstancesDistribution"] == {
        "OnDemandAllocationStrategy": "prioritized",
        "DistributionSegments": [
            {"TargetCapacityTypes": ["on-demand-capacity-reservation", "capacity-block", "on-demand"]}
        ],
    }
    assert group["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "default",
        "CapacityReservationTarget": {"CapacityReservationResourceGroupArns": [_MIXED_GROUP]},
    }
    assert not {"InstanceMarketOptions", "CapacityReservationSpecification", "Placement"} & set(data)
    assert not of_type(resources, PLACEMENT)
    definition = str(of_type(resources, "AWS::StepFunctions::StateMachine"))
    assert "2027-01-08T10:50:00" in definition
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", GROUP).schema
    segments = schema["definitions"]["InstancesDistribution"]["properties"]["DistributionSegments"]
    assert segments["maxItems"] == 1
    types = schema["definitions"]["DistributionSegment"]["properties"]["TargetCapacityTypes"]["items"]
    assert set(types["enum"]) == {one.value for one in TargetCapacityType}


def assert_takes_name(joined: list[Any]) -> None:
    """The name of a resource group, of a stack with any name, is one for its registry schema."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", "AWS::ResourceGroups::Group").schema
    uuid = "f449b250-b969-11e0-a185-5081d0136786"  # CloudFormation API reference, example of a StackId
    name = joined[0].join(part if isinstance(part, str) else uuid for part in joined[1])
    rules = schema["properties"]["Name"]
    assert len(name) <= rules.get("maxLength", 128), name
    assert re.fullmatch(rules["pattern"], name), name


def test_nodes_may_complete_only_the_hooks_of_their_own_group(site: Site) -> None:
    fleet(site)
    resources = site.resources()
    (group_id,) = of_type(resources, GROUP)
    (role_id,) = node_roles(resources)
    statements = [
        statement
        for policy in of_type(resources, "AWS::IAM::ManagedPolicy").values()
        if {"Ref": role_id} in policy["Properties"].get("Roles", [])
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    (hooks,) = [s for s in statements if "autoscaling:CompleteLifecycleAction" in s["Action"]]
    assert hooks["Resource"]["Fn::Join"][1][-2:] == [{"Ref": "AWS::StackName"}, f"-{group_id}-*"]
    wide = [action for s in statements if s["Resource"] == "*" for action in s["Action"]]
    assert all(":Describe" in action for action in wide), wide


def test_a_cpu_fleet_has_one_plain_interface_and_no_way_in_from_outside(site: Site) -> None:
    made = fleet(site, instance_type="m8g.48xlarge", node_count=2)
    assert made.fabric is None
    resources = site.resources()
    (interface,) = only(resources, TEMPLATE)["LaunchTemplateData"]["NetworkInterfaces"]
    assert interface["InterfaceType"] == "interface"
    # From each other only, as ranks of jobs need it.
    rule = only(resources, "AWS::EC2::SecurityGroupIngress")
    assert rule["SourceSecurityGroupId"] == rule["GroupId"]
    assert not of_type(resources, PLACEMENT)


def test_explicit_placement_wins_where_it_can_work(make_site: SiteFactory) -> None:
    site = make_site()
    fleet(site, placement=PlacementStrategy.NONE)
    assert not of_type(site.resources(), PLACEMENT)
    site = make_site()
    fleet(site, instance_type="g6.xlarge", node_count=5, placement=PlacementStrategy.SPREAD)
    assert only(site.resources(), PLACEMENT)["Strategy"] == "spread"


def test_a_scaling_fleet_has_both_bounds(site: Site) -> None:
    fleet(site, node_count=None, min_node_count=1, max_node_count=4, instance_type="g6.xlarge")
    group = only(site.resources(), GROUP)
    assert (group["MinSize"], group["MaxSize"]) == ("1", "4")


def test_users_parts_and_variables_reach_the_node(site: Site) -> None:
    fleet(
        site,
        environment={"NCCL_DEBUG": "INFO", "DATA": "/data"},
        user_data_parts=[UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\ntouch /done\n")],
    )
    text = user_data(site.resources())
    assert "NCCL_DEBUG=INFO" in text
    assert "export DATA=/data" in text
    assert "touch /done" in text


def test_grants_connections_and_metrics(site: Site) -> None:
    made = fleet(site, instance_type="g6.xlarge")
    bucket = s3.Bucket(site.stack, "Checkpoints")
    made.grant_read_write(bucket)
    made.connections.allow_from(ec2.Peer.ipv4("10.0.0.0/16"), ec2.Port.tcp(443))
    assert made.metric_in_service_nodes().metric_name == "GroupInServiceInstances"
    resources = site.resources()
    (group,) = of_type(resources, "AWS::EC2::SecurityGroup").values()
    assert group["Properties"]["SecurityGroupIngress"][0]["FromPort"] == 443
    actions = json.dumps(of_type(resources, "AWS::IAM::Policy"))
    assert "s3:PutObject" in actions


def test_fleets_may_share_a_role_of_the_users_own(site: Site) -> None:
    role = iam.Role(site.stack, "Nodes", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    given = iam.Role.from_role_arn(site.stack, "Given", "arn:aws:iam::123456789012:role/nodes")
    fleet(site, role=role, instance_type="g6.xlarge", alarms=None)
    for name, other in (("Second", role), ("Third", given)):
        GpuFleet(site.stack, name, vpc=site.vpc, instance_type="g6.xlarge", node_count=1, role=other, alarms=None)
    resources = site.resources()
    attached = [p["Properties"]["Roles"] for p in of_type(resources, "AWS::IAM::ManagedPolicy").values()]
    (role_id,) = of_type(resources, "AWS::IAM::Role")
    assert sorted(map(str, attached)) == sorted(
        map(str, [[{"Ref": role_id}], [{"Ref": role_id}], ["nodes"], [{"Ref": role_id}, "nodes"]])
    ), "each fleet's own permissions, and the software of all"


def test_a_node_of_a_public_subnet_reaches_the_network(site: Site) -> None:
    public = ec2.SubnetSelection(subnets=[site.vpc.public_subnets[0]])
    fleet(site, instance_type="g6.xlarge", vpc_subnets=public)
    (interface,) = only(site.resources(), TEMPLATE)["LaunchTemplateData"]["NetworkInterfaces"]
    assert interface["AssociatePublicIpAddress"] is True


def test_auto_scaling_may_use_a_customer_key(site: Site) -> None:
    key = kms.Key(site.stack, "Key")
    fleet(site, root_volume=RootVolume(encryption_key=key))
    statements = only(site.resources(), "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    grants = [s for s in statements if s["Action"] == "kms:CreateGrant"]
    (grant,) = grants
    assert grant["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    assert "AWSServiceRoleForAutoScaling" in json.dumps(grant["Condition"]["ArnEquals"])


def test_a_network_that_is_still_to_be_looked_up_raises_nothing(make_site: SiteFactory) -> None:
    site = make_site(env=cdk.Environment(account="123456789012", region="us-east-1"))
    vpc = ec2.Vpc.from_lookup(site.stack, "Looked", vpc_id="vpc-0123456789abcdef9")
    for name, selection in (
        ("A", ec2.SubnetSelection(subnets=[vpc.private_subnets[0]])),
        ("B", ec2.SubnetSelection(availability_zones=["us-east-1a"])),
    ):
        GpuFleet(site.stack, name, vpc=vpc, vpc_subnets=selection, instance_type="p5.48xlarge", node_count=2)
    CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p5.48xlarge",
        instance_count=2,
        availability_zone=vpc.availability_zones[0],
        unlimited=True,
    )
    manifest = json.loads(Path(site.app.synth().directory, "manifest.json").read_text())
    assert manifest["missing"]


def test_no_placement_is_no_placement_even_with_a_reservation_in_a_group(site: Site) -> None:
    group = ec2.PlacementGroup.from_placement_group_name(site.stack, "Given", "training")
    capacity = Capacity.from_reservation_id("cr-0123456789abcdef0", placement_group=group)
    fleet(site, capacity=capacity, placement=PlacementStrategy.NONE)
    assert "Placement" not in only(site.resources(), TEMPLATE)["LaunchTemplateData"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"node_count": 0}, {"GPU-FLT-001"}),
        ({"node_count": None}, {"GPU-FLT-001"}),
        ({"instance_type": "inf1.xlarge", "node_count": 0}, {"GPU-AMI-003", "GPU-FLT-001"}),
        ({"node_count": None, "min_node_count": 3, "max_node_count": 2}, {"GPU-FLT-001"}),
        ({"vpc_subnets": None}, {"GPU-FAB-003", "GPU-FAB-004"}),
        (
            {"vpc_subnets": ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)},
            {"GPU-FAB-003", "GPU-FAB-004", "GPU-FLT-003"},
        ),
        (
            {
                "instance_type": "g6.xlarge",
                "vpc_subnets": ec2.SubnetSelection(availability_zones=["us-east-1f"]),
            },
            {"GPU-FLT-002"},
        ),
        ({"ready_timeout": cdk.Duration.seconds(10)}, {"GPU-FLT-005"}),
        ({"drain_timeout": cdk.Duration.hours(3)}, {"GPU-FLT-005"}),
        (
            {
                "instance_type": "g6.xlarge",
                "capacity": Capacity.from_reservation_id("cr-0123456789abcdef0"),
                "vpc_subnets": None,
            },
            {"GPU-FLT-006"},
        ),
        ({"capacity": BLOCK, "drain_timeout": cdk.Duration.minutes(11)}, {"GPU-FLT-007"}),
        (
            {"instance_type": "g6.xlarge", "placement": PlacementStrategy.CLUSTER, "vpc_subnets": None},
            {"GPU-PLC-005"},
        ),
        ({"capacity": BLOCK, "placement": PlacementStrategy.CLUSTER}, {"GPU-CAP-002"}),
        ({"capacity": BLOCK, "node_count": 65}, {"GPU-CAP-013"}),
        (
            {
                "instance_type": "g6.xlarge",
                "capacity": Capacity.from_reservation_id("cr-0123456789abcdef0"),
                "node_count": 501,
            },
            {"GPU-FLT-025"},
        ),
        ({"instance_type": "g6.xlarge", "capacity": BLOCK}, {"GPU-CAP-003"}),
        ({"instance_type": "g6.xlarge", "placement": PlacementStrategy.SPREAD}, {"GPU-PLC-003"}),
        (
            {"capacity": BLOCK, "placement": PlacementStrategy.CLUSTER, "node_count": 0, "vpc_subnets": None},
            {"GPU-CAP-002", "GPU-FAB-003", "GPU-FAB-004", "GPU-FLT-001", "GPU-PLC-005"},
        ),
    ],
)
def test_faults_are_found_at_once_and_name_the_construct(
    site: Site, options: dict[str, Any], expected: set[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet(site, **options)
    assert {finding.id for finding in caught.value.findings} == expected
    assert all(finding.path.startswith("Site/Trainers") for finding in caught.value.findings)


def test_a_subnet_that_is_too_small_says_how_many_nodes_fit(site: Site) -> None:
    small = ec2.Subnet.from_subnet_attributes(
        site.stack,
        "Small",
        subnet_id="subnet-0123456789abcdef9",
        availability_zone="us-east-1a",
        ipv4_cidr_block="10.0.0.0/28",
        route_table_id="rtb-0123456789abcdef0",
    )
    with pytest.raises(ConfigError, match=r"GPU-IP-003.*11"):
        fleet(site, vpc_subnets=ec2.SubnetSelection(subnets=[small]))


def test_nodes_of_the_networks_own_stack_wait_for_its_way_out(site: Site) -> None:
    network = ClusterNetwork(site.stack, "Network", availability_zone="us-east-1a")
    selection = ec2.SubnetSelection(subnets=[network.fleet_subnet])
    fleet(site, vpc=network.vpc, vpc_subnets=selection)
    resources = site.resources()
    (group,) = of_type(resources, GROUP).values()
    awaited = {resources[logical_id]["Type"] for logical_id in group["DependsOn"]}
    assert {"AWS::EC2::Route", "AWS::EC2::VPCEndpoint"} <= awaited


def test_types_that_cannot_talk_do_not_share_a_fabric(site: Site) -> None:
    fabric = EfaSecurityGroup(site.stack, "Fabric", vpc=site.vpc)
    fleet(site, fabric=fabric)
    with pytest.raises(ConfigError, match=r"GPU-FAB-001.*p4d"):
        GpuFleet(
            site.stack,
            "Others",
            vpc=site.vpc,
            vpc_subnets=site.one_subnet,
            fabric=fabric,
            instance_type="p4d.24xlarge",
            node_count=2,
        )


def test_a_reservation_in_another_zone_is_found(site: Site) -> None:
    reservation = CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p4d.24xlarge",
        instance_count=4,
        availability_zone="us-east-1b",
        unlimited=True,
    )
    with pytest.raises(ConfigError, match=r"GPU-FLT-004.*us-east-1b.*us-east-1a"):
        fleet(site, instance_type="p4d.24xlarge", capacity=Capacity.reservation(reservation))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"instance_count": 0}, {"GPU-CAP-017"}),
        ({"unlimited": True}, {"GPU-CAP-018"}),
        ({"instance_type": "p99.48xlarge"}, {"GPU-INST-001"}),
        ({"ends_at": "tomorrow"}, {"GPU-CAP-015"}),
        ({"unused_alarm_after": cdk.Duration.days(8)}, {"GPU-CAP-023"}),
        ({"availability_zone": "mars-1a"}, {"GPU-NET-103"}),
    ],
)
def test_reservations_that_cannot_be_made(site: Site, options: dict[str, Any], expected: set[str]) -> None:
    given: dict[str, Any] = {
        "instance_type": "p4d.24xlarge",
        "instance_count": 4,
        "availability_zone": "us-east-1a",
        "ends_at": "2027-01-31T00:00Z",
    }
    with pytest.raises(ConfigError) as caught:
        CapacityReservation(site.stack, "Reservation", **(given | options))
    assert {finding.id for finding in caught.value.findings} == expected


def test_a_strategy_and_a_group_exclude_each_other(site: Site) -> None:
    group = ec2.PlacementGroup(site.stack, "Spread", strategy=ec2.PlacementGroupStrategy.SPREAD)
    with pytest.raises(ConfigError, match="GPU-PLC-006"):
        fleet(site, instance_type="g6.xlarge", placement_group=group, placement=PlacementStrategy.SPREAD)
    with pytest.raises(ConfigError, match=r"GPU-PLC-003.*16 nodes"):
        GpuFleet(
            site.stack,
            "Again",
            vpc=site.vpc,
            vpc_subnets=site.one_subnet,
            instance_type="g6.xlarge",
            node_count=16,
            placement_group=group,
        )


def test_a_reservation_of_another_type_or_size_is_found(site: Site) -> None:
    reservation = CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p5.48xlarge",
        instance_count=2,
        availability_zone="us-east-1a",
        unlimited=True,
    )
    with pytest.raises(ConfigError) as caught:
        fleet(site, instance_type="p4d.24xlarge", capacity=Capacity.reservation(reservation))
    assert {finding.id for finding in caught.value.findings} == {"GPU-CAP-021", "GPU-CAP-022"}


@pytest.mark.parametrize(
    ("after", "expected"), [(cdk.Duration.hours(3), (36, 300)), (cdk.Duration.days(2), (48, 3600))]
)
def test_the_unused_alarm_looks_back_as_far_as_cloudwatch_lets_it(
    site: Site, after: cdk.Duration, expected: tuple[int, int]
) -> None:
    CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p5.48xlarge",
        instance_count=2,
        availability_zone="us-east-1a",
        unlimited=True,
        unused_alarm_after=after,
    )
    alarm = only(site.resources(), "AWS::CloudWatch::Alarm")
    assert (alarm["EvaluationPeriods"], alarm["Period"]) == expected


def test_a_spread_group_cannot_hold_a_reservation(site: Site) -> None:
    group = ClusterPlacementGroup(site.stack, "Spread", strategy=PlacementStrategy.SPREAD)
    with pytest.raises(ConfigError, match="GPU-CAP-019"):
        CapacityReservation(
            site.stack,
            "Reservation",
            instance_type="p4d.24xlarge",
            instance_count=4,
            availability_zone="us-east-1a",
            unlimited=True,
            placement_group=group,
        )


def test_a_cluster_group_holds_no_reservation_of_a_type_that_it_does_not_take(site: Site) -> None:
    group = ClusterPlacementGroup(site.stack, "Group")
    with pytest.raises(ConfigError, match=r"GPU-PLC-001.*t3\.large"):
        CapacityReservation(
            site.stack,
            "Reservation",
            instance_type="t3.large",
            instance_count=4,
            availability_zone="us-east-1a",
            unlimited=True,
            placement_group=group,
        )
    existing = Capacity.from_reservation_id("cr-0123456789abcdef0", placement_group=group)
    with pytest.raises(ConfigError, match="GPU-PLC-001") as caught:
        fleet(site, instance_type="t3.large", capacity=existing, node_count=0)
    assert {finding.id for finding in caught.value.findings} == {"GPU-PLC-001", "GPU-FLT-001"}
    with pytest.raises(ConfigError, match="GPU-PLC-001"):
        GpuLaunchTemplate(site.stack, "Template", instance_type="t3.large", capacity=existing)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"placement": PlacementStrategy.NONE}, {"GPU-PLC-007"}),
        ({"placement": PlacementStrategy.NONE, "efa": False}, set()),
        ({"placement": PlacementStrategy.CLUSTER, "efa": False}, {"GPU-EFA-034"}),
        ({"placement": PlacementStrategy.CLUSTER}, set()),
        ({}, set()),
    ],
)
def test_a_placement_at_odds_with_efa_is_told_of(site: Site, options: dict[str, Any], expected: set[str]) -> None:
    fleet(site, capacity=Capacity.spot(), **options)
    annotations = Annotations.from_stack(site.stack)
    for rule in ("GPU-PLC-007", "GPU-EFA-034"):
        tell = annotations.has_warning if rule in expected else annotations.has_no_warning
        tell("*", Match.string_like_regexp(f"{rule}: .*"))


def test_partitions_are_counted(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-PLC-002"):
        ClusterPlacementGroup(site.stack, "Many", strategy=PlacementStrategy.PARTITION, partition_count=8)


def test_efa_that_the_type_does_not_have_is_refused(site: Site) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet(site, instance_type="g6.xlarge", efa=True)
    (finding,) = caught.value.findings
    assert (finding.id, finding.got) == ("GPU-EFA-025", "efa: true")
    with pytest.raises(ConfigError, match="GPU-EFA-025"):
        GpuLaunchTemplate(site.stack, "Template", instance_type="g6.xlarge", efa=True)


def test_cluster_placement_is_that_of_the_reservation(make_site: SiteFactory) -> None:
    """A reservation's own group is a cluster group: to ask for one is to ask for that one, and never for a second."""
    site = make_site()
    group = ec2.PlacementGroup.from_placement_group_name(site.stack, "Given", "training")
    capacity = Capacity.from_reservation_id("cr-0123456789abcdef0", placement_group=group)
    fleet(site, capacity=capacity, placement=PlacementStrategy.CLUSTER)
    resources = site.resources()
    assert only(resources, TEMPLATE)["LaunchTemplateData"]["Placement"] == {"GroupName": "training"}
    assert not of_type(resources, PLACEMENT)
    site = make_site()
    alone = Capacity.from_reservation_id("cr-0123456789abcdef0")
    with pytest.raises(ConfigError, match="GPU-CAP-016"):
        fleet(site, capacity=alone, placement=PlacementStrategy.CLUSTER)
