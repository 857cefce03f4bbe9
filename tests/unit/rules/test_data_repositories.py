"""Which data repositories one file system can have."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.data_repository import (
    DataRepository,
    DataRepositoryEvent,
    check_chunk_size,
    check_data_repositories,
    check_path,
    normal_path,
    read_prefix,
    read_s3_uri,
)
from cdk_gpu_clusters.rules.lustre import LustreSizing, MetadataMode

NEW = (DataRepositoryEvent.NEW,)


def ids(*links: DataRepository, **options: object) -> list[str]:
    return [finding.id for finding in check_data_repositories(links, **options)]  # type: ignore[arg-type]


def link(path: str, uri: str = "", **options: object) -> DataRepository:
    bucket, prefix = read_s3_uri(uri) if uri else (path.strip("/").replace("/", "-") or "root", "")
    return DataRepository(path=path, bucket=bucket, prefix=prefix, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (link("/a"), link("/b"), []),
        (link("/a"), link("/ab"), []),
        (link("/a"), link("/a"), ["GPU-DRA-003", "GPU-DRA-005"]),
        (link("/a"), link("/a/b"), ["GPU-DRA-003"]),
        (link("/a/b/"), link("/a"), ["GPU-DRA-003"]),
        (link("/"), link("/a"), ["GPU-DRA-003"]),
        (link("/a"), link("/"), ["GPU-DRA-003"]),
        (link("/a", "s3://one-bucket/x/"), link("/b", "s3://one-bucket/y/"), []),
        (link("/a", "s3://one-bucket/x/"), link("/b", "s3://one-bucket/xy/"), []),
        (link("/a", "s3://one-bucket/x/"), link("/b", "s3://two-bucket/x/"), []),
        (link("/a", "s3://one-bucket/x"), link("/b", "s3://one-bucket/x/"), ["GPU-DRA-005"]),
        (link("/a", "s3://one-bucket"), link("/b", "s3://one-bucket/x/"), ["GPU-DRA-005"]),
        (link("/a", "s3://one-bucket/x/y/"), link("/b", "s3://one-bucket/x/"), ["GPU-DRA-005"]),
    ],
)
def test_overlaps(first: DataRepository, second: DataRepository, found: list[str]) -> None:
    assert ids(first, second) == found


NAMES = st.lists(st.sampled_from(["a", "b", "ab", "a-b"]), max_size=3)


@given(st.lists(st.tuples(NAMES, st.sampled_from(["one", "two"]), NAMES), max_size=5))
def test_overlaps_are_those_that_a_walk_of_the_tree_finds(
    rows: list[tuple[list[str], str, list[str]]],
) -> None:
    """Brute force: every directory and prefix with all that is in it, as strings that end in a slash."""
    links = [
        DataRepository(path="/" + "/".join(path), bucket=bucket, prefix="".join(f"{name}/" for name in prefix))
        for path, bucket, prefix in rows
    ]
    paths = sorted("".join(f"/{name}" for name in path) + "/" for path, _, _ in rows)
    prefixes = sorted(f"s3://{bucket}/" + "".join(f"{name}/" for name in prefix) for _, bucket, prefix in rows)
    expected = [sum(b.startswith(a) for a, b in combinations(ordered, 2)) for ordered in (paths, prefixes)]
    found = ids(*links)
    assert [found.count("GPU-DRA-003"), found.count("GPU-DRA-005")] == expected


def test_eight_are_fine_and_nine_are_not() -> None:
    nine = [link(f"/data{number}") for number in range(9)]
    assert ids(*nine[:8]) == []
    assert ids(*nine) == ["GPU-DRA-001"]


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        ("/", True),
        ("/data", True),
        ("/data/", True),
        ("/data/tokens v2", True),
        ("/data/v1.5/", True),
        ("/.cache/", True),
        ("", False),
        ("data", False),
        ("./data", False),
        ("/data/../etc", False),
        ("/data//tokens", False),
        ("/data/train.parquet", False),
        ("/data/shard-0001.tar", False),
        ("/data\nmore", False),
        ("/" + "a" * 4096, False),
    ],
)
def test_paths(path: str, valid: bool) -> None:
    findings = check_path(path)
    assert [finding.id for finding in findings] == ([] if valid else ["GPU-DRA-002"])
    assert ids(DataRepository(path=path, bucket="corpus")) == [finding.id for finding in findings]


def test_paths_are_written_without_a_slash_at_the_end() -> None:
    assert [normal_path(path) for path in ("/", "/data", "/data/")] == ["/", "/data", "/data"]


@pytest.mark.parametrize(
    ("uri", "read"),
    [
        ("s3://corpus", ("corpus", "")),
        ("s3://corpus/", ("corpus", "")),
        ("s3://corpus/tokens", ("corpus", "tokens/")),
        ("s3://corpus/tokens/v1.5/", ("corpus", "tokens/v1.5/")),
        ("s3://my.corpus-2/a/b/", ("my.corpus-2", "a/b/")),
    ],
)
def test_s3_uris(uri: str, read: tuple[str, str]) -> None:
    assert read_s3_uri(uri) == read


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "corpus",
        "https://corpus.s3.amazonaws.com/tokens",
        "s3:/corpus",
        "s3://",
        "s3://Corpus",
        "s3://co",
        "s3://corpus_1",
        "s3://cor..pus",
        "s3://corpus//tokens",
        "s3://corpus/tokens//v1/",
        "s3://corpus/train.parquet",
        "s3://corpus/tokens/shard-0001.tar.gz",
        "arn:aws:s3:::corpus",
    ],
)
def test_wrong_s3_uris(uri: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_s3_uri(uri)
    assert [finding.id for finding in error.value.findings] == ["GPU-DRA-004"]


def test_a_prefix_by_itself() -> None:
    assert (read_prefix(""), read_prefix("a/b"), read_prefix("v1.5/")) == ("", "a/b/", "v1.5/")
    with pytest.raises(ConfigError, match="looks like an object"):
        read_prefix("a/model.safetensors")


@pytest.mark.parametrize(
    ("bucket_region", "auto_import", "found"),
    [
        ("us-east-1", NEW, []),
        ("us-west-2", NEW, ["GPU-DRA-006"]),
        ("us-west-2", (), []),  # export works across Regions
        (None, NEW, []),
    ],
)
def test_automatic_import_needs_the_same_region(
    bucket_region: str | None, auto_import: tuple[DataRepositoryEvent, ...], found: list[str]
) -> None:
    made = link("/a", bucket_region=bucket_region, auto_import=auto_import, auto_export=NEW)
    assert ids(made, region="us-east-1") == found
    assert ids(made, region=None) == []


@pytest.mark.parametrize(
    ("sizing", "days", "found"),
    [
        (LustreSizing(), 0, []),
        (LustreSizing(), 7, ["GPU-DRA-008"]),
        (LustreSizing(), None, []),
        (LustreSizing(deployment_type="SCRATCH_2"), 0, []),
        (LustreSizing(storage_type="INTELLIGENT_TIERING"), 0, ["GPU-DRA-007"]),
        (LustreSizing(deployment_type="SCRATCH_2", version="2.10"), 0, ["GPU-DRA-007"]),
        (LustreSizing(version="2.12", metadata_mode=MetadataMode.NONE), 0, []),
    ],
)
def test_file_systems_that_can_be_linked(sizing: LustreSizing, days: int | None, found: list[str]) -> None:
    assert ids(link("/a"), sizing=sizing, backup_retention_days=days) == found
    assert ids(sizing=sizing, backup_retention_days=days) == []


@pytest.mark.parametrize(("mib", "valid"), [(0, False), (1, True), (1024, True), (512_000, True), (512_001, False)])
def test_chunk_size(mib: int, valid: bool) -> None:
    assert [finding.id for finding in check_chunk_size(mib)] == ([] if valid else ["GPU-DRA-009"])
