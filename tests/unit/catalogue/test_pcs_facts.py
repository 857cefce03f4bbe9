"""Facts of AWS PCS against the API's service model and CloudFormation's schemas, which nobody here wrote."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

from botocore.session import Session
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from cdk_gpu_clusters.catalogue import pcs
from cdk_gpu_clusters.catalogue._files import read_json
from cdk_gpu_clusters.rules.pcs import ClusterSize, SettingsLevel

API: Any = Session().get_service_model("pcs")


def documentation(shape: str, member: str) -> str:
    text = API.shape_for(shape).members[member].documentation
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def schema(resource: str) -> str:
    return json.dumps(PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", f"AWS::PCS::{resource}").schema)


def test_the_api_names_the_versions_that_are_offered() -> None:
    said = documentation("SchedulerRequest", "version").partition("Valid Values:")[2]
    offered = [row.version for row in pcs.slurm_versions().values() if row.offered]
    assert re.findall(r"\d\d\.\d\d", said) == offered


def test_the_api_states_the_nodes_and_jobs_of_each_size() -> None:
    said = documentation("CreateClusterRequest", "size").replace(",", "")
    found = re.findall(r"(\w+) : (\d+) compute nodes and (\d+) jobs", said)
    assert [(one.name, str(one.nodes), str(one.jobs)) for one in pcs.size_limits().values()] == found
    assert API.shape_for("Size").enum == [size.value for size in ClusterSize] == list(pcs.size_limits())


def test_sizes_know_their_limits() -> None:
    assert [(size.nodes, size.jobs) for size in ClusterSize] == [(32, 256), (512, 8192), (2048, 16384)]


def test_versions_have_an_order_and_an_end_where_one_was_read() -> None:
    versions = pcs.slurm_versions()
    assert list(versions) == sorted(versions)
    assert versions["24.11"].ends == date(2026, 5, 31)
    assert versions["26.05"].ends is None
    assert versions[pcs.DEFAULT_SLURM_VERSION].offered
    assert versions[pcs.DEFAULT_SLURM_VERSION].ends is None


def test_the_api_states_the_first_version_of_an_idle_time_of_a_group() -> None:
    said = documentation("ComputeNodeGroupSlurmConfigurationRequest", "scaleDownIdleTimeInSeconds")
    assert f"Requires Slurm version {pcs.feature_since('idle_time_of_group')} or later" in said


def test_every_version_that_something_needs_is_offered() -> None:
    rows = pcs.custom_settings().values()
    needed = {row["since"] for row in read_json("pcs.json")["features"]}
    needed |= {version for row in rows for version in row.since.values()}
    needed |= {version for row in rows for values in row.values_since.values() for version in values.values()}
    assert needed <= set(pcs.slurm_versions())


def test_every_level_has_its_settings_and_the_new_ones_are_among_them() -> None:
    assert set(pcs.custom_settings()) == {level.value for level in SettingsLevel}
    for row in pcs.custom_settings().values():
        assert len(set(row.names)) == len(row.names)
        assert {*row.since, *row.values_since} <= set(row.names)


def test_settings_that_other_pages_name_are_in_the_lists() -> None:
    """The oldest texts of the API and of CloudFormation name a few of them."""
    cluster = pcs.custom_settings()["cluster"].names
    assert {"Prolog", "Epilog", "SelectTypeParameters", "AccountingStorageEnforce"} <= set(cluster)
    assert {"Weight", "RealMemory", "Gres"} <= set(pcs.custom_settings()["compute node group"].names)
    assert "Prolog, Epilog, and SelectTypeParameters" in schema("Cluster")
    assert "Weight and RealMemory" in schema("ComputeNodeGroup")


def test_the_attributes_of_records_in_texts_of_the_api_are_known() -> None:
    said = API.shape_for("GresCustomSettingMap").documentation
    assert set(re.findall(r'"(\w+)":', said)) <= set(pcs.gres_attributes())


def test_cloudformation_has_the_same_sizes_and_limits_of_scripts_as_the_api() -> None:
    sizes = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", "AWS::PCS::Cluster").schema["properties"]["Size"]
    assert sizes["enum"] == API.shape_for("Size").enum
    made: Any = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", "AWS::PCS::ComputeNodeGroup").schema
    script = made["definitions"]["NodeLifecycleScript"]["properties"]
    limits = API.shape_for("NodeLifecycleScriptNameString").metadata
    assert (script["Name"]["minLength"], script["Name"]["maxLength"]) == (limits["min"], limits["max"])
    assert script["Arguments"]["maxItems"] == API.shape_for("NodeLifecycleScriptArguments").metadata["max"]
    stages = made["definitions"]["NodeLifecycleStages"]["properties"]
    scripts = API.shape_for("NodeLifecycleScriptList").metadata
    for stage in ("NodeBootstrapped", "NodeReady"):
        assert (stages[stage]["minItems"], stages[stage]["maxItems"]) == (scripts["min"], scripts["max"])


def test_every_row_says_where_it_was_read() -> None:
    rows: list[Any] = [*pcs.slurm_versions().values(), *pcs.custom_settings().values()]
    assert [row for row in rows if not re.search(r"2026-\d\d-\d\d\)$", row.source)] == []
    sources = read_json("pcs.json")["sources"]
    used = json.dumps({key: value for key, value in read_json("pcs.json").items() if key != "sources"})
    assert [name for name in sources if f'"source": "{name}"' not in used] == []
