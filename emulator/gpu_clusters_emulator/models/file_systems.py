"""What FSx refuses in a Lustre file system: the rules of this library, on any template.

The rules know PERSISTENT_2 and SCRATCH_2. Of the older types, PERSISTENT_1 and SCRATCH_1, only the API model is
checked.

Sources: FSx API, CreateFileSystem and UpdateFileSystem; CloudFormation template reference, AWS::FSx::FileSystem
LustreConfiguration ("Update requires: Replacement"), as the specification inside CDK CLI 2.1148 has it. The registry
schema does not name those properties.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.catalogue.lustre import LustreDeploymentType
from cdk_gpu_clusters.errors import Finding, errors_in
from cdk_gpu_clusters.rules.lustre import (
    LustreSizing,
    MetadataMode,
    ReadCacheMode,
    check_backups,
    check_encryption_key,
    check_lustre,
)
from cdk_gpu_clusters.rules.lustre_change import check_lustre_change

from ..faults import Fault
from ..world import DATA_REPOSITORY
from .network_interfaces import group_faults, subnet_faults

if TYPE_CHECKING:
    from ..world import World

#: Properties of LustreConfiguration, and of the file system, whose change replaces it.
REPLACING = frozenset(
    {
        "CopyTagsToBackups",
        "DeploymentType",
        "DriveCacheType",
        "ExportPath",
        "FileSystemTypeVersion",
        "ImportPath",
        "ImportedFileChunkSize",
        "PerUnitStorageThroughput",
    }
)
_OLD_LINKS = ("AutoImportPolicy", "ExportPath", "ImportPath", "ImportedFileChunkSize")
_LOG_GROUP_PREFIX = "/aws/fsx"  # FSx API, LustreLogCreateConfiguration


def is_lustre(properties: dict[str, Any]) -> bool:
    """Whether the file system is one of FSx for Lustre; of the others only the schema is checked."""
    return bool(properties.get("FileSystemType") == "LUSTRE")


def configuration(properties: dict[str, Any]) -> dict[str, Any]:
    """Its `LustreConfiguration`."""
    given: dict[str, Any] = properties.get("LustreConfiguration", {})
    return given


def deployment_type(properties: dict[str, Any]) -> str:
    """Its deployment type; SCRATCH_1 is what the API takes for none."""
    return str(configuration(properties).get("DeploymentType", "SCRATCH_1"))


def lustre_version(properties: dict[str, Any]) -> str:
    """Its Lustre version; without one FSx chooses (API, CreateFileSystem: FileSystemTypeVersion)."""
    if deployment_type(properties) != LustreDeploymentType.PERSISTENT_2:
        chosen = "2.10"
    else:
        chosen = "2.15" if "MetadataConfiguration" in configuration(properties) else "2.12"
    return str(properties.get("FileSystemTypeVersion", chosen))


def sizing_of(properties: dict[str, Any]) -> LustreSizing | None:
    """Class, size and speed as the rules take them; None for a deployment type that they do not know."""
    if deployment_type(properties) not in tuple(LustreDeploymentType):
        return None
    given = configuration(properties)
    metadata, cache = given.get("MetadataConfiguration"), given.get("DataReadCacheConfiguration", {})
    return LustreSizing(
        storage_capacity_gib=properties.get("StorageCapacity"),
        throughput_mb_per_s_per_tib=given.get("PerUnitStorageThroughput"),
        deployment_type=deployment_type(properties),
        storage_type=properties.get("StorageType", "SSD"),
        throughput_capacity_mb_per_s=given.get("ThroughputCapacity"),
        read_cache=ReadCacheMode(cache["SizingMode"]) if "SizingMode" in cache else None,
        read_cache_gib=cache.get("SizeGiB"),
        metadata_iops=metadata.get("Iops") if metadata else None,
        metadata_mode=MetadataMode(metadata["Mode"]) if metadata else MetadataMode.NONE,
        efa=given.get("EfaEnabled", False),
        version=lustre_version(properties),
    )


def file_system_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::FSx::FileSystem`."""
    if not is_lustre(properties):
        return
    subnets = properties.get("SubnetIds", [])
    if len(subnets) != 1:
        yield Fault(
            check="lustre-subnet",
            message=f"a Lustre file system has exactly one subnet, got {len(subnets)}",
            path="SubnetIds",
        )
    yield from subnet_faults(subnets, world, "SubnetIds")
    yield from group_faults(properties.get("SecurityGroupIds", []), subnets, world, "SecurityGroupIds")
    yield from _log_faults(configuration(properties).get("LogConfiguration", {}), world)
    yield from _class_faults(properties)


def change_faults(
    physical_id: str, old: dict[str, Any], new: dict[str, Any], world: World
) -> Iterator[Fault]:
    """Faults of a change that CloudFormation makes in place, by UpdateFileSystem."""
    before, after = sizing_of(old), sizing_of(new)
    if before is not None and after is not None:
        yield from _as_faults(check_lustre_change(before, after))
    linked = any(one.properties["FileSystemId"] == physical_id for one in world.of_type(DATA_REPOSITORY))
    if linked and configuration(new).get("AutomaticBackupRetentionDays"):
        yield Fault(
            check="lustre-backups",
            message=f"{physical_id} is linked to S3 and cannot be backed up",
            path="LustreConfiguration/AutomaticBackupRetentionDays",
        )


def _class_faults(properties: dict[str, Any]) -> Iterator[Fault]:
    given = configuration(properties)
    for name in _OLD_LINKS if deployment_type(properties) == LustreDeploymentType.PERSISTENT_2 else ():
        if name in given:
            yield Fault(
                check="lustre-old-link",
                message=f"PERSISTENT_2 takes no {name}; it is linked by data repository associations",
                path=f"LustreConfiguration/{name}",
            )
    sizing = sizing_of(properties)
    if sizing is None:
        return
    yield from _as_faults(
        [
            *check_lustre(sizing),
            *check_backups(sizing, given.get("AutomaticBackupRetentionDays", 0)),
            *check_encryption_key(sizing, given="KmsKeyId" in properties),
        ]
    )


def _log_faults(given: dict[str, Any], world: World) -> Iterator[Fault]:
    destination = given.get("Destination")
    if destination is None or given.get("Level") == "DISABLED":
        return
    name = destination.partition(":log-group:")[2].removesuffix(":*")
    path = "LustreConfiguration/LogConfiguration/Destination"
    if not name.startswith(_LOG_GROUP_PREFIX):
        yield Fault(
            check="lustre-log-group",
            message=f"the log group's name begins with {_LOG_GROUP_PREFIX}, got {name or destination!r}",
            path=path,
        )
    elif world.find("AWS::Logs::LogGroup", name) is None:
        yield Fault(check="lustre-log-group", message=f"the log group {name!r} does not exist", path=path)


def _as_faults(findings: list[Finding]) -> Iterator[Fault]:
    for finding in errors_in(findings):
        yield Fault(
            check=f"lustre {finding.id}",
            message=f"{finding.cause}, got {finding.got}; allowed: {finding.allowed}",
        )
