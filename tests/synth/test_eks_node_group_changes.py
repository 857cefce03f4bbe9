"""Which edit makes a new node group, which one rolls its nodes, and which one does neither.

CloudFormation replaces a node group when a create-only property of its schema changes, or when its logical id does; EKS
replaces the nodes of a group when version, release, or version of the launch template change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import (
    Capacity,
    InterfacePolicy,
    NodeFile,
    NodeRepair,
    NodeTaint,
    PlacementStrategy,
    RootVolume,
    UpdatePolicy,
)
from gpu_clusters_emulator.schemas import resource_schema
from node_groups import existing_cluster, node_group
from stack_fixtures import Resources, Site, SiteFactory, of_type

GROUP, TEMPLATE = "AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate"
ENDS, LATER = "2026-12-15T11:30Z", "2026-12-16T11:30Z"
BLOCK = Capacity.capacity_block("cr-0123456789abcdef0", ends_at=ENDS)

Edit = dict[str, Any]
NEW_GROUP: dict[str, tuple[Edit, Edit]] = {
    "another instance type": ({}, {"instance_type": "p5en.48xlarge"}),
    "reserved capacity": ({}, {"capacity": Capacity.from_reservation_id("cr-0123456789abcdef0")}),
    "spot": ({}, {"capacity": Capacity.spot()}),
    "a block": ({}, {"capacity": BLOCK}),
    "open reservations": ({}, {"capacity": Capacity.on_demand(uses_open_reservations=True)}),
    "no EFA": ({}, {"efa": False}),
    "more IP bandwidth": ({}, {"interface_policy": InterfacePolicy.MAXIMUM_ENA_BANDWIDTH}),
    "no placement group": ({}, {"placement": PlacementStrategy.NONE}),
    "the next block": (
        {"capacity": BLOCK},
        {"capacity": Capacity.capacity_block("cr-0fedcba9876543210", ends_at=LATER)},
    ),
}
NOTHING: dict[str, tuple[Edit, Edit]] = {
    "more nodes": ({}, {"node_count": 16}),
    "a group that scales": ({}, {"node_count": None, "min_node_count": 0, "max_node_count": 16}),
    "more nodes of a block": ({"capacity": BLOCK}, {"capacity": BLOCK, "node_count": 16}),
    "a block that was extended": (
        {"capacity": BLOCK},
        {"capacity": Capacity.capacity_block("cr-0123456789abcdef0", ends_at=LATER)},
    ),
    "a label": ({}, {"labels": {"team": "speech"}}),
    "a taint": ({}, {"taints": [NodeTaint(key="dedicated")]}),
    "a larger disk": ({}, {"root_volume": RootVolume(size_gib=500)}),
    "an environment": ({}, {"environment": {"NCCL_DEBUG": "INFO"}}),
    "kubelet": ({}, {"kubelet_config": {"podPidsLimit": 4096}}),
    "repair": ({}, {"node_repair": NodeRepair(enabled=False)}),
    "updates": ({}, {"max_unavailable": 4}),
    "ready time-out": ({}, {"ready_timeout": cdk.Duration.minutes(10)}),
}
#: What CloudFormation says it replaces, and the user's word alone moves.
USERS_WORD: dict[str, tuple[Callable[[Site], Edit], str]] = {
    "another subnet": (
        lambda site: {"vpc_subnets": ec2.SubnetSelection(subnets=[site.vpc.private_subnets[1]])},
        "Subnets",
    ),
    "another role": (
        lambda site: {"role": iam.Role.from_role_arn(site.stack, "R", "arn:aws:iam::111122223333:role/nodes")},
        "NodeRole",
    ),
}


def synthesized(make_site: SiteFactory, edit: Edit, **cluster: Any) -> Resources:
    site = make_site()
    node_group(site, cluster=existing_cluster(site, **cluster), **edit)
    return site.resources()


def one(resources: Resources, kind: str) -> tuple[str, dict[str, Any]]:
    [(logical_id, resource)] = of_type(resources, kind).items()
    return logical_id, resource["Properties"]


def replaced(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Create-only properties that differ."""
    schema = resource_schema(GROUP)
    assert schema is not None
    assert {"CapacityType", "InstanceTypes", "AmiType", "NodegroupName"} <= schema.create_only_names
    return {name for name in schema.create_only_names if before.get(name) != after.get(name)}


def rolled(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Properties that differ, and whose change replaces nodes."""
    return {name for name in ("Version", "ReleaseVersion", "LaunchTemplate") if before.get(name) != after.get(name)}


@pytest.mark.parametrize("edit", NEW_GROUP)
def test_other_hardware_is_another_group_with_a_template_of_its_own(make_site: SiteFactory, edit: str) -> None:
    """EKS lets a group never have another template, and keeps old nodes on the template's old version."""
    before, after = (synthesized(make_site, options) for options in NEW_GROUP[edit])
    for kind in (GROUP, TEMPLATE):
        assert one(before, kind)[0] != one(after, kind)[0]
    others = {name: resource["Type"] for name, resource in before.items() if resource["Type"] not in (GROUP, TEMPLATE)}
    gone = {kind for name, kind in others.items() if name not in after}
    assert not gone & {"AWS::IAM::Role", "AWS::Logs::LogGroup", "AWS::CloudWatch::Alarm"}


@pytest.mark.parametrize("edit", NOTHING)
def test_an_edit_that_moves_replaces_no_group_and_no_node(make_site: SiteFactory, edit: str) -> None:
    before, after = (synthesized(make_site, options) for options in NOTHING[edit])
    assert json.dumps(before) != json.dumps(after), "the edit does something"
    (old_id, old), (new_id, new) = one(before, GROUP), one(after, GROUP)
    assert old_id == new_id
    assert replaced(old, new) == set()
    assert rolled(old, new) == set()


@pytest.mark.parametrize("edit", [edit for edit in NOTHING if "block" not in edit])
def test_with_rolling_updates_the_group_stays_and_follows_its_template(make_site: SiteFactory, edit: str) -> None:
    before, after = (
        synthesized(make_site, {**options, "update_policy": UpdatePolicy.ROLLING}) for options in NOTHING[edit]
    )
    (old_id, old), (new_id, new) = one(before, GROUP), one(after, GROUP)
    assert (old_id, replaced(old, new)) == (new_id, set())
    template, _ = one(after, TEMPLATE)
    assert new["LaunchTemplate"]["Version"] == {"Fn::GetAtt": [template, "LatestVersionNumber"]}


@pytest.mark.parametrize("edit", USERS_WORD)
def test_what_cloudformation_replaces_is_the_users_own_word(make_site: SiteFactory, edit: str) -> None:
    change, named = USERS_WORD[edit]
    before = synthesized(make_site, {})
    site = make_site()
    node_group(site, **change(site))
    old, new = one(before, GROUP)[1], one(site.resources(), GROUP)[1]
    assert replaced(old, new) == {named}


@pytest.mark.parametrize(
    ("policy", "expected"), [(UpdatePolicy.NEVER_REPLACE, set()), (UpdatePolicy.ROLLING, {"Version"})]
)
def test_an_update_of_the_cluster_rolls_nodes_only_on_request(
    make_site: SiteFactory, policy: UpdatePolicy, expected: set[str]
) -> None:
    before, after = (
        synthesized(make_site, {"update_policy": policy}, kubernetes_version=version) for version in ("1.34", "1.35")
    )
    assert rolled(one(before, GROUP)[1], one(after, GROUP)[1]) == expected


def test_a_release_rolls_nodes_whenever_it_is_said(make_site: SiteFactory) -> None:
    before, after = (synthesized(make_site, {"release_version": release}) for release in (None, "1.34.1-20260709"))
    assert rolled(one(before, GROUP)[1], one(after, GROUP)[1]) == {"ReleaseVersion"}


@pytest.mark.parametrize("edit", [*NOTHING, "other software"])
def test_a_group_that_keeps_its_template_keeps_what_the_template_names(make_site: SiteFactory, edit: str) -> None:
    """A node that starts after a deployment starts from the template of an earlier one."""
    files = {"node_files": [NodeFile(path="/etc/late", text="late", early=False)]}
    before, after = (synthesized(make_site, options) for options in NOTHING.get(edit, ({}, files)))
    names = set(re.findall(r'"(?:Ref|Fn::GetAtt)": \[?"(\w+)"', json.dumps(one(before, TEMPLATE)[1])))
    assert {name for name in names if name not in after} == set()
    reads = [
        json.dumps(statement["Resource"])
        for policy in of_type(after, "AWS::IAM::ManagedPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "s3:GetObject"
    ]
    assert any('/*.gpunode"' in one and re.search(r"/\*\.gpunode-\w{16}\"", one) for one in reads), "and its software"


def test_a_group_that_follows_its_template_reads_no_other_software(make_site: SiteFactory) -> None:
    resources = synthesized(make_site, {"update_policy": UpdatePolicy.ROLLING})
    assert "/*.gpunode" not in json.dumps(of_type(resources, "AWS::IAM::ManagedPolicy"))


def test_another_name_of_a_stack_or_sibling_changes_nothing(make_site: SiteFactory) -> None:
    alone = make_site()
    node_group(alone)
    pair = make_site()
    cluster = existing_cluster(pair)
    node_group(pair, "Earlier", cluster=cluster, instance_type="g6.xlarge")
    node_group(pair, cluster=cluster)
    assert one(alone.resources(), GROUP)[0] in of_type(pair.resources(), GROUP)
