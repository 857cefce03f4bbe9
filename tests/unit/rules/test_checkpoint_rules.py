"""Directory buckets: zone ids and names."""

import pytest

from cdk_gpu_clusters.rules.checkpoints import (
    check_bucket_name,
    check_days,
    check_directory_bucket,
    check_order,
    directory_bucket_name,
    read_directory_bucket_name,
)


@pytest.mark.parametrize(
    ("zone", "base", "ids"),
    [
        ("use1-az4", None, []),
        ("use1-dfw2-az1", "llama", []),
        (None, "llama", []),
        ("us-east-1a", None, ["GPU-CKP-001"]),
        ("use1-az3", None, ["GPU-CKP-005"]),
        ("use1-dfw2-az1", None, []),
        ("use1-az4", "Llama", ["GPU-CKP-002"]),
        ("use1-az4", "-llama", ["GPU-CKP-002"]),
        ("use1-az4", "lla.ma", ["GPU-CKP-002"]),
        ("use1-az4", "", ["GPU-CKP-002"]),
        ("use1-az4", "a" * 45, []),  # 45 + "--use1-az4--x-s3" are 61 of 63
        ("use1-az4", "a" * 47, []),
        ("use1-az4", "a" * 48, ["GPU-CKP-002"]),
    ],
)
def test_directory_buckets(zone: str | None, base: str | None, ids: list[str]) -> None:
    assert [finding.id for finding in check_directory_bucket(zone, base)] == ids


@pytest.mark.parametrize(("days", "valid"), [(1, True), (30, True), (0, False), (0.5, False), (1.5, False)])
def test_lifecycle_days(days: float, valid: bool) -> None:
    assert [finding.id for finding in check_days("expire_after", days)] == ([] if valid else ["GPU-CKP-003"])


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("my-checkpoints", True),
        ("a.b.c", True),
        ("1.2.3", True),
        ("1.2.3.4", False),
        ("a..b", False),
        ("a.-b", False),
        ("a-.b", False),
        ("llama--use1-az4--x-s3", False),
    ],
)
def test_names_of_buckets(name: str, good: bool) -> None:
    assert [finding.id for finding in check_bucket_name(name)] == ([] if good else ["GPU-CKP-004"])


@pytest.mark.parametrize(("base", "zone"), [("llama", "use1-az4"), ("a--b", "use1-dfw2-az1")])
def test_a_directory_buckets_name_tells_its_zone(base: str, zone: str) -> None:
    assert read_directory_bucket_name(directory_bucket_name(base, zone)) == (base, zone)


def test_another_name_tells_none() -> None:
    with pytest.raises(ValueError, match="not the name of a directory bucket"):
        read_directory_bucket_name("my-checkpoints")


@pytest.mark.parametrize(
    ("archive", "expire", "ids"),
    [
        (10, 5, ["GPU-CKP-007"]),
        (10, 10, ["GPU-CKP-007"]),
        (10, 11, []),
        (None, 5, []),
        (10, None, []),
        (None, None, []),
    ],
)
def test_objects_are_deleted_after_they_are_archived(archive: int | None, expire: int | None, ids: list[str]) -> None:
    assert [finding.id for finding in check_order(archive, expire)] == ids
