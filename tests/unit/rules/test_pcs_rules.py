"""Clusters, node groups, queues and scripts of AWS PCS: each rule from both sides, and limits against the API."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from botocore.model import ListShape, Shape, StringShape
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION, custom_settings, slurm_versions
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.gres import GresMode, plan_gres
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from cdk_gpu_clusters.rules.pcs import (
    SettingsLevel,
    check_compute_node_group,
    check_join_time,
    check_pcs_cluster,
    check_pcs_name,
    check_queue,
    check_reservation,
    check_slurm_settings,
    check_times,
)
from cdk_gpu_clusters.rules.pcs_gres import check_gres_agreement, check_gres_records
from cdk_gpu_clusters.rules.pcs_scripts import LifecycleScriptFacts, check_lifecycle_scripts
from cdk_gpu_clusters.rules.pcs_slurm_conf import check_devices
from cdk_gpu_clusters.rules.pcs_versions import check_feature, check_slurm_version

API: Any = Session().get_service_model("pcs")
P4D = instance_type("p4d.24xlarge")
MIG = plan_mig(P4D, MigLayout(["1g.5gb"] * 7))
GRES = plan_gres(P4D, MIG)


def shape(name: str) -> Any:
    found: Shape = API.shape_for(name)
    return found


def ids(findings: list[Finding]) -> list[str]:
    return [finding.id for finding in findings]


# ----- clusters

CLUSTER: dict[str, Any] = {
    "name": "research",
    "size": "SMALL",
    "slurm_version": "26.05",
    "node_count": 32,
    "subnet_count": 1,
    "zone": "us-east-1a",
    "accounting": True,
    "purge_after_days": 90,
    "rest_api": True,
    "scale_down_idle_seconds": 600,
    "slurm_settings": {
        "Prolog": "/opt/prolog.sh",
        "MetricsType": "metrics/openmetrics",
        "CommunicationParameters": "NoCtldInAddrAny,enable_http",
        "MinJobAge": "5",
    },
    "slurmdbd_settings": {"TrackWCKey": "yes"},
    "cgroup_settings": {"ConstrainRAMSpace": "yes"},
}
#: A version that the catalogue knows an end of: a warning of its own.
OLDER = {"slurm_version": "25.05"}
WRONG_CLUSTERS: list[tuple[str, dict[str, Any]]] = [
    ("GPU-PCS-016", {"size": "TINY"}),
    ("GPU-PCS-016", {"node_count": 33}),
    ("GPU-PCS-017", {"slurm_version": "23.11", "accounting": False, "rest_api": False, "slurm_settings": {}}),
    ("GPU-PCS-018", {"name": "ab"}),
    ("GPU-PCS-019", {"slurm_settings": {"SelectTypeParameters": "CR_Socket"}, **OLDER}),
    ("GPU-PCS-020", {"slurm_settings": {"Weight": "10"}}),
    ("GPU-PCS-020", {"slurm_settings": {"prolog": "/opt/prolog.sh"}}),
    ("GPU-PCS-020", {"slurm_settings": {"MinJobAge": "4"}}),
    ("GPU-PCS-020", {"slurmdbd_settings": {"ConstrainRAMSpace": "yes"}}),
    ("GPU-PCS-022", {"scale_down_idle_seconds": 0}),
    ("GPU-PCS-022", {"scale_down_idle_seconds": -1}),
    ("GPU-PCS-022", {"purge_after_days": 0}),
    ("GPU-PCS-022", {"purge_after_days": 10_001}),
    ("GPU-PCS-027", {"subnet_count": 2}),
    ("GPU-PCS-027", {"zone": "us-east-1-dfw-2a"}),
    ("GPU-PCS-037", {"slurm_settings": {"MetricsType": "metrics/openmetrics"}}),
    # Each of these was given to a real slurmctld: tests/slurm/test_slurm_conf.py.
    ("GPU-PCS-040", {"slurm_settings": {"PreemptMode": "REQUEUE"}}),
    ("GPU-PCS-040", {"slurm_settings": {"HealthCheckNodeState": "START_ONLY,IDLE"}}),
    ("GPU-PCS-040", {"slurm_settings": {"AccountingStorageTRES": "gres/gpu"}, "accounting": False}),
    ("GPU-PCS-041", {"slurm_settings": {"PrologFlags": "Alloc,NoHold"}}),
    ("GPU-PCS-041", {"slurm_settings": {"PrologFlags": "Alloc, Contain"}}),
    ("GPU-PCS-043", {"cgroup_settings": {"ConstrainDevices": "no"}}),
]


def test_a_good_cluster_has_no_findings() -> None:
    assert check_pcs_cluster(**CLUSTER) == []


def test_nothing_is_wrong_with_what_is_not_known() -> None:
    assert check_pcs_cluster() == check_compute_node_group() == check_queue() == []


@pytest.mark.parametrize(("rule", "change"), WRONG_CLUSTERS)
def test_each_fault_of_a_cluster_is_found(rule: str, change: dict[str, Any]) -> None:
    found = check_pcs_cluster(**{**CLUSTER, **change})
    of_version = ["GPU-PCS-017"] if change.get("slurm_version") == OLDER["slurm_version"] else []
    assert ids(found) == [*of_version, rule]
    assert all(one.got and one.allowed for one in found)
    assert all(one.fix for one in found if one.id == "GPU-PCS-040")


def test_all_faults_of_a_cluster_are_found_at_once() -> None:
    wrong = {"name": "x", "size": "TINY", "subnet_count": 0, "purge_after_days": 0, "slurm_settings": {"Weight": "1"}}
    expected = {"GPU-PCS-016", "GPU-PCS-018", "GPU-PCS-020", "GPU-PCS-022", "GPU-PCS-027"}
    assert set(ids(check_pcs_cluster(**{**CLUSTER, **wrong}))) == expected


@pytest.mark.parametrize("days", [-1, 1, 10_000])
def test_records_are_kept_for_ever_or_some_days(days: int) -> None:
    assert check_times(purge_after_days=days) == []


# ----- versions


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("26.05", None),
        ("25.11", None),
        ("25.05", Severity.WARNING),  # with its end
        ("24.11", Severity.WARNING),
        ("26.11", Severity.WARNING),  # newer than the catalogue
        ("24.05", Severity.ERROR),
        ("23.11", Severity.ERROR),
        ("25.06", Severity.ERROR),
        ("latest", Severity.ERROR),
        ("", Severity.ERROR),
    ],
)
def test_versions(version: str, severity: Severity | None) -> None:
    assert [one.severity for one in check_slurm_version(version)] == ([] if severity is None else [severity])


def test_the_end_of_a_version_is_named() -> None:
    (finding,) = check_slurm_version("24.11")
    assert "2026-05-31" in finding.cause


def test_the_default_version_has_no_finding() -> None:
    assert check_slurm_version(DEFAULT_SLURM_VERSION) == []


@pytest.mark.parametrize("feature", ["accounting", "rest_api", "metrics", "idle_time_of_group", "gres_autodetect"])
def test_a_feature_has_a_first_version(feature: str) -> None:
    outcomes = [bool(check_feature(feature, version)) for version in slurm_versions()]
    assert outcomes == sorted(outcomes, reverse=True), "older versions lack it, newer ones have it"
    assert outcomes[0]
    assert not outcomes[-1]
    assert check_feature(feature, None) == check_feature(feature, "latest") == []


# ----- names


LEVELS = {
    SettingsLevel.CLUSTER: "ClusterName",
    SettingsLevel.NODE_GROUP: "ComputeNodeGroupName",
    SettingsLevel.QUEUE: "QueueName",
}


@pytest.mark.parametrize(("level", "name"), LEVELS.items())
def test_names_are_as_long_as_the_api_says(level: SettingsLevel, name: str) -> None:
    limits = shape(name).metadata
    assert check_pcs_name("a" * limits["min"], level) == check_pcs_name("a" * limits["max"], level) == []
    for text in ("a" * (limits["min"] - 1), "a" * (limits["max"] + 1), "pcs_name", "1abc", "a_b_c", "a b", ""):
        assert ids(check_pcs_name(text, level)) == ["GPU-PCS-018"]


@given(st.text(alphabet="aZ09-_ pcs", max_size=45))
def test_names_have_the_form_of_the_api(text: str) -> None:
    pattern, limits = shape("ClusterName").metadata["pattern"], shape("ClusterName").metadata
    right = bool(re.fullmatch(pattern, text)) and limits["min"] <= len(text) <= limits["max"]
    assert (check_pcs_name(text, SettingsLevel.CLUSTER) == []) is right


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("ClusterSlurmConfigurationRequestScaleDownIdleTimeInSecondsInteger", "scale_down_idle_seconds"),
        ("ComputeNodeGroupSlurmConfigurationRequestScaleDownIdleTimeInSecondsInteger", "group_idle_seconds"),
        ("AccountingRequestDefaultPurgeTimeInDaysInteger", "purge_after_days"),
    ],
)
def test_times_have_the_range_of_the_api(name: str, argument: str) -> None:
    limits = shape(name).metadata
    for value in (limits["min"], limits["max"]):
        assert check_times(**{argument: value}) == []
    for value in (limits["min"] - 1, limits["max"] + 1):
        assert ids(check_times(**{argument: value})) == ["GPU-PCS-022"]


# ----- settings


@pytest.mark.parametrize("level", SettingsLevel)
def test_every_listed_setting_is_taken_by_the_newest_version(level: SettingsLevel) -> None:
    settings = dict.fromkeys(custom_settings()[level.value].names, "9")
    found = check_slurm_settings(settings, slurm_version="26.05", level=level)
    assert [one for one in found if one.id != "GPU-PCS-037"] == []


@pytest.mark.parametrize(("settings", "has_gres", "wrong"), [
    ({}, False, False), ({}, True, True), ({"ConstrainDevices": "yes"}, True, False),
    ({"ConstrainDevices": "TRUE"}, True, False), ({"ConstrainDevices": "no"}, False, True),
])  # fmt: skip
def test_jobs_are_limited_to_their_devices(settings: dict[str, str], *, has_gres: bool, wrong: bool) -> None:
    assert ids(check_devices(settings, has_gres=has_gres)) == (["GPU-PCS-043"] if wrong else [])


@pytest.mark.parametrize(("seconds", "wrong"), [(1800, False), (1801, True), (7200, True)])
def test_a_boot_ends_before_pcs_replaces_the_node(seconds: int, *, wrong: bool) -> None:
    assert ids(check_join_time(seconds)) == (["GPU-PCS-038"] if wrong else [])


@pytest.mark.parametrize(
    ("settings", "level", "version", "rule"),
    [
        ({"MetricsType": "metrics/openmetrics"}, SettingsLevel.CLUSTER, "25.05", "GPU-PCS-019"),
        ({"CommunicationParameters": "enable_http"}, SettingsLevel.CLUSTER, "25.05", "GPU-PCS-019"),
        ({"CommunicationParameters": "NoAddrCache"}, SettingsLevel.CLUSTER, "25.05", None),
        ({"SelectTypeParameters": "CR_Core_Memory"}, SettingsLevel.CLUSTER, "25.05", None),
        ({"Sockets": "2"}, SettingsLevel.NODE_GROUP, "25.05", "GPU-PCS-019"),
        ({"Sockets": "2"}, SettingsLevel.NODE_GROUP, "25.11", None),
        ({"Exclusive": "NODE"}, SettingsLevel.QUEUE, "25.11", "GPU-PCS-019"),
        ({"Exclusive": "NODE"}, SettingsLevel.QUEUE, None, None),
        ({"MaxTime": "1-0"}, SettingsLevel.QUEUE, "24.11", None),
    ],
)
def test_settings_that_need_a_version(
    settings: dict[str, str], level: SettingsLevel, version: str | None, rule: str | None
) -> None:
    found = [one for one in check_slurm_settings(settings, slurm_version=version, level=level) if one.id[-3:] != "037"]
    assert ids(found) == ([] if rule is None else [rule])


def test_a_setting_of_another_level_is_an_error_and_an_unknown_one_a_warning() -> None:
    """PCS takes more settings from time to time: the lists are of the day they were read."""
    (elsewhere,) = check_slurm_settings({"Gres": "gpu:8"}, slurm_version=None, level=SettingsLevel.QUEUE)
    (unknown,) = check_slurm_settings({"PrologTimeout": "300"}, slurm_version=None, level=SettingsLevel.QUEUE)
    assert (elsewhere.severity, unknown.severity) == (Severity.ERROR, Severity.WARNING)
    assert "compute node group" in elsewhere.fix


# ----- node groups

GROUP: dict[str, Any] = {
    "name": "slices",
    "slurm_version": "26.05",
    "kind": P4D,
    "mig": MIG,
    "min_nodes": 2,
    "max_nodes": 2,
    "scale_down_idle_seconds": -1,
    "slurm_settings": {"Gres": GRES.node_gres, "Weight": "10"},
    "gres_settings": GRES.custom_settings,
}
WRONG_GROUPS: list[tuple[set[str], dict[str, Any]]] = [
    ({"GPU-PCS-018"}, {"name": "a" * 26}),
    ({"GPU-PCS-019"}, {"slurm_version": "25.05"}),
    ({"GPU-PCS-033"}, {"slurm_version": "25.11"}),
    ({"GPU-PCS-034"}, {"min_nodes": 0}),
    ({"GPU-PCS-036"}, {"min_nodes": 3}),
    ({"GPU-PCS-036"}, {"min_nodes": -1}),
    ({"GPU-PCS-022"}, {"scale_down_idle_seconds": 0}),
    ({"GPU-GRES-003"}, {"slurm_settings": {"Gres": "gpu:1g.5gb:57"}}),
    ({"GPU-PCS-032"}, {"slurm_settings": {}}),
    ({"GPU-PCS-030", "GPU-PCS-032"}, {"gres_settings": []}),
    ({"GPU-PCS-031"}, {"gres_settings": [*GRES.custom_settings, {"Name": "gpu", "File": "/dev/nvidia0"}]}),
    ({"GPU-PCS-030"}, {"slurm_settings": {"Gres": f"{GRES.node_gres},nic:2"}}),
    ({"GPU-PCS-033"}, {"slurm_settings": {"Gres": GRES.node_gres, "Parameters": "l3cache_as_socket"}}),
    ({"GPU-GRES-005"}, {"slurm_settings": {"Gres": "gpu::8"}}),
]


def test_a_good_node_group_has_no_findings() -> None:
    assert check_compute_node_group(**GROUP) == []


def test_25_11_needs_sockets_for_slices() -> None:
    settings = {"Gres": GRES.node_gres, "Sockets": "2"}
    assert check_compute_node_group(**{**GROUP, "slurm_version": "25.11", "slurm_settings": settings}) == []


@pytest.mark.parametrize(("rules", "change"), WRONG_GROUPS)
def test_each_fault_of_a_node_group_is_found(rules: set[str], change: dict[str, Any]) -> None:
    assert set(ids(check_compute_node_group(**{**GROUP, **change}))) == rules


def test_an_idle_time_of_a_group_needs_25_11() -> None:
    assert ids(check_compute_node_group(slurm_version="25.05", scale_down_idle_seconds=60)) == ["GPU-PCS-019"]
    assert check_compute_node_group(slurm_version="25.05", scale_down_idle_seconds=-1) == []
    assert check_compute_node_group(slurm_version="25.11", scale_down_idle_seconds=60) == []


def test_pcs_takes_explicit_records_of_whole_gpus_and_not_of_slices() -> None:
    whole = plan_gres(P4D, mode=GresMode.EXPLICIT)
    slices = plan_gres(P4D, MIG, mode=GresMode.EXPLICIT, gpu_instance_ids=[range(7, 14)] * 8)
    for plan, right in ((whole, True), (slices, False)):
        found = [
            *check_gres_records(plan.custom_settings, slurm_version="24.11"),
            *check_gres_agreement(plan.node_gres, plan.custom_settings),
        ]
        assert (found == []) is right


@pytest.mark.parametrize(
    ("reservation", "market", "right"),
    [
        ("cr-0123456789abcdef0", None, False),
        ("cr-0123456789abcdef0", "spot", False),
        ("cr-0123456789abcdef0", "capacity-block", True),
        ("cr-0123456789abcdef0", "interruptible-capacity-reservation", True),
        (None, None, True),
    ],
)
def test_pcs_takes_a_reservation_on_demand_by_its_group(
    reservation: str | None, market: str | None, *, right: bool
) -> None:
    assert ids(check_reservation(reservation, market)) == ([] if right else ["GPU-PCS-028"])


EIGHT = {"Name": "gpu", "Type": "h100", "File": "/dev/nvidia[0-7]"}


@pytest.mark.parametrize(
    ("gres", "records", "rule"),
    [
        ("gpu:h100:8", [EIGHT], None),
        ("gpu:h100:0", [EIGHT], None),  # fewer are allowed, down to none
        ("gpu:8", [EIGHT], None),
        ("gpu:h100:9", [EIGHT], "GPU-PCS-030"),
        ("gpu:h200:8", [EIGHT], "GPU-PCS-030"),
        ("gpu:0", [], "GPU-PCS-030"),  # even then
        ("gpu:h100:3", [{"Name": "gpu", "Type": "h100", "File": "/dev/nvidia0,/dev/nvidia[2-3]"}], None),
        ("gpu:h100:4", [{"Name": "gpu", "Type": "h100", "File": "/dev/nvidia[0,2-3]"}], "GPU-PCS-030"),
        ("gpu:anything:99", [{"AutoDetect": "nvml"}], None),  # PCS cannot count what nodes detect
        ("gpu:h100:8", [{**EIGHT, "AutoDetect": "off"}], None),
        ("gpu:8,shard:80", [EIGHT, {"Name": "shard", "Count": "8"}], None),  # shared: no count is compared
        ("nic:4", [{"Name": "nic", "Count": "4"}], None),
        ("nic:5", [{"Name": "nic", "Count": "4"}], "GPU-PCS-030"),
        ("nic:2", [{"Name": "nic"}], "GPU-PCS-030"),  # one without Count and File
    ],
)
def test_the_constraints_of_the_user_guide(gres: str, records: list[dict[str, str]], rule: str | None) -> None:
    """AWS PCS user guide, "Configuring custom GRES settings in AWS PCS", Constraints."""
    assert ids(check_gres_agreement(gres, records)) == ([] if rule is None else [rule])


@pytest.mark.parametrize(
    ("record", "right"),
    [
        (EIGHT, True),
        ({"AutoDetect": "nvml"}, True),
        ({"Name": "gpu", "AutoDetect": "full"}, True),
        ({"AutoDetect": "off"}, False),
        ({"Name": "gpu"}, False),
        ({"Name": "gpu", "AutoDetect": "off"}, False),
        ({"Count": "4"}, False),
        ({"Name": "gpu", "File": "/dev/nvidia0", "MultipleFiles": "/dev/nvidia1"}, False),
        ({**EIGHT, "NodeName": "gpu-1"}, False),
        ({**EIGHT, "Speed": "9"}, False),
    ],
)
def test_records_that_pcs_takes(record: dict[str, str], *, right: bool) -> None:
    assert ids(check_gres_records([record], slurm_version="26.05")) == ([] if right else ["GPU-PCS-031"])


def test_autodetection_needs_25_11() -> None:
    assert ids(check_gres_records([{"AutoDetect": "nvml"}], slurm_version="25.05")) == ["GPU-PCS-019"]


# ----- queues


def test_a_queue_takes_settings_of_partitions() -> None:
    assert check_queue(name="gpu", slurm_version="26.05", slurm_settings={"Default": "YES", "MaxTime": "3-0"}) == []
    found = check_queue(name="q", slurm_version="25.11", slurm_settings={"Gres": "gpu:8", "Exclusive": "NODE"})
    assert ids(found) == ["GPU-PCS-018", "GPU-PCS-020", "GPU-PCS-019"]


# ----- scripts

SCRIPT = LifecycleScriptFacts(
    name="gpunode verify",
    arguments=("--level", "1"),
    location="s3://scripts/verify.sh",
    checksum="0123456789abcdef" * 4,
    size_bytes=2 * 2**20,
)


def script_faults(*scripts: LifecycleScriptFacts, before_slurmd: bool = True, has_efa: bool = True) -> list[str]:
    return ids(check_lifecycle_scripts(scripts, before_slurmd=before_slurmd, has_efa=has_efa))


def test_a_good_script_has_no_findings() -> None:
    assert script_faults(SCRIPT) == []


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("GPU-PCS-023", {"name": ""}),
        ("GPU-PCS-023", {"name": "a" * 65}),
        ("GPU-PCS-023", {"name": "gpunode/verify"}),
        ("GPU-PCS-023", {"name": " verify"}),
        ("GPU-PCS-023", {"arguments": ("x",) * 21}),
        ("GPU-PCS-023", {"arguments": ("x" * 257,)}),
        ("GPU-PCS-023", {"checksum": "abc"}),
        ("GPU-PCS-023", {"size_bytes": 2 * 2**20 + 1}),
        ("GPU-PCS-024", {"checksum": None}),
        ("GPU-PCS-025", {"on_error": "CONTINUE"}),
    ],
)
def test_each_fault_of_a_script_is_found(rule: str, change: dict[str, Any]) -> None:
    assert script_faults(replace(SCRIPT, **change)) == [rule]


@pytest.mark.parametrize(
    "change",
    [
        {"checksum": None, "has_version": True},
        {"checksum": None, "location": "https://example.com/verify.sh"},
        {"checksum": None, "location": "s3://aws-pcs-repo-us-east-1/mount-fsx-lustre-v1.0.0.sh"},
        {"on_error": "STOP_SEQUENCE"},
        {"name": "forward logs", "location": "s3://scripts/logs.sh", "on_error": "CONTINUE"},
    ],
)
def test_scripts_that_are_right(change: dict[str, Any]) -> None:
    assert script_faults(replace(SCRIPT, **change)) == []


def test_a_check_may_fail_where_no_job_spans_nodes_or_jobs_run_already() -> None:
    failing = replace(SCRIPT, on_error="CONTINUE")
    assert script_faults(failing, has_efa=False) == script_faults(failing, before_slurmd=False) == []


def test_a_stage_has_as_many_scripts_as_the_api_says() -> None:
    limits = shape("NodeLifecycleScriptList")
    assert isinstance(limits, ListShape)
    most = limits.metadata["max"]
    scripts = [replace(SCRIPT, name=f"step {number}") for number in range(most + 1)]
    assert script_faults(*scripts[:most]) == []
    assert script_faults(*scripts) == script_faults() == ["GPU-PCS-023"]
    assert script_faults(SCRIPT, SCRIPT) == ["GPU-PCS-023"], "names are unique"


def test_the_limits_of_a_script_are_those_of_the_api() -> None:
    name, argument = shape("NodeLifecycleScriptNameString"), shape("NodeLifecycleScriptArgument")
    assert isinstance(argument, StringShape)
    assert name.metadata == {"min": 1, "max": 64, "pattern": "[A-Za-z0-9][A-Za-z0-9 _-]*"}
    assert argument.metadata["max"] == 256
    assert shape("NodeLifecycleScriptArguments").metadata["max"] == 20
    assert shape("ScriptSourceChecksumString").metadata["pattern"] == "[a-fA-F0-9]{64}"
