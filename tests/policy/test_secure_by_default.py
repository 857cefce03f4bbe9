"""What policy packs do not look at holds for every resource of every app."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assemblies import Assembly
from security.checks import Check
from security.data import DATA
from security.kubernetes import KUBERNETES
from security.machines import MACHINES


def of_kind(assemblies: dict[str, Assembly], kind: str) -> dict[str, dict[str, Any]]:
    found = {
        name: resource
        for made in assemblies.values()
        for name, resource in made.resources()
        if resource["Type"] == kind
    }
    assert found, kind
    return found


@pytest.mark.parametrize(
    "check",
    [*MACHINES, *DATA, *KUBERNETES],
    ids=lambda check: f"{check.kind.split('::', 1)[1]}: {check.title}",
)
def test_it_holds_everywhere_and_a_fault_is_caught(check: Check, assemblies: dict[str, Assembly]) -> None:
    resources = of_kind(assemblies, check.kind)
    assert [name for name, resource in resources.items() if not check.holds(resource)] == []
    good = next(iter(resources.values()))
    for path, value in check.faults:
        assert not check.holds(check.break_it(good, path, value)), path


def self_rules(template: dict[str, Any], direction: str, peer: str) -> set[str]:
    """Groups that all traffic may go within, in one direction."""
    return {
        json.dumps(rule["GroupId"])
        for rule in (
            one["Properties"]
            for one in template["Resources"].values()
            if one["Type"] == f"AWS::EC2::SecurityGroup{direction}"
        )
        if rule["IpProtocol"] == "-1" and rule["GroupId"] == rule.get(peer)
    }


def test_efa_groups_exchange_all_traffic_with_themselves_in_both_directions(
    assemblies: dict[str, Assembly],
) -> None:
    templates = [template for made in assemblies.values() for template in made.templates.values()]
    groups = 0
    for template in templates:
        ways_in = self_rules(template, "Ingress", "SourceSecurityGroupId")
        assert ways_in == self_rules(template, "Egress", "DestinationSecurityGroupId")
        groups += len(ways_in)
        made_here = {
            json.dumps({"Fn::GetAtt": [key, "GroupId"]})
            for key, one in template["Resources"].items()
            if one["Type"] == "AWS::EC2::SecurityGroup"
        }
        for one in template["Resources"].values():
            if one["Type"] == "AWS::EC2::LaunchTemplate":
                for interface in one["Properties"]["LaunchTemplateData"]["NetworkInterfaces"]:
                    if interface["InterfaceType"].startswith("efa"):
                        own = {json.dumps(group) for group in interface["Groups"]} & made_here
                        assert own & ways_in or not own
    assert groups > 15


def test_every_bucket_has_a_policy(assemblies: dict[str, Assembly]) -> None:
    for kind in ("S3::Bucket", "S3Express::DirectoryBucket"):
        policy = f"AWS::{kind.partition('::')[0]}::BucketPolicy"
        named = {
            (name.rpartition("/")[0], one["Properties"]["Bucket"]["Ref"])
            for name, one in of_kind(assemblies, policy).items()
        }
        assert {
            (stack, logical_id)
            for stack, _, logical_id in (name.rpartition("/") for name in of_kind(assemblies, f"AWS::{kind}"))
        } == named


def test_what_stays_keeps_its_policy(assemblies: dict[str, Assembly]) -> None:
    for kind in ("AWS::S3::BucketPolicy", "AWS::S3Express::BucketPolicy"):
        lost = [
            name
            for name, one in of_kind(assemblies, kind).items()
            if one.get("DeletionPolicy") != "RetainExceptOnCreate"
        ]
        assert lost == []


def test_every_public_address_is_one_of_a_nat_gateway(assemblies: dict[str, Assembly]) -> None:
    used = {
        (name.rpartition("/")[0], one["Properties"]["AllocationId"]["Fn::GetAtt"][0])
        for name, one in of_kind(assemblies, "AWS::EC2::NatGateway").items()
    }
    made = {(stack, key) for stack, _, key in (one.rpartition("/") for one in of_kind(assemblies, "AWS::EC2::EIP"))}
    assert made == used


def test_load_balancers_that_face_the_internet_speak_tls(assemblies: dict[str, Assembly]) -> None:
    seen = 0
    for made in assemblies.values():
        for template in made.templates.values():
            resources = template["Resources"]
            for listener in resources.values():
                if listener["Type"] == "AWS::ElasticLoadBalancingV2::Listener":
                    balancer = resources[listener["Properties"]["LoadBalancerArn"]["Ref"]]["Properties"]
                    if balancer["Scheme"] == "internet-facing":
                        assert listener["Properties"]["Protocol"] == "HTTPS"
                        seen += 1
    assert seen
