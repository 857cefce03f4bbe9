"""One word of an example, `orchestrator`, is another one: valid templates, or an error at its place that says why not.

Every example is changed into all other orchestrators. What comes out is held against the rules over templates, and
against cfn-lint, whose schemas are those of the CloudFormation registry.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from cfn_linter import Linter, not_exempt
from matrix.template_rules import ask_rules
from shared_assemblies import SharedAssemblies, templates_in
from stack_fixtures import Resources, of_type, readable

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in sorted(EXAMPLES.glob("*.yaml"))}
RECORDS = Path(__file__).parent / "__snapshots__" / "test_cluster_stacks"
GROUPS = {
    "ec2": "AWS::AutoScaling::AutoScalingGroup",
    "eks": "AWS::EKS::Nodegroup",
    "pcs": "AWS::PCS::ComputeNodeGroup",
    # One for all fleets.
    "hyperpod-slurm": "AWS::SageMaker::Cluster",
    "hyperpod-eks": "AWS::SageMaker::Cluster",
}
#: What launches nodes in an example as it is.
LAUNCHERS = {*GROUPS.values(), "AWS::Batch::ComputeEnvironment"}
#: They have a layout of their own for EFA.
PER_CARD = {"batch", "pcs"}
TEMPLATE = "AWS::EC2::LaunchTemplate"
#: Objects of Karpenter, in the place of a group and its launch template.
POOL = "Custom::AWSCDK-EKS-KubernetesResource"
#: Example and orchestrator -> the rules that refuse it, each at the key that it is about.
REFUSED = {
    ("eks-g6e-canary", "ec2"): ["inference.fleets.chat.load_balancer GPU-INF-012"],
    ("eks-g6e-canary", "pcs"): ["inference.fleets.chat GPU-SPEC-046"],
    ("eks-g6e-vllm", "ec2"): ["inference.fleets.llama.load_balancer GPU-INF-012"],  # on EKS, pods call the servers
    ("eks-g6e-vllm", "pcs"): ["inference.fleets.llama GPU-SPEC-046"],  # Slurm runs jobs, and no servers
    ("eks-p4d-mig", "ec2"): ["inference.fleets.slices.load_balancer GPU-INF-012"],
    ("eks-p4d-mig", "pcs"): ["inference.fleets.slices GPU-SPEC-046"],
    ("g5-single-gpu", "pcs"): ["inference.fleets.bert GPU-SPEC-046"],
    ("g6e-tensor-parallel", "pcs"): ["inference.fleets.llama GPU-SPEC-046"],
    ("inf2-neuron", "pcs"): [
        "inference.fleets.neuron GPU-SPEC-046",
        "inference.fleets.neuron.instance_type GPU-AMI-001",
    ],
    ("p4d-mig-56-slices", "pcs"): ["inference.fleets.slices GPU-SPEC-046"],
    ("p5-mixed-mig", "pcs"): ["inference.fleets.mixed GPU-SPEC-046"],
    ("train-and-serve", "pcs"): ["inference.fleets.servers GPU-SPEC-046"],
    ("p5en-spot", "eks"): ["training.fleets.trainers.capacity GPU-EKS-041"],  # a limit of the spot price
    ("p5en-spot", "pcs"): ["training.fleets.trainers.capacity GPU-PCS-061"],
    ("p6-b300-existing-reservation", "eks"): [
        "network GPU-SPEC-035",  # an existing network with subnets in one zone
        "training.fleets.trainers.image GPU-SPEC-036",
    ],
    ("p6e-gb200-ultraserver", "eks"): ["training.fleets.rack.capacity GPU-EKS-040"],  # the block without its id
    ("trn1-training", "pcs"): ["training.fleets.trainers.instance_type GPU-AMI-001"],  # no image with Neuron drivers
}
#: The same of HyperPod, which buys nodes in its own way, and of examples of it.
REFUSED |= {
    ("batch-p5-capacity-block", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("batch-p5-capacity-block", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("parallelcluster-p5", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("parallelcluster-p5", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("eks-g5-dev", "hyperpod-slurm"): ["training.fleets.dev.max_nodes GPU-HYP-011"],
    ("eks-g5-dev", "hyperpod-eks"): ["training.fleets.dev.max_nodes GPU-HYP-011"],
    ("eks-g6e-canary", "hyperpod-slurm"): ["monitoring.metrics GPU-SCR-002", "inference.fleets.chat GPU-SPEC-089"],
    ("eks-g6e-canary", "hyperpod-eks"): [
        "monitoring.metrics GPU-SCR-002",
        "eks.gateway GPU-SPEC-091",
        "inference.fleets.chat GPU-SPEC-089",
    ],
    ("eks-g6e-teams", "hyperpod-eks"): ["eks.teams GPU-SPEC-091"],
    ("eks-g6e-vllm", "hyperpod-slurm"): ["inference.fleets.llama GPU-SPEC-089"],
    ("eks-g6e-vllm", "hyperpod-eks"): ["inference.fleets.llama GPU-SPEC-089"],
    ("eks-karpenter", "hyperpod-slurm"): [
        "training.fleets.jobs.max_nodes GPU-HYP-011",
        "training.fleets.notebooks.max_nodes GPU-HYP-011",
    ],
    ("eks-karpenter", "hyperpod-eks"): [
        "training.fleets.jobs.max_nodes GPU-HYP-011",
        "training.fleets.notebooks.max_nodes GPU-HYP-011",
    ],
    ("eks-p4d-mig", "hyperpod-slurm"): ["inference.fleets.slices GPU-SPEC-089"],
    ("eks-p4d-mig", "hyperpod-eks"): ["inference.fleets.slices GPU-SPEC-089"],
    ("eks-p5-capacity-block", "hyperpod-slurm"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("eks-p5-capacity-block", "hyperpod-eks"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("eks-p5-slurm", "hyperpod-slurm"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("eks-p5-slurm", "hyperpod-eks"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("g5-single-gpu", "hyperpod-slurm"): ["inference.fleets.bert GPU-SPEC-089"],
    ("g5-single-gpu", "hyperpod-eks"): ["inference.fleets.bert GPU-SPEC-089"],
    ("g6e-tensor-parallel", "hyperpod-slurm"): ["inference.fleets.llama GPU-SPEC-089"],
    ("g6e-tensor-parallel", "hyperpod-eks"): ["inference.fleets.llama GPU-SPEC-089"],
    ("hyperpod-eks-p5", "ec2"): ["training.fleets.trainers.capacity GPU-HYP-025"],
    ("hyperpod-eks-p5", "eks"): ["training.fleets.trainers.capacity GPU-HYP-025"],
    ("hyperpod-eks-p5", "pcs"): ["training.fleets.trainers.capacity GPU-HYP-025"],
    ("hyperpod-slurm-p5", "ec2"): ["training.fleets.trainers.capacity GPU-HYP-025"],
    ("hyperpod-slurm-p5", "eks"): ["training.fleets.trainers.capacity GPU-HYP-025"],
    ("hyperpod-slurm-p5", "pcs"): ["training.fleets.trainers.capacity GPU-HYP-025"],
    ("inf2-neuron", "hyperpod-slurm"): ["inference.fleets.neuron GPU-SPEC-089"],
    ("inf2-neuron", "hyperpod-eks"): ["inference.fleets.neuron GPU-SPEC-089"],
    ("p4d-mig-56-slices", "hyperpod-slurm"): ["inference.fleets.slices GPU-SPEC-089"],
    ("p4d-mig-56-slices", "hyperpod-eks"): ["inference.fleets.slices GPU-SPEC-089"],
    ("p4d-new-reservation", "hyperpod-slurm"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("p4d-new-reservation", "hyperpod-eks"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("p4de-base-pod", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("p4de-base-pod", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("p5-capacity-block", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.root_volume GPU-HYP-011",
    ],
    ("p5-capacity-block", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.root_volume GPU-HYP-011",
    ],
    ("p5-lustre", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("p5-lustre", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("p5-mixed-mig", "hyperpod-slurm"): ["inference.fleets.mixed GPU-SPEC-089"],
    ("p5-mixed-mig", "hyperpod-eks"): ["inference.fleets.mixed GPU-SPEC-089"],
    ("p5en-express-preprocessing", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
        "training.fleets.preprocessing.max_nodes GPU-HYP-011",
    ],
    ("p5en-express-preprocessing", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
        "training.fleets.preprocessing.max_nodes GPU-HYP-011",
    ],
    ("p5en-spot", "hyperpod-slurm"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("p5en-spot", "hyperpod-eks"): ["training.fleets.trainers.capacity GPU-HYP-010"],
    ("p6-b300-existing-reservation", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.image GPU-HYP-011",
    ],
    ("p6-b300-existing-reservation", "hyperpod-eks"): [
        "network GPU-SPEC-035",
        "network.cidr GPU-IP-003",
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.image GPU-HYP-011",
    ],
    ("p6e-gb200-ultraserver", "hyperpod-slurm"): ["training.fleets.rack.capacity GPU-HYP-010"],
    ("p6e-gb200-ultraserver", "hyperpod-eks"): ["training.fleets.rack.capacity GPU-HYP-010"],
    ("pcs-p4d-mig", "hyperpod-slurm"): ["training.fleets.slices.mig GPU-HYP-016"],
    ("pcs-p5-capacity-block", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("pcs-p5-capacity-block", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.trainers.checkpoints GPU-HYP-023",
    ],
    ("pcs-spot-queue", "hyperpod-slurm"): [
        "training.fleets.spot.max_nodes GPU-HYP-011",
        "training.fleets.spot.mounts./home GPU-HYP-015",
        "training.fleets.steady.max_nodes GPU-HYP-011",
        "training.fleets.steady.mounts./home GPU-HYP-015",
    ],
    ("pcs-spot-queue", "hyperpod-eks"): [
        "training.fleets.spot.max_nodes GPU-HYP-011",
        "training.fleets.spot.mounts./home GPU-HYP-015",
        "training.fleets.steady.max_nodes GPU-HYP-011",
        "training.fleets.steady.mounts./home GPU-HYP-015",
    ],
    ("train-and-serve", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "inference.fleets.servers GPU-SPEC-089",
    ],
    ("train-and-serve", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "inference.fleets.servers GPU-SPEC-089",
    ],
    ("two-fleets", "hyperpod-slurm"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.preprocessing.max_nodes GPU-HYP-011",
    ],
    ("two-fleets", "hyperpod-eks"): [
        "training.fleets.trainers.capacity GPU-HYP-010",
        "training.fleets.preprocessing.max_nodes GPU-HYP-011",
    ],
}
#: What constructs say themselves about such a cluster, as a warning.
TOLD = {
    ("train-and-serve", "eks"): {"GPU-LUS-021"},
    ("p6e-gb200-ultraserver", "pcs"): {"GPU-EFA-022", "GPU-EFA-024"},
}


def own(text: str) -> str:
    """The orchestrator of an example."""
    found = re.search(r"(?m)^orchestrator: ([\w-]+)", text)
    return found[1] if found else "ec2"


def on(orchestrator: str, text: str) -> str:
    """The example with one word changed."""
    if "\norchestrator:" in text:
        return re.sub(r"(?m)^orchestrator: [\w-]+", f"orchestrator: {orchestrator}", text)
    return text.replace("\nregion:", f"\norchestrator: {orchestrator}\nregion:", 1)


CHANGES = [(name, other) for (name, text), other in product(TEXTS.items(), GROUPS) if other != own(text)]
TAKEN = [change for change in CHANGES if change not in REFUSED]

Synthesize = Callable[[str, str], tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Write an example with another orchestrator, beside the files that it names."""

    def run(name: str, orchestrator: str) -> Path:
        folder = tmp_path_factory.mktemp("cluster")
        shutil.copy(EXAMPLES / "dev-tools.sh", folder)
        file = folder / f"{name}.yaml"
        file.write_text(on(orchestrator, TEXTS[name]), encoding="utf-8")
        return file

    return run


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
def linter() -> Linter:
    """The linter."""
    return Linter()


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


@pytest.mark.parametrize(("name", "orchestrator"), REFUSED, ids=map("-".join, REFUSED))
def test_what_another_orchestrator_cannot_do_is_refused_at_its_place(
    name: str, orchestrator: str, write: Callable[[str, str], Path]
) -> None:
    file = write(name, orchestrator)
    reading = read_cluster(file)
    errors = [one for one in reading.findings if one.severity is Severity.ERROR]
    assert reading.spec is None, "nothing half-made"
    assert [f"{one.cause.partition(':')[0]} {one.id}" for one in errors] == REFUSED[name, orchestrator]
    for one in errors:
        path, line, column = one.path.rsplit(":", 2)
        *_, above, key = ["", *one.cause.partition(":")[0].split(".")]
        at = file.read_text(encoding="utf-8").splitlines()[int(line) - 1]
        assert path == str(file)
        assert (key if f"{key}:" in TEXTS[name] else above) in at, "the key, or what it is missing in"
        assert at[int(column) - 1] not in " #"
        assert one.fix


def test_most_examples_take_every_orchestrator() -> None:
    """A training example is refused for its one reason only, and every example is asked."""
    assert set(REFUSED) <= set(CHANGES)
    assert {name for name, _ in CHANGES} == set(TEXTS)
    training = [name for name, text in TEXTS.items() if not re.search(r"(?m)^inference:", text)]
    refused = {name for name, word in REFUSED if name in training and "hyperpod" not in name + word}
    assert refused == {"p5en-spot", "p6-b300-existing-reservation", "p6e-gb200-ultraserver", "trn1-training"}
    assert len(training) >= 16
    assert len([name for name in training if (name, "hyperpod-slurm") not in REFUSED]) >= 5
    assert len([name for name in training if (name, "hyperpod-eks") not in REFUSED]) >= 5
