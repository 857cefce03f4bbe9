"""Every rule is described, finds the fault of its fixture's bad template, and nothing in the good one."""

from __future__ import annotations

from pathlib import Path

import pytest

import cdk_gpu_clusters.template_rules.rules as rules_package
from cdk_gpu_clusters.errors import defined_rules
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome, TemplateRule
from rule_fixtures import rule_fixture, rule_fixtures
from templates import fired_by, template_of, verdicts_of

FOLDER = Path(str(rules_package.__file__)).parent
RULES = pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.id)


@RULES
def test_the_bad_example_fires_the_rule_and_nothing_that_the_good_one_does_not(rule: TemplateRule) -> None:
    assert rule.id in fired_by(rule_fixture(rule.id).bad)
    assert fired_by(rule_fixture(rule.id).bad) - {rule.id} == fired_by(rule_fixture(rule.id).good)


@RULES
def test_the_good_example_is_looked_at_and_found_compliant(rule: TemplateRule) -> None:
    outcomes = {verdict.outcome for verdict in verdicts_of(rule_fixture(rule.id).good, rule.id)}
    assert Outcome.COMPLIANT in outcomes
    assert outcomes <= {Outcome.COMPLIANT, Outcome.NOT_APPLICABLE}


@RULES
def test_faults_are_placed_in_the_example(rule: TemplateRule) -> None:
    """The path of a fault starts at its resource, so that line and column are near it."""
    for verdict in verdicts_of(rule_fixture(rule.id).bad, rule.id):
        assert verdict.path[0] == "Resources"
        assert template_of(rule_fixture(rule.id).bad).place(verdict.path).line > 1
        assert verdict.message


@RULES
def test_the_rule_is_described(rule: TemplateRule) -> None:
    assert defined_rules()[rule.id] is rule.rule
    assert rule.cause
    assert rule.fix
    assert rule.on
    assert rule.looks_at
    assert rule.url.startswith("https://")
    for text in (rule.title, rule.cause, rule.fix):
        assert not text.endswith(".")


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in every_rule()]
    assert len(ids) == len(set(ids))


def test_every_rule_has_a_fixture_and_every_fixture_a_rule() -> None:
    assert set(rule_fixtures()) == {rule.id for rule in every_rule()}


def test_every_rule_of_an_area_is_found() -> None:
    made = ("\n@template_rule(", "\n@define_template_rule(", ".rule(\n")
    written = sum(file.read_text().count(text) for file in FOLDER.glob("*.py") for text in made)
    assert len(every_rule()) == written > 160
