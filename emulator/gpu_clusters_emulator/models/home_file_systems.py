"""What FSx refuses in OpenZFS file systems, and EFS in file systems and mount targets.

Sources: botocore 1.44.5, fsx: CreateFileSystem, CreateFileSystemOpenZFSConfiguration and UpdateFileSystem, efs:
CreateFileSystem and CreateMountTarget (MountTargetConflict: one mount target in each Availability Zone);
CloudFormation user guide, AWS::FSx::FileSystem OpenZFSConfiguration (DeploymentType: "Update requires: Replacement").
Throughput steps and sizes are the catalogue's.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.homes import home_fact, openzfs_throughputs

from ..faults import Fault
from ..world import Json, Type, World
from .networks import group_faults, subnet_faults

_OPENZFS = "OpenZFSConfiguration"
_MULTI_AZ = "MULTI_AZ_1"
#: Properties of OpenZFSConfiguration whose change replaces the file system.
OPENZFS_REPLACING = frozenset({"DeploymentType"})


def is_openzfs(properties: Json) -> bool:
    """Whether the file system is one of FSx for OpenZFS."""
    return bool(properties.get("FileSystemType") == "OPENZFS")


def openzfs_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::FSx::FileSystem` of the type OPENZFS."""
    given, subnets = properties.get(_OPENZFS, {}), properties.get("SubnetIds", [])
    deployment = given.get("DeploymentType", "")
    needed = 2 if deployment == _MULTI_AZ else 1
    if len(subnets) != needed:
        yield Fault("openzfs-subnets", f"{deployment} takes {needed} subnets, got {len(subnets)}", "SubnetIds")
    if deployment == _MULTI_AZ and given.get("PreferredSubnetId") not in subnets:
        message = "MULTI_AZ_1 needs one of its subnets as PreferredSubnetId"
        yield Fault("openzfs-preferred", message, f"{_OPENZFS}/PreferredSubnetId")
    yield from subnet_faults(subnets, world, "SubnetIds")
    yield from group_faults(properties.get("SecurityGroupIds", []), subnets, world, "SecurityGroupIds")
    steps = openzfs_throughputs().get(deployment)
    if steps is not None and given.get("ThroughputCapacity") not in steps:
        message = f"{deployment} has no throughput of {given.get('ThroughputCapacity')} MB/s; allowed: {steps}"
        yield Fault("openzfs-throughput", message, f"{_OPENZFS}/ThroughputCapacity")
    size = properties.get("StorageCapacity")
    smallest, largest = (home_fact("openzfs", f"{which}_gib") for which in ("smallest", "largest"))
    if properties.get("StorageType", "SSD") == "SSD" and (size is None or not smallest <= size <= largest):
        message = f"OpenZFS has {smallest} to {largest} GiB of SSD storage, got {size}"
        yield Fault("openzfs-size", message, "StorageCapacity")
    record = given.get("RootVolumeConfiguration", {}).get("RecordSizeKiB")
    if record is not None and record not in home_fact("openzfs", "record_sizes_kib"):
        message = f"there is no record size of {record} KiB"
        yield Fault("openzfs-record", message, f"{_OPENZFS}/RootVolumeConfiguration/RecordSizeKiB")


def openzfs_change_faults(old: Json, new: Json) -> Iterator[Fault]:
    """Faults of an update in place."""
    before, after = old.get("StorageCapacity"), new.get("StorageCapacity")
    if before is not None and after is not None and after < before:
        message = f"StorageCapacity of a file system can only grow, got {after}; at least {before}"
        yield Fault("openzfs-shrinks", message, "StorageCapacity")


def efs_faults(properties: Json, world: World) -> Iterator[Fault]:  # noqa: ARG001
    """Faults of an `AWS::EFS::FileSystem`."""
    is_provisioned = properties.get("ThroughputMode") == "provisioned"
    if is_provisioned != ("ProvisionedThroughputInMibps" in properties):
        message = "ProvisionedThroughputInMibps belongs to ThroughputMode provisioned, which needs it"
        yield Fault("efs-throughput", message, "ProvisionedThroughputInMibps")
    if "KmsKeyId" in properties and not properties.get("Encrypted"):
        yield Fault("efs-encryption", "a file system with KmsKeyId is encrypted", "Encrypted")


def mount_target_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EFS::MountTarget`."""
    file_system, subnet = properties["FileSystemId"], properties["SubnetId"]
    if world.find(Type.EFS, file_system) is None:
        yield Fault("efs-missing", f"the file system {file_system!r} does not exist", "FileSystemId")
    yield from subnet_faults([subnet], world, "SubnetId")
    yield from group_faults(properties.get("SecurityGroups", []), [subnet], world, "SecurityGroups")
    zone = world.zone_of_subnet(subnet)
    for other in world.of_type(Type.MOUNT_TARGET):
        taken = other.properties
        if taken["FileSystemId"] == file_system and zone and world.zone_of_subnet(taken["SubnetId"]) == zone:
            message = f"the file system has a mount target in {zone} already: {other.physical_id}"
            yield Fault("mount-target-conflict", message, "SubnetId")


def efs_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Why EFS keeps a file system (FileSystemInUse)."""
    if any(one.properties["FileSystemId"] == physical_id for one in world.of_type(Type.MOUNT_TARGET)):
        yield Fault("efs-in-use", f"the file system {physical_id} has mount targets")
