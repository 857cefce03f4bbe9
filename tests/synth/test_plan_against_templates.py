"""What `plan --against` says of an edit is what the templates of both files show: stack by stack, resource by resource."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.plan.changes import compare_clusters
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster
from cluster_files.edits import EDITS, sides, write
from gpu_clusters_emulator.provisioning import replaces
from shared_assemblies import SharedAssemblies, templates_in

#: Types of which a statement is made whenever one changes. Roles, alarms, rules and the like follow from these.
TOLD = {
    "AWS::APS::Scraper",
    "AWS::APS::Workspace",
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::AutoScaling::ScalingPolicy",
    "AWS::Batch::ComputeEnvironment",
    "AWS::Batch::JobDefinition",
    "AWS::Batch::JobQueue",
    "AWS::Budgets::Budget",
    "AWS::CloudFormation::Stack",
    "AWS::CloudWatch::AlarmMuteRule",
    "AWS::CloudWatch::Dashboard",
    "AWS::EC2::CapacityReservation",
    "AWS::EC2::FlowLog",
    "AWS::EC2::LaunchTemplate",
    "AWS::EC2::NatGateway",
    "AWS::EC2::PlacementGroup",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCEndpoint",
    "AWS::EKS::Cluster",
    "AWS::EKS::Nodegroup",
    "AWS::ElasticLoadBalancingV2::Listener",
    "AWS::ElasticLoadBalancingV2::LoadBalancer",
    "AWS::ElasticLoadBalancingV2::TargetGroup",
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::FSx::FileSystem",
    "AWS::PCS::Cluster",
    "AWS::PCS::ComputeNodeGroup",
    "AWS::PCS::Queue",
    "AWS::ResourceGroups::Group",
    "AWS::S3::Bucket",
    "AWS::S3Express::DirectoryBucket",
    "AWS::SageMaker::Cluster",
    "AWS::SNS::Topic",
    "AWS::StepFunctions::StateMachine",
    "Custom::PclusterCluster",
}

#: A reservation in a placement group is made by a function, and has the properties of one that CloudFormation makes.
SAID_AS = {"Custom::EC2CapacityReservation": "AWS::EC2::CapacityReservation"}

#: Those of which tags are told, too: what nodes are launched from.
OF_NODES = {
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::Batch::ComputeEnvironment",
    "AWS::EC2::LaunchTemplate",
    "AWS::EKS::Nodegroup",
    "AWS::PCS::ComputeNodeGroup",
    "Custom::PclusterCluster",
}

Templates = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ClusterSpec]:
    """The cluster of a file's text."""

    @cache
    def load(text: str) -> ClusterSpec:
        return load_cluster(write(tmp_path_factory.mktemp("cluster"), text))

    return load


@pytest.fixture(scope="module")
def synthesize(assemblies_of_files: SharedAssemblies) -> Callable[[str], Templates]:
    """The templates of a file's text by stack, made once."""
    return cache(lambda text: templates_in(assemblies_of_files.of(text)))


def seen(before: Templates, after: Templates) -> set[tuple[str, str, str]]:
    """What the templates show: stack, type and effect of every resource that is told; no type for a entire stack."""
    found = {(name, "", "added") for name in after.keys() - before.keys()}
    found |= {(name, "", "left") for name in before.keys() - after.keys()}
    for name in before.keys() & after.keys():
        old, new = named(before[name]), named(after[name])
        for logical_id in old.keys() | new.keys():
            one, other = old.get(logical_id), new.get(logical_id)
            kind = kind_of(old.get(logical_id) or new[logical_id])
            if kind in TOLD and settled(one) != settled(other):
                found.add((name, kind, effect(one, other)))
    return found


def named(template: dict[str, Any]) -> dict[str, Any]:
    """The resources by logical id; a reservation, of which a stack has one, by its kind."""
    resources = {name: _with_template(one, template) for name, one in template["Resources"].items()}.items()
    return {kind_of(one) if kind_of(one) in SAID_AS.values() else name: one for name, one in resources}


def _with_template(resource: dict[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    """A compute environment of AWS Batch with the template itself in the place of its newest version."""
    if resource["Type"] != "AWS::Batch::ComputeEnvironment":
        return resource
    properties = resource["Properties"]
    named = properties["ComputeResources"]["LaunchTemplate"]
    version = {**named, "Version": template["Resources"][named["LaunchTemplateId"]["Ref"]]}
    resources = {**properties["ComputeResources"], "LaunchTemplate": version}
    return {**resource, "Properties": {**properties, "ComputeResources": resources}}


def kind_of(resource: dict[str, Any]) -> str:
    kind: str = resource["Type"]
    return SAID_AS.get(kind, kind)


def settled(resource: dict[str, Any] | None) -> dict[str, Any] | None:
    """A resource without the order in which it is made."""
    return resource and {key: value for key, value in resource.items() if key != "DependsOn"}


def effect(one: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    if one is None or other is None:
        return "added" if one is None else "removed"
    assert kind_of(one) == kind_of(other)
    return "replaced" if replaces(kind_of(one), one["Properties"], other["Properties"]) else "updated"


@pytest.mark.parametrize("name", EDITS)
def test_the_templates_show_what_was_said(
    name: str, cluster: Callable[[str], ClusterSpec], synthesize: Callable[[str], Templates]
) -> None:
    before, after = sides(name)
    shown = seen(synthesize(before), synthesize(after))
    comparison = compare_clusters(cluster(before), cluster(after))
    said = {(one.stack, one.resource, one.effect.value) for one in comparison.changes}
    retagged = {stack for stack, kind, what in said if not kind and what == "updated"}
    shown = {one for one in shown if one[0] not in retagged or one[2] != "updated" or one[1] in OF_NODES}
    if comparison.refused:  # what no schema tells, and the service refuses: the rules say that it replaces
        shown = {(*one[:2], "replaced") if (*one[:2], "replaced") in said else one for one in shown}
    assert {one for one in said if one[1] in TOLD} | (said & whole_stacks(shown)) == shown
    assert whole_stacks(said) - {(stack, "", "updated") for stack in retagged} == whole_stacks(shown)


def whole_stacks(changes: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    return {one for one in changes if not one[1]}


@pytest.mark.parametrize("name", EDITS)
def test_stacks_that_are_said_to_stay_are_byte_identical(
    name: str, cluster: Callable[[str], ClusterSpec], synthesize: Callable[[str], Templates]
) -> None:
    before, after = sides(name)
    old, new = synthesize(before), synthesize(after)
    said = compare_clusters(cluster(before), cluster(after)).unchanged
    assert {stack for stack in old.keys() & new.keys() if old[stack] == new[stack]} == set(said)
