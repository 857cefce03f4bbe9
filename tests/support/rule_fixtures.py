"""The fixture of each rule over templates: `tests/fixtures/template_rules/<id>.yaml`.

A fixture holds two YAML documents, or three. The first is a template that the rule finds a fault in. The second maps
paths of that template to the values that make it valid; null removes a value, and a list index that is one too high
appends one. The third plants the same fault in a template of our own constructs:

    template: p5-lustre/llama-lustre-fleet-trainers    # a recorded template
    at: AWS::EC2::LaunchTemplate                       # its first resource of this type
    changes:                                           # paths of the properties
      LaunchTemplateData/ImageId: "ami-none"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.template_rules.template import read_text

FOLDER = Path(__file__).parents[1] / "fixtures" / "template_rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFixture:
    """The examples of one rule.

    Attributes:
        bad: A template, as YAML, that the rule finds a fault in.
        changes: The changes that make it valid, by path.
        planted: The same fault in a template of our own constructs; empty if none is given.
    """

    bad: str
    changes: Mapping[str, Any]
    planted: Mapping[str, Any]

    @property
    def good(self) -> str:
        """The template without the fault, as JSON."""
        return json.dumps(changed(read_text(self.bad).data, self.changes))


@cache
def rule_fixtures() -> dict[str, RuleFixture]:
    """All fixtures, by the id of their rule."""
    return {file.stem: _read(file) for file in sorted(FOLDER.glob("*.yaml"))}


def rule_fixture(rule_id: str) -> RuleFixture:
    """The fixture of a rule."""
    return rule_fixtures()[rule_id]


def _read(file: Path) -> RuleFixture:
    bad, changes, *planted = file.read_text(encoding="utf-8").split("\n---\n")
    return RuleFixture(
        bad=f"{bad}\n",
        changes=read_text(changes).data,
        planted=read_text(planted[0]).data if planted else {},
    )


def changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """A copy of a value with other values at some paths."""
    copy = deepcopy(value)
    for path, new in changes.items():
        *parents, last = path.split("/")
        holder = copy
        for step in parents:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        if isinstance(holder, list):
            holder[int(last) : int(last) + 1] = [] if new is None else [new]
        elif new is None:
            del holder[last]
        else:
            holder[last] = new
    return copy
