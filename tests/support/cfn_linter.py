"""cfn-lint with every check, experimental ones too, over what we synthesize, and the findings that are none.

Its schemas are those of the CloudFormation registry: nobody here wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.decode.decode import decode_str
from cfnlint.runner import Runner

#: Where a stack without a Region is looked at.
ANY_REGION = "us-east-1"


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
    *(
        Exemption(
            "W3005", f"Custom::AWSCDK-EKS-{kind}", "already enforced by a", "It waits for a construct as a whole."
        )
        for kind in ("HelmChart", "KubernetesResource")
    ),
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


class Linter:
    """A linter of each Region, each with every check: to make one takes longer than to lint a stack.

    It looks at equal templates once, as many stacks are equal under any orchestrator.
    """

    def __init__(self) -> None:
        self._runners: dict[str, Runner] = {}
        self._found: dict[tuple[str, str], list[Found]] = {}

    def findings(self, name: str, template: dict[str, Any], region: str) -> list[Found]:
        """What is found in a template; that of an equal one has the name of the first."""
        seen = region, json.dumps(template)
        if seen not in self._found:
            self._found[seen] = list(self._lint(name, template, region))
        return self._found[seen]

    def _lint(self, name: str, template: dict[str, Any], region: str) -> Iterator[Found]:
        if region not in self._runners:
            options = ManualArgs(regions=[region], include_checks=["I", "E", "W"], include_experimental=True)
            self._runners[region] = Runner(ConfigMixIn(**options))
        decoded, faults = decode_str(json.dumps(template))
        assert not faults
        for match in self._runners[region].validate_template(decoded):
            path = [str(part) for part in match.path or []]
            at_resource = len(path) > 1 and path[0] == "Resources"
            kind = template["Resources"][path[1]]["Type"] if at_resource else ""
            yield Found(f"{name}/{'/'.join(path)}", match.rule.id, kind, match.message)


def not_exempt(findings: Iterable[Found]) -> list[Found]:
    """The findings that are named nowhere."""
    return [one for one in findings if not any(named.covers(one) for named in EXEMPTIONS)]
