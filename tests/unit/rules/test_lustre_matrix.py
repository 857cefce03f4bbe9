"""Every size, tier and EFA combination of FSx for Lustre, against a table written here and not read from the data."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest

from cdk_gpu_clusters.errors import Severity, errors_in
from cdk_gpu_clusters.rules.lustre import (
    LustreSizing,
    MetadataMode,
    ReadCacheMode,
    automatic_metadata_iops,
    check_lustre,
)

# (deployment type, MB/s/TiB, EFA): valid capacities are multiples of the first number, and the others.
# FSx for Lustre user guide, "Getting started" and "Increasing storage capacity"; fsx service model.
SSD: dict[tuple[str, int | None, bool], tuple[int, tuple[int, ...]]] = {
    ("SCRATCH_2", None, False): (2400, (1200,)),
    ("PERSISTENT_2", 125, False): (2400, (1200,)),
    ("PERSISTENT_2", 250, False): (2400, (1200,)),
    ("PERSISTENT_2", 500, False): (2400, (1200,)),
    ("PERSISTENT_2", 1000, False): (2400, (1200,)),
    ("PERSISTENT_2", 125, True): (38_400, ()),
    ("PERSISTENT_2", 250, True): (19_200, ()),
    ("PERSISTENT_2", 500, True): (9600, ()),
    ("PERSISTENT_2", 1000, True): (4800, ()),
}
DEPLOYMENTS = ("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2", "PERSISTENT_3")
RATES = (None, 12, 40, 50, 100, 125, 200, 250, 300, 500, 1000, 2000)
CAPACITIES = (*range(0, 100_801, 600), 1, 1199, 1201, 38_399, 38_401, -2400, None)


def expected(deployment: str, rate: int | None, efa: bool, capacity: int | None) -> bool:
    step, others = SSD.get((deployment, rate, efa), (0, ()))
    return bool(capacity is not None and step and capacity > 0 and (capacity % step == 0 or capacity in others))


@pytest.mark.parametrize("efa", [False, True])
@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_ssd_sizes(deployment: str, efa: bool) -> None:
    seen = {True: 0, False: 0}
    for rate, capacity in product(RATES, CAPACITIES):
        sizing = LustreSizing(
            deployment_type=deployment,
            throughput_mb_per_s_per_tib=rate,
            storage_capacity_gib=capacity,
            efa=efa,
        )
        errors = errors_in(check_lustre(sizing))
        valid = expected(deployment, rate, efa, capacity)
        seen[valid] += 1
        assert (not errors) is valid, (sizing, errors)
        assert all(error.cause and error.got and error.allowed and error.fix for error in errors)
    assert seen[False]
    assert bool(seen[True]) is any(key[0] == deployment and key[2] is efa for key in SSD)


@pytest.mark.parametrize(("key", "row"), SSD.items(), ids=str)
def test_the_capacities_named_in_a_fix_are_valid_and_the_nearest(
    key: tuple[str, int | None, bool], row: tuple[int, tuple[int, ...]]
) -> None:
    deployment, rate, efa = key
    valid = sorted({*row[1], *range(row[0], 400_000, row[0])})
    for capacity in range(1, 100_001, 7):
        if capacity in valid:
            continue
        sizing = LustreSizing(
            deployment_type=deployment,
            throughput_mb_per_s_per_tib=rate,
            storage_capacity_gib=capacity,
            efa=efa,
        )
        (error,) = errors_in(check_lustre(sizing))
        assert error.id == ("GPU-LUS-005" if efa else "GPU-LUS-003")
        near = [value for value in valid if value < capacity][-1:] + [value for value in valid if value > capacity][:1]
        assert [int(number) for number in re.findall(r"\d+", error.fix)] == near


@pytest.mark.parametrize(
    ("changes", "rule", "words"),
    [
        ({"deployment_type": "PERSISTENT_1"}, "GPU-LUS-001", "PERSISTENT_1 file systems are not offered"),
        ({"deployment_type": "SCRATCH_1"}, "GPU-LUS-001", "not offered"),
        ({"storage_type": "HDD"}, "GPU-LUS-002", "no such storage class"),
        (
            {"storage_type": "INTELLIGENT_TIERING", "deployment_type": "SCRATCH_2"},
            "GPU-LUS-002",
            "PERSISTENT_2",
        ),
        ({"read_cache": ReadCacheMode.NO_CACHE}, "GPU-LUS-002", "Intelligent-Tiering"),
        ({"throughput_mb_per_s_per_tib": None}, "GPU-LUS-004", "125, 250, 500, 1000"),
        ({"deployment_type": "SCRATCH_2"}, "GPU-LUS-004", "one fixed rate"),
        (
            {"deployment_type": "SCRATCH_2", "throughput_mb_per_s_per_tib": None, "efa": True},
            "GPU-LUS-006",
            "takes no EFA clients",
        ),
        ({"metadata_iops": 5000}, "GPU-LUS-007", "3000 or 6000"),
        ({"metadata_mode": MetadataMode.USER_PROVISIONED}, "GPU-LUS-007", "needs metadata_iops"),
        ({"metadata_mode": MetadataMode.AUTOMATIC, "metadata_iops": 6000}, "GPU-LUS-008", "takes none"),
        ({"metadata_mode": MetadataMode.NONE, "efa": True}, "GPU-LUS-008", "with EFA"),
        ({"version": "2.12"}, "GPU-LUS-009", "with a metadata configuration"),
        ({"version": "2.10", "metadata_mode": MetadataMode.NONE}, "GPU-LUS-009", "2.12, 2.15"),
    ],
)
def test_what_else_is_refused(changes: dict[str, object], rule: str, words: str) -> None:
    valid = LustreSizing(storage_capacity_gib=38_400, throughput_mb_per_s_per_tib=250)
    assert errors_in(check_lustre(valid)) == []
    (error,) = errors_in(check_lustre(replace(valid, **changes)))  # type: ignore[arg-type]
    assert error.id == rule
    assert words in str(error)


def test_every_fault_is_found_at_once() -> None:
    sizing = LustreSizing(
        storage_capacity_gib=1000, throughput_mb_per_s_per_tib=300, metadata_iops=7, version="2.12", efa=True
    )
    assert [error.id for error in check_lustre(sizing)] == [
        "GPU-LUS-004",
        "GPU-LUS-003",
        "GPU-LUS-007",
        "GPU-LUS-009",
    ]


def test_old_version_without_metadata_configuration_is_accepted() -> None:
    sizing = LustreSizing(
        storage_capacity_gib=1200,
        throughput_mb_per_s_per_tib=125,
        metadata_mode=MetadataMode.NONE,
        version="2.12",
    )
    assert check_lustre(sizing) == []


@pytest.mark.parametrize(("capacity", "advised"), [(19_200, True), (38_400, True), (2400, False)])
def test_efa_is_advised_where_it_would_be_possible(capacity: int, advised: bool) -> None:
    findings = check_lustre(LustreSizing(storage_capacity_gib=capacity, throughput_mb_per_s_per_tib=250))
    assert [(f.id, f.severity) for f in findings] == ([("GPU-LUS-011", Severity.INFO)] if advised else [])


def test_above_the_default_quota_is_a_warning() -> None:
    findings = check_lustre(LustreSizing(storage_capacity_gib=115_200, throughput_mb_per_s_per_tib=250, efa=True))
    assert [(f.id, f.severity) for f in findings] == [("GPU-LUS-010", Severity.WARNING)]


# FSx for Lustre user guide, "Lustre metadata performance configuration": GiB and automatic metadata IOPS.
AUTOMATIC = {
    1200: 1500, 2400: 3000, 4800: 6000, 7200: 6000, 9600: 6000, 12_000: 12_000, 45_600: 12_000, 48_000: 24_000,
    50_400: 36_000, 72_000: 36_000, 96_000: 48_000, 19_200: 12_000, 38_400: 12_000,
}  # fmt: skip


@pytest.mark.parametrize(("capacity", "iops"), AUTOMATIC.items())
def test_automatic_metadata(capacity: int, iops: int) -> None:
    assert automatic_metadata_iops(capacity) == iops


SSD_IOPS = {1500, 3000, 6000, *(12_000 * n for n in range(1, 17))}


@pytest.mark.parametrize(("tiering", "valid"), [(False, SSD_IOPS), (True, {6000, 12_000})])
def test_metadata_iops(tiering: bool, valid: set[int]) -> None:
    base = (
        LustreSizing(
            storage_type="INTELLIGENT_TIERING",
            throughput_capacity_mb_per_s=4000,
            read_cache=ReadCacheMode.NO_CACHE,
        )
        if tiering
        else LustreSizing(storage_capacity_gib=1200, throughput_mb_per_s_per_tib=125)
    )
    for iops in range(0, 210_001, 500):
        errors = errors_in(check_lustre(replace(base, metadata_iops=iops)))
        assert (not errors) is (iops in valid), iops
        for number in re.findall(r"\d+", errors[0].fix) if errors else ():
            assert int(number) in valid


@pytest.mark.parametrize("efa", [False, True])
@pytest.mark.parametrize(
    ("throughput", "cache", "size", "ids"),
    [
        (4000, ReadCacheMode.NO_CACHE, None, []),
        (4000, ReadCacheMode.PROPORTIONAL, None, []),
        (4000, ReadCacheMode.USER_PROVISIONED, 32, []),
        (8000, ReadCacheMode.USER_PROVISIONED, 262_144, []),
        (100_000, ReadCacheMode.NO_CACHE, None, []),
        (2_000_000, ReadCacheMode.NO_CACHE, None, ["GPU-LUS-014"]),
        (None, ReadCacheMode.NO_CACHE, None, ["GPU-LUS-012"]),
        (0, ReadCacheMode.NO_CACHE, None, ["GPU-LUS-012"]),
        (6000, ReadCacheMode.NO_CACHE, None, ["GPU-LUS-012"]),
        (2_004_000, ReadCacheMode.NO_CACHE, None, ["GPU-LUS-012"]),
        (4000, None, None, ["GPU-LUS-013"]),
        (4000, ReadCacheMode.NO_CACHE, 64, ["GPU-LUS-013"]),
        (4000, ReadCacheMode.USER_PROVISIONED, None, ["GPU-LUS-013"]),
        (4000, ReadCacheMode.USER_PROVISIONED, 31, ["GPU-LUS-013"]),
        (4000, ReadCacheMode.USER_PROVISIONED, 131_073, ["GPU-LUS-013"]),
    ],
)
def test_intelligent_tiering(
    efa: bool, throughput: int | None, cache: ReadCacheMode | None, size: int | None, ids: list[str]
) -> None:
    sizing = LustreSizing(
        storage_type="INTELLIGENT_TIERING",
        throughput_capacity_mb_per_s=throughput,
        read_cache=cache,
        read_cache_gib=size,
        metadata_iops=6000,
        efa=efa,
    )
    assert [finding.id for finding in check_lustre(sizing)] == ids


def test_intelligent_tiering_has_no_capacity_and_no_automatic_metadata() -> None:
    sizing = LustreSizing(
        storage_type="INTELLIGENT_TIERING",
        storage_capacity_gib=1200,
        throughput_capacity_mb_per_s=4000,
        read_cache=ReadCacheMode.NO_CACHE,
        metadata_mode=MetadataMode.AUTOMATIC,
    )
    assert [finding.id for finding in check_lustre(sizing)] == ["GPU-LUS-012", "GPU-LUS-008"]


@pytest.mark.parametrize(
    ("sizing", "throughput", "servers", "metadata", "addresses"),
    [
        (LustreSizing(storage_capacity_gib=1200, throughput_mb_per_s_per_tib=125), 150, 1, 1, 2),
        (LustreSizing(storage_capacity_gib=38_400, throughput_mb_per_s_per_tib=250), 9600, 16, 1, 17),
        (LustreSizing(storage_capacity_gib=38_400, throughput_mb_per_s_per_tib=250, efa=True), 9600, 2, 1, 3),
        (
            LustreSizing(storage_capacity_gib=96_000, throughput_mb_per_s_per_tib=1000, efa=True),
            96_000,
            20,
            4,
            24,
        ),
        (LustreSizing(storage_capacity_gib=4800, deployment_type="SCRATCH_2"), 960, 2, 1, 3),
        (
            LustreSizing(
                storage_type="INTELLIGENT_TIERING",
                throughput_capacity_mb_per_s=8000,
                read_cache=ReadCacheMode.NO_CACHE,
                metadata_iops=12_000,
            ),
            8000,
            2,
            1,
            3,
        ),
    ],
)
def test_numbers_that_follow(
    sizing: LustreSizing, throughput: int, servers: int, metadata: int, addresses: int
) -> None:
    assert errors_in(check_lustre(sizing)) == []
    assert sizing.throughput_mb_per_s == throughput
    assert (sizing.object_servers, sizing.metadata_servers) == (servers, metadata)
    assert sizing.ip_addresses == addresses
