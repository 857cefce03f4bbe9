"""One word of an example, `orchestrator`, is another one: it is taken, or refused at the place that says why not.

Every example is changed into all other orchestrators. tests/synth makes the templates of those that are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS
from cluster_files.edits import write
from cluster_files.orchestrators import TEXTS, on, own, training_examples
from cluster_files.refusals import REFUSED

CHANGES = [(name, other) for (name, text), other in product(TEXTS.items(), ORCHESTRATORS) if other != own(text)]
#: What the plan of a fleet has of each orchestrator.
PLANNED = {
    "ec2": "",
    "eks": "node_group",
    "pcs": "compute_node_group",
    "batch": "compute_environment",
    "parallelcluster": "slurm_queue",
    "hyperpod-slurm": "instance_group",
    "hyperpod-eks": "instance_group",
}


@pytest.mark.parametrize("name", TEXTS)
def test_another_orchestrator_takes_an_example_or_refuses_it_at_its_place(name: str, tmp_path: Path) -> None:
    for orchestrator in (other for example, other in CHANGES if example == name):
        file = write(tmp_path, on(orchestrator, TEXTS[name]))
        reading = read_cluster(file)
        errors = [one for one in reading.findings if one.severity is Severity.ERROR]
        found = [f"{one.cause.partition(':')[0]} {one.id}" for one in errors]
        assert found == REFUSED.get((name, orchestrator), []), orchestrator
        assert (reading.spec is None) is bool(errors), "nothing half-made"
        check_places(errors, file, TEXTS[name])
        if reading.spec is not None:
            for fleet in plan_cluster(reading.spec).fleets:
                parts = {kind for kind in PLANNED.values() if kind and getattr(fleet, kind) is not None}
                assert parts == {PLANNED[orchestrator]} - {""}, orchestrator


def check_places(errors: Sequence[Finding], file: Path, text: str) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    for one in errors:
        path, line, column = one.path.rsplit(":", 2)
        *_, above, key = ["", *one.cause.partition(":")[0].split(".")]
        at = lines[int(line) - 1]
        assert path == str(file)
        assert (key if f"{key}:" in text else above) in at, "the key, or what it is missing in"
        assert at[int(column) - 1] not in " #"
        assert one.fix


def test_most_examples_take_every_orchestrator() -> None:
    """A training example is refused for its one reason only, and every example is asked."""
    assert set(REFUSED) <= set(CHANGES)
    assert {name for name, _ in CHANGES} == set(TEXTS)
    training = training_examples()
    assert len(training) >= 16
    refused = {name for name, word in REFUSED if name in training and word in ("ec2", "eks", "pcs")}
    assert refused == {"p5en-spot", "p6-b300-existing-reservation", "p6e-gb200-ultraserver", "trn1-training"}
    taken = {word: len([name for name in training if (name, word) not in REFUSED]) for word in ORCHESTRATORS}
    least = {
        "ec2": 16,
        "eks": 12,
        "pcs": 12,
        "batch": 11,
        "parallelcluster": 12,
        "hyperpod-slurm": 4,
        "hyperpod-eks": 4,
    }
    assert {word for word, many in least.items() if taken[word] < many} == set()
    assert taken.keys() == PLANNED.keys() == least.keys()
