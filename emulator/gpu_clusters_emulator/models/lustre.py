"""What FSx refuses in Lustre file systems and in their links to S3.

Of the older types, PERSISTENT_1 and SCRATCH_1, only the API model is checked.

Sources: FSx API, CreateFileSystem, UpdateFileSystem and CreateDataRepositoryAssociation; CloudFormation template
reference, AWS::FSx::FileSystem LustreConfiguration ("Update requires: Replacement"), as in the specification inside
CDK CLI 2.1148, since the registry schema does not name those properties; FSx for Lustre user guide, "Lustre metadata
performance configuration", "Working with EFA-enabled file systems", "Linking your file system to an Amazon S3 bucket"
and "Troubleshooting" ("unable to validate access to the S3 bucket"), stored copies of 2026. Tiers, sizes and limits
are the catalogue's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from cdk_gpu_clusters.catalogue.lustre import (
    lustre_fact,
    lustre_tier,
    lustre_tiers,
    lustre_version_allows,
    lustre_versions_of,
)

from ..faults import Fault
from ..world import Json, Type, World
from .networks import group_faults, subnet_faults

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
_LUSTRE = "LustreConfiguration"
_TIERING = "INTELLIGENT_TIERING"
_OLD_LINKS = ("AutoImportPolicy", "ExportPath", "ImportPath", "ImportedFileChunkSize")
_LOG_GROUP_PREFIX = "/aws/fsx"  # FSx API, LustreLogCreateConfiguration
_DIRECTORY = re.compile(r"/|(/(?!\.\.?(/|$))[^/]+)+/?")
_BUCKET_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")


def is_lustre(properties: Json) -> bool:
    """Whether the file system is one of FSx for Lustre; of the others only the schema is checked."""
    return bool(properties.get("FileSystemType") == "LUSTRE")


def configuration(properties: Json) -> Json:
    """Its `LustreConfiguration`."""
    given: Json = properties.get(_LUSTRE, {})
    return given


def deployment_type(properties: Json) -> str:
    """Its deployment type; SCRATCH_1 is what the API takes for none."""
    return str(configuration(properties).get("DeploymentType", "SCRATCH_1"))


def lustre_version(properties: Json) -> str:
    """Its Lustre version; without one FSx chooses (API, CreateFileSystem: FileSystemTypeVersion)."""
    chosen = "2.10"
    if deployment_type(properties) == "PERSISTENT_2":
        chosen = "2.15" if "MetadataConfiguration" in configuration(properties) else "2.12"
    return str(properties.get("FileSystemTypeVersion", chosen))


def metadata_iops(properties: Json) -> int | None:
    """Metadata operations that FSx provisions; None without a metadata configuration."""
    given = configuration(properties).get("MetadataConfiguration")
    if given is None:
        return None
    if given["Mode"] != "AUTOMATIC":
        return int(given["Iops"])
    size = int(properties["StorageCapacity"])
    for largest, iops in lustre_fact("metadata", "automatic"):
        if size <= largest:
            return int(iops)
    beyond = lustre_fact("metadata", "automatic_beyond")
    return -(-size // int(beyond["gib"])) * int(beyond["iops"])


def file_system_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::FSx::FileSystem`."""
    if not is_lustre(properties):
        return
    given, subnets = configuration(properties), properties.get("SubnetIds", [])
    if len(subnets) != 1:
        message = f"a Lustre file system has exactly one subnet, got {len(subnets)}"
        yield Fault("lustre-subnet", message, "SubnetIds")
    yield from subnet_faults(subnets, world, "SubnetIds")
    yield from group_faults(properties.get("SecurityGroupIds", []), subnets, world, "SecurityGroupIds")
    yield from _log_faults(given.get("LogConfiguration", {}), world)
    deployment = deployment_type(properties)
    for name in _OLD_LINKS if deployment == "PERSISTENT_2" else ():
        if name in given:
            message = f"PERSISTENT_2 takes no {name}; it is linked by data repository associations"
            yield Fault("lustre-old-link", message, f"{_LUSTRE}/{name}")
    if deployment in {tier.deployment_type.value for tier in lustre_tiers()}:
        yield from _class_faults(properties, given, deployment)


def _class_faults(properties: Json, given: Json, deployment: str) -> Iterator[Fault]:
    """Faults of storage class, size, speed, metadata and version together."""
    storage, efa = properties.get("StorageType", "SSD"), bool(given.get("EfaEnabled"))
    scratch = deployment == "SCRATCH_2"
    if storage not in (("SSD",) if scratch else ("SSD", _TIERING)):
        yield Fault("lustre-storage", f"{deployment} has no storage class {storage}", "StorageType")
        return
    yield from (_tiering_faults(properties, given) if storage == _TIERING else _ssd_faults(properties, given, efa))
    if scratch and efa:
        yield Fault("lustre-efa", "a SCRATCH_2 file system takes no EFA clients", f"{_LUSTRE}/EfaEnabled")
    if scratch and given.get("AutomaticBackupRetentionDays"):
        path = f"{_LUSTRE}/AutomaticBackupRetentionDays"
        yield Fault("lustre-backups", "a SCRATCH_2 file system has no backups", path)
    if scratch and "KmsKeyId" in properties:
        yield Fault("lustre-key", "a SCRATCH_2 file system takes no KMS key", "KmsKeyId")
    yield from _metadata_faults(given.get("MetadataConfiguration"), storage, efa=efa, scratch=scratch)
    version, configured = lustre_version(properties), "MetadataConfiguration" in given
    versions = [
        one
        for one in lustre_versions_of(deployment)
        if not configured or lustre_version_allows(one, "metadata_configuration")
    ]
    if version not in versions:
        message = f"{deployment}{' with a metadata configuration' if configured else ''} does not run this version"
        message += f", got {version}; allowed: {', '.join(versions)}"
        yield Fault("lustre-version", message, "FileSystemTypeVersion")


def _ssd_faults(properties: Json, given: Json, efa: bool) -> Iterator[Fault]:
    deployment, rate, size = (
        deployment_type(properties),
        given.get("PerUnitStorageThroughput"),
        properties.get("StorageCapacity"),
    )
    for name in ("ThroughputCapacity", "DataReadCacheConfiguration"):
        if name in given:
            yield Fault("lustre-storage", f"an SSD file system takes no {name}", f"{_LUSTRE}/{name}")
    tier = lustre_tier(deployment, rate)
    if tier is None:
        offered = [one.throughput_mb_per_s_per_tib for one in lustre_tiers() if one.deployment_type == deployment]
        allowed = ", ".join(str(one) for one in offered if one) or "none"
        message = f"{deployment} has no such throughput tier, got {rate} MB/s/TiB; allowed: {allowed}"
        yield Fault("lustre-throughput", message, f"{_LUSTRE}/PerUnitStorageThroughput")
    step, smallest = (int(lustre_fact("ssd_capacity", name)) for name in ("step_gib", "smallest_gib"))
    if efa and tier is not None and tier.efa_step_gib is not None:
        step = smallest = tier.efa_step_gib
    if size is None or not (size == smallest or (size > 0 and size % step == 0)):
        message = (
            f"with EFA, a file system of {rate} MB/s/TiB grows by one server at a time" if efa else "no such capacity"
        )
        allowed = f"{smallest} GiB, or multiples" if smallest != step else "multiples"
        message = f"{message}, got {size} GiB; allowed: {allowed} of {step} GiB"
        yield Fault("lustre-capacity", message, "StorageCapacity")


def _tiering_faults(properties: Json, given: Json) -> Iterator[Fault]:
    if "StorageCapacity" in properties or "PerUnitStorageThroughput" in given:
        message = "Intelligent-Tiering storage is elastic: no StorageCapacity or PerUnitStorageThroughput"
        yield Fault("lustre-tiering", message, "StorageCapacity")
    step, most = (
        int(lustre_fact("intelligent_tiering", name))
        for name in ("throughput_step_mb_per_s", "largest_throughput_mb_per_s")
    )
    rate = given.get("ThroughputCapacity") or 0
    if not 0 < rate <= most or rate % step:
        message = f"Intelligent-Tiering cannot have this throughput capacity, got {rate} MB/s; steps are {step}"
        yield Fault("lustre-tiering", message, f"{_LUSTRE}/ThroughputCapacity")
    cache, path = given.get("DataReadCacheConfiguration", {}), f"{_LUSTRE}/DataReadCacheConfiguration"
    least, largest = (
        int(lustre_fact("intelligent_tiering", name)) * max(1, -(-rate // step))
        for name in ("smallest_cache_gib", "cache_gib_per_step")
    )
    mode, size = cache.get("SizingMode"), cache.get("SizeGiB")
    if mode is None:
        message = "Intelligent-Tiering needs a read cache, or the sizing mode NO_CACHE"
        yield Fault("lustre-cache", message, path)
    elif mode != "USER_PROVISIONED" and size is not None:
        yield Fault("lustre-cache", f"the sizing mode {mode} takes no SizeGiB", path)
    elif mode == "USER_PROVISIONED" and (size is None or not least <= size <= largest):
        yield Fault("lustre-cache", f"the read cache has {least} to {largest} GiB, got {size}", path)


def _metadata_faults(given: Json | None, storage: str, *, efa: bool, scratch: bool) -> Iterator[Fault]:
    mode, iops = ("NONE", None) if given is None else (given["Mode"], given.get("Iops"))
    path, tiering = f"{_LUSTRE}/MetadataConfiguration", storage == _TIERING
    allowed = ["AUTOMATIC", "USER_PROVISIONED"] if efa else ["AUTOMATIC", "USER_PROVISIONED", "NONE"]
    allowed = ["NONE"] if scratch else ["USER_PROVISIONED"] if tiering else allowed
    if mode not in allowed:
        what = "of SCRATCH_2" if scratch else "with Intelligent-Tiering" if tiering else "with EFA"
        message = f"a file system {what} does not take this metadata mode, got {mode}; allowed: {', '.join(allowed)}"
        yield Fault("lustre-metadata-mode", message, path)
    if mode != "USER_PROVISIONED":
        if iops is not None:
            yield Fault("lustre-metadata-mode", f"the mode {mode} takes no Iops, got {iops}", path)
        return
    server, most = (int(lustre_fact("metadata", name)) for name in ("server_iops", "ssd_largest"))
    known = lustre_fact("metadata", "intelligent_tiering" if tiering else "ssd_small")
    if iops not in known and (tiering or not iops or iops > most or iops % server):
        allowed = [*known, *([] if tiering else [f"multiples of {server} up to {most}"])]
        message = f"so many metadata operations cannot be provisioned, got {iops}; allowed: {allowed}"
        message = message + ("" if tiering else f", or multiples of {server} up to {most}")
        yield Fault("lustre-metadata", message, path)


def change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    """Faults of a change that CloudFormation makes in place, by UpdateFileSystem."""
    settled = {
        "StorageType": [one.get("StorageType", "SSD") for one in (old, new)],
        "EfaEnabled": [bool(configuration(one).get("EfaEnabled")) for one in (old, new)],
        "MetadataConfiguration": ["MetadataConfiguration" in configuration(one) for one in (old, new)],
    }
    for name, (before, after) in settled.items():
        if before != after:
            message = f"{name} of a file system is settled at its creation, got {after}"
            yield Fault("lustre-settled", message, name)
    growing = {
        "StorageCapacity": [one.get("StorageCapacity") for one in (old, new)],
        "ThroughputCapacity": [configuration(one).get("ThroughputCapacity") for one in (old, new)],
        "Iops": [metadata_iops(one) for one in (old, new)],
    }
    for name, (least, wanted) in growing.items():
        if least is not None and wanted is not None and wanted < least:
            message = f"{name} of a file system can only grow, got {wanted}; at least {least}"
            yield Fault("lustre-shrinks", message, name)
    linked = any(one.properties["FileSystemId"] == physical_id for one in world.of_type(Type.DATA_REPOSITORY))
    if linked and configuration(new).get("AutomaticBackupRetentionDays"):
        path = f"{_LUSTRE}/AutomaticBackupRetentionDays"
        yield Fault("lustre-backups", f"{physical_id} is linked to S3 and cannot be backed up", path)


def _log_faults(given: Json, world: World) -> Iterator[Fault]:
    destination = given.get("Destination")
    if destination is None or given.get("Level") == "DISABLED":
        return
    name = destination.partition(":log-group:")[2].removesuffix(":*")
    message = ""
    if not name.startswith(_LOG_GROUP_PREFIX):
        message = f"the log group's name begins with {_LOG_GROUP_PREFIX}, got {name or destination!r}"
    elif world.find("AWS::Logs::LogGroup", name) is None:
        message = f"the log group {name!r} does not exist"
    if message:
        yield Fault("lustre-log-group", message, f"{_LUSTRE}/LogConfiguration/Destination")


def data_repository_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::FSx::DataRepositoryAssociation`, with those of the same file system beside it."""
    file_system = world.find(Type.FILE_SYSTEM, properties["FileSystemId"])
    if file_system is None:
        message = f"the file system {properties['FileSystemId']!r} does not exist"
        yield Fault("file-system-missing", message, "FileSystemId")
        return
    for message in _unlinkable(file_system.properties):
        yield Fault("repository-class", message, "FileSystemId")
    yield from _repository_faults(properties, world)
    beside = [
        one for one in world.of_type(Type.DATA_REPOSITORY) if one.properties["FileSystemId"] == file_system.physical_id
    ]
    most = int(lustre_fact("limits", "data_repositories"))
    if len(beside) >= most:
        message = f"too many data repository associations, got {len(beside) + 1}; allowed: at most {most}"
        yield Fault("repository-count", message)
    yield from _overlap_faults([*(one.properties for one in beside), properties])


def _unlinkable(file_system: Json) -> Iterator[str]:
    """Why a file system cannot be linked to S3."""
    if not is_lustre(file_system):
        yield "only Lustre file systems are linked"
    elif deployment_type(file_system) == "SCRATCH_1":
        yield "SCRATCH_1 file systems are not linked"
    elif not lustre_version_allows(lustre_version(file_system), "data_repositories"):
        yield f"Lustre {lustre_version(file_system)} has no data repository associations"
    if file_system.get("StorageType") == _TIERING:
        yield "an Intelligent-Tiering file system cannot be linked to S3"
    if configuration(file_system).get("AutomaticBackupRetentionDays"):
        yield "a file system that is linked to S3 cannot be backed up"
    for name in ("ImportPath", "ExportPath"):
        if name in configuration(file_system):
            yield f"the file system has {name}, which excludes associations"


def _repository_faults(properties: Json, world: World) -> Iterator[Fault]:
    path, uri = properties["FileSystemPath"], properties["DataRepositoryPath"]
    if not _DIRECTORY.fullmatch(path):
        message = f"this is not an absolute path of a directory, got {path!r}"
        yield Fault("repository-path", message, "FileSystemPath")
    found = _BUCKET_URI.fullmatch(uri)
    if found is None:
        message = f"this is not the S3 URI of a bucket, got {uri!r}"
        yield Fault("repository-uri", message, "DataRepositoryPath")
        return
    region = world.region_of_bucket(found[1])
    if region is None:
        message = f"unable to validate access to the S3 bucket: there is no bucket {found[1]!r}"
        yield Fault("bucket-missing", message, "DataRepositoryPath")
    elif region != world.region and properties.get("S3", {}).get("AutoImportPolicy", {}).get("Events"):
        message = "automatic import needs its bucket in the file system's Region"
        message += f", got bucket in {region}; allowed: {world.region}"
        yield Fault("repository-region", message, "S3/AutoImportPolicy")


def _overlap_faults(links: list[Json]) -> Iterator[Fault]:
    for first, second in combinations(links, 2):
        for name, what in (("FileSystemPath", "directory"), ("DataRepositoryPath", "S3 prefix")):
            if _is_inside(first[name], second[name]):
                message = f"one linked {what} lies inside another, got {first[name]} and {second[name]}"
                yield Fault("repository-overlap", message, name)


def _is_inside(first: str, second: str) -> bool:
    """Whether one of two paths holds the other, by entire names."""
    parts = [[part for part in path.split("/") if part] for path in (first, second)]
    return all(one == other for one, other in zip(*parts, strict=False))
