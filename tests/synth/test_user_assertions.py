"""Assertions for users' own templates: good ones pass, and each fault is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from cdk_gpu_clusters.testing import (
    TemplateLike,
    assert_capacity_block,
    assert_data_outlives,
    assert_efa_ready,
    assert_no_public_access,
)
from everything.fleets import ENVIRONMENTS, define_training
from everything.serving import define_serving
from everything.stores import define_stores
from mutations import Mutation, drop, put

Assertion = Callable[[TemplateLike], None]
TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"


@pytest.fixture(scope="module")
def templates(app_factory: Any) -> dict[str, dict[str, Any]]:
    parts = {"training": define_training, "stores": define_stores, "serving": define_serving}
    return {
        name: dict(Template.from_stack(define(app_factory(), *ENVIRONMENTS["commercial"])).to_json())
        for name, define in parts.items()
    }


@pytest.mark.parametrize(
    ("assertion", "names"),
    [
        (assert_efa_ready, ("training", "stores")),
        (assert_capacity_block, ("training",)),
        (assert_no_public_access, ("training", "stores")),
        (assert_data_outlives, ("stores", "serving")),
    ],
)
def test_what_the_library_makes_passes(
    assertion: Assertion, names: tuple[str, ...], templates: dict[str, dict[str, Any]]
) -> None:
    for name in names:
        assertion(templates[name])


def test_cdks_own_template_is_taken_as_it_is(templates: dict[str, dict[str, Any]]) -> None:
    assert_efa_ready(Template.from_json(templates["training"]))


@pytest.mark.parametrize("assertion", [assert_efa_ready, assert_capacity_block, assert_data_outlives])
def test_a_template_without_any_is_no_proof(assertion: Assertion) -> None:
    with pytest.raises(AssertionError, match="there is no"):
        assertion({"Resources": {}})


def of_type(template: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    return (one for one in template["Resources"].values() if one["Type"] == kind)


def nodes(template: dict[str, Any], market: str) -> dict[str, Any]:
    """The launch template of a market type."""
    for one in of_type(template, TEMPLATE):
        data: dict[str, Any] = one["Properties"]["LaunchTemplateData"]
        if data.get("InstanceMarketOptions", {}).get("MarketType") == market:
            return data
    raise LookupError(market)


def no_self_rule(template: dict[str, Any]) -> None:
    for rule in of_type(template, "AWS::EC2::SecurityGroupEgress"):
        rule["Properties"].pop("DestinationSecurityGroupId", None)


def one_card_twice(template: dict[str, Any]) -> None:
    interfaces = nodes(template, "capacity-block")["NetworkInterfaces"]
    interfaces[3]["NetworkCardIndex"] = interfaces[4]["NetworkCardIndex"]


def no_target(template: dict[str, Any]) -> None:
    del nodes(template, "capacity-block")["CapacityReservationSpecification"]


def placed(template: dict[str, Any]) -> None:
    nodes(template, "capacity-block")["Placement"] = {"GroupName": "rack"}


def resized(template: dict[str, Any]) -> None:
    for group in of_type(template, GROUP):
        group["Properties"]["DesiredCapacity"] = "16"


def several_zones(template: dict[str, Any]) -> None:
    for group in of_type(template, GROUP):
        group["Properties"]["VPCZoneIdentifier"] += ["subnet-0123456789abcdef9"]


def public_nodes(template: dict[str, Any]) -> None:
    nodes(template, "spot")["NetworkInterfaces"][0]["AssociatePublicIpAddress"] = True


def public_subnet(template: dict[str, Any]) -> None:
    next(of_type(template, "AWS::EC2::Subnet"))["Properties"]["MapPublicIpOnLaunch"] = True


def own_vpc(template: dict[str, Any]) -> None:
    """A VPC as CDK makes it by default: public subnets with NAT gateways, beside private ones."""
    stack = cdk.Stack(cdk.App(), "Vpc")
    ec2.Vpc(stack, "Vpc", max_azs=2)
    template["Resources"].update(Template.from_stack(stack).to_json()["Resources"])


def test_the_subnets_of_nat_gateways_are_no_public_access(templates: dict[str, dict[str, Any]]) -> None:
    template = deepcopy(templates["training"])
    own_vpc(template)
    assert any(one["Properties"].get("MapPublicIpOnLaunch") for one in of_type(template, "AWS::EC2::Subnet"))
    assert_no_public_access(template)


def open_group(template: dict[str, Any]) -> None:
    group = next(of_type(template, "AWS::EC2::SecurityGroup"))
    group["Properties"]["SecurityGroupIngress"] = [{"IpProtocol": "-1", "CidrIpv6": "::/0"}]


def open_rule(template: dict[str, Any]) -> None:
    rule = next(of_type(template, "AWS::EC2::SecurityGroupIngress"))
    rule["Properties"]["CidrIp"] = "0.0.0.0/0"


def open_bucket(template: dict[str, Any]) -> None:
    template["Resources"]["Open"] = {"Type": "AWS::S3::Bucket"}


def deleted_key(template: dict[str, Any]) -> None:
    del next(of_type(template, "AWS::KMS::Key"))["DeletionPolicy"]


def snapshot_only(template: dict[str, Any]) -> None:
    next(of_type(template, "AWS::FSx::FileSystem"))["UpdateReplacePolicy"] = "Snapshot"


@pytest.mark.parametrize(
    ("assertion", "name", "fault", "said"),
    [
        (assert_efa_ready, "training", no_self_rule, "no group that allows all traffic with itself"),
        (assert_efa_ready, "training", one_card_twice, "GPU-EFA-003"),
        (assert_capacity_block, "training", no_target, "no block to launch into"),
        (assert_capacity_block, "training", placed, "placement group"),
        (assert_capacity_block, "training", resized, "DesiredCapacity"),
        (assert_capacity_block, "training", several_zones, "several subnets"),
        (assert_no_public_access, "training", public_nodes, "public addresses"),
        (assert_no_public_access, "training", public_subnet, "the subnet gives"),
        (assert_no_public_access, "training", open_group, "the group lets in"),
        (assert_no_public_access, "training", open_rule, "the rule lets in"),
        (assert_no_public_access, "stores", open_bucket, "Open: the bucket lacks"),
        (assert_no_public_access, "serving", lambda _: None, "faces the internet"),
        (assert_data_outlives, "stores", deleted_key, "DeletionPolicy of AWS::KMS::Key is Delete"),
        (assert_data_outlives, "stores", snapshot_only, "UpdateReplacePolicy of AWS::FSx::FileSystem is Snapshot"),
    ],
)  # fmt: skip
def test_a_fault_is_named(
    assertion: Assertion,
    name: str,
    fault: Callable[[dict[str, Any]], None],
    said: str,
    templates: dict[str, dict[str, Any]],
) -> None:
    template = deepcopy(templates[name])
    fault(template)
    with pytest.raises(AssertionError, match=said):
        assertion(template)


def on_eks() -> dict[str, Any]:
    """A closed cluster of EKS with a node group on a Capacity Block."""
    data = {
        "InstanceType": "p5.48xlarge",
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
        },
    }
    group = {
        "CapacityType": "CAPACITY_BLOCK",
        "LaunchTemplate": {"Id": {"Ref": "Template"}},
        "ScalingConfig": {"MinSize": 0, "MaxSize": 4, "DesiredSize": 4},
        "Subnets": ["subnet-0123456789abcdef0"],
    }
    network = {"EndpointPublicAccess": False, "EndpointPrivateAccess": True}
    return {
        "Resources": {
            "Template": {"Type": TEMPLATE, "Properties": {"LaunchTemplateData": data}},
            "Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": group},
            "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": {"ResourcesVpcConfig": network}},
        }
    }


@pytest.mark.parametrize(
    ("assertion", "mutate", "said"),
    [
        (assert_capacity_block, put("Resources.Nodes.Properties.CapacityType", "SPOT"), "is not CAPACITY_BLOCK"),
        (assert_capacity_block, put("Resources.Nodes.Properties.ScalingConfig.DesiredSize", 0), "would set DesiredSize"),
        (assert_capacity_block, put("Resources.Nodes.Properties.Subnets", ["subnet-1", "subnet-2"]), "several subnets"),
        (assert_no_public_access, drop("Resources.Cluster.Properties.ResourcesVpcConfig.EndpointPublicAccess"), "API server"),
        (assert_no_public_access, put("Resources.Cluster.Properties.ResourcesVpcConfig", {"PublicAccessCidrs": ["0.0.0.0/0"]}), "API server"),
    ],
)  # fmt: skip
def test_a_fault_on_eks_is_named(assertion: Assertion, mutate: Mutation, said: str) -> None:
    assertion(on_eks())
    template = on_eks()
    mutate(template)
    with pytest.raises(AssertionError, match=said):
        assertion(template)


def test_an_endpoint_for_a_few_is_no_public_access() -> None:
    template = on_eks()
    few = {"EndpointPublicAccess": True, "PublicAccessCidrs": ["203.0.113.0/24"]}
    put("Resources.Cluster.Properties.ResourcesVpcConfig", few)(template)
    assert_no_public_access(template)


def test_every_fault_is_named_at_once(templates: dict[str, dict[str, Any]]) -> None:
    template = json.loads(json.dumps(templates["training"]))
    for fault in (no_target, placed, resized):
        fault(template)
    with pytest.raises(AssertionError) as caught:
        assert_capacity_block(template)
    assert len(str(caught.value).splitlines()) == 4
