"""Every example with one word changed: stacks without nodes, and from their outputs a file that ParallelCluster takes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.export import ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import read_cluster
from cfn_linter import Linter, not_exempt
from cluster_files.orchestrators import on, training_examples
from matrix.template_rules import ask_rules
from parallelcluster.deployment import outputs_of
from parallelcluster.installed import schema_faults

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("*.yaml"))}
TRAINING = training_examples()
#: Training examples that ParallelCluster refuses -> the rules, each at its key.
REFUSED: dict[str, list[str]] = {
    "g6-dev-node": ["network.egress GPU-PCL-017"],  # a closed network
    "p5-lustre": ["training.fleets GPU-PCL-011"],  # nodes of two architectures
    "p5en-express-preprocessing": ["training.fleets GPU-PCL-011"],
    "p6e-gb200-ultraserver": ["training.fleets.rack.capacity GPU-PCL-009"],  # the block without its id
    "pcs-p4d-mig": ["training.fleets.slices.mig GPU-PCL-003"],
    "two-fleets": ["training.fleets GPU-PCL-011"],
}
#: Types that are nodes, or launch them.
NODES = {
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::EC2::Instance",
    "AWS::EC2::LaunchTemplate",
    "AWS::EKS::Nodegroup",
    "AWS::PCS::ComputeNodeGroup",
}


def write(folder: Path, name: str) -> Path:
    shutil.copy(EXAMPLES / "dev-tools.sh", folder)
    file = folder / f"{name}.yaml"
    file.write_text(on("parallelcluster", TEXTS[name]), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def made(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], str]]:
    """The templates of each example, and its configuration."""
    found = {}
    for name in TRAINING:
        reading = read_cluster(write(tmp_path_factory.mktemp("cluster"), name))
        if name in REFUSED:
            continue
        assert reading.spec is not None, reading.findings
        app = app_factory()
        build_cluster(app, reading.spec)
        folder = Path(app.synth().directory)
        files = {file.name.removesuffix(".template.json"): file for file in folder.glob("*.template.json")}
        templates = {stack: json.loads(file.read_text()) for stack, file in files.items()}
        exported = export_parallelcluster(reading.spec, ExportOptions(outputs=outputs_of(templates)))
        assert exported.faults == (), name
        assert {stack.name for stack in plan_cluster(reading.spec).stacks} == set(templates)
        found[name] = templates, exported.files["cluster-config.yaml"]
    return found


def test_no_stack_has_nodes(made: dict[str, tuple[dict[str, Any], str]]) -> None:
    for templates, _ in made.values():
        types = {one["Type"] for template in templates.values() for one in template["Resources"].values()}
        assert not types & NODES


def test_parallelcluster_takes_every_configuration(made: dict[str, tuple[dict[str, Any], str]]) -> None:
    faults = schema_faults([text for _, text in made.values()])
    assert {name: found for name, found in zip(made, faults, strict=True) if found} == {}


def test_cfn_lint_and_the_rules_over_templates_find_nothing(made: dict[str, tuple[dict[str, Any], str]]) -> None:
    linter = Linter()
    for name, (templates, _) in made.items():
        region = re.search(r"(?m)^region: (\S+)", TEXTS[name])
        assert region is not None
        verdicts = [one for said in ask_rules(templates, region[1]).values() for one in said]
        assert [f"{one.rule.id} at {one.path}" for one in not_compliant(verdicts)] == [], name
        for stack, template in templates.items():
            if stack.endswith("-parallelcluster"):
                assert not_exempt(linter.findings(f"{name}: {stack}", template, region[1])) == []


@pytest.mark.parametrize("name", TEXTS)
def test_what_parallelcluster_cannot_do_is_refused_at_its_key(name: str, tmp_path: Path) -> None:
    reading = read_cluster(write(tmp_path, name))
    errors = [one for one in reading.findings if one.severity is Severity.ERROR]
    found = [f"{one.cause.partition(':')[0]} {one.id}" for one in errors]
    if name in TRAINING:
        assert found == REFUSED.get(name, [])
    else:
        # Model servers, and nodes that only SageMaker launches.
        assert any(one.endswith(("GPU-SPEC-046", "GPU-HYP-025")) for one in found)
    assert all(one.fix for one in errors)
