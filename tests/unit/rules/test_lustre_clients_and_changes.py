"""Who can mount a Lustre file system, and what can change on one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_type, instance_types
from cdk_gpu_clusters.catalogue.lustre import lustre_fact
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.lustre import (
    LustreSizing,
    MetadataMode,
    ReadCacheMode,
    check_backups,
    check_encryption_key,
    check_lustre,
)
from cdk_gpu_clusters.rules.lustre_change import check_lustre_change
from cdk_gpu_clusters.rules.lustre_clients import check_lustre_client, lustre_efa_interfaces

ERROR, WARNING = Severity.ERROR, Severity.WARNING


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({}, []),
        ({"operating_system": "al2023", "version": "2.15", "efa": True}, []),
        ({"operating_system": "ubuntu-24.04", "version": "2.12"}, []),
        ({"operating_system": "al2023", "version": "2.10"}, [("GPU-LUS-020", ERROR)]),
        ({"operating_system": "bottlerocket", "version": "2.15"}, [("GPU-LUS-020", ERROR)]),
        ({"operating_system": "windows", "version": "2.15"}, []),
        ({"operating_system": "ubuntu-24.04", "kernel": "6.17", "version": "2.15"}, []),
        ({"operating_system": "ubuntu-24.04", "kernel": "6.8.0-1021-aws"}, []),
        ({"operating_system": "ubuntu-24.04", "kernel": "7.0"}, [("GPU-LUS-025", WARNING)]),
        ({"operating_system": "ubuntu-22.04", "kernel": "5.15"}, []),
        ({"operating_system": "ubuntu-22.04", "kernel": "5.15", "efa": True}, [("GPU-LUS-025", WARNING)]),
        ({"operating_system": "ubuntu-22.04", "kernel": "6.8", "efa": True}, []),
        ({"operating_system": "al2023", "kernel": "6.1", "efa": True}, []),
        ({"operating_system": "windows", "kernel": "7.0"}, []),
        ({"kernel": "7.0"}, []),
        ({"zones": ["us-east-1a"], "file_system_zone": "us-east-1a", "efa": True}, []),
        ({"zones": ["us-east-1b"], "file_system_zone": "us-east-1a", "efa": True}, [("GPU-LUS-021", ERROR)]),
        ({"zones": ["us-east-1b"], "file_system_zone": "us-east-1a"}, [("GPU-LUS-021", WARNING)]),
        ({"zones": ["us-east-1b"]}, []),
        ({"cidrs": ["10.0.8.0/24"], "file_system_cidr": "10.0.0.0/20", "efa": True}, []),
        (
            {"cidrs": ["10.1.0.0/24"], "file_system_cidr": "10.0.0.0/20", "efa": True},
            [("GPU-LUS-024", ERROR)],
        ),
        ({"cidrs": ["10.1.0.0/24"], "file_system_cidr": "10.0.0.0/20"}, []),
        ({"cidrs": ["10.1.0.0/24"], "efa": True}, []),
        ({"node_count": 1024, "efa": True}, []),
        ({"node_count": 1025, "efa": True}, [("GPU-LUS-023", ERROR)]),
        ({"node_count": 1025}, []),
    ],
)
def test_clients(facts: dict[str, Any], found: list[tuple[str, Severity]]) -> None:
    assert [(finding.id, finding.severity) for finding in check_lustre_client(**facts)] == found


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("p5.48xlarge", None),
        ("p5en.48xlarge", None),
        ("p6-b200.48xlarge", None),
        ("g6e.48xlarge", None),
        ("trn1.32xlarge", None),
        ("p4d.24xlarge", ERROR),  # Nitro v3
        ("g5.48xlarge", ERROR),
        ("g5.2xlarge", ERROR),  # no EFA
        ("trn2.48xlarge", ERROR),
        ("trn2u.48xlarge", ERROR),
        ("c7i.48xlarge", WARNING),  # its Nitro version is not in the catalogue
    ],
)
def test_types_that_mount_over_efa(name: str, severity: Severity | None) -> None:
    findings = check_lustre_client(instance_type=instance_type(name), efa=True)
    assert [(finding.id, finding.severity) for finding in findings] == ([("GPU-LUS-022", severity)] if severity else [])
    assert check_lustre_client(instance_type=instance_type(name), efa=False) == []


# AWS's guide and set-up script give no number of interfaces for these: 2 cards are used, and any EFA module.
ON_DEFAULT_INTERFACES = {"g6e", "g7e", "trn1", "trn1n"}
ON_ANY_MODULE = {*ON_DEFAULT_INTERFACES, "p5", "p5e", "p5en"}


def test_families_that_rely_on_the_defaults_of_lustre_over_efa_are_named() -> None:
    families = {
        record.family
        for record in instance_types().values()
        if sum(card.supports_efa for card in record.network.cards) > 1
        and not check_lustre_client(instance_type=record, efa=True)
    }
    assert families - lustre_fact("efa", "client_interfaces").keys() == ON_DEFAULT_INTERFACES
    assert families - lustre_fact("efa", "lnd_version").keys() == ON_ANY_MODULE


BASE = LustreSizing(storage_capacity_gib=4800, throughput_mb_per_s_per_tib=500, metadata_iops=6000)
EFA = replace(BASE, storage_capacity_gib=9600, efa=True)
TIERING = LustreSizing(
    storage_type="INTELLIGENT_TIERING",
    throughput_capacity_mb_per_s=8000,
    read_cache=ReadCacheMode.PROPORTIONAL,
    metadata_iops=6000,
)


@pytest.mark.parametrize(
    ("before", "changes", "ids"),
    [
        (BASE, {}, []),
        (BASE, {"storage_capacity_gib": 7200}, []),
        (BASE, {"storage_capacity_gib": 2400}, ["GPU-LUS-031"]),
        (BASE, {"throughput_mb_per_s_per_tib": 1000}, ["GPU-LUS-033"]),
        (BASE, {"throughput_mb_per_s_per_tib": 125}, ["GPU-LUS-033"]),
        (BASE, {"metadata_iops": 12_000}, []),
        (BASE, {"metadata_iops": 3000}, ["GPU-LUS-031"]),
        (BASE, {"metadata_iops": None}, []),  # automatic gives 6000 at 4800 GiB, as many as now
        (replace(BASE, metadata_iops=12_000), {"metadata_iops": None}, ["GPU-LUS-031"]),
        (BASE, {"efa": True, "storage_capacity_gib": 9600}, ["GPU-LUS-030"]),
        (EFA, {"efa": False}, ["GPU-LUS-030"]),
        (EFA, {"storage_capacity_gib": 19_200}, []),
        (EFA, {"throughput_mb_per_s_per_tib": 1000}, ["GPU-LUS-032"]),
        (
            BASE,
            {"deployment_type": "SCRATCH_2", "throughput_mb_per_s_per_tib": None, "metadata_iops": None},
            ["GPU-LUS-030", "GPU-LUS-030"],
        ),
        (
            replace(BASE, version="2.12", metadata_mode=MetadataMode.NONE, metadata_iops=None),
            {"version": "2.15"},
            ["GPU-LUS-033"],
        ),
        (
            replace(BASE, metadata_mode=MetadataMode.NONE, metadata_iops=None),
            {"version": "2.12"},
            ["GPU-LUS-030"],
        ),
        (TIERING, {"throughput_capacity_mb_per_s": 12_000}, []),
        (TIERING, {"throughput_capacity_mb_per_s": 4000}, ["GPU-LUS-031"]),
    ],
)
def test_changes(before: LustreSizing, changes: dict[str, Any], ids: list[str]) -> None:
    after = replace(before, **changes)
    for sizing in (before, after):
        assert [f for f in check_lustre(sizing) if f.severity is ERROR] == [], "both are valid by themselves"
    findings = check_lustre_change(before, after)
    assert [finding.id for finding in findings] == ids
    assert all(finding.fix for finding in findings)


@pytest.mark.parametrize(
    ("scratch", "days", "valid"),
    [
        (False, 0, True),
        (False, 90, True),
        (False, 91, False),
        (False, -1, False),
        (True, 0, True),
        (True, 1, False),
    ],
)
def test_backups(scratch: bool, days: int, valid: bool) -> None:
    sizing = replace(BASE, deployment_type="SCRATCH_2") if scratch else BASE
    assert [finding.id for finding in check_backups(sizing, days)] == ([] if valid else ["GPU-LUS-015"])


def test_scratch_takes_no_key() -> None:
    scratch = replace(BASE, deployment_type="SCRATCH_2")
    assert check_encryption_key(BASE, given=True) == []
    assert check_encryption_key(scratch, given=False) == []
    assert [finding.id for finding in check_encryption_key(scratch, given=True)] == ["GPU-LUS-016"]


# FSx for Lustre user guide, "Configuring EFA clients": default number of EFA interfaces.
@pytest.mark.parametrize(
    ("name", "nodes", "count"),
    [
        ("p6-b300.48xlarge", None, 16),
        ("p6e-gb200.36xlarge", None, 8),
        ("p6-b200.48xlarge", None, 8),
        ("p5en.48xlarge", None, 8),
        ("p5.48xlarge", 128, 8),
        ("p5.48xlarge", 129, 7),
        ("p5.48xlarge", 5000, 1),
        ("p5.4xlarge", None, 1),
        ("g6e.48xlarge", None, 2),
        ("g6e.8xlarge", None, 1),
    ],
)
def test_interfaces_of_efa_clients(name: str, nodes: int | None, count: int) -> None:
    assert lustre_efa_interfaces(instance_type(name), nodes) == count
