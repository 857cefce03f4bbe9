"""The faults of AWS PCS, planted into every recorded app that can have them: a rule looks over all stacks of an app."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters.template_rules.registry import every_rule
from matrix.template_rules import ask_rules
from recorded_templates import Json, recorded_apps
from rule_mutation import RuleMutation
from rule_mutations.pcs import MUTATIONS

APPS = {
    name: app
    for name, app in recorded_apps().items()
    if any(one["Type"].startswith("AWS::PCS::") for stack in app.values() for one in stack["Resources"].values())
}


def planted(mutation: RuleMutation, app: Json) -> Iterator[Json]:
    """The app with the fault, once for each of its resources that the mutation means."""
    for stack, template in app.items():
        for name, resource in template["Resources"].items():
            if mutation.change and resource["Type"] == mutation.at and mutation.where(resource["Properties"]):
                copied: Json = json.loads(json.dumps(app))
                mutation.change(copied[stack]["Resources"][name]["Properties"])
                yield copied


def fires(rule_id: str, app: Json) -> bool:
    rules = [one for one in every_rule() if one.id == rule_id]
    verdicts = [one for said in ask_rules(app, "us-east-1", rules=rules).values() for one in said]
    return any(not_compliant(verdicts))


@pytest.mark.parametrize("mutation", [one for one in MUTATIONS if one.change], ids=lambda mutation: mutation.rule)
def test_a_fault_is_found_wherever_it_is_planted(mutation: RuleMutation) -> None:
    found = {name: [fires(mutation.rule, one) for one in planted(mutation, app)] for name, app in APPS.items()}
    assert {name for name, fired in found.items() if not all(fired)} == set()
    assert sum(map(len, found.values())) > 0


def test_faults_are_planted_in_every_app() -> None:
    assert len(APPS) >= 5
    where = {name: sum(any(planted(one, app)) for one in MUTATIONS) for name, app in APPS.items()}
    assert min(where.values()) >= 10, where
