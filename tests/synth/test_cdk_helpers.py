"""What Python answers instead of CDK is what CDK would answer."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    arn_of,
    cached_per_construct,
    path_of,
    region_of,
    resolved_or_none,
    stack_of,
)
from stack_fixtures import Site, SiteFactory


def values() -> list[Any]:
    token = cdk.Token.as_string({"Ref": "Thing"})
    return [
        "plain",
        "",
        "${Token[",
        "${Token[]}",
        "${NotAToken[TOKEN.1]}",
        token,
        f"before-{token}-after",
        0,
        -1,
        1.5,
        True,
        10**18,
        cdk.Token.as_number({"Ref": "Number"}),
        ["plain"],
        [token],
        cdk.Token.as_list({"Ref": "List"}),
        cdk.Token.as_any({"Ref": "Anything"}),
    ]


def test_tokens_are_told_as_cdk_tells_them() -> None:
    told = [resolved_or_none(value) is None for value in values()]
    assert told == [cdk.Token.is_unresolved(value) for value in values()]
    assert any(told)
    assert not all(told)


@pytest.mark.parametrize("construct_id", ["Fleet", "with/slash", "with space"])
def test_paths_and_stacks_are_those_of_cdk(site: Site, construct_id: str) -> None:
    stage = cdk.Stage(site.app, "Prod")
    nested = cdk.NestedStack(site.stack, "Nested")
    for scope in (site.stack, Construct(site.stack, "Scope"), cdk.Stack(stage, "Inner"), nested):
        outer = ClusterConstruct(scope, construct_id)
        inner = ClusterConstruct(outer, "Inner")
        for construct in (outer, inner):
            assert path_of(construct) == construct.node.path
            assert stack_of(construct) is cdk.Stack.of(construct)


@pytest.mark.parametrize("env", [None, cdk.Environment(account="123456789012", region="us-gov-west-1")])
def test_arns_are_those_of_cdk(make_site: SiteFactory, env: cdk.Environment | None) -> None:
    stack = make_site(env=env).stack
    group = ec2.PlacementGroup(stack, "Group")
    name = group.placement_group_name
    ours = arn_of(group, "ec2", f"placement-group/{name}")
    theirs = stack.format_arn(service="ec2", resource="placement-group", resource_name=name)
    assert stack.resolve(ours) == stack.resolve(theirs)
    assert region_of(stack) == stack.region


class Thing:
    """Something that can be asked."""


def test_a_question_is_asked_once_and_its_answer_forgotten_with_the_object() -> None:
    asked: list[int] = []

    @cached_per_construct
    def question(thing: Thing) -> int:
        asked.append(id(thing))
        return len(asked)

    first, second = Thing(), Thing()
    assert (question(first), question(first), question(second), question(first)) == (1, 1, 2, 1)
    assert len(asked) == 2
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
