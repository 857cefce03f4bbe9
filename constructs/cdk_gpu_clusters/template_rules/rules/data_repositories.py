"""Data repository associations of FSx for Lustre."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from cdk_gpu_clusters.errors import ConfigError, Severity, define_rule
from cdk_gpu_clusters.rules.data_repository import (
    BACKUPS,
    CHUNK,
    CLASS,
    COUNT,
    PATH_FORM,
    PATH_OVERLAP,
    PREFIX_OVERLAP,
    S3_URI,
    DataRepository,
    check_chunk_size,
    check_data_repositories,
    check_path,
    read_s3_uri,
)
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only, lustre_sizing
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, faults_of, template_rule

ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"


@dataclass(frozen=True, slots=True)
class Association:
    """A link between a directory and an S3 prefix.

    Attributes:
        resource: The resource.
    """

    resource: Resource

    def placeholder(self, index: int) -> DataRepository:
        """A repository that collides with none of another index, where only their number matters."""
        return DataRepository(path=f"/{index}", bucket=str(index))

    def path(self) -> str:
        """The directory."""
        return self.resource.get("FileSystemPath").text() or ""

    def bucket_and_prefix(self) -> tuple[str, str]:
        """Bucket, or the expression for it, and prefix.

        Raises:
            Undecidable: If the prefix is not known, or the text is no S3 URI.
        """
        uri = self.resource.get("DataRepositoryPath")
        text = uri.template_text() or uri.text() or ""
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        if "${" in prefix:
            raise uri.undecidable("the prefix is known at deployment only")
        try:
            return bucket, read_s3_uri(f"s3://stand-in/{prefix}")[1]
        except ConfigError:
            raise uri.undecidable("this is not the S3 URI of a prefix") from None


def associations_of(file_system: Resource) -> list[Association]:
    """The associations of a file system of the template."""
    return file_system.once(_associations)


def repositories_of(associations: list[Association], side: Literal["path", "prefix"]) -> list[DataRepository]:
    """Associations as plain values, with one of their sides; the other one collides with nothing."""
    found = []
    for index, one in enumerate(associations):
        apart = one.placeholder(index)
        if side == "path":
            found.append(replace(apart, path=one.path()))
        else:
            bucket, prefix = one.bucket_and_prefix()
            found.append(replace(apart, bucket=bucket, prefix=prefix))
    return found


def _associations(file_system: Resource) -> list[Association]:
    return [
        Association(one)
        for one in file_system.case.resources_naming(file_system, ASSOCIATION)
        if file_system.is_target_of(one.get("FileSystemId"))
    ]


@template_rule(
    COUNT,
    severity=Severity.ERROR,
    cause="FSx refuses one association too many",
    fix="link a prefix that holds several of them, or use a second file system",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/FileSystemId",),
)
def repository_count(resource: Resource) -> Iterator[Fault]:
    """A Lustre file system has no more data repository associations than FSx makes."""
    repositories = [one.placeholder(index) for index, one in enumerate(associations_of(resource))]
    yield from faults_of(COUNT, check_data_repositories(repositories), resource)


@template_rule(
    PATH_FORM,
    severity=Severity.ERROR,
    cause="FSx refuses the path",
    fix="write an absolute path of a directory, such as /tokens",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(ASSOCIATION,),
    looks_at=("FileSystemPath",),
)
def repository_path(resource: Resource) -> Iterator[Fault]:
    """The directory of a data repository association is one that FSx takes."""
    path = resource.get("FileSystemPath")
    text = path.text()
    if text is None:
        raise NotApplicable
    yield from faults_of(PATH_FORM, check_path(text), path)


@template_rule(
    PATH_OVERLAP,
    severity=Severity.ERROR,
    cause="FSx refuses a linked directory inside another",
    fix="link directories beside each other; / only alone",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/FileSystemPath",),
)
def repository_paths_apart(resource: Resource) -> Iterator[Fault]:
    """Linked directories of a Lustre file system do not overlap."""
    associations = associations_of(resource)
    if len(associations) < 2:
        raise NotApplicable
    at = associations[-1].resource.get("FileSystemPath")
    yield from faults_of(PATH_OVERLAP, check_data_repositories(repositories_of(associations, "path")), at)


@template_rule(
    S3_URI,
    severity=Severity.ERROR,
    cause="FSx refuses the data repository",
    fix="write s3://bucket or s3://bucket/prefix/",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(ASSOCIATION,),
    looks_at=("DataRepositoryPath",),
)
def repository_uri(resource: Resource) -> Iterator[Fault]:
    """A data repository is a bucket or a prefix, written as an S3 URI."""
    uri = resource.get("DataRepositoryPath")
    text = uri.text()
    if text is None:
        raise NotApplicable
    try:
        read_s3_uri(text)
    except ConfigError as wrong:
        yield from faults_of(S3_URI, wrong.findings, uri)


@template_rule(
    PREFIX_OVERLAP,
    severity=Severity.ERROR,
    cause="FSx refuses a linked prefix inside another",
    fix="link prefixes beside each other, or only the outer one",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/DataRepositoryPath",),
)
def repository_prefixes_apart(resource: Resource) -> Iterator[Fault]:
    """Linked S3 prefixes of a Lustre file system do not overlap."""
    associations = associations_of(resource)
    if len(associations) < 2:
        raise NotApplicable
    at = associations[-1].resource.get("DataRepositoryPath")
    yield from faults_of(PREFIX_OVERLAP, check_data_repositories(repositories_of(associations, "prefix")), at)


@template_rule(
    CLASS,
    severity=Severity.ERROR,
    cause="FSx refuses the association",
    fix="use SSD storage and Lustre 2.15, or copy the data",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "StorageType",
        "FileSystemTypeVersion",
        "AWS::FSx::DataRepositoryAssociation/FileSystemId",
    ),
)
def linked_class(resource: Resource) -> Iterator[Fault]:
    """A file system that is linked to S3 is of a class that can be."""
    associations = associations_of(resource)
    if not associations:
        raise NotApplicable
    sizing = lustre_sizing(resource)
    for finding in check_data_repositories([associations[0].placeholder(0)], sizing=sizing):
        if finding.id == CLASS.id:
            yield Fault(at=resource.get("StorageType"), got=finding.got, allowed=finding.allowed, cause=finding.cause)


@template_rule(
    BACKUPS,
    severity=Severity.ERROR,
    cause="a file system that is linked to S3 cannot be backed up",
    fix="set AutomaticBackupRetentionDays to 0; automatic export keeps a copy in S3",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/AutomaticBackupRetentionDays",
        "AWS::FSx::DataRepositoryAssociation/FileSystemId",
    ),
)
def linked_backups(resource: Resource) -> Iterator[Fault]:
    """A file system that is linked to S3 has no automatic backups."""
    associations = associations_of(resource)
    if not associations:
        raise NotApplicable
    days = resource.get("LustreConfiguration", "AutomaticBackupRetentionDays")
    repositories = [associations[0].placeholder(0)]
    for finding in check_data_repositories(repositories, backup_retention_days=days.integer()):
        if finding.id == BACKUPS.id:
            yield Fault(at=days, got=f"AutomaticBackupRetentionDays {days.text()}", allowed=finding.allowed)


@template_rule(
    CHUNK,
    severity=Severity.ERROR,
    cause="FSx refuses the chunk size",
    fix="leave ImportedFileChunkSize out for 1024 MiB",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-datarepositoryassociation.html",
    on=(ASSOCIATION,),
    looks_at=("ImportedFileChunkSize",),
)
def repository_chunk(resource: Resource) -> Iterator[Fault]:
    """Imported files have chunks of a size that FSx makes."""
    chunk = resource.get("ImportedFileChunkSize")
    mib = chunk.integer()
    if mib is not None:
        yield from faults_of(CHUNK, check_chunk_size(mib), chunk)


_OLDER = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")


@template_rule(
    define_rule(
        "GPU-DRA-021",
        "a PERSISTENT_2 file system is linked to S3 by data repository associations, not by ImportPath or ExportPath",
        source="botocore 1.44.5, fsx service model: CreateFileSystem; kubernetes-sigs/aws-fsx-csi-driver 412",
    ),
    severity=Severity.ERROR,
    cause="FSx refuses this property on PERSISTENT_2",
    fix="add a resource of type AWS::FSx::DataRepositoryAssociation",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=(
        "LustreConfiguration/ImportPath",
        "LustreConfiguration/ExportPath",
        "LustreConfiguration/ImportedFileChunkSize",
        "LustreConfiguration/AutoImportPolicy",
    ),
)
def import_path(resource: Resource) -> Iterator[Fault]:
    """A PERSISTENT_2 file system is linked to S3 by associations."""
    configuration = lustre_only(resource).get("LustreConfiguration")
    if configuration.get("DeploymentType").text() != "PERSISTENT_2":
        raise NotApplicable
    for name in _OLDER:
        if configuration.get(name).exists:
            yield Fault(at=configuration.get(name), got=name, allowed="AWS::FSx::DataRepositoryAssociation")
