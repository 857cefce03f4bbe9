"""No template crashes the rules: templates grown from a grammar, and texts cut and spliced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters.template_rules.document import UnusableTemplate
from cdk_gpu_clusters.template_rules.engine import judge_estate
from cdk_gpu_clusters.template_rules.links import estates_of
from cdk_gpu_clusters.template_rules.lint import lint
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.reports import FORMATS
from cdk_gpu_clusters.template_rules.rule import Outcome
from cdk_gpu_clusters.template_rules.template import Template, read_text
from cdk_gpu_clusters.template_rules.yaml_text import read_yaml_text
from rule_fixtures import rule_fixtures

BAD = {rule_id: fixture.bad for rule_id, fixture in rule_fixtures().items()}
TYPES = sorted({kind for rule in every_rule() for kind in rule.on} | {"AWS::EC2::SecurityGroupIngress", "A::B::C"})
NAMES = st.sampled_from(["A", "B", "P", "Q", "Is", "AWS::Region", "AWS::NoValue", "None", "A.Arn"])
STACKS = st.sampled_from(["first", "second", "third"])
READ = st.one_of(
    st.builds(lambda name: {"Fn::ImportValue": name}, NAMES),
    st.builds(lambda stack, name: {"Fn::GetStackOutput": {"StackName": stack, "OutputName": name}}, STACKS, NAMES),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["p5.48xlarge", "efa", "capacity-block", "LUSTRE", "PERSISTENT_2", "${A}", "${!x}", "{{resolve:x}}"]
    ),
)


def _words(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {key for key in value if not key.startswith("Fn::")} | {w for v in value.values() for w in _words(v)}
    return {word for item in value for word in _words(item)} if isinstance(value, list) else set()


KEYS = st.sampled_from(sorted(_words([read_text(text).data for text in BAD.values()])))


def functions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Intrinsic functions, well formed and not."""
    lists = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(lambda name: {"Ref": name}, NAMES),
        st.builds(lambda name, rest: {"Fn::GetAtt": [name, rest]}, NAMES, inner),
        st.builds(lambda name, yes, no: {"Fn::If": [name, yes, no]}, NAMES, inner, inner),
        st.builds(lambda text, names: {"Fn::Sub": [text, names]}, st.text(), st.dictionaries(NAMES, inner)),
        st.builds(lambda parts: {"Fn::Join": ["-", parts]}, inner),
        st.builds(lambda index, items: {"Fn::Select": [index, items]}, inner, lists),
        st.builds(lambda text: {"Fn::Split": [",", text]}, inner),
        st.builds(lambda first, second: {"Fn::FindInMap": ["M", first, second]}, inner, inner),
        st.builds(
            lambda name, argument: {name: argument},
            st.sampled_from(["Ref", "Fn::If", "Fn::Sub", "Fn::Base64", "Fn::ImportValue", "Fn::Nothing", "Fn::Length"]),
            inner,
        ),
        READ,
        st.builds(lambda name, output: {"Fn::GetAtt": [name, f"Outputs.{output}"]}, NAMES, NAMES),
    )


VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4), functions(inner)),
    max_leaves=12,
)
CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.builds(lambda left, right: {"Fn::Equals": [left, right]}, VALUES, VALUES),
        st.builds(lambda name: {"Condition": name}, NAMES),
        SCALARS,
    ),
    lambda inner: st.builds(
        lambda name, operands: {name: operands},
        st.sampled_from(["Fn::Not", "Fn::And", "Fn::Or"]),
        st.lists(inner, max_size=2),
    ),
    max_leaves=4,
)
TEMPLATES = st.fixed_dictionaries(
    {
        "Parameters": st.dictionaries(
            NAMES,
            st.one_of(st.dictionaries(st.sampled_from(["Type", "Default", "AllowedValues"]), VALUES), SCALARS),
        ),
        "Mappings": st.dictionaries(st.just("M"), VALUES),
        "Conditions": st.dictionaries(NAMES, CONDITIONS, max_size=3),
        "Resources": st.dictionaries(
            NAMES,
            st.fixed_dictionaries(
                {"Type": st.sampled_from(TYPES), "Properties": st.dictionaries(KEYS, VALUES, max_size=5)},
                optional={
                    "Condition": NAMES,
                    "DependsOn": NAMES,
                    "DeletionPolicy": VALUES,
                    "Metadata": VALUES,
                },
            ),
            max_size=4,
        ),
    }
)
OUTPUTS = st.dictionaries(
    NAMES,
    st.one_of(
        SCALARS,
        st.fixed_dictionaries(
            {"Value": VALUES},
            optional={
                "Condition": NAMES,
                "Export": st.fixed_dictionaries({"Name": st.one_of(NAMES, VALUES)}),
            },
        ),
    ),
    min_size=1,
    max_size=4,
)
NESTED = st.fixed_dictionaries(
    {
        "Type": st.just("AWS::CloudFormation::Stack"),
        "Properties": st.fixed_dictionaries(
            {
                "TemplateURL": st.one_of(STACKS, SCALARS),
                "Parameters": st.dictionaries(NAMES, VALUES, max_size=3),
            }
        ),
    }
)
READERS = st.fixed_dictionaries(
    {"Type": st.sampled_from(TYPES), "Properties": st.dictionaries(KEYS, READ, min_size=1, max_size=5)}
)
# Each template with its outputs, a resource that reads those of others, and maybe a nested stack.
LINKED = st.lists(st.tuples(TEMPLATES, OUTPUTS, READERS, st.one_of(st.none(), NESTED)), min_size=2, max_size=3)
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def judged(*templates: Template) -> None:
    for estate in estates_of(templates):
        for verdicts in judge_estate(estate, every_rule()).values():
            for verdict in verdicts:
                assert verdict.outcome in Outcome
                assert verdict.template in estate.templates
                if verdict.outcome in (Outcome.NOT_COMPLIANT, Outcome.UNDECIDABLE):
                    assert verdict.message
                    assert verdict.template.place(verdict.path).line >= 1


@FUZZ
@given(TEMPLATES)
def test_grown_templates_get_verdicts(data: dict[str, Any]) -> None:
    try:
        template = Template.of(data)
    except UnusableTemplate:
        return
    judged(template)


@FUZZ
@given(LINKED)
def test_grown_templates_that_read_each_other_get_verdicts(
    data: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any] | None]],
) -> None:
    templates = []
    for name, (template, outputs, reader, nested) in zip(("first", "second", "third"), data, strict=False):
        inner = {"Reader": reader, **({"Inner": nested} if nested else {})}
        whole = {**template, "Outputs": outputs, "Resources": {**template["Resources"], **inner}}
        try:
            templates.append(Template.of(whole, name=name, stack_name=name))
        except UnusableTemplate:
            continue
    judged(*templates)


@st.composite
def replaced(draw: st.DrawFn) -> Any:
    """An example of a rule, with some of its values replaced."""
    data = read_text(BAD[draw(st.sampled_from(sorted(BAD)))]).data
    for _ in range(draw(st.integers(1, 3))):
        data = _replace_one(draw, data)
    return data


def _replace_one(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: _replace_one(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], _replace_one(draw, value[index]), *value[index + 1 :]]
    return draw(VALUES)


@FUZZ
@given(replaced())
def test_examples_with_other_values_get_verdicts(data: Any) -> None:
    try:
        template = Template.of(data)
    except UnusableTemplate:
        return
    judged(template)


@FUZZ
@given(st.sampled_from(sorted(BAD)), st.data())
def test_cut_and_spliced_texts_are_read_or_refused(rule_id: str, data: st.DataObject) -> None:
    text = BAD[rule_id]
    if data.draw(st.booleans()):
        text = json.dumps(read_text(text).data)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    text = (
        text[:start] + data.draw(st.one_of(st.text(max_size=6), st.sampled_from(list("[{]}:*&!,\n\t'\"")))) + text[end:]
    )
    try:
        template = Template(read_text(text))
    except UnusableTemplate:
        return
    judged(template)


@FUZZ
@given(st.binary(max_size=200))
def test_any_bytes_are_reported_in_every_format(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = Path(tmp_path_factory.getbasetemp()) / "fuzzed"
    file.write_bytes(content)
    report = lint([file], every_rule())
    assert report.files or len(str(report.unusable[0]).splitlines()) == 1
    for write in FORMATS.values():
        assert write(report)


@FUZZ
@given(TEMPLATES)
def test_places_in_json_are_those_in_yaml(data: dict[str, Any]) -> None:
    """Two readers, one text: JSON is YAML, too."""
    text = json.dumps(data, indent=1)
    try:
        first = read_text(text)
        second = read_yaml_text(text)
    except UnusableTemplate:
        return
    for logical_id, resource in data["Resources"].items():
        for key in resource["Properties"]:
            path = ("Resources", logical_id, "Properties", key)
            assert first.locate(path) == second.locate(path)
