"""What is no template gives one clear line, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.document import UnusableTemplate
from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.template import Template, read_text
from cdk_gpu_clusters_stacks.cli.main import main
from rule_fixtures import rule_fixture

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP_YAML = "Resources:\n" + "".join(f"{' ' * depth}a:\n" for depth in range(300))

TEXTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "empty"),
    "blank": (" \n\n", "empty"),
    "comment": ("# nothing\n", "empty"),
    "truncated JSON": ('{"Resources": {"A": {"Type": "T"', "1:33: this is not JSON"),
    "JSON with a comma too many": ('{"Resources": {},}', "this is not JSON"),
    "JSON with NaN": ('{"Resources": NaN}', "NaN is no value"),
    "JSON with a key twice": ('{"Resources": {"A": 1, "A": 2}}', "the key 'A' is used twice"),
    "deep JSON": ('{"Resources":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    "a huge number": ('{"Resources": ' + "9" * 5000 + "}", "this is not JSON"),
    "a list": ("[1, 2]", "this is no CloudFormation template, but a list"),
    "a text": ("hello", "this is no CloudFormation template, but a text"),
    "a number": ("7", "this is no CloudFormation template, but a number"),
    "another kind of file": ("version: 1\nname: cluster\n", "it has no Resources"),
    "broken YAML": ("Resources: [\n", "this is not YAML"),
    "YAML with tabs": ("Resources:\n\tA: 1\n", "2:1: this is not YAML"),
    "an unknown tag": ("Resources: {A: !Reff B}\n", "1:16: the YAML tag '!Reff' is none of CloudFormation's"),
    "a Python tag": ("Resources: !!python/object:os.system {}\n", "is none of CloudFormation's"),
    "a YAML key twice": ("Resources:\n  A: {Type: T}\n  A: {Type: T}\n", "3:3: the key 'A' is used twice"),
    "a list as a key": ("Resources: {[a]: 1}\n", "a key must be a word"),
    "a merge key": ("x: &x {Type: T}\nResources: {A: {<<: *x}}\n", "does not take YAML's merge key"),
    "an unknown alias": ("Resources: *gone\n", "this is not YAML"),
    "an alias in itself": ("Resources: &a {A: *a}\n", "an alias is inside its own anchor"),
    "an alias bomb": (f"{BOMB}Resources: *i\n", "aliases repeat too many values"),
    "deep YAML": (DEEP_YAML, "nested too deeply"),
    "deep YAML lists": ("Resources: " + "[" * 5000, "nested too deeply"),
    "deep YAML blocks": ("- " * 5000, "nested too deeply"),
    "two documents": ("Resources: {}\n---\nResources: {}\n", "this is not YAML"),
    "a control character": ("Resources: \x01\n", "this is not YAML"),
    "UTF-16": ("Resources: {}".encode("utf-16"), "not UTF-8"),
    "an image": (b"\x89PNG\r\n\x1a\n\x00\xff", "1:1: this is not UTF-8"),
    "10 MB": (json.dumps({"Resources": {}, "x": "y" * 10_000_000}), "larger than 1 MB"),
    "resources as a list": ('{"Resources": []}', "Resources must be a mapping, but is a list"),
    "resources as nothing": ("Resources:\n", "Resources must be a mapping, but is nothing"),
    "a resource as a text": ("Resources:\n  A: text\n", "2:3: Resources/A must be a mapping, but is a text"),
    "a resource without a type": ("Resources:\n  A: {Properties: {}}\n", "2:3: Resources/A has no Type"),
    "a type that is a number": ('{"Resources": {"A": {"Type": 1}}}', "Resources/A has no Type"),
    "properties as a list": (
        "Resources: {A: {Type: T, Properties: []}}\n",
        "1:26: Resources/A/Properties must be",
    ),
    "metadata as a text": (
        "Resources: {A: {Type: T, Metadata: x}}\n",
        "Resources/A/Metadata must be a mapping",
    ),
    "parameters as a list": (
        "Parameters: []\nResources: {}\n",
        "Parameters must be a mapping, but is a list",
    ),
    "mappings as a text": ("Mappings: x\nResources: {}\n", "Mappings must be a mapping, but is a text"),
    "conditions as a flag": (
        "Conditions: true\nResources: {}\n",
        "Conditions must be a mapping, but is a truth",
    ),
    "a circle of references": (
        "Resources:\n  A: {Type: T, Properties: {x: !Ref B}}\n  B: {Type: T, Properties: {y: [!Sub 'a${A.Arn}']}}\n",
        "2:3: circular dependency: A -> B -> A",
    ),
    "a circle of DependsOn": (
        '{"Resources": {"A": {"Type": "T", "DependsOn": ["B"]}, "B": {"Type": "T", "DependsOn": "A"}}}',
        "circular dependency: A -> B -> A",
    ),
    "an acknowledgement without a reason": (
        "Resources:\n  A:\n    Type: T\n    Metadata: {cdk_gpu_clusters: {acknowledge: [{id: GPU-LT-010}]}}\n",
        "needs an id and a reason",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_gives_one_line_and_exit_status_2(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = TEXTS[name]
    file = tmp_path / "template"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    assert main(["lint", str(file)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert len(error.splitlines()) == 1
    assert error.startswith(str(file))
    assert said in error


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: cannot be read: No such file" in capsys.readouterr().err


def test_a_folder_without_templates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(tmp_path)]) == 2
    assert "holds no *.template.json" in capsys.readouterr().err


WRONG_VALUES: list[Any] = [
    None,
    True,
    7,
    -1.5,
    "text",
    [],
    [[]],
    {},
    {"a": {"b": []}},
    {"Ref": []},
    {"Fn::If": {}},
]


def with_each_value_replaced(value: Any, wrong: Any) -> list[Any]:
    """Copies of a value, each with one part of it replaced."""
    copies = [wrong]
    if isinstance(value, dict):
        copies += [
            {**value, key: copy} for key, child in value.items() for copy in with_each_value_replaced(child, wrong)
        ]
    if isinstance(value, list):
        copies += [
            [*value[:i], copy, *value[i + 1 :]]
            for i, child in enumerate(value)
            for copy in with_each_value_replaced(child, wrong)
        ]
    return copies


@pytest.mark.parametrize("wrong", WRONG_VALUES, ids=str)
def test_wrong_types_everywhere_are_undecidable_or_unusable(wrong: Any) -> None:
    """Each value of the rules' own examples in turn: a verdict, or a refusal, and no other exception."""
    looked_at = 0
    for rule in every_rule():
        for data in with_each_value_replaced(read_text(rule_fixture(rule.id).bad).data, wrong):
            try:
                looked_at += len(judge(Template.of(data), [rule]))
            except UnusableTemplate:
                continue
    assert looked_at > 100
