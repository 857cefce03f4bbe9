"""FSx for Lustre file systems as the decision functions take them."""

from __future__ import annotations

import re

from cdk_gpu_clusters.policy.case import Resource
from cdk_gpu_clusters.policy.lookups.launches import Launch
from cdk_gpu_clusters.policy.lookups.user_data import user_data_of
from cdk_gpu_clusters.policy.rule import NotApplicable
from cdk_gpu_clusters.rules.lustre_sizing import LustreSizing, MetadataMode, ReadCacheMode

FILE_SYSTEM = "AWS::FSx::FileSystem"
# Deployment types that `catalogue.lustre` has rows for; the older ones are another rule's.
_KNOWN_TYPES = ("PERSISTENT_2", "SCRATCH_2")


def lustre_only(resource: Resource) -> Resource:
    """The same resource.

    Raises:
        NotApplicable: If it is not a Lustre file system.
    """
    if resource.get("FileSystemType").text() != "LUSTRE":
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
        version=resource.get("FileSystemTypeVersion").text() or "2.15",
    )


def mounted_by(launch: Launch) -> list[Resource]:
    """The Lustre file systems of the template that the user data of a launch names: those that it mounts.

    Raises:
        Undecidable: If the template holds nothing of the user data.
    """
    every = launch.resource.case.resources(FILE_SYSTEM)
    file_systems = [one for one in every if one.get("FileSystemType").text() == "LUSTRE"]
    user_data = user_data_of(launch) if file_systems else None
    if user_data is None:
        return []
    return [one for one in file_systems if re.search(rf"\$\{{{one.logical_id}[.}}]", user_data.text)]
