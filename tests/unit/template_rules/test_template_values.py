"""How values of templates are resolved: what is known, what refers to something, and what nobody can know."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.case import Case, Value, target_of
from cdk_gpu_clusters.template_rules.choices import Choices, Fork, Undecidable
from cdk_gpu_clusters.template_rules.template import Template
from templates import template_of

SECTIONS = """
Parameters:
  Named: {Type: String, Default: p5.48xlarge}
  Open: {Type: String}
  Looked: {Type: "AWS::SSM::Parameter::Value<String>", Default: /some/name}
  Zones: {Type: CommaDelimitedList, Default: "us-east-1a, us-east-1b"}
  Count: {Type: Number, Default: 4}
  One: {Type: String, AllowedValues: [only]}
  Two: {Type: String, AllowedValues: [first, second]}
Mappings:
  Sizes: {p5: {cards: 32, gpus: 8}, p4: {cards: 4, gpus: 8}}
Conditions:
  Always: !Equals [a, a]
Resources:
  Group: {Type: "AWS::EC2::SecurityGroup"}
  Thing:
    Type: A::B::C
    Properties:
      Value: VALUE
"""


def value_of(text: str, choices: Choices | None = None) -> Value:
    template = template_of(SECTIONS.replace("VALUE", text))
    resource = Case(template, choices or Choices()).resource("Thing")
    assert resource is not None
    return resource.get("Value")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("12", "12"),
        ("true", "true"),
        ("!Ref Named", "p5.48xlarge"),
        ("!Ref Count", "4"),
        ("!Ref One", "only"),
        ("!Sub 'a-${Named}-${!Literal}'", "a-p5.48xlarge-${Literal}"),
        ("!Sub ['${x}${Count}', {x: !Ref Named}]", "p5.48xlarge4"),
        ("!Join ['-', [a, !Ref Named, !Ref 'AWS::NoValue', b]]", "a-p5.48xlarge-b"),
        ("!Join [',', !Ref Zones]", "us-east-1a,us-east-1b"),
        ("!Select [1, !Ref Zones]", "us-east-1b"),
        ("!Select ['0', [x, y]]", "x"),
        ("!Select [0, !Split ['.', !Ref Named]]", "p5"),
        ("!FindInMap [Sizes, p5, cards]", "32"),
        ("!FindInMap [Sizes, !Select [0, !Split ['.', !Ref Named]], cards]", "32"),
        ("!FindInMap [Sizes, !Ref Open, gpus]", "8"),
        ("!FindInMap [Sizes, none, gpus, {DefaultValue: 1}]", "1"),
        ("!If [Always, yes-it-is, no]", "yes-it-is"),
        ("!Base64 echo", "echo"),
        ("{'Fn::Length': !Ref Zones}", "2"),
        ("{'Fn::ToJsonString': {a: 1}}", '{"a":1}'),
        ("!Ref AWS::NoValue", None),
        ("null", None),
    ],
)
def test_what_the_template_holds_is_known(text: str, expected: str | None) -> None:
    assert value_of(text).text() == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("!Ref Open", "parameter Open has no default"),
        ("!Ref Looked", "read from Systems Manager"),
        ("!Ref AWS::Region", "AWS::Region is known at deployment only"),
        ("!ImportValue shared", "no template that was given exports this value"),
        ("'{{resolve:ssm:/a/b}}'", "dynamic reference"),
        ("!Sub 'x{{resolve:ssm:/a/b}}'", "dynamic reference"),
        ("!Sub 'a-${Open}'", "a part of this text, Open, is known at deployment only"),
        ("!Ref Group", "Group is known when the AWS::EC2::SecurityGroup exists"),
        ("!GetAtt Group.GroupId", "Group.GroupId is known"),
        ("!Ref Nothing", "neither a parameter nor a resource"),
        ("!GetAtt Nothing.Arn", "no attribute of a resource"),
        ("!FindInMap [Sizes, !Ref Open, cards]", "key of the mapping"),
        ("!Select [7, [a]]", "the list is known"),
        ("!Select [0, !GetAZs '']", "the list is known"),
        ("!Cidr [a, 1, 2]", "Fn::Cidr"),
        ("{'Fn::Sub': [1]}", "malformed"),
        ("!If [Missing, a, b]", "there is no condition 'Missing'"),
        ("!If [a]", "malformed"),
        ("[a]", "a text belongs here"),
        ("{a: 1, b: 2}", "a text belongs here"),
    ],
)
def test_what_only_a_deployment_knows_is_undecidable(text: str, reason: str) -> None:
    with pytest.raises(Undecidable, match=reason) as caught:
        value_of(text).text()
    assert caught.value.path[:4] == ("Resources", "Thing", "Properties", "Value")


def test_allowed_values_fork_and_must_agree() -> None:
    with pytest.raises(Fork) as caught:
        value_of("!Ref Two").text()
    assert caught.value.must_agree
    assert [value_of("!Ref Two", choices).text() for choices in caught.value.options] == ["first", "second"]


def test_references_are_followed() -> None:
    value = value_of("!GetAtt Group.GroupId")
    assert str(value.reference) == "Group.GroupId"
    target = target_of(value)
    assert target is not None
    assert target.type == "AWS::EC2::SecurityGroup"
    assert target.is_target_of(value)
    assert target_of(value_of("plain")) is None


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[!Ref Open, !Ref Open]", True),
        ("[!Ref Group, !Ref Group]", True),
        ("[a, a]", True),
        ("[a, b]", False),
    ],
)
def test_values_are_compared(text: str, same: bool) -> None:
    left, right = value_of(text).items()
    assert left.is_same_as(right) is same


def test_values_that_may_be_the_same_are_undecidable() -> None:
    left, right = value_of("[!Ref Open, p5.48xlarge]").items()
    with pytest.raises(Undecidable, match="Open"):
        left.is_same_as(right)


def test_numbers_and_flags_are_read_from_text_too() -> None:
    numbers = value_of("[7, '7', 7.0, !Ref Count]").items()
    assert [value.integer() for value in numbers] == [7, 7, 7, 4]
    assert [value.flag() for value in value_of("[true, 'TRUE', 'false', no]").items()] == [*(True, True, False, False)]


@pytest.mark.parametrize("text", ["a", "1.5", "1e999", "nan", "[1]", "''"])
def test_what_is_no_number_is_undecidable(text: str) -> None:
    with pytest.raises(Undecidable, match="belongs here"):
        value_of(text).integer()


def test_walking_stops_at_what_is_absent_or_of_another_type() -> None:
    assert not value_of("{a: {b: 1}}").get("x", "y", "z").exists
    assert value_of("{a: {b: 1}}").get("a", "b").integer() == 1
    assert value_of("[{a: 1}]").get(0, "a").path[-2:] == (0, "a")
    with pytest.raises(Undecidable, match="a mapping belongs here"):
        value_of("text").get("a")
    with pytest.raises(Undecidable, match="a list belongs here"):
        value_of("text").items()


def test_no_value_is_left_out_of_lists_and_mappings() -> None:
    assert [item.text() for item in value_of("[a, !Ref 'AWS::NoValue', b]").items()] == ["a", "b"]
    assert value_of("{a: !Ref 'AWS::NoValue', b: 1}").keys() == ["b"]


def test_texts_show_their_unknown_parts() -> None:
    assert value_of("!Sub '${Open}/${Group.GroupId}/${Named}'").template_text() == (
        "${Open}/${Group.GroupId}/p5.48xlarge"
    )
    assert value_of("!Ref Open").template_text() is None


def test_the_region_of_a_template_is_known_if_it_is_said() -> None:
    data: dict[str, Any] = {"Resources": {"A": {"Type": "T", "Properties": {"V": {"Ref": "AWS::Region"}}}}}
    resource = Case(Template.of(data, region="eu-west-1"), Choices()).resource("A")
    assert resource is not None
    assert resource.get("V").text() == "eu-west-1"
