"""cfn-lint with every check, experimental ones too, finds nothing but what is named here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assemblies import Assembly
from cfn_linter import ANY_REGION, EXEMPTIONS, Found, Linter, not_exempt


@pytest.fixture(scope="module")
def linter() -> Linter:
    """The linter."""
    return Linter()


@pytest.fixture(scope="module")
def findings(assemblies: dict[str, Assembly], linter: Linter) -> list[Found]:
    """What is found in all templates."""
    return [
        found
        for name, made in assemblies.items()
        for stack, template in made.templates.items()
        for found in linter.findings(f"{name}: {stack}", template, made.regions[stack] or ANY_REGION)
    ]


def test_nothing_is_found_that_is_not_exempt(findings: list[Found]) -> None:
    assert not_exempt(findings) == []


def test_every_exemption_is_needed(findings: list[Found]) -> None:
    assert [named for named in EXEMPTIONS if not any(named.covers(one) for one in findings)] == []


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("InstanceType", "p5.huge", "E3628"),
        ("NetworkInterfaces.0.Group", ["sg-0123456789abcdef0"], "E3002"),
        ("MetadataOptions.HttpTokens", "requird", "E3030"),
    ],
)
def test_a_planted_fault_is_found(
    assemblies: dict[str, Assembly], linter: Linter, path: str, value: Any, rule: str
) -> None:
    template = json.loads(json.dumps(assemblies["training commercial"].templates["Everything"]))
    launch = next(one for one in template["Resources"].values() if one["Type"] == "AWS::EC2::LaunchTemplate")
    place = launch["Properties"]["LaunchTemplateData"]
    *parents, last = path.split(".")
    for key in parents:
        place = place[int(key)] if key.isdigit() else place[key]
    place[last] = value
    assert rule in {one.rule for one in not_exempt(linter.findings("planted", template, "us-east-1"))}
