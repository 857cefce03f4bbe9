"""File systems for home directories: both sides of every rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdk_gpu_clusters.catalogue.homes import EfsThroughputMode, HomeService, OpenZfsDeploymentType
from cdk_gpu_clusters.rules.homes import (
    EfsHomes,
    HomeQuota,
    HomeStorage,
    OpenZfsHomes,
    check_home_client,
    check_home_places,
    check_homes,
    check_homes_change,
)

SMALL = OpenZfsHomes(deployment_type=OpenZfsDeploymentType.SINGLE_AZ_1, throughput_mb_per_s=64)


def ids(storage: HomeStorage) -> list[str]:
    return [one.id for one in check_homes(storage)]


@pytest.mark.parametrize(
    "storage",
    [
        OpenZfsHomes(),
        SMALL,
        OpenZfsHomes(storage_capacity_gib=64),
        OpenZfsHomes(storage_capacity_gib=524_288, throughput_mb_per_s=10_240),
        OpenZfsHomes(record_size_kib=4),
        OpenZfsHomes(quotas=(HomeQuota.user(2001, 0), HomeQuota.group(2001, 5))),
        OpenZfsHomes(quotas=tuple(HomeQuota.user(number, 1) for number in range(500))),
        OpenZfsHomes(backup_retention_days=0),
        OpenZfsHomes(backup_retention_days=90),
        EfsHomes(),
        EfsHomes(throughput_mode=EfsThroughputMode.PROVISIONED, provisioned_mib_per_s=1),
        EfsHomes(throughput_mode=EfsThroughputMode.PROVISIONED, provisioned_mib_per_s=3414),
    ],
    ids=str,
)
def test_valid_file_systems(storage: HomeStorage) -> None:
    assert check_homes(storage) == []


@pytest.mark.parametrize(
    ("storage", "rule", "fix"),
    [
        (OpenZfsHomes(deployment_type="MULTI_AZ_1"), "GPU-HOM-001", "use SINGLE_AZ_HA_2"),  # type: ignore[arg-type]
        (OpenZfsHomes(storage_capacity_gib=63), "GPU-HOM-002", "use 64 GiB"),
        (OpenZfsHomes(storage_capacity_gib=524_289), "GPU-HOM-002", "use 524288 GiB"),
        (OpenZfsHomes(throughput_mb_per_s=128), "GPU-HOM-003", "use 160"),
        (replace(SMALL, throughput_mb_per_s=160), "GPU-HOM-003", "use 128 or 256"),
        (replace(SMALL, throughput_mb_per_s=5120), "GPU-HOM-003", "use 4096"),
        (OpenZfsHomes(record_size_kib=100), "GPU-HOM-004", "use 128"),
        (OpenZfsHomes(record_size_kib=2048), "GPU-HOM-004", "use 128"),
        (OpenZfsHomes(quotas=(HomeQuota.user(-1, 1),)), "GPU-HOM-005", "numeric id"),
        (OpenZfsHomes(quotas=(HomeQuota.user(1, -1),)), "GPU-HOM-005", "use 0"),
        (OpenZfsHomes(quotas=(HomeQuota.user(1, 1), HomeQuota.user(1, 2))), "GPU-HOM-005", "keep one"),
        (OpenZfsHomes(quotas=tuple(HomeQuota.user(number, 1) for number in range(501))), "GPU-HOM-005", "limit groups"),
        (OpenZfsHomes(backup_retention_days=91), "GPU-HOM-006", "use 90"),
        (OpenZfsHomes(backup_retention_days=-1), "GPU-HOM-006", "use 0"),
        (EfsHomes(throughput_mode=EfsThroughputMode.PROVISIONED), "GPU-HOM-007", "set it"),
        (EfsHomes(throughput_mode=EfsThroughputMode.PROVISIONED, provisioned_mib_per_s=3415), "GPU-HOM-007", "set it"),
        (EfsHomes(provisioned_mib_per_s=100), "GPU-HOM-007", "leave it out"),
    ],
)
def test_invalid_file_systems(storage: HomeStorage, rule: str, fix: str) -> None:
    (finding,) = check_homes(storage)
    assert finding.id == rule
    assert fix in finding.fix


def test_all_faults_at_once() -> None:
    bad = OpenZfsHomes(storage_capacity_gib=1, throughput_mb_per_s=1, record_size_kib=1, backup_retention_days=100)
    assert ids(bad) == ["GPU-HOM-002", "GPU-HOM-003", "GPU-HOM-004", "GPU-HOM-006"]


@pytest.mark.parametrize(
    ("service", "zones", "valid"),
    [
        (HomeService.OPENZFS, ["us-east-1a"], True),
        (HomeService.OPENZFS, [None], True),
        (HomeService.OPENZFS, [], False),
        (HomeService.OPENZFS, ["us-east-1a", "us-east-1b"], False),
        (HomeService.EFS, ["us-east-1a", "us-east-1b"], True),
        (HomeService.EFS, [None, None], True),
        (HomeService.EFS, ["us-east-1a", "us-east-1a"], False),
        (HomeService.EFS, [], False),
    ],
)
def test_places(service: HomeService, zones: list[str | None], valid: bool) -> None:
    assert [one.id for one in check_home_places(service, zones)] == ([] if valid else ["GPU-HOM-008"])


def test_only_efs_needs_a_mount_target_in_the_zone_of_its_clients() -> None:
    there = {"zones": ["us-east-1b"], "file_system_zones": ["us-east-1a"]}
    assert check_home_client(HomeService.OPENZFS, **there) == []
    (finding,) = check_home_client(HomeService.EFS, **there)
    assert (finding.id, finding.got) == ("GPU-HOM-009", "us-east-1b")
    assert check_home_client(HomeService.EFS, zones=["us-east-1a"], file_system_zones=["us-east-1a"]) == []
    assert check_home_client(HomeService.EFS, zones=["us-east-1a"]) == []


@pytest.mark.parametrize(
    ("after", "causes"),
    [
        (OpenZfsHomes(storage_capacity_gib=2048, throughput_mb_per_s=640, record_size_kib=64), []),
        (OpenZfsHomes(quotas=(HomeQuota.user(1, 1),), backup_retention_days=0), []),
        (OpenZfsHomes(storage_capacity_gib=1000), ["storage_capacity_gib cannot shrink"]),
        (
            OpenZfsHomes(deployment_type=OpenZfsDeploymentType.SINGLE_AZ_2),
            ["deployment_type cannot change: CloudFormation makes an empty file system instead"],
        ),
        (EfsHomes(), ["the service changes, and the home directories stay in the old file system"]),
    ],
)
def test_changes(after: HomeStorage, causes: list[str]) -> None:
    found = check_homes_change(OpenZfsHomes(), after)
    assert [one.cause for one in found] == causes
    assert {one.id for one in found} <= {"GPU-HOM-010"}


def test_efs_changes_in_place() -> None:
    after = EfsHomes(throughput_mode=EfsThroughputMode.BURSTING, backups=False)
    assert check_homes_change(EfsHomes(), after) == []
