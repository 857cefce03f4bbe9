"""Every example with one word changed: stacks without nodes, and from their outputs a file that ParallelCluster takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.export import ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from cfn_linter import Linter, not_exempt
from cluster_files.edits import write
from cluster_files.orchestrators import TEXTS, on
from cluster_files.refusals import REFUSED
from matrix.template_rules import ask_rules
from parallelcluster.deployment import outputs_of
from parallelcluster.installed import schema_faults

#: Every example that ParallelCluster takes.
TAKEN = [name for name in TEXTS if (name, "parallelcluster") not in REFUSED]
#: Types that are nodes, or launch them.
NODES = {
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::EC2::Instance",
    "AWS::EC2::LaunchTemplate",
    "AWS::EKS::Nodegroup",
    "AWS::PCS::ComputeNodeGroup",
}


@pytest.fixture(scope="module")
def made(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], str]]:
    """The templates of each example, and its configuration."""
    found = {}
    for name in TAKEN:
        spec = load_cluster(write(tmp_path_factory.mktemp("cluster"), on("parallelcluster", TEXTS[name])))
        app = app_factory()
        build_cluster(app, spec)
        folder = Path(app.synth().directory)
        files = {file.name.removesuffix(".template.json"): file for file in folder.glob("*.template.json")}
        templates = {stack: json.loads(file.read_text()) for stack, file in files.items()}
        exported = export_parallelcluster(spec, ExportOptions(outputs=outputs_of(templates)))
        assert exported.faults == (), name
        assert {stack.name for stack in plan_cluster(spec).stacks} == set(templates)
        found[name] = templates, exported.files["cluster-config.yaml"]
    return found


def test_no_stack_has_nodes(made: dict[str, tuple[dict[str, Any], str]]) -> None:
    for templates, _ in made.values():
        types = {one["Type"] for template in templates.values() for one in template["Resources"].values()}
        assert not types & NODES


def test_parallelcluster_takes_every_configuration(made: dict[str, tuple[dict[str, Any], str]]) -> None:
    faults = schema_faults([text for _, text in made.values()])
    assert {name: found for name, found in zip(made, faults, strict=True) if found} == {}


def test_cfn_lint_and_the_rules_over_templates_find_nothing(
    made: dict[str, tuple[dict[str, Any], str]], linter: Linter
) -> None:
    for name, (templates, _) in made.items():
        region = re.search(r"(?m)^region: (\S+)", TEXTS[name])
        assert region is not None
        verdicts = [one for said in ask_rules(templates, region[1]).values() for one in said]
        assert [f"{one.rule.id} at {one.path}" for one in not_compliant(verdicts)] == [], name
        for stack, template in templates.items():
            if stack.endswith("-parallelcluster"):
                assert not_exempt(linter.findings(f"{name}: {stack}", template, region[1])) == []
