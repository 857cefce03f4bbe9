"""Every accepted combination as synthesized JSON, held against the invariants."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.registry import every_rule
from cfn_linter import Linter, not_exempt
from matrix.batches import Result, refusals, synthesize
from matrix.coverage import Coverage, class_of, cover
from matrix.invariant import invariants
from matrix.outcome import outcome_of
from matrix.template_rules import EXPLAINED

GROUP = "AWS::PCS::ComputeNodeGroup"
#: What was synthesized when the axes were last changed: an axis never shrinks.
ACCEPTED, FLEETS, NODE_GROUPS, TEMPLATES, REFUSED, VERDICTS = 329_000, 580, 550, 1_450, 1_290, 220_000
COMPUTE_NODE_GROUPS = 25


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    """What there is to synthesize."""
    return cover()


@pytest.fixture(scope="module")
def results(coverage: Coverage) -> list[Result]:
    """What came of it, from a process on each core; each needs half a gigabyte."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8), mp_context=get_context("spawn")) as pool:
        return [result for results in pool.map(synthesize, coverage.work) for result in results]


def test_every_invariant_holds_in_every_template(
    coverage: Coverage, results: list[Result], tally: Callable[[str], None]
) -> None:
    broken = [f"{result.combination}: {what}" for result in results for what in result.violations]
    assert broken[:20] == []
    assert [result.combination for result in results] == [
        *coverage.fleets,
        *coverage.node_groups,
        *coverage.compute_node_groups,
        *coverage.templates,
    ]
    fleets, groups, templates = map(len, (coverage.fleets, coverage.node_groups, coverage.templates))
    of_pcs = len(coverage.compute_node_groups)
    others = coverage.accepted - coverage.named
    tally(
        f"templates: {fleets + groups + of_pcs + templates:,} synthesized, {fleets:,} of them as whole fleets, "
        f"{groups:,} as node groups of EKS, {of_pcs:,} as those of AWS PCS"
    )
    tally(f"  each held against {len(invariants())} invariants")
    tally(f"  they are those of {coverage.named:,} accepted combinations; the other {others:,} accepted ones")
    tally("  share each pair of profile, interfaces, purchase and image with one of them; those of AWS PCS as node")
    tally("  groups share interfaces with one and purchase with another")
    assert coverage.accepted >= ACCEPTED
    assert fleets >= FLEETS
    assert groups >= NODE_GROUPS
    assert templates >= TEMPLATES
    assert of_pcs >= COMPUTE_NODE_GROUPS
    assert {one.slices is None for one in coverage.compute_node_groups} == {False, True}
    assert {one.is_elastic for one in coverage.compute_node_groups} == {False, True}


def test_compute_node_groups_are_of_the_registry_s_form(results: list[Result], tally: Callable[[str], None]) -> None:
    """cfn-lint holds each against the schema of its resource type, with its references left open."""
    groups = [_without_references(json.loads(result.group)) for result in results if result.group]
    template: dict[str, Any] = {
        "Parameters": {"Known": {"Type": "String"}},
        "Resources": {f"C{index}": {"Type": GROUP, "Properties": one} for index, one in enumerate(groups)},
    }
    linter = Linter()
    assert not_exempt(linter.findings("matrix", template, "us-east-1")) == []
    assert len(groups) >= COMPUTE_NODE_GROUPS
    tally(f"  {len(groups):,} compute node groups have the form of the CloudFormation registry")
    template["Resources"] = {"C0": template["Resources"]["C0"]}
    template["Resources"]["C0"]["Properties"]["PurchaseOption"] = "RESERVED"
    assert "E3030" in {found.rule for found in linter.findings("matrix", template, "us-east-1")}


def _without_references(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_references(one) for one in value]
    if not isinstance(value, dict):
        return value
    is_reference = len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::"))
    return {"Ref": "Known"} if is_reference else {key: _without_references(one) for key, one in value.items()}


def test_rules_over_templates_are_silent(results: list[Result], tally: Callable[[str], None]) -> None:
    """No rule finds a fault that the construct did not say itself; what none can tell is what a user brought along."""
    assert [f"{result.combination}: {fired}" for result in results for fired in result.fired][:20] == []
    reasons = Counter(reason for result in results for reason in result.undecidable)
    assert set(reasons) == set(EXPLAINED)
    verdicts = sum(result.verdicts for result in results)
    tally(f"  {len(every_rule())} rules over templates: {verdicts:,} verdicts, no fault")
    for reason, count in reasons.most_common():
        tally(f"    {count:,} undecidable: {reason} ({EXPLAINED[reason]})")
    assert verdicts > VERDICTS


def test_combinations_of_one_class_differ_in_the_name_of_the_type_alone(
    results: list[Result], tally: Callable[[str], None]
) -> None:
    """What is left out is left out rightly: wherever two of a class were synthesized, they are the same."""
    digests: dict[object, Counter[str]] = {}
    for result in results:
        if result.digest:
            key = class_of(result.combination, outcome_of(result.combination))
            digests.setdefault(key, Counter())[result.digest] += 1
    assert [(key, counts) for key, counts in digests.items() if len(counts) > 1] == []
    compared = sum(counts.total() for counts in digests.values() if counts.total() > 1)
    tally(f"  (compared among {compared:,} templates that are not alone in their class)")
    assert compared > 750


def test_constructs_refuse_what_the_rules_refuse(coverage: Coverage, tally: Callable[[str], None]) -> None:
    """Each type with each reason to refuse it, once: fleets and node groups say the same as the rules."""
    said = dict(refusals(list(coverage.refused.values())))
    assert said == {combination: {rule} for (*_, rule), combination in coverage.refused.items()}
    tally(f"  {len(said):,} refused ones were given to the constructs, which name the same rule")
    assert len(said) >= REFUSED
