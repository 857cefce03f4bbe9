"""What one message defines is as good as what CDK's own constructs define: names, tags, aspects and escape hatches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import jsii
import pytest
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from constructs import Construct, IConstruct

from cdk_gpu_clusters import CapacityReservation, ConfigError, GpuFleet, NodeImage
from cdk_gpu_clusters._cdk import define
from cdk_gpu_clusters._template import logical_id
from cdk_gpu_clusters.compute.auto_scaling_group import group_arn_of
from cdk_gpu_clusters.rules.images import choose_image, image_context_key
from stack_fixtures import Site, SiteFactory


def fleet(site: Site, construct_id: str = "Fleet", **options: Any) -> GpuFleet:
    return GpuFleet(site.stack, construct_id, vpc=site.vpc, instance_type="g6.xlarge", node_count=1, **options)


def resources(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = site.template()["Resources"]
    return found


def of_type(site: Site, kind: str) -> dict[str, Any]:
    return {name: one for name, one in resources(site).items() if one["Type"] == kind}


@pytest.mark.parametrize("path", ["Plain", "With space/Resource", "Deep/Deeper/Deepest", "Same/Same/Resource"])
def test_logical_ids_are_those_of_cdk(site: Site, path: str) -> None:
    scope: Construct = site.stack
    *outer, last = path.split("/")
    for part in outer:
        scope = Construct(scope, part)
    resource = cdk.CfnResource(scope, last, type="AWS::SNS::Topic")
    assert site.stack.get_logical_id(resource) in resources(site)
    assert logical_id(path) in resources(site)


@pytest.mark.parametrize("ask", [lambda made: made.role, lambda made: made.log_group, lambda made: made.node])
def test_what_is_asked_for_changes_no_template(make_site: SiteFactory, ask: Callable[[GpuFleet], object]) -> None:
    plain, asked = make_site(), make_site()
    fleet(plain)
    ask(fleet(asked))
    assert resources(plain) == resources(asked)


def test_the_role_takes_grants_and_policies(site: Site) -> None:
    made = fleet(site)
    s3.Bucket(site.stack, "Bucket").grant_read(made.role)
    made.role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name("ReadOnlyAccess"))
    (name,) = [name for name in of_type(site, "AWS::IAM::Role") if name.startswith("FleetRole")]
    assert "ReadOnlyAccess" in str(of_type(site, "AWS::IAM::Role")[name])
    (policy,) = of_type(site, "AWS::IAM::Policy").values()
    assert policy["Properties"]["Roles"] == [{"Ref": name}]


def test_the_log_group_takes_a_removal_policy(site: Site) -> None:
    fleet(site).log_group.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    kept = {name: one["DeletionPolicy"] == "Retain" for name, one in of_type(site, "AWS::Logs::LogGroup").items()}
    assert [name.startswith("FleetLogs") for name, is_kept in kept.items() if is_kept] == [True]


def test_the_default_child_is_the_group(site: Site) -> None:
    group = fleet(site).node.default_child
    assert isinstance(group, autoscaling.CfnAutoScalingGroup)
    group.add_property_override("Cooldown", "60")
    (found,) = of_type(site, "AWS::AutoScaling::AutoScalingGroup").values()
    assert found["Properties"]["Cooldown"] == "60"


def test_references_follow_another_logical_id(site: Site) -> None:
    made = fleet(site)
    made.cfn_auto_scaling_group.override_logical_id("Stable")
    text = str(resources(site))
    assert "Stable" in of_type(site, "AWS::AutoScaling::AutoScalingGroup")
    assert logical_id("Fleet/Resource") not in text


@pytest.mark.parametrize(
    ("kind", "id_before", "child"),
    [
        ("AWS::IAM::Role", "Fleet/Role/Resource", lambda made: made.role),
        ("AWS::Logs::LogGroup", "Fleet/Logs/Resource", lambda made: made.log_group),
    ],
)
def test_references_follow_the_role_and_the_log_group(
    site: Site, kind: str, id_before: str, child: Callable[[GpuFleet], IConstruct]
) -> None:
    resource = child(fleet(site)).node.default_child
    assert isinstance(resource, cdk.CfnElement)
    resource.override_logical_id("Stable")
    assert "Stable" in of_type(site, kind)
    assert logical_id(id_before) not in str(resources(site))


def bare_stack(kind: type[cdk.Stack] = cdk.Stack) -> cdk.Stack:
    return kind(cdk.App(), "Own", env=cdk.Environment(account="123456789012", region="us-east-1"))


def fleet_in(stack: cdk.Stack, **options: Any) -> dict[str, Any]:
    network = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a"],
        private_subnet_ids=["subnet-0123456789abcdef0"],
    )
    GpuFleet(stack, "Fleet", vpc=network, instance_type="g6.xlarge", node_count=1, **options)
    found: dict[str, Any] = Template.from_stack(stack).to_json()["Resources"]
    return found


def test_a_role_of_ones_own_takes_the_place_of_the_fleets() -> None:
    """`customize_roles` is how accounts without IAM rights synthesize."""
    stack = bare_stack()
    iam.Role.customize_roles(stack, use_precreated_roles={"Own/Fleet/Role": "existing"})
    found = fleet_in(stack, alarms=None)
    (profile,) = [one for one in found.values() if one["Type"] == "AWS::IAM::InstanceProfile"]
    assert profile["Properties"]["Roles"] == ["existing"]
    assert [one for one in found.values() if one["Type"] == "AWS::IAM::Role"] == []


def test_edits_of_resources_stay_when_permissions_are_granted(site: Site) -> None:
    made = fleet(site)
    for resource in made.node.find_all():
        if isinstance(resource, iam.CfnRole):
            resource.path = "/nodes/"
    s3.Bucket(site.stack, "Bucket").grant_read(made)
    roles = [one for name, one in of_type(site, "AWS::IAM::Role").items() if name.startswith("FleetRole")]
    assert [role["Properties"]["Path"] for role in roles] == ["/nodes/"]


class _Prefixed(cdk.Stack):
    def _allocate_logical_id(self, cfn_element: cdk.CfnElement) -> str:
        return f"Acme{super()._allocate_logical_id(cfn_element)}"


def test_a_stack_may_make_logical_ids_in_its_own_way() -> None:
    found = fleet_in(bare_stack(_Prefixed))
    referenced = {name for names in re.findall(r"'Ref': '(\w+)'|'Fn::GetAtt': \['(\w+)'", str(found)) for name in names}
    assert [name for name in {*found, *referenced} if "Fleet" in name and not name.startswith("Acme")] == []


def test_permissions_follow_the_name_that_cloudformation_gives_the_group() -> None:
    """It shortens repeated hyphens in the name of the stack, as IdentifierUtils.java of its plugin for Java does."""
    stack = cdk.Stack(cdk.App(), "Odd--Name")
    assert "Odd-*Name-Group-*" in group_arn_of(stack, "Group")
    assert "Odd" not in group_arn_of(cdk.Stack(cdk.App(), "Plain-Name"), "Group")


def test_a_pinned_image_is_read_before_the_template_is_defined(make_site: SiteFactory) -> None:
    key = image_context_key("us-east-1", choose_image("g6.xlarge").parameter)
    site = make_site(env=cdk.Environment(region="us-east-1"), context={key: "ami-0fedcba9876543210"})
    made = fleet(site, image=NodeImage.pinned())
    assert isinstance(made.launch_template.node.default_child, ec2.CfnLaunchTemplate)
    (template,) = of_type(site, "AWS::EC2::LaunchTemplate").values()
    assert template["Properties"]["LaunchTemplateData"]["ImageId"] == "ami-0fedcba9876543210"


def test_an_image_that_was_looked_up_once_is_kept_without_asking(make_site: SiteFactory) -> None:
    key = image_context_key("us-east-1", choose_image("g6.xlarge").parameter)
    images = []
    choices: tuple[dict[str, Any], ...] = ({}, {"image": NodeImage.latest()})
    for options in choices:
        site = make_site(env=cdk.Environment(region="us-east-1"), context={key: "ami-0fedcba9876543210"})
        fleet(site, **options)
        (template,) = of_type(site, "AWS::EC2::LaunchTemplate").values()
        images.append(template["Properties"]["LaunchTemplateData"]["ImageId"])
    assert images[0] == "ami-0fedcba9876543210"
    assert images[1] != images[0], "who asks for the newest gets it"


def test_a_pinned_image_that_was_never_looked_up_is_named(site: Site) -> None:
    with pytest.raises(ConfigError, match="GPU-AMI-101"):
        fleet(site, image=NodeImage.pinned())


def test_the_launch_template_has_its_escape_hatches(site: Site) -> None:
    made = fleet(site)
    template = made.launch_template.node.default_child
    assert isinstance(template, ec2.CfnLaunchTemplate)
    template.add_property_override("LaunchTemplateData.EbsOptimized", True)
    (found,) = of_type(site, "AWS::EC2::LaunchTemplate").values()
    assert found["Properties"]["LaunchTemplateData"]["EbsOptimized"] is True


def test_tags_reach_everything_of_a_fleet(site: Site) -> None:
    made = fleet(site)
    cdk.Tags.of(made).add("team", "speech")
    cdk.Tags.of(made.launch_template).add("only", "nodes")
    found = resources(site)
    tag = "{'Key': 'team', 'Value': 'speech'"
    for kind in (
        "AWS::IAM::Role",
        "AWS::Logs::LogGroup",
        "AWS::EC2::LaunchTemplate",
        "AWS::CloudWatch::Alarm",
    ):
        assert [name for name, one in found.items() if one["Type"] == kind and tag not in str(one)] == [], kind
    (group,) = of_type(site, "AWS::AutoScaling::AutoScalingGroup").values()
    assert {"Key": "team", "PropagateAtLaunch": True, "Value": "speech"} in group["Properties"]["Tags"]
    (template,) = of_type(site, "AWS::EC2::LaunchTemplate").values()
    assert "'only'" in str(template)
    assert "'only'" not in str(group)


@jsii.implements(cdk.IAspect)
class _Remember:
    def __init__(self) -> None:
        self.alarms: list[cloudwatch.CfnAlarm] = []

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, cloudwatch.CfnAlarm):
            self.alarms.append(node)


def test_aspects_see_typed_resources(site: Site) -> None:
    made = fleet(site)
    aspect = _Remember()
    cdk.Aspects.of(made).add(aspect)
    resources(site)
    assert made.alarms is not None
    assert len(aspect.alarms) == len(made.alarms.names)


def test_a_reservation_hands_out_its_alarm(site: Site) -> None:
    made = CapacityReservation(
        site.stack,
        "Reservation",
        instance_type="p5.48xlarge",
        instance_count=1,
        availability_zone="us-east-1a",
        unlimited=True,
    )
    alarm = made.unused_alarm
    assert isinstance(alarm, cloudwatch.Alarm)
    assert made.unused_alarm is alarm
    assert isinstance(made.node.default_child, ec2.CfnCapacityReservation)
    assert len(of_type(site, "AWS::CloudWatch::Alarm")) == 1


def test_values_that_are_still_to_come_stand_where_they_are_named(site: Site) -> None:
    scope = Construct(site.stack, "Scope")
    tags = cdk.TagManager(cdk.TagType.STANDARD, "AWS::SNS::Topic", [{"key": "a", "value": "b"}])
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"Tags": {"Ref": "Tags"}}}
    define(scope, {"Topic/Resource": topic}, values={"Tags": tags.rendered_tags})
    (found,) = of_type(site, "AWS::SNS::Topic").values()
    assert found["Properties"]["Tags"] == [{"Key": "a", "Value": "b"}]
