"""The mapping of described resources to properties, held against botocore's service models and CloudFormation's registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from cdk_gpu_clusters_stacks.doctor import mapping
from cdk_gpu_clusters_stacks.doctor.consequences import consequences
from cdk_gpu_clusters_stacks.doctor.mapping import HOOK_MEMBERS, KINDS, RULE_MEMBERS, SUSPENDED, WARM_POOL, Kind, Member
from cdk_gpu_clusters_stacks.doctor.nodes import FACTS_OF_NODES, INSTANCE
from cdk_gpu_clusters_stacks.preflight.call import SECURITY_GROUP_RULES, Call
from gpu_clusters_emulator.schemas import resource_schema

# What is described and is a state or a resource of its own, so that CloudFormation has no property for it.
STATES = {SUSPENDED, WARM_POOL}


def output(call: Call) -> Any:
    model = botocore.session.get_session().get_service_model(call.service)
    name = next(one for one in model.operation_names if xform_name(one) == call.operation)
    return model.operation_model(name).output_shape


def described(kind: Kind) -> Any:
    shape = output(kind.call).members[kind.answer]
    return shape.member if shape.type_name == "list" else shape


def member_shape(shape: Any, path: str) -> Any:
    for name in path.split("."):
        assert name in shape.members, path
        shape = shape.members[name]
    return shape


def schema_at(kind: str, path: str) -> dict[str, Any]:
    schema = resource_schema(kind)
    assert schema is not None, kind
    found: dict[str, Any] = schema.document
    for name in path.split("."):
        found = resolved(schema.document, found)
        assert name in found.get("properties", {}), (kind, path)
        found = found["properties"][name]
    return resolved(schema.document, found)


def resolved(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


MEMBERS = [(kind, member) for kind in KINDS for member in kind.members]


@pytest.mark.parametrize(("kind", "member"), MEMBERS, ids=[f"{kind.type} {member.name}" for kind, member in MEMBERS])
def test_every_member_is_in_the_answer_and_every_property_in_the_registry(kind: Kind, member: Member) -> None:
    shape = member_shape(described(kind), member.name)
    if member.property in STATES:
        return
    schema = schema_at(kind.type, member.property)
    if member.convert is None and not member.verbatim:
        root = resource_schema(kind.type)
        assert root is not None
        wrong = list(misspelled(kind, root.document, schema, shape, member.property))
        assert wrong == []


def misspelled(kind: Kind, root: dict[str, Any], schema: dict[str, Any], shape: Any, path: str) -> Iterator[str]:
    """Properties below a mapped one which the answer has under another name, or not at all."""
    schema = resolved(root, schema)
    if shape.type_name == "list" and "items" in schema:
        yield from misspelled(kind, root, schema["items"], shape.member, path)
    if shape.type_name != "structure":
        return
    renamed = {new: old for old, new in mapping._RENAMED.get(kind.type, {}).items()}
    for name, below in schema.get("properties", {}).items():
        place = f"{path}.{name}"
        spelled = renamed.get(name, name)
        spelled = f"{spelled[:1].lower()}{spelled[1:]}" if kind.small else spelled
        if spelled in shape.members:
            yield from misspelled(kind, root, below, shape.members[spelled], place)
        elif place not in kind.unanswered:
            yield place


def test_rules_of_security_groups_and_hooks_have_their_members() -> None:
    rule = output(SECURITY_GROUP_RULES).members["SecurityGroupRules"].member
    for member, (ingress, egress) in RULE_MEMBERS.items():
        member_shape(rule, member)
        schema_at("AWS::EC2::SecurityGroupIngress", ingress)
        schema_at("AWS::EC2::SecurityGroupEgress", egress)
    hook = output(mapping.HOOKS).members["LifecycleHooks"].member
    root = resource_schema("AWS::AutoScaling::AutoScalingGroup")
    assert root is not None
    items = resolved(
        root.document, schema_at("AWS::AutoScaling::AutoScalingGroup", "LifecycleHookSpecificationList")["items"]
    )
    assert set(HOOK_MEMBERS) == set(items["properties"])
    assert set(HOOK_MEMBERS) <= set(hook.members)


def test_every_type_has_a_consequence_and_every_consequence_a_property() -> None:
    own = {"LatestVersionNumber", "Instances", *STATES}
    rules = {f"AWS::EC2::SecurityGroup{end}" for end in ("", "Ingress", "Egress")}
    facts = {one.property for one in FACTS_OF_NODES}
    assert {row.type for row in consequences()} == {kind.type for kind in KINDS} | rules | {INSTANCE}
    assert {row.path for row in consequences() if row.type == INSTANCE} == {"", *facts}
    assert len({(row.type, row.path) for row in consequences()}) == len(consequences())
    for row in consequences():
        assert row.breaks
        assert row.source
        if row.path and row.path not in own and row.type != INSTANCE:
            path = row.path.replace("NetworkInterfaces.", "NetworkInterfaces.*.")
            schema_path(row.type, path)


def schema_path(kind: str, path: str) -> None:
    before, star, after = path.partition(".*.")
    found = schema_at(kind, before)
    if star:
        root = resource_schema(kind)
        assert root is not None
        assert after in resolved(root.document, found["items"])["properties"], (kind, path)


def test_only_reading_calls_are_made() -> None:
    for kind in KINDS:
        assert kind.call.operation.startswith(("describe_", "get_", "list_")), kind.call
