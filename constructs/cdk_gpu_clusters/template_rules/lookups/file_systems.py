"""FSx for Lustre file systems as the decision functions take them."""

from __future__ import annotations

from cdk_gpu_clusters.rules.lustre import LustreSizing, MetadataMode, ReadCacheMode
from cdk_gpu_clusters.template_rules.case import Resource, targets_in
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, user_data_of
from cdk_gpu_clusters.template_rules.rule import NotApplicable

FILE_SYSTEM = "AWS::FSx::FileSystem"
# Deployment types that `catalogue.lustre` has rows for; the older ones are another rule's.
_KNOWN_TYPES = ("PERSISTENT_2", "SCRATCH_2")


def is_lustre(file_system: Resource) -> bool:
    """Whether a file system is one of FSx for Lustre."""
    return file_system.get("FileSystemType").text() == "LUSTRE"


def lustre_only(resource: Resource) -> Resource:
    """The same resource.

    Raises:
        NotApplicable: If it is not a Lustre file system.
    """
    if not is_lustre(resource):
        raise NotApplicable
    return resource


def lustre_sizing(resource: Resource) -> LustreSizing:
    """Class, size and speed of a Lustre file system, with CloudFormation's own defaults.

    Raises:
        NotApplicable: If it is no Lustre file system, or of an older class, or made of a backup.
    """
    lustre_only(resource)
    configuration = resource.get("LustreConfiguration")
    deployment_type = configuration.get("DeploymentType").text() or "SCRATCH_1"
    if deployment_type not in _KNOWN_TYPES or resource.get("BackupId").exists:
        raise NotApplicable
    metadata = configuration.get("MetadataConfiguration")
    mode = metadata.get("Mode").text()
    cache = configuration.get("DataReadCacheConfiguration")
    cache_mode = cache.get("SizingMode").text()
    return LustreSizing(
        storage_capacity_gib=resource.get("StorageCapacity").integer(),
        throughput_mb_per_s_per_tib=configuration.get("PerUnitStorageThroughput").integer(),
        deployment_type=deployment_type,
        storage_type=resource.get("StorageType").text() or "SSD",
        throughput_capacity_mb_per_s=configuration.get("ThroughputCapacity").integer(),
        read_cache=ReadCacheMode(cache_mode) if cache_mode in list(ReadCacheMode) else None,
        read_cache_gib=cache.get("SizeGiB").integer(),
        metadata_iops=metadata.get("Iops").integer(),
        metadata_mode=MetadataMode(mode) if mode in list(MetadataMode) else MetadataMode.NONE,
        efa=bool(configuration.get("EfaEnabled").flag()),
        version=lustre_version(resource),
    )


def lustre_version(file_system: Resource) -> str:
    """The Lustre version of a file system, FSx's own if the template does not name it."""
    named = file_system.get("FileSystemTypeVersion").text()
    configuration = file_system.get("LustreConfiguration")
    if named is not None or configuration.get("DeploymentType").text() != "PERSISTENT_2":
        return named or "2.10"
    return "2.15" if configuration.get("MetadataConfiguration").exists else "2.12"


def mounted_by(launch: Launch) -> list[Resource]:
    """The Lustre file systems of the template that the user data of a launch names: those that it mounts.

    Raises:
        NotApplicable: If there is no user data.
        Undecidable: If the template holds nothing of it.
    """
    named = [one for one in targets_in(launch.data.get("UserData")) if one.type == FILE_SYSTEM]
    if not named and any(map(is_lustre, launch.resource.case.resources(FILE_SYSTEM))):
        user_data_of(launch)
    return [one for one in named if is_lustre(one)]
