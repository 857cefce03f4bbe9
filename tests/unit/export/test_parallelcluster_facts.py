"""The catalogue's facts about AWS ParallelCluster, compared with the package itself."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.catalogue import parallelcluster as facts
from cdk_gpu_clusters.fleet.plan import plan_fleet
from cdk_gpu_clusters.fleet.request import FleetRequest
from cdk_gpu_clusters.node.custom_actions import head_node_script
from cdk_gpu_clusters.rules.parallelcluster import (
    check_addresses,
    check_driver,
    check_name,
    check_subnets,
    plan_node_interfaces,
)
from cdk_gpu_clusters_stacks.export.parallelcluster import HEAD_NODE_SECONDS
from parallelcluster.installed import LAY_OUT, run_in_parallelcluster

_ASK = """
import inspect, json, re
from importlib.metadata import version
from pcluster import constants
from pcluster.api.converters import cloud_formation_status_to_cluster_status
from pcluster.config.config_patch import ConfigPatch
from pcluster.schemas.cluster_schema import HeadNodeCustomActionsSchema
from pcluster.validators import cluster_validators as validators
from pcluster.validators.networking_validators import QueueSubnetsValidator
from pcluster.validators.slurm_settings_validator import SLURM_SETTINGS_DENY_LIST as denied
class Cluster:
    name = stack_name = "cluster"
def with_seconds(*seconds):
    return {"DevSettings": {"Timeouts": {"HeadNodeBootstrapTimeout": one}} for one in seconds}
def policies(base, target):
    return [change.update_policy.name for change in ConfigPatch(Cluster, base, target).changes]
print(json.dumps({
    "version": version("aws-parallelcluster"),
    "denied": {level: sorted(set().union(*names.values())) for level, names in denied.items()},
    "systems": constants.SUPPORTED_OSES,
    "images": constants.OS_TO_IMAGE_NAME_PART_MAP,
    "name": [validators.NAME_REGEX, validators.NAME_MAX_LENGTH],
    "cluster_name": [constants.PCLUSTER_NAME_MAX_LENGTH, constants.PCLUSTER_NAME_MAX_LENGTH_SLURM_ACCOUNTING],
    "storage_name": validators.SHARED_STORAGE_NAME_MAX_LENGTH,
    "without_driver": constants.NVIDIA_OPENRM_UNSUPPORTED_INSTANCE_TYPES,
    "two_subnets": [
        one.level.name for one in QueueSubnetsValidator().execute("train", ["a", "b"], {"us-east-1a": ["a", "b"]})
    ],
    "script": HeadNodeCustomActionsSchema().fields["on_node_configured"].metadata["update_policy"].name,
    "timeouts": [
        policies(with_seconds(*base), with_seconds(*target))
        for base, target in (([], [3300]), ([3300], []), ([3300], [3300]), ([3600], [3300]))
    ],
    "after_rollbacks": [
        cloud_formation_status_to_cluster_status(one) for one in ("ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
    ],
    "bootstrap_seconds": constants.NODE_BOOTSTRAP_TIMEOUT,
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
    page = Path(__file__).resolve().parents[3] / "docs" / "parallelcluster.md"
    assert f"pip install aws-parallelcluster=={facts.PARALLELCLUSTER_VERSION}`" in page.read_text()


def test_refused_settings_are_those_that_the_package_refuses(package: dict[str, Any]) -> None:
    refused = facts.refused_settings()
    levels = {"SlurmConf": "cluster", "Queue": "queue", "ComputeResource": "compute resource"}
    assert {levels[level]: frozenset(names) for level, names in package["denied"].items()} == dict(refused)


def test_operating_systems_are_supported_ones(package: dict[str, Any]) -> None:
    assert set(facts.system_names().values()) <= set(package["systems"])
    names = facts.system_names()
    assert facts.image_names() == {system: package["images"][name] for system, name in names.items()}


def test_limits_are_those_of_the_package(package: dict[str, Any]) -> None:
    assert package["counts"] == [facts.MOST_QUEUES, facts.MOST_COMPUTE_RESOURCES]
    assert package["name"][1] == facts.LONGEST_NAME
    assert package["storage_name"] == facts.LONGEST_STORAGE_NAME
    assert package["cluster_name"] == [facts.LONGEST_CLUSTER_NAME, facts.LONGEST_RECORDED_NAME]


def test_types_that_are_too_old_for_its_driver_are_those_of_the_package(package: dict[str, Any]) -> None:
    assert facts.families_without_driver() == frozenset(package["without_driver"])


def test_two_subnets_in_one_zone_are_refused_as_the_package_refuses_them(package: dict[str, Any]) -> None:
    assert package["two_subnets"] == ["ERROR"]
    assert [finding.id for finding in check_subnets(2)] == ["GPU-PCL-019"]
    assert check_subnets(1) == []


@pytest.mark.parametrize(
    ("name", "has_own_image", "has_script", "found"),
    [
        ("trn1.32xlarge", False, False, ["GPU-PCL-018"]),
        ("inf2.xlarge", False, False, ["GPU-PCL-018"]),
        ("trn1.32xlarge", True, False, []),
        ("trn1.32xlarge", False, True, []),
        # A script cannot take away the driver that is there.
        ("p3dn.24xlarge", False, True, ["GPU-PCL-018"]),
        ("p3dn.24xlarge", True, False, []),
        ("g4dn.xlarge", False, False, []),
        ("m7i.large", False, False, []),
    ],
)
def test_accelerators_need_a_driver(name: str, found: list[str], *, has_own_image: bool, has_script: bool) -> None:
    findings = check_driver(instance_type(name), has_own_image=has_own_image, has_script=has_script)
    assert [finding.id for finding in findings] == found


def test_the_head_node_waits_for_its_own_set_up_and_for_nodes_that_are_replaced(package: dict[str, Any]) -> None:
    # Its set-up of some minutes, the launch of all static nodes, and that of the ones that failed their checks.
    deadline = plan_fleet(FleetRequest(name="train", instance_type="p5.48xlarge")).boot_deadline_seconds
    assert deadline < package["bootstrap_seconds"] < HEAD_NODE_SECONDS
    # CloudFormation waits for a custom resource for an hour (its user guide, ServiceTimeout), and begins before.
    assert HEAD_NODE_SECONDS + 300 <= 3600


def test_what_no_update_may_change_is_the_same_in_all_releases(package: dict[str, Any]) -> None:
    assert package["script"] == "UNSUPPORTED"
    # Added, removed, kept, and another number.
    assert package["timeouts"] == [["SUPPORTED"], ["SUPPORTED"], [], ["UNSUPPORTED"]]
    # Another text of an asset is another URL, and `pcluster update-cluster` would refuse every cluster that is there.
    # What the hooks of this script do belongs to the nodes, whose scripts may change.
    digest = "25308f98d4e1322cd7db04c58b0d557696c338f0a152aa26fd8da9117f50e9f2"
    assert hashlib.sha256(head_node_script().encode()).hexdigest() == digest
    assert HEAD_NODE_SECONDS == 3300


def test_a_cluster_that_was_rolled_back_is_a_failed_one_to_the_provider(package: dict[str, Any]) -> None:
    # The provider raises for these also after it kept the cluster (docs/parallelcluster.md, After a failure).
    assert package["after_rollbacks"] == ["CREATE_FAILED", "UPDATE_FAILED"]


@pytest.mark.parametrize("name", ["train", "a", "a-1", "1a", "Train", "a_b", "x" * 25, "x" * 26, "default", "-a"])
def test_names_are_judged_as_the_package_judges_them(package: dict[str, Any], name: str) -> None:
    pattern, longest = package["name"]
    takes = bool(re.match(pattern, name)) and len(name) <= longest and name != "default"
    assert (check_name(name) == []) is takes


def test_reserved_folders_are_those_of_the_package(package: dict[str, Any]) -> None:
    assert facts.reserved_folders() == frozenset(package["folders"]) - {"/"}


# Network interfaces.


@pytest.fixture(scope="module")
def layouts() -> dict[tuple[str, bool], list[list[Any]]]:
    """The layout that ParallelCluster writes for every type of the catalogue, with EFA and without."""
    kinds = [
        {
            "name": name,
            "efa": efa,
            "max_efa": 0 if kind.network.efa is None else kind.network.efa.max_interfaces,
            "cards": [[card.index, card.max_interfaces] for card in kind.network.cards],
        }
        for name, kind in instance_types().items()
        for efa in (False, True)
        if kind.network.efa is not None or not efa
    ]
    done = run_in_parallelcluster(LAY_OUT, stdin=json.dumps(kinds))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {(str(kind["name"]), bool(kind["efa"])): layout for kind, layout in zip(kinds, found, strict=True)}


def test_the_interfaces_of_every_type_are_those_that_the_package_writes(
    layouts: dict[tuple[str, bool], list[list[Any]]],
) -> None:
    assert len(layouts) > 300
    for (name, efa), layout in layouts.items():
        plan = plan_node_interfaces(instance_types()[name], efa=efa)
        found = [[one.network_card_index, one.device_index, one.interface_type] for one in plan.interfaces]
        assert found == [[card, device, kind or "interface"] for card, device, kind in layout], (name, efa)
        assert plan.ip_addresses_per_node == sum(kind != "efa-only" for _, _, kind in layout)


def test_nodes_without_efa_that_take_many_addresses_are_a_warning() -> None:
    assert check_addresses(instance_types()["p5.48xlarge"], efa=True) == []
    assert check_addresses(instance_types()["g6.xlarge"], efa=False) == []
    [finding] = check_addresses(instance_types()["p5.48xlarge"], efa=False)
    assert (finding.id, finding.severity.value, finding.got) == (
        "GPU-PCL-002",
        "warning",
        "32 addresses for each node of p5.48xlarge",
    )
