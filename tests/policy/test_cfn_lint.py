"""cfn-lint with every check, experimental ones too, finds nothing but what is named here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.decode.decode import decode_str
from cfnlint.runner import Runner

from assemblies import Assembly

# Where a stack without a Region is looked at.
_ANY_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Exemption:
    """A finding that is none.

    Attributes:
        rule: Id of the rule.
        kind: Type of the resource, `*` for all of the template.
        says: What the message holds.
        reason: Why it is none.
    """

    rule: str
    kind: str
    says: str
    reason: str

    def covers(self, found: Found) -> bool:
        """Whether a finding is this one."""
        return found.rule == self.rule and self.kind in ("*", found.kind) and self.says in found.message


@dataclass(frozen=True, slots=True)
class Found:
    """One finding of cfn-lint."""

    template: str
    rule: str
    kind: str
    message: str


EXEMPTIONS = (
    Exemption("I1022", "*", "Prefer using Fn::Sub", "CDK joins references with Fn::Join."),
    Exemption("I4010", "*", "Metadata", "An experiment: descriptions of the architecture."),
    Exemption("W3005", "AWS::Lambda::Function", "already enforced by a 'GetAtt'", "CDK adds it."),
    Exemption(
        "W3010",
        "AWS::EC2::Subnet",
        "Avoid hardcoding availability zones",
        "The zone is the user's word: capacity is bought or reserved in one zone.",
    ),
    Exemption(
        "E3628",
        "AWS::EC2::LaunchTemplate",
        "'p6e-gb200.36xlarge' is not one of",
        "It is offered in a Local Zone of us-east-1, which the list of the Region leaves out.",
    ),
)


@pytest.fixture(scope="module")
def linters() -> dict[str, Runner]:
    """A linter of each Region, each with every check: to make one takes longer than to lint a stack."""
    return {}


def lint(linters: dict[str, Runner], name: str, template: dict[str, Any], region: str) -> Iterator[Found]:
    if region not in linters:
        options = ManualArgs(regions=[region], include_checks=["I", "E", "W"], include_experimental=True)
        linters[region] = Runner(ConfigMixIn(**options))
    decoded, faults = decode_str(json.dumps(template))
    assert not faults
    for match in linters[region].validate_template(decoded):
        path = [str(part) for part in match.path or []]
        at_resource = len(path) > 1 and path[0] == "Resources"
        kind = template["Resources"][path[1]]["Type"] if at_resource else ""
        yield Found(f"{name}/{'/'.join(path)}", match.rule.id, kind, match.message)


@pytest.fixture(scope="module")
def findings(assemblies: dict[str, Assembly], linters: dict[str, Runner]) -> list[Found]:
    """What is found in all templates; feature flags change nothing that cfn-lint looks at."""
    return [
        found
        for name, made in assemblies.items()
        if not name.endswith("without flags")
        for stack, template in made.templates.items()
        for found in lint(linters, f"{name}: {stack}", template, made.regions[stack] or _ANY_REGION)
    ]


def test_nothing_is_found_that_is_not_exempt(findings: list[Found]) -> None:
    assert [one for one in findings if not any(named.covers(one) for named in EXEMPTIONS)] == []


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
    assemblies: dict[str, Assembly], linters: dict[str, Runner], path: str, value: Any, rule: str
) -> None:
    template = json.loads(json.dumps(assemblies["training commercial"].templates["Everything"]))
    launch = next(one for one in template["Resources"].values() if one["Type"] == "AWS::EC2::LaunchTemplate")
    place = launch["Properties"]["LaunchTemplateData"]
    *parents, last = path.split(".")
    for key in parents:
        place = place[int(key)] if key.isdigit() else place[key]
    place[last] = value
    found = list(lint(linters, "planted", template, "us-east-1"))
    assert rule in {one.rule for one in found if not any(named.covers(one) for named in EXEMPTIONS)}
