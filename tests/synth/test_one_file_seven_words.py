"""One training file, one word changed: valid templates under every orchestrator, and nothing else to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS
from cfn_linter import Linter, not_exempt
from matrix.template_rules import ask_rules

TEXT = (Path(__file__).parents[1] / "fixtures" / "one-file-seven-words.yaml").read_text(encoding="utf-8")
#: What the templates make of the fleet: the type of resource that launches its nodes. `pcluster` makes those of
#: ParallelCluster, from a configuration that names these stacks.
GROUPS = {
    "ec2": {"AWS::AutoScaling::AutoScalingGroup"},
    "eks": {"AWS::EKS::Nodegroup"},
    "pcs": {"AWS::PCS::ComputeNodeGroup"},
    "batch": {"AWS::Batch::ComputeEnvironment"},
    "parallelcluster": set[str](),
    "hyperpod-slurm": {"AWS::SageMaker::Cluster"},
    "hyperpod-eks": {"AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"},  # its system nodes
}
LAUNCHERS = set[str]().union(*GROUPS.values())


@pytest.mark.parametrize("word", ORCHESTRATORS)
def test_one_word_makes_valid_templates(word: str, app_factory: Any, linter: Linter) -> None:
    reading = read_cluster("cluster.yaml", content=TEXT.replace("orchestrator: ec2", f"orchestrator: {word}").encode())
    assert reading.spec is not None, reading.findings
    app = app_factory()
    build_cluster(app, reading.spec)
    files = Path(app.synth().directory).glob("*.template.json")
    templates = {file.name.removesuffix(".template.json"): json.loads(file.read_text("utf-8")) for file in files}
    assert templates.keys() == {one.name for one in plan_cluster(reading.spec).stacks}
    made = {one["Type"] for template in templates.values() for one in template["Resources"].values()}
    assert made & LAUNCHERS == GROUPS[word]
    verdicts = [one for said in ask_rules(templates, reading.spec.region).values() for one in said]
    assert [f"{one.rule.id} at {one.path}: {one.message}" for one in not_compliant(verdicts)] == []
    for stack, template in templates.items():
        assert not_exempt(linter.findings(f"{stack} on {word}", template, reading.spec.region)) == []


def test_every_orchestrator_is_asked() -> None:
    assert GROUPS.keys() == ORCHESTRATORS.keys()
