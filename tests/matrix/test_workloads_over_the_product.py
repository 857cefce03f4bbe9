"""Node groups of every type and number of EFA interfaces, and each kind of workload on them: objects, or a refusal.

Objects follow from the plan of a node group without CDK; no template is made.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable

import pytest

from cdk_gpu_clusters.errors import ConfigError
from kubernetes_schemas import check_objects
from matrix.node_group_plans import combinations, planned
from matrix.workloads import KINDS, Group

#: What was looked at when the axes were last changed: an axis never shrinks.
GROUPS = 336


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    """One of each type and number of EFA interfaces."""
    found: dict[tuple[str, int], Group] = {}
    for combination in combinations():
        fleet, group = planned(combination)
        interfaces = fleet.interfaces.interfaces
        efa = sum(one.interface_type in {"efa", "efa-only"} for one in interfaces)
        key = (combination.instance_type, efa)
        found.setdefault(key, Group(hardware=combination.asked.hardware, efa=efa, pool=group.pool))
    return list(found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_group_runs_a_workload_on_all_of_its_devices_or_refuses_it(
    kind: str, groups: list[Group], tally: Callable[[str], None]
) -> None:
    row, seen, wrong = KINDS[kind], Counter[bool](), list[str]()
    for group in groups:
        where = f"{group.hardware.name} with {group.efa} EFA interfaces"
        try:
            made = row.make(group.pool)
        except ConfigError as refusal:
            made = None
            wrong += [f"{where}: {refusal}"] if row.takes(group.hardware) else []
        else:
            wrong += [] if row.takes(group.hardware) else [f"{where}: is not refused"]
        seen[made is not None] += 1
        if made is not None and row.takes(group.hardware):
            wrong += [f"{where}: {what}" for what in row.check(group, made)]
    assert wrong[:20] == []
    tally(f"{kind} on node groups: {seen[True]:,} made, {seen[False]:,} refused")
    assert seen.total() >= GROUPS
    assert seen[True]


#: Kind -> a text of what is made, what stands in its place, and the first thing that is then found wrong.
FAULTS = {
    "Ray": ("'num-gpus': '8'", "'num-gpus': '7'", "Ray counts 7 GPUs of a node"),
    "Slurm of Slinky": ("gpu:h100:8", "gpu:h100:4", "Gres gpu:h100:4"),
    "models behind a gateway": (
        "{'name': 'chat', 'port': 80",
        "{'name': 'chats', 'port': 80",
        "the route goes elsewhere",
    ),
    "a model over several nodes": (
        "'--pipeline-parallel-size', '2'",
        "'--pipeline-parallel-size', '1'",
        "vLLM uses 8 GPUs",
    ),
    "teams": ("'nominalQuota': '8'", "'nominalQuota': '9'", "quotas of 18 nvidia.com/gpu"),
    "ComputeDomains": ("TemplateName': 'job-channel'", "TemplateName': 'other'", "pods claim no channel"),
    "Cluster Autoscaler": ("vpc.amazonaws.com/efa': '32'", "vpc.amazonaws.com/efa': '1'", "a node would have"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_of_another_shape_is_found(kind: str, groups: list[Group]) -> None:
    name = "p6e-gb200.36xlarge" if kind == "ComputeDomains" else "p5.48xlarge"
    group = max((one for one in groups if one.hardware.name == name), key=lambda one: one.efa)
    text, instead, what = FAULTS[kind]
    made = str(KINDS[kind].make(group.pool))
    assert list(KINDS[kind].check(group, ast.literal_eval(made))) == []
    assert text in made
    found = list(KINDS[kind].check(group, ast.literal_eval(made.replace(text, instead))))
    assert found[0].startswith(what)


def test_the_objects_are_of_the_form_of_their_schemas(groups: list[Group]) -> None:
    """Those of one node group of each number of devices and interfaces."""
    shapes = {(one.hardware.accelerator, one.hardware.accelerator_count, one.efa): one for one in groups}
    objects = []
    for group in shapes.values():
        rows = [row for row in KINDS.values() if row.takes(group.hardware)]
        objects += [one for row in rows for made in [row.make(group.pool)] if isinstance(made, list) for one in made]
    assert check_objects(objects, "1.36") == len(objects) > 100
