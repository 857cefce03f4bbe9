"""Our own recorded templates: every rule is silent on them, and finds its own fault, alone, when it is planted."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.template_rules.engine import judge, not_compliant
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome
from cdk_gpu_clusters.template_rules.template import Template
from matrix.template_rules import EXPLAINED, ask_rules
from recorded_templates import Json, recorded, recorded_apps
from rule_mutation import RuleMutation, every_mutation

MUTATIONS = every_mutation()

MADE = {resource["Type"] for template in recorded().values() for resource in template["Resources"].values()}


def fired_by(template: Json, region: str = "us-east-1") -> set[str]:
    return {v.rule.id for v in not_compliant(judge(Template.of(template, region=region), every_rule()))}


@pytest.mark.parametrize("name", recorded())
def test_every_rule_is_silent(name: str) -> None:
    template = Template.of(recorded()[name], region="us-east-1")
    assert [f"{v.rule.id} at {v.path}: {v.message}" for v in not_compliant(judge(template, every_rule()))] == []


# What the constructs tell their user themselves, with the same id, when such a cluster is synthesized.
TOLD = {
    "train-and-serve": {"GPU-LUS-021"},  # the example serves from a second zone, too
    "EVERYTHING": {"GPU-LUS-021"},
}
# Of templates that find their zones at deployment; the others are those of the whole product.
UNKNOWN = {
    *EXPLAINED,
    "the list is known at deployment only",
    "it counts something else than nodes",  # vCPUs of AWS Batch
}


@pytest.mark.parametrize("name", recorded_apps())
def test_rules_that_see_the_other_stacks_of_an_app_are_silent(name: str) -> None:
    """What stacks read of each other is looked up; what is left open is what a user brought along."""
    verdicts = [one for said in ask_rules(recorded_apps()[name], "us-east-1").values() for one in said]
    assert {verdict.rule.id for verdict in not_compliant(verdicts)} == TOLD.get(name, set())
    open_ones = {verdict.reason for verdict in verdicts if verdict.outcome is Outcome.UNDECIDABLE}
    assert open_ones - UNKNOWN == set()


def test_stacks_of_one_app_leave_nothing_of_each_other_open() -> None:
    """The cluster that makes everything itself leaves nothing open at all, and alone each stack would."""
    app = recorded_apps()["p5-lustre"]

    def count(*stacks: str) -> int:
        given = {name: app[name] for name in stacks}
        verdicts = [one for said in ask_rules(given, "us-east-1").values() for one in said]
        return sum(verdict.outcome is Outcome.UNDECIDABLE for verdict in verdicts)

    assert count(*app) == 0
    assert sum(count(name) for name in app) > 5


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_planted_fault_fires_its_rule_alone(mutation: RuleMutation) -> None:
    registered = {rule.id for rule in every_rule()}
    besides = fired_by(mutation.unmutated()) if mutation.example else set()
    assert fired_by(mutation.mutated()) - besides == {mutation.rule, *mutation.also} & registered


def test_every_rule_has_a_planted_fault() -> None:
    assert {rule.id for rule in every_rule()} == {mutation.rule for mutation in MUTATIONS}


# Of nodes with EFA and the file system that they mount over it, which are stacks of their own in ours.
IN_TWO_STACKS = {"GPU-LUS-024", "GPU-LUS-046", "GPU-MNT-011"}
# Of AWS Batch and SageMaker HyperPod: their examples are older than the cluster files that have them.
OF_SERVICES = ("GPU-BAT-", "GPU-HYP-")


def test_a_rules_own_example_is_planted_only_for_what_no_construct_makes() -> None:
    asked_about = {rule.id: set(rule.on) for rule in every_rule()}
    by_example = {mutation.rule for mutation in MUTATIONS if mutation.example}
    made = {rule for rule in by_example if asked_about[rule] & MADE}
    assert {rule for rule in made if not rule.startswith(OF_SERVICES)} == IN_TWO_STACKS


# Of an image in the template of a managed node group, of the GPU Operator's label, and of several types in a node group
# of AWS PCS: no construct says any. Of AWS Batch and HyperPod: no example of a cluster file says any.
UNSAID = {"GPU-EKS-015", "GPU-MIG-011", "GPU-PCS-035", "GPU-BAT-002", "GPU-BAT-007", "GPU-BAT-012", "GPU-HYP-006"}


def test_rules_have_something_to_look_at() -> None:
    """A rule that applies to none of our templates could not be silent for a good reason.

    Rules about resources that none of our constructs makes have their good examples for that.
    """
    compliant = {
        verdict.rule.id
        for template in recorded().values()
        for verdict in judge(Template.of(template, region="us-east-1"), every_rule())
        if verdict.outcome is Outcome.COMPLIANT
    }
    assert {rule.id for rule in every_rule() if MADE & set(rule.on)} - compliant == UNSAID


def test_the_records_are_many() -> None:
    sizes = [len(template["Resources"]) for template in recorded().values()]
    assert len(sizes) > 70
    assert sum(sizes) > 700
