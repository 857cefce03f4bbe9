"""What FSx refuses in a data repository association: the rules of this library, on any template.

Source: FSx API, CreateDataRepositoryAssociation; FSx for Lustre user guide, "Troubleshooting" (a bucket that is not
there or not allowed: "unable to validate access to the S3 bucket"), stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.errors import ConfigError, Finding, errors_in
from cdk_gpu_clusters.rules.data_repository import (
    DataRepository,
    DataRepositoryEvent,
    check_data_repositories,
    read_s3_uri,
)

from ..faults import Fault
from ..world import DATA_REPOSITORY, FILE_SYSTEM
from .file_systems import configuration, deployment_type, is_lustre, sizing_of

if TYPE_CHECKING:
    from ..world import World


def data_repository_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::FSx::DataRepositoryAssociation`, with those of the same file system beside it."""
    file_system = world.find(FILE_SYSTEM, properties["FileSystemId"])
    if file_system is None:
        yield Fault(
            check="file-system-missing",
            message=f"the file system {properties['FileSystemId']!r} does not exist",
            path="FileSystemId",
        )
        return
    yield from _class_faults(file_system.properties)
    try:
        wanted = _repository(properties, world)
    except ConfigError as error:
        yield from _as_faults(error.findings)
        return
    if world.region_of_bucket(wanted.bucket) is None:
        yield Fault(
            check="bucket-missing",
            message=f"unable to validate access to the S3 bucket: there is no bucket {wanted.bucket!r}",
            path="DataRepositoryPath",
        )
    beside = [
        _repository(one.properties, world)
        for one in world.of_type(DATA_REPOSITORY)
        if one.properties["FileSystemId"] == file_system.physical_id
    ]
    yield from _as_faults(
        check_data_repositories(
            [*beside, wanted],
            region=world.region,
            sizing=sizing_of(file_system.properties),
            backup_retention_days=configuration(file_system.properties).get("AutomaticBackupRetentionDays"),
        )
    )


def _class_faults(file_system: dict[str, Any]) -> Iterator[Fault]:
    if not is_lustre(file_system):
        yield Fault(
            check="repository-class", message="only Lustre file systems are linked", path="FileSystemId"
        )
    elif deployment_type(file_system) == "SCRATCH_1":
        yield Fault(
            check="repository-class", message="SCRATCH_1 file systems are not linked", path="FileSystemId"
        )
    for name in ("ImportPath", "ExportPath"):
        if name in configuration(file_system):
            yield Fault(
                check="repository-beside-old-link",
                message=f"the file system has {name}, which excludes associations",
                path="FileSystemId",
            )


def _repository(properties: dict[str, Any], world: World) -> DataRepository:
    bucket, prefix = read_s3_uri(properties["DataRepositoryPath"])
    return DataRepository(
        path=properties["FileSystemPath"],
        bucket=bucket,
        prefix=prefix,
        bucket_region=world.region_of_bucket(bucket),
        auto_import=_events(properties, "AutoImportPolicy"),
        auto_export=_events(properties, "AutoExportPolicy"),
    )


def _events(properties: dict[str, Any], policy: str) -> tuple[DataRepositoryEvent, ...]:
    given = properties.get("S3", {}).get(policy, {}).get("Events", ())
    return tuple(DataRepositoryEvent(event) for event in given)


def _as_faults(findings: tuple[Finding, ...] | list[Finding]) -> Iterator[Fault]:
    for finding in errors_in(findings):
        yield Fault(
            check=f"repository {finding.id}",
            message=f"{finding.cause}, got {finding.got}; allowed: {finding.allowed}",
        )
