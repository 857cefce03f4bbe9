"""AWS PCS's description of clusters, compute node groups and queues, and the calls that nodes and state machines make.

Members are named as the API names them, with a small letter first. Source: PCS API model (botocore 1.44.5).
"""

from __future__ import annotations

from .. import pcs, provisioning
from ..faults import ApiError
from ..models.pcs_node_groups import compute_node_group_faults
from ..models.registry import deletion_faults
from ..world import Json, Resource, Type, World
from .protocols import with_small_letters

_GROUP_MEMBERS = (
    "AmiId",
    "IamInstanceProfileArn",
    "InstanceConfigs",
    "NodeLifecycleActions",
    "ScalingConfiguration",
    "SpotOptions",
    "SubnetIds",
)


def _summary(world: World, found: Resource) -> Json:
    settings = found.settings
    return {
        "name": settings["Name"],
        "id": found.attributes["Id"],
        "arn": found.attributes["Arn"],
        "createdAt": settings["CreatedAt"],
        "modifiedAt": settings["ModifiedAt"],
        "status": pcs.status(world, found),
    }


def get_cluster(world: World, params: Json) -> Json:
    found = _cluster(world, params)
    given = found.properties
    slurm = with_small_letters(given.get("SlurmConfiguration", {}))
    keys = {name: found.settings[name] for name in ("authKey", "jwtAuth") if name in found.settings}
    return {
        "cluster": {
            **_summary(world, found),
            "scheduler": with_small_letters(given["Scheduler"]),
            "size": given["Size"],
            "networking": with_small_letters({"NetworkType": "IPV4", **given["Networking"]}),
            "slurmConfiguration": {"scaleDownIdleTimeInSeconds": 600, **slurm, **keys},
            "endpoints": with_small_letters(found.attributes["Endpoints"]),
            "errorInfo": [],
        }
    }


def list_clusters(world: World, _params: Json) -> Json:
    found = [one for one in world.of_type(Type.PCS_CLUSTER) if one.region == world.region]
    return {"clusters": [_summary(world, one) for one in found]}


def get_compute_node_group(world: World, params: Json) -> Json:
    return {"computeNodeGroup": _group_document(world, _group(world, params))}


def _group_document(world: World, found: Resource) -> Json:
    given = found.properties
    template = given.get("CustomLaunchTemplate", {})
    document = with_small_letters({name: given[name] for name in _GROUP_MEMBERS if name in given})
    return {
        **_summary(world, found),
        **document,
        **_slurm(given),
        "clusterId": _of(world, given).attributes["Id"],
        "purchaseOption": given.get("PurchaseOption", "ONDEMAND"),
        "customLaunchTemplate": {"id": template.get("TemplateId"), "version": template.get("Version")},
        "errorInfo": pcs.errors(world, found),
    }


def _slurm(given: Json) -> Json:
    """Settings of Slurm with small letters, but for the keys of gres.conf records."""
    slurm = given.get("SlurmConfiguration")
    if slurm is None:
        return {}
    records = {"gresCustomSettings": slurm["GresCustomSettings"]} if "GresCustomSettings" in slurm else {}
    return {"slurmConfiguration": {**with_small_letters(slurm), **records}}


def list_compute_node_groups(world: World, params: Json) -> Json:
    found = world.pcs_parts(Type.PCS_NODE_GROUP, _cluster(world, params))
    return {"computeNodeGroups": [_part_summary(world, one) for one in found]}


def update_compute_node_group(world: World, params: Json) -> Json:
    """Change sizes at once, and some of the rest for nodes that start later; images belong to the template here."""
    found = _group(world, params)
    changes = {key[:1].upper() + key[1:]: value for key, value in params.items() if key in _CHANGED_BY_CALL}
    named = {"clusterIdentifier", "computeNodeGroupIdentifier", "scalingConfiguration", "clientToken"}
    others = params.keys() - named - set(_CHANGED_BY_CALL)
    if others:
        raise ApiError("NotEmulated", f"no call changes this here: {', '.join(sorted(others))}")
    if "customLaunchTemplate" in params:
        given = params["customLaunchTemplate"]
        changes["CustomLaunchTemplate"] = {"TemplateId": given["id"], "Version": given["version"]}
    if "slurmConfiguration" in params:
        changes["SlurmConfiguration"] = _slurm_properties(found, params)
    found.properties |= changes
    sizes = params.get("scalingConfiguration")
    if sizes is not None:
        given = {key[:1].upper() + key[1:]: value for key, value in sizes.items()}
        _accept(world, found, {**found.properties, "ScalingConfiguration": given})
        pcs.update_sizes(world, found, given)
    return {"computeNodeGroup": _group_document(world, found)}


#: Members of UpdateComputeNodeGroup that are spelled as properties apart from the first letter, and two more.
_CHANGED_BY_CALL = (
    "customLaunchTemplate",
    "iamInstanceProfileArn",
    "purchaseOption",
    "slurmConfiguration",
    "subnetIds",
)


def _slurm_properties(found: Resource, params: Json) -> Json:
    """Settings of Slurm as properties: those of the call over those that are there."""
    given = params["slurmConfiguration"]
    changed = {
        key[:1].upper() + key[1:]: [{name[:1].upper() + name[1:]: text for name, text in one.items()} for one in value]
        if isinstance(value, list)
        else value
        for key, value in given.items()
    }
    return {**found.properties.get("SlurmConfiguration", {}), **changed}


def update_cluster(world: World, params: Json) -> Json:
    """Change the settings of Slurm's controller."""
    found = _cluster(world, params)
    found.properties["SlurmConfiguration"] = _slurm_properties(found, params)
    return get_cluster(world, {"clusterIdentifier": found.attributes["Id"]})


def update_queue(world: World, params: Json) -> Json:
    """Change the node groups of a queue."""
    found = _part(world, params, Type.PCS_QUEUE, "queueIdentifier", "queue")
    groups = params.get("computeNodeGroupConfigurations")
    if groups is not None:
        found.properties["ComputeNodeGroupConfigurations"] = [
            {"ComputeNodeGroupId": one["computeNodeGroupId"]} for one in groups
        ]
    return get_queue(world, params)


def _accept(world: World, found: Resource, properties: Json) -> None:
    """Sizes are checked as at the creation; what else is wrong was there before."""
    cluster = _of(world, properties)
    if pcs.status(world, cluster) != pcs.ACTIVE:
        message = f"the cluster {cluster.settings['Name']} is in state {pcs.status(world, cluster)}"
        raise ApiError("ConflictException", message)
    with world.without(found):
        faults = [one for one in compute_node_group_faults(properties, world) if one.path == "ScalingConfiguration"]
    for fault in faults:
        code, _, message = fault.message.rpartition("Exception: ")
        raise ApiError(f"{code}Exception" if code else "ValidationException", message)


def get_queue(world: World, params: Json) -> Json:
    found = _part(world, params, Type.PCS_QUEUE, "queueIdentifier", "queue")
    given = found.properties
    document = with_small_letters({"ComputeNodeGroupConfigurations": given.get("ComputeNodeGroupConfigurations", [])})
    return {"queue": {**_part_summary(world, found), **document, **_slurm(given), "errorInfo": []}}


def list_queues(world: World, params: Json) -> Json:
    found = world.pcs_parts(Type.PCS_QUEUE, _cluster(world, params))
    return {"queues": [_part_summary(world, one) for one in found]}


def list_tags_for_resource(world: World, params: Json) -> Json:
    arn = params["resourceArn"]
    for kind in sorted(pcs.TYPES):
        found = world.find(kind, arn)
        if found is not None:
            return {"tags": found.properties.get("Tags", {})}
    raise ApiError("ResourceNotFoundException", f"there is no resource {arn}")


def register_compute_node_group_instance(world: World, params: Json) -> Json:
    """What the agent on a node calls first: where the controllers are, and the secret that they share."""
    found = _cluster(world, params)
    return {
        "nodeID": world.new_id("", f"{found.physical_id} node {params['bootstrapId']}", 16),
        "sharedSecret": f"made up for {found.attributes['Id']}",
        "endpoints": with_small_letters(found.attributes["Endpoints"]),
    }


def delete_cluster(world: World, params: Json) -> Json:
    return _delete(world, _cluster(world, params))


def delete_compute_node_group(world: World, params: Json) -> Json:
    return _delete(world, _group(world, params))


def delete_queue(world: World, params: Json) -> Json:
    return _delete(world, _part(world, params, Type.PCS_QUEUE, "queueIdentifier", "queue"))


def _delete(world: World, found: Resource) -> Json:
    for fault in deletion_faults(found.type, found.physical_id, world):
        raise ApiError("ConflictException", fault.message.removeprefix("ConflictException: "))
    provisioning.delete(world, found.type, found.physical_id)
    return {}


def _cluster(world: World, params: Json) -> Resource:
    identifier = params["clusterIdentifier"]
    found = world.pcs_cluster(identifier)
    if found is None:
        raise ApiError("ResourceNotFoundException", f"there is no cluster {identifier} in {world.region}")
    return found


def _of(world: World, properties: Json) -> Resource:
    return _cluster(world, {"clusterIdentifier": properties["ClusterId"]})


def _group(world: World, params: Json) -> Resource:
    return _part(world, params, Type.PCS_NODE_GROUP, "computeNodeGroupIdentifier", "compute node group")


def _part(world: World, params: Json, kind: str, member: str, words: str) -> Resource:
    identifier = params[member]
    for found in world.pcs_parts(kind, _cluster(world, params)):
        if identifier in (found.attributes["Id"], found.settings["Name"]):
            return found
    raise ApiError("ResourceNotFoundException", f"the cluster has no {words} {identifier}")


def _part_summary(world: World, found: Resource) -> Json:
    return {**_summary(world, found), "clusterId": _of(world, found.properties).attributes["Id"]}
