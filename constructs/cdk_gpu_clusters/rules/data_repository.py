"""Links between directories of an FSx for Lustre file system and S3 prefixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from cdk_gpu_clusters.catalogue.lustre import lustre_fact, lustre_version_allows
from cdk_gpu_clusters.errors import ConfigError, Finding, check, define_rule
from cdk_gpu_clusters.rules.lustre import LustreSizing

_PAGE = 'FSx for Lustre user guide, "Linking your file system to an Amazon S3 bucket" (stored copy of 2026)'
_SCHEMA = "CloudFormation schema of AWS::FSx::DataRepositoryAssociation (cfn-lint 1.58.0)"

COUNT = define_rule("GPU-DRA-001", "a file system has at most 8 data repository associations", source=_PAGE)
PATH_FORM = define_rule("GPU-DRA-002", "the file-system path is an absolute path of a directory", source=_PAGE)
PATH_OVERLAP = define_rule(
    "GPU-DRA-003", "no linked directory is inside another; `/` is then the only association", source=_PAGE
)
S3_URI = define_rule(
    "GPU-DRA-004",
    "a data repository is a bucket or a prefix of one, s3://bucket/prefix/, not an object",
    source=f'{_SCHEMA}; Amazon S3 user guide, "General purpose bucket naming rules"',
)
PREFIX_OVERLAP = define_rule("GPU-DRA-005", "no linked S3 prefix is inside another", source=_PAGE)
IMPORT_REGION = define_rule(
    "GPU-DRA-006", "a bucket with automatic import is in the file system's Region", source=_PAGE
)
CLASS = define_rule(
    "GPU-DRA-007",
    "data repositories are linked to SSD file systems of Lustre 2.12 or 2.15, not to Intelligent-Tiering",
    source='FSx for Lustre user guide, "Using data repositories" (stored copy of 2026)',
)
BACKUPS = define_rule(
    "GPU-DRA-008",
    "a file system with data repositories has no automatic backups",
    source="botocore 1.44.5, fsx service model: CreateBackup",
)
CHUNK = define_rule("GPU-DRA-009", "an imported file's chunk is 1 to 512000 MiB", source=_SCHEMA)

_BUCKET = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_OBJECT_LIKE = re.compile(r"[^/]+\.[A-Za-z0-9]{1,16}")
_FORBIDDEN = re.compile("[\x00\x85\u2028\u2029\r\n]")  # the pattern of both paths in the schema


class DataRepositoryEvent(str, Enum):
    """A change that is carried over to the other side; the values are CloudFormation's."""

    NEW = "NEW"
    CHANGED = "CHANGED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRepository:
    """One link between a directory and an S3 prefix, with plain values.

    Attributes:
        path: Directory in the file system, such as `/data`.
        bucket: The bucket's name, or any placeholder for a bucket whose name is known only at deployment.
        prefix: Prefix in the bucket, empty for all of it.
        bucket_region: The bucket's Region, None if unknown.
        auto_import: Changes in S3 that appear in the file system.
        auto_export: Changes in the file system that appear in S3.
    """

    path: str
    bucket: str
    prefix: str = ""
    bucket_region: str | None = None
    auto_import: tuple[DataRepositoryEvent, ...] = ()
    auto_export: tuple[DataRepositoryEvent, ...] = ()


def read_s3_uri(uri: str) -> tuple[str, str]:
    """Bucket and prefix of an S3 URI; the prefix is empty or ends in a slash.

    Args:
        uri: `s3://bucket`, `s3://bucket/prefix/`. A last part with an extension and no slash is taken for an object.

    Raises:
        ConfigError: GPU-DRA-004.

    Example:
        >>> read_s3_uri("s3://corpus/tokens/v2")
        ('corpus', 'tokens/v2/')
    """
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not uri.startswith("s3://") or not _BUCKET.fullmatch(bucket):
        raise ConfigError(
            [_bad_uri(uri, "this is not the S3 URI of a bucket", "write s3://bucket or s3://bucket/prefix/")]
        )
    return bucket, read_prefix(prefix, uri=uri)


def read_prefix(prefix: str, *, uri: str = "") -> str:
    """A prefix as it goes into the template: empty, or ending in a slash.

    Raises:
        ConfigError: GPU-DRA-004.

    Example:
        >>> read_prefix("tokens"), read_prefix("")
        ('tokens/', '')
    """
    if prefix == "":
        return ""
    parts = prefix.removesuffix("/").split("/")
    if "" in parts or _FORBIDDEN.search(prefix):
        cause, fix = "an S3 prefix is made of names with one slash between them", "take empty names out of it"
        raise ConfigError([_bad_uri(uri or prefix, cause, fix)])
    if not prefix.endswith("/") and _OBJECT_LIKE.fullmatch(parts[-1]):
        cause = f"{parts[-1]} looks like an object, and only a bucket or a prefix can be linked"
        raise ConfigError([_bad_uri(uri or prefix, cause, "link the prefix it is in, or end the prefix with a slash")])
    return prefix if prefix.endswith("/") else f"{prefix}/"


@check
def check_path(path: str) -> Iterator[Finding]:
    """Find what is wrong with a directory of the file system.

    Example:
        >>> [check_path(path) == [] for path in ("/", "/data", "/data/v1.5/", "data", "/data/train.tar")]
        [True, True, True, False, False]
    """
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if path == "/":
        return
    if not path.startswith("/") or {"", ".", ".."} & set(parts) or _FORBIDDEN.search(path) or len(path) > 4096:
        cause, fix = "this is not an absolute path of a directory", "write it as /data or /data/tokens"
    elif not path.endswith("/") and _OBJECT_LIKE.fullmatch(parts[-1]):
        cause = f"{parts[-1]} looks like a file, and only a directory can be linked"
        fix = "link the directory it is in, or end the path with a slash"
    else:
        return
    yield PATH_FORM.finding(cause=cause, got=path, allowed="/, or /name/name", fix=fix)


def normal_path(path: str) -> str:
    """A directory as it goes into the template, without a slash at its end."""
    return path if path == "/" else path.removesuffix("/")


@check
def check_data_repositories(
    repositories: Sequence[DataRepository],
    *,
    region: str | None = None,
    sizing: LustreSizing | None = None,
    backup_retention_days: int | None = None,
) -> Iterator[Finding]:
    """Find what is wrong with the data repositories of one file system, all at once.

    Args:
        repositories: All of them.
        region: Region of the file system, None if unknown.
        sizing: Class of the file system, None if unknown.
        backup_retention_days: Automatic backups of the file system, None if unknown.

    Example:
        >>> links = [DataRepository(path="/a", bucket="x"), DataRepository(path="/a/b", bucket="y")]
        >>> [finding.id for finding in check_data_repositories(links)]
        ['GPU-DRA-003']
    """
    for one in repositories:
        yield from check_path(one.path)
    most = int(lustre_fact("limits", "data_repositories"))
    if len(repositories) > most:
        yield COUNT.finding(
            cause="the file system has too many data repository associations",
            got=str(len(repositories)),
            allowed=f"at most {most}",
            fix="link a prefix that holds several of them, or use a second file system",
        )
    yield from _check_overlaps(repositories)
    for one in repositories:
        yield from _check_region(one, region)
    if repositories:
        yield from _check_file_system(sizing, backup_retention_days)


@check
def check_chunk_size(mib: int) -> Iterator[Finding]:
    """Find what is wrong with the chunk size of imported files."""
    smallest, largest = (lustre_fact("limits", f"{which}_chunk_mib") for which in ("smallest", "largest"))
    if not smallest <= mib <= largest:
        yield CHUNK.finding(
            cause="imported files cannot have chunks of this size",
            got=f"{mib} MiB",
            allowed=f"{smallest} to {largest} MiB",
            fix="leave it out for 1024 MiB",
        )


def _check_overlaps(repositories: Iterable[DataRepository]) -> Iterator[Finding]:
    for first, second in combinations(repositories, 2):
        if _inside(first.path, second.path):
            yield PATH_OVERLAP.finding(
                cause="one linked directory lies inside another",
                got=f"{first.path} and {second.path}",
                allowed="directories apart from each other; / only alone",
                fix="link directories beside each other",
            )
        if first.bucket == second.bucket and _inside(first.prefix, second.prefix):
            yield PREFIX_OVERLAP.finding(
                cause="one linked S3 prefix lies inside another",
                got=f"{_uri(first)} and {_uri(second)}",
                allowed="prefixes apart from each other",
                fix="link prefixes beside each other, or only the outer one",
            )


def _inside(first: str, second: str) -> bool:
    """Whether one of two paths or prefixes contains the other, compared name by name."""
    a, b = (tuple(part for part in path.split("/") if part) for path in (first, second))
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]


def _check_region(repository: DataRepository, region: str | None) -> Iterator[Finding]:
    if repository.auto_import and None not in (region, repository.bucket_region) and region != repository.bucket_region:
        yield IMPORT_REGION.finding(
            cause=f"automatic import from {_uri(repository)} needs its bucket in the file system's Region",
            got=f"bucket in {repository.bucket_region}",
            allowed=str(region),
            fix="use a bucket in that Region, or leave auto_import out: export works across Regions",
        )


def _check_file_system(sizing: LustreSizing | None, backup_retention_days: int | None) -> Iterator[Finding]:
    if sizing is not None and sizing.is_tiering:
        yield CLASS.finding(
            cause="an Intelligent-Tiering file system cannot be linked to S3",
            got="INTELLIGENT_TIERING",
            allowed="SSD",
            fix="use SSD storage, or copy the data with DataSync or s5cmd",
        )
    version = None if sizing is None else str(getattr(sizing.version, "value", sizing.version))
    if version is not None and not lustre_version_allows(version, "data_repositories"):
        yield CLASS.finding(
            cause="this Lustre version has no data repository associations",
            got=version,
            allowed="2.12, 2.15",
            fix="use 2.15",
        )
    if backup_retention_days:
        yield BACKUPS.finding(
            cause="a file system that is linked to S3 cannot be backed up",
            got=f"backup_retention_days={backup_retention_days}",
            allowed="0",
            fix="set backup_retention_days=0; automatic export keeps a copy in S3",
        )


def _uri(repository: DataRepository) -> str:
    return f"s3://{repository.bucket}/{repository.prefix}"


def _bad_uri(uri: str, cause: str, fix: str) -> Finding:
    return S3_URI.finding(cause=cause, got=uri, allowed="s3://bucket, s3://bucket/prefix/", fix=fix)
