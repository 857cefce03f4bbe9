"""Directory buckets: zone ids and names."""

import pytest

from cdk_gpu_clusters.rules.checkpoints import check_days, check_directory_bucket


@pytest.mark.parametrize(
    ("zone", "base", "ids"),
    [
        ("use1-az4", None, []),
        ("use1-dfw2-az1", "llama", []),
        (None, "llama", []),
        ("us-east-1a", None, ["GPU-CKP-001"]),
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
