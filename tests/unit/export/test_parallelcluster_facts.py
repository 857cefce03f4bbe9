"""The catalogue's facts about AWS ParallelCluster, compared with the package itself."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import parallelcluster as facts
from cdk_gpu_clusters.rules.parallelcluster import check_name
from parallelcluster.installed import run_in_parallelcluster

_ASK = """
import inspect, json, re
from importlib.metadata import version
from pcluster import constants
from pcluster.validators import cluster_validators as validators
from pcluster.validators.slurm_settings_validator import SLURM_SETTINGS_DENY_LIST as denied
print(json.dumps({
    "version": version("aws-parallelcluster"),
    "denied": {level: sorted(set().union(*names.values())) for level, names in denied.items()},
    "systems": constants.SUPPORTED_OSES,
    "name": [validators.NAME_REGEX, validators.NAME_MAX_LENGTH],
    "cluster_name": [constants.PCLUSTER_NAME_MAX_LENGTH, constants.PCLUSTER_NAME_MAX_LENGTH_SLURM_ACCOUNTING],
    "counts": [constants.MAX_NUMBER_OF_QUEUES, constants.MAX_NUMBER_OF_COMPUTE_RESOURCES_PER_CLUSTER],
    "folders": re.findall('"(/[a-z0-9_/]+)"', inspect.getsource(validators.SharedStorageMountDirValidator._validate)),
}))
"""


@pytest.fixture(scope="module")
def package() -> dict[str, Any]:
    done = run_in_parallelcluster("-c", _ASK)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_facts_are_of_the_locked_version(package: dict[str, Any]) -> None:
    assert package["version"] == facts.PARALLELCLUSTER_VERSION


def test_refused_settings_are_those_that_the_package_refuses(package: dict[str, Any]) -> None:
    refused = facts.refused_settings()
    levels = {"SlurmConf": "cluster", "Queue": "queue", "ComputeResource": "compute resource"}
    assert {levels[level]: frozenset(names) for level, names in package["denied"].items()} == dict(refused)


def test_operating_systems_are_supported_ones(package: dict[str, Any]) -> None:
    assert set(facts.system_names().values()) <= set(package["systems"])


def test_limits_are_those_of_the_package(package: dict[str, Any]) -> None:
    assert package["counts"] == [facts.MOST_QUEUES, facts.MOST_COMPUTE_RESOURCES]
    assert package["name"][1] == facts.LONGEST_NAME
    assert package["cluster_name"] == [facts.LONGEST_CLUSTER_NAME, facts.LONGEST_RECORDED_NAME]


@pytest.mark.parametrize("name", ["train", "a", "a-1", "1a", "Train", "a_b", "x" * 25, "x" * 26, "default", "-a"])
def test_names_are_judged_as_the_package_judges_them(package: dict[str, Any], name: str) -> None:
    pattern, longest = package["name"]
    takes = bool(re.match(pattern, name)) and len(name) <= longest and name != "default"
    assert (check_name(name) == []) is takes


def test_reserved_folders_are_those_of_the_package(package: dict[str, Any]) -> None:
    assert facts.reserved_folders() == frozenset(package["folders"]) - {"/"}
