"""One word of an example, `orchestrator`, is another one: valid templates.

Every example is changed into all other orchestrators that take it. What comes out is held against the rules over
templates, and against cfn-lint, whose schemas are those of the CloudFormation registry. tests/unit/spec has the examples
that an orchestrator refuses, and `test_examples_on_parallelcluster` the one whose stacks have no nodes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.engine import not_compliant
from cfn_linter import Linter, not_exempt
from cluster_files.orchestrators import TEXTS, on, own
from cluster_files.refusals import REFUSED
from matrix.template_rules import ask_rules
from shared_assemblies import SharedAssemblies, templates_in
from stack_fixtures import Resources, of_type, readable

RECORDS = Path(__file__).parent / "__snapshots__" / "test_plan_of_templates"
GROUPS = {
    "ec2": "AWS::AutoScaling::AutoScalingGroup",
    "eks": "AWS::EKS::Nodegroup",
    "pcs": "AWS::PCS::ComputeNodeGroup",
    "batch": "AWS::Batch::ComputeEnvironment",
    # One for all fleets.
    "hyperpod-slurm": "AWS::SageMaker::Cluster",
    "hyperpod-eks": "AWS::SageMaker::Cluster",
}
#: What launches nodes in an example as it is.
LAUNCHERS = {*GROUPS.values()}
#: They have a layout of their own for EFA.
PER_CARD = {"batch", "pcs"}
TEMPLATE = "AWS::EC2::LaunchTemplate"
#: Objects of Karpenter, in the place of a group and its launch template.
POOL = "Custom::AWSCDK-EKS-KubernetesResource"
#: What constructs say themselves about such a cluster, as a warning.
TOLD = {
    ("train-and-serve", "eks"): {"GPU-LUS-021"},
    ("p6e-gb200-ultraserver", "pcs"): {"GPU-EFA-022", "GPU-EFA-024"},
}


CHANGES = [(name, other) for (name, text), other in product(TEXTS.items(), GROUPS) if other != own(text)]
TAKEN = [change for change in CHANGES if change not in REFUSED]

Synthesize = Callable[[str, str], tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def synthesize(assemblies_of_files: SharedAssemblies) -> Synthesize:
    """Synthesize an example with another orchestrator; its templates by stack, and its Region."""

    def run(name: str, orchestrator: str) -> tuple[dict[str, Any], str]:
        text = on(orchestrator, TEXTS[name])
        return templates_in(assemblies_of_files.of(text)), word_of("region", text)

    return run


def word_of(key: str, text: str) -> str:
    """The value of a key of the cluster."""
    found = re.search(rf"(?m)^{key}: (\S+)", text)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def linted() -> set[str]:
    """The templates that were looked at: many stacks are the same with any orchestrator, or but for a cluster's name."""
    return set()


def recorded(name: str) -> dict[str, Any]:
    """The stacks of the example as it is, which tests/policy lints."""
    [file] = RECORDS.glob(f"*[[]{name}.yaml[]].json")
    stacks: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {stack.removesuffix(".template.json"): template for stack, template in stacks.items()}


@pytest.mark.parametrize(("name", "orchestrator"), TAKEN, ids=map("-".join, TAKEN))
def test_another_orchestrator_gives_valid_templates(
    name: str, orchestrator: str, synthesize: Synthesize, linter: Linter, linted: set[str]
) -> None:
    templates, region = synthesize(name, orchestrator)
    groups = Counter(one["Type"] for stack in templates.values() for one in stack["Resources"].values())
    fleets = len(re.findall(r"(?m)^ +instance_type:|\{ instance_type:", TEXTS[name]))
    assert groups[GROUPS[orchestrator]] >= (1 if orchestrator.startswith("hyperpod") else fleets) > 0
    # The cluster of Amazon EKS that HyperPod joins has system nodes.
    allowed = {GROUPS[orchestrator], *([GROUPS["eks"]] if orchestrator == "hyperpod-eks" else [])}
    assert not [other for other in GROUPS.values() if other not in allowed and groups[other]]

    verdicts = [one for said in ask_rules(templates, region).values() for one in said]
    fired = [one for one in not_compliant(verdicts) if one.rule.id not in TOLD.get((name, orchestrator), set())]
    assert [f"{one.rule.id} at {one.path}: {one.message}" for one in fired] == []

    before = {stack: template["Resources"] for stack, template in recorded(name).items()}
    for stack in set(before) & set(templates):
        if stack.endswith("-monitoring") or of_type(before[stack], POOL):  # a dashboard names the groups of nodes
            continue
        made = readable(templates[stack])["Resources"]
        if not any(one["Type"] in LAUNCHERS for one in before[stack].values()):
            # A closed network gets endpoints of the other service besides.
            assert before[stack].items() <= made.items(), f"{stack} has no nodes, and is another one"
        elif not PER_CARD & {orchestrator, own(TEXTS[name])}:
            assert cards(before[stack]) == cards(made)
    for stack, template in templates.items():
        text = region + json.dumps(readable(template), sort_keys=True).replace(word_of("name", TEXTS[name]), "(name)")
        if text not in linted and readable(template)["Resources"] != before.get(stack):
            linted.add(text)
            assert not_exempt(linter.findings(f"{name} on {orchestrator}: {stack}", template, region)) == []


def cards(resources: Resources) -> list[list[tuple[int, int, str]]]:
    """The interfaces of each launch template."""
    return [
        [(one["NetworkCardIndex"], one["DeviceIndex"], one["InterfaceType"]) for one in data["NetworkInterfaces"]]
        for data in (one["Properties"]["LaunchTemplateData"] for one in of_type(resources, TEMPLATE).values())
    ]
