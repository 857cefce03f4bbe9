"""Every accelerated type of SageMaker HyperPod in every purchase, as synthesized JSON, held against its checks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest

from matrix.hyperpod import CHECKS, Group, synthesize, types

#: What was synthesized when the axes were last changed: an axis never shrinks.
TYPES, GROUPS = 57, 165


@pytest.fixture(scope="module")
def made() -> list[Group]:
    """All groups, from one app."""
    return synthesize()


def test_every_check_holds_of_every_group(made: list[Group], tally: Callable[[str], None]) -> None:
    broken = [f"{group.asked.name}: {what}" for group in made for check in CHECKS for what in check(group)]
    assert broken[:20] == []
    assert {group.asked.instance_type for group in made} == {*types()}
    tally(f"HyperPod: {len(made):,} instance groups of {len(types())} types, in one app")
    assert len(types()) >= TYPES
    assert len(made) >= GROUPS


def _tampered(group: Group, check: str) -> Group:
    """A group with a fault that only one check finds."""
    properties, cluster, resources = map(copy.deepcopy, (group.properties, group.cluster, group.resources))
    match check:
        case "type_and_size":
            properties["InstanceCount"] += 1
        case "purchase":
            properties["CapacityRequirements"] = {"Spot": {}}
        case "interfaces":
            del properties["NetworkInterface"]
        case "traffic":
            resources = {name: one for name, one in resources.items() if not one["Type"].endswith("GroupEgress")}
        case "network":
            properties["OverrideVpcConfig"] = cluster["VpcConfig"] | {"Subnets": ["a", "b"]}
        case "storage":
            del properties["InstanceStorageConfigs"]
        case "script":
            del properties["LifeCycleConfig"]
        case "slurm":
            del properties["SlurmConfig"]["PartitionNames"]
    return replace(group, properties=properties, cluster=cluster, resources=resources)


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_a_fault_is_found_by_its_check_alone(made: list[Group], name: str) -> None:
    group = next(one for one in made if one.asked.instance_type == "p5.48xlarge" and one.asked.purchase == "on-demand")
    tampered = _tampered(group, name)
    assert [check.__name__ for check in CHECKS if [*check(tampered)]] == [name]
