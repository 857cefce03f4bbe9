"""FSx's description of Lustre file systems and of their links to S3."""

from __future__ import annotations

from ..faults import ApiError
from ..models.lustre import configuration, deployment_type, lustre_version, metadata_iops
from ..world import Json, Resource, Type, World

_WITH_DEFAULTS = {"DataCompressionType": "NONE", "EfaEnabled": False, "AutomaticBackupRetentionDays": 0}


def _lustre(found: Resource) -> Json:
    given = configuration(found.properties)
    document = {
        **_WITH_DEFAULTS,
        **given,
        "DeploymentType": deployment_type(found.properties),
        "MountName": found.attributes["LustreMountName"],
    }
    if "MetadataConfiguration" in given:
        provisioned = {**given["MetadataConfiguration"], "Iops": metadata_iops(found.properties)}
        document["MetadataConfiguration"] = provisioned
    return document


def _file_system(world: World, found: Resource) -> Json:
    given = found.properties
    document: Json = {
        "OwnerId": world.account,
        "FileSystemId": found.physical_id,
        "FileSystemType": given["FileSystemType"],
        "Lifecycle": "AVAILABLE",
        "StorageType": given.get("StorageType", "SSD"),
        "SubnetIds": given["SubnetIds"],
        "DNSName": found.attributes["DNSName"],
        "ResourceARN": found.attributes["ResourceARN"],
        "Tags": given.get("Tags", []),
    }
    document |= {key: given[key] for key in ("StorageCapacity", "KmsKeyId") if key in given}
    vpc = world.vpc_of_subnet(given["SubnetIds"][0])
    document |= {"VpcId": vpc} if vpc else {}
    if given["FileSystemType"] == "LUSTRE":
        document |= {"FileSystemTypeVersion": lustre_version(given), "LustreConfiguration": _lustre(found)}
    elif given["FileSystemType"] == "OPENZFS":
        settings = given.get("OpenZFSConfiguration", {})
        # The API answers the root volume by its id, and the options of the deletion not at all.
        hidden = ("Options", "RootVolumeConfiguration")
        document["OpenZFSConfiguration"] = {key: one for key, one in settings.items() if key not in hidden}
    return document


def describe_file_systems(world: World, params: Json) -> Json:
    wanted = params.get("FileSystemIds", [])
    known = {one.physical_id: one for one in world.of_type(Type.FILE_SYSTEM)}
    for identifier in wanted:
        if identifier not in known:
            raise ApiError("FileSystemNotFound", f"File system '{identifier}' does not exist.")
    return {"FileSystems": [_file_system(world, one) for key, one in known.items() if not wanted or key in wanted]}


def update_file_system(world: World, params: Json) -> Json:
    """Change a file system by hand. FSx does it over hours, and shows the new values at the end; here at once."""
    found = world.find(Type.FILE_SYSTEM, params["FileSystemId"])
    if found is None:
        raise ApiError("FileSystemNotFound", f"File system '{params['FileSystemId']}' does not exist.")
    given = found.properties
    for key in ("LustreConfiguration", "OpenZFSConfiguration"):
        if key in params:
            given[key] = {**given.get(key, {}), **params[key]}
    if "StorageCapacity" in params:
        given["StorageCapacity"] = params["StorageCapacity"]
    return {"FileSystem": _file_system(world, found)}


def delete_file_system(world: World, params: Json) -> Json:
    """FSx API reference, DeleteFileSystem: what a stack retained goes at once; final backups are not emulated."""
    wanted = params["FileSystemId"]
    if world.find(Type.FILE_SYSTEM, wanted) is None:
        raise ApiError("FileSystemNotFound", f"File system '{wanted}' does not exist.")
    world.remove(Type.FILE_SYSTEM, wanted)
    return {"FileSystemId": wanted, "Lifecycle": "DELETING"}


def _association(found: Resource) -> Json:
    given = found.properties
    return {
        "BatchImportMetaDataOnCreate": False,
        "ImportedFileChunkSize": 1024,
        **given,
        "AssociationId": found.physical_id,
        "ResourceARN": found.attributes["ResourceARN"],
        "Lifecycle": "AVAILABLE",
    }


def describe_data_repository_associations(world: World, params: Json) -> Json:
    wanted = params.get("AssociationIds", [])
    for identifier in wanted:
        _link(world, identifier)
    systems = [value for one in params.get("Filters", []) if one["Name"] == "file-system-id" for value in one["Values"]]
    return {
        "Associations": [
            _association(one)
            for one in world.of_type(Type.DATA_REPOSITORY)
            if (not wanted or one.physical_id in wanted) and (not systems or one.properties["FileSystemId"] in systems)
        ]
    }


def update_data_repository_association(world: World, params: Json) -> Json:
    found = _link(world, params["AssociationId"])
    changes = {key: value for key, value in params.items() if key in ("S3", "ImportedFileChunkSize")}
    found.properties |= changes
    return {"Association": _association(found)}


def delete_data_repository_association(world: World, params: Json) -> Json:
    found = _link(world, params["AssociationId"])
    world.remove(Type.DATA_REPOSITORY, found.physical_id)
    return {"AssociationId": found.physical_id, "Lifecycle": "DELETING"}


def _link(world: World, identifier: str) -> Resource:
    found = world.find(Type.DATA_REPOSITORY, identifier)
    if found is None:
        raise ApiError("DataRepositoryAssociationNotFound", f"Association '{identifier}' does not exist.")
    return found
