"""Data repository associations of FSx for Lustre."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules import data_repository
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.file_systems import FILE_SYSTEM, lustre_only, lustre_sizing
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)

ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"


def associations_of(file_system: Resource) -> list[Resource]:
    """The associations of a file system of the template."""
    return [
        one
        for one in file_system.case.resources_naming(file_system, ASSOCIATION)
        if file_system.is_target_of(one.get("FileSystemId"))
    ]


def _apart(index: int) -> data_repository.DataRepository:
    """A repository that collides with none of another index."""
    return data_repository.DataRepository(path=f"/{index}", bucket=str(index))


def _bucket_and_prefix(association: Resource) -> tuple[str, str]:
    """Bucket, or the expression for it, and prefix.

    Raises:
        Undecidable: If the prefix is not known, or the text is no S3 URI.
    """
    uri = association.get("DataRepositoryPath")
    text = uri.template_text() or uri.text() or ""
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    if "${" in prefix:
        raise uri.undecidable("the prefix is known at deployment only")
    try:
        return bucket, data_repository.read_s3_uri(f"s3://stand-in/{prefix}")[1]
    except ConfigError:
        raise uri.undecidable("this is not the S3 URI of a prefix") from None


def _several_associations(file_system: Resource) -> list[Resource]:
    associations = file_system.once(associations_of)
    if len(associations) < 2:
        raise NotApplicable
    return associations


@template_rule(
    data_repository.COUNT,
    cause="FSx refuses one association too many",
    fix="link a prefix that holds several of them, or use a second file system",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/FileSystemId",),
)
def repository_count(resource: Resource) -> Iterator[Fault]:
    repositories = [_apart(index) for index, _ in enumerate(resource.once(associations_of))]
    yield from faults_of(data_repository.COUNT, data_repository.check_data_repositories(repositories), resource)


@template_rule(
    data_repository.PATH_FORM,
    cause="FSx refuses the path",
    fix="write an absolute path of a directory, such as /tokens",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(ASSOCIATION,),
    looks_at=("FileSystemPath",),
)
def repository_path(resource: Resource) -> Iterator[Fault]:
    path = resource.get("FileSystemPath")
    yield from faults_of(data_repository.PATH_FORM, data_repository.check_path(applicable(path.text())), path)


@template_rule(
    data_repository.PATH_OVERLAP,
    cause="FSx refuses a linked directory inside another",
    fix="link directories beside each other; / only alone",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/FileSystemPath",),
)
def repository_paths_apart(resource: Resource) -> Iterator[Fault]:
    paths = [one.get("FileSystemPath") for one in _several_associations(resource)]
    repositories = [replace(_apart(index), path=path.text() or "") for index, path in enumerate(paths)]
    yield from faults_of(data_repository.PATH_OVERLAP, data_repository.check_data_repositories(repositories), paths[-1])


@template_rule(
    data_repository.S3_URI,
    cause="FSx refuses the data repository",
    fix="write s3://bucket or s3://bucket/prefix/",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(ASSOCIATION,),
    looks_at=("DataRepositoryPath",),
)
def repository_uri(resource: Resource) -> Iterator[Fault]:
    uri = resource.get("DataRepositoryPath")
    text = applicable(uri.text())
    try:
        data_repository.read_s3_uri(text)
    except ConfigError as wrong:
        yield from faults_of(data_repository.S3_URI, wrong.findings, uri)


@template_rule(
    data_repository.PREFIX_OVERLAP,
    cause="FSx refuses a linked prefix inside another",
    fix="link prefixes beside each other, or only the outer one",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("AWS::FSx::DataRepositoryAssociation/DataRepositoryPath",),
)
def repository_prefixes_apart(resource: Resource) -> Iterator[Fault]:
    associations = _several_associations(resource)
    sides = map(_bucket_and_prefix, associations)
    repositories = [replace(_apart(i), bucket=bucket, prefix=prefix) for i, (bucket, prefix) in enumerate(sides)]
    at = associations[-1].get("DataRepositoryPath")
    yield from faults_of(data_repository.PREFIX_OVERLAP, data_repository.check_data_repositories(repositories), at)


@template_rule(
    data_repository.CLASS,
    cause="FSx refuses the association",
    fix="use SSD storage and Lustre 2.15, or copy the data",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=("StorageType", "FileSystemTypeVersion", "AWS::FSx::DataRepositoryAssociation/FileSystemId"),
)
def linked_class(resource: Resource) -> Iterator[Fault]:
    applicable(resource.once(associations_of))
    findings = data_repository.check_data_repositories([_apart(0)], sizing=lustre_sizing(resource))
    yield from faults_of(data_repository.CLASS, findings, resource.get("StorageType"), own_fix=True)


@template_rule(
    data_repository.BACKUPS,
    cause="a file system that is linked to S3 cannot be backed up",
    fix="set AutomaticBackupRetentionDays to 0; automatic export keeps a copy in S3",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-backups-fsx.html",
    on=(FILE_SYSTEM,),
    looks_at=("LustreConfiguration/AutomaticBackupRetentionDays", "AWS::FSx::DataRepositoryAssociation/FileSystemId"),
)
def linked_backups(resource: Resource) -> Iterator[Fault]:
    applicable(resource.once(associations_of))
    days = resource.get("LustreConfiguration", "AutomaticBackupRetentionDays")
    findings = data_repository.check_data_repositories([_apart(0)], backup_retention_days=days.integer())
    got = f"AutomaticBackupRetentionDays {days.text()}"
    yield from faults_of(data_repository.BACKUPS, findings, days, got=got, own_cause=True, own_fix=True)


@template_rule(
    data_repository.CHUNK,
    cause="FSx refuses the chunk size",
    fix="leave ImportedFileChunkSize out for 1024 MiB",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-fsx-datarepositoryassociation.html",
    on=(ASSOCIATION,),
    looks_at=("ImportedFileChunkSize",),
)
def repository_chunk(resource: Resource) -> Iterator[Fault]:
    chunk = resource.get("ImportedFileChunkSize")
    mib = chunk.integer()
    if mib is not None:
        yield from faults_of(data_repository.CHUNK, data_repository.check_chunk_size(mib), chunk)


_OLDER = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")


@define_template_rule(
    "GPU-DRA-021",
    "a PERSISTENT_2 file system is linked to S3 by data repository associations, not by ImportPath or ExportPath",
    source="botocore 1.44.5, fsx service model: CreateFileSystem; kubernetes-sigs/aws-fsx-csi-driver 412",
    cause="FSx refuses this property on PERSISTENT_2",
    fix="add a resource of type AWS::FSx::DataRepositoryAssociation",
    url="https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html",
    on=(FILE_SYSTEM,),
    looks_at=tuple(f"LustreConfiguration/{name}" for name in _OLDER),
)
def import_path(resource: Resource) -> Iterator[Fault]:
    configuration = lustre_only(resource).get("LustreConfiguration")
    if configuration.get("DeploymentType").text() != "PERSISTENT_2":
        raise NotApplicable
    for name in _OLDER:
        if configuration.get(name).exists:
            yield Fault(at=configuration.get(name), got=name, allowed="AWS::FSx::DataRepositoryAssociation")
