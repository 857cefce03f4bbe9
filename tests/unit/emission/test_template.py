"""Resources as a template has them, made without CDK."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters._template import Resources, att, logical_id, logical_ids, ref, with_ids, with_names

OTHER = "${Token[AWS.Partition.7]}"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("Bucket", "Bucket"),
        ("My-Bucket", "MyBucket"),
        ("Fleet/Resource", "Fleet30813DF3"),
        ("Fleet/Default/Resource", "Fleet30813DF3"),
    ],
)
def test_logical_ids_are_those_of_cdk(path: str, expected: str) -> None:
    assert logical_id(path) == expected


def test_repeated_parts_are_named_once_and_the_name_is_cut() -> None:
    assert logical_id("Fleet/MyFleet/Resource").startswith("FleetMyFleet")
    assert logical_id("MyFleet/Fleet/Resource").startswith("MyFleet")
    assert not logical_id("MyFleet/Fleet/Resource").startswith("MyFleetFleet")
    assert len(logical_id("/".join(["x" * 200, "y" * 200]))) == 248


def written(value: Any) -> Any:
    resources: Resources = {
        "Group": {"Type": "A", "Properties": {"Value": value}},
        "Role/Resource": {"Type": "B"},
    }
    return with_ids(resources, logical_ids(resources, "Fleet"))[logical_id("Fleet/Group")]["Properties"]["Value"]


ROLE = logical_id("Fleet/Role/Resource")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ref("Role/Resource"), {"Ref": ROLE}),
        (att("Role/Resource", "Arn"), {"Fn::GetAtt": [ROLE, "Arn"]}),
        (f"a-{ref('Role/Resource')}-b", {"Fn::Join": ["", ["a-", {"Ref": ROLE}, "-b"]]}),
        (f"{OTHER}:{ref('Role/Resource')}", {"Fn::Join": ["", [OTHER, ":", {"Ref": ROLE}]]}),
        (OTHER, OTHER),
        ("plain", "plain"),
        ([ref("Role/Resource"), 3, True], [{"Ref": ROLE}, 3, True]),
        ({"Ref": "AWS::StackName"}, {"Ref": "AWS::StackName"}),
        ({"Left": None, "Kept": 0}, {"Kept": 0}),
    ],
)
def test_references_are_written_out(value: Any, expected: Any) -> None:
    assert written(value) == expected


def test_dependencies_are_named_by_path() -> None:
    resources: Resources = {"One": {"Type": "A", "DependsOn": ["Two"]}, "Two": {"Type": "B"}}
    ids = logical_ids(resources, "")
    assert with_ids(resources, ids)["One"]["DependsOn"] == ["Two"]


def test_a_reference_to_nothing_is_an_error() -> None:
    with pytest.raises(KeyError):
        written(ref("Elsewhere"))


def test_references_are_named_as_cdk_nag_names_them() -> None:
    ids = {"Role/Resource": "RoleX"}
    assert with_names(f"arn:{ref('Role/Resource')}/{att('Role/Resource', 'Arn')}", ids) == "arn:<RoleX>/<RoleX.Arn>"
