"""EKS's description of clusters and of what belongs to them, and the calls that change a node group.

Members are named as the API names them, with a small letter first. Members that CloudFormation and the API name in the
same way are turned from one into the other.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .. import node_groups, provisioning
from ..faults import ApiError
from ..models.eks_clusters import authentication_mode
from ..models.registry import deletion_faults
from ..world import Json, Resource, Type, World
from .protocols import with_small_letters

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_PRESENT = "ACTIVE"


def describe_cluster(world: World, params: Json) -> Json:
    found = _cluster(world, params)
    given, made = found.properties, found.attributes
    enabled = [one["Type"] for one in given.get("Logging", {}).get("ClusterLogging", {}).get("EnabledTypes", [])]
    rest = [one for one in _LOG_TYPES if one not in enabled]
    network = {"EndpointPublicAccess": True, "EndpointPrivateAccess": False, **given["ResourcesVpcConfig"]}
    vpc = world.vpc_of_subnet(network["SubnetIds"][0])
    document: Json = {
        "name": found.physical_id,
        "arn": made["Arn"],
        "roleArn": given["RoleArn"],
        "endpoint": made["Endpoint"],
        "certificateAuthority": {"data": made["CertificateAuthorityData"]},
        "identity": {"oidc": {"issuer": made["OpenIdConnectIssuerUrl"]}},
        "status": _PRESENT,
        "resourcesVpcConfig": {
            **with_small_letters(network),
            "clusterSecurityGroupId": made["ClusterSecurityGroupId"],
            **({"vpcId": vpc} if vpc else {}),
        },
        "kubernetesNetworkConfig": with_small_letters(given.get("KubernetesNetworkConfig", {})),
        "logging": {
            "clusterLogging": [
                {"types": types, "enabled": on} for types, on in ((enabled, True), (rest, False)) if types
            ]
        },
        "encryptionConfig": with_small_letters(given.get("EncryptionConfig", [])),
        "accessConfig": {"authenticationMode": authentication_mode(given)},
        "tags": _tags(given.get("Tags", [])),
    }
    document |= {"version": given["Version"]} if "Version" in given else {}
    kept = ("ComputeConfig", "StorageConfig", "UpgradePolicy", "DeletionProtection")
    document |= with_small_letters({name: given[name] for name in kept if name in given})
    return {"cluster": document}


def update_cluster_config(world: World, params: Json) -> Json:
    """Change a cluster by hand: its endpoints, its logs and its protection."""
    found = _cluster(world, params)
    given = found.properties
    if "resourcesVpcConfig" in params:
        given["ResourcesVpcConfig"] = {**given["ResourcesVpcConfig"], **_capital(params["resourcesVpcConfig"])}
    if "deletionProtection" in params:
        given["DeletionProtection"] = params["deletionProtection"]
    for change in params.get("logging", {}).get("clusterLogging", []):
        logging = given.setdefault("Logging", {}).setdefault("ClusterLogging", {})
        kinds = {one["Type"] for one in logging.get("EnabledTypes", [])}
        kinds = kinds | set(change["types"]) if change["enabled"] else kinds - set(change["types"])
        logging["EnabledTypes"] = [{"Type": kind} for kind in _LOG_TYPES if kind in kinds]
    return {"update": _update(world, found, "VpcConfigUpdate")}


def _capital(given: Json) -> Json:
    """Members as CloudFormation names them, at the top."""
    return {key[:1].upper() + key[1:]: value for key, value in given.items()}


def describe_nodegroup(world: World, params: Json) -> Json:
    found = _node_group(world, params)
    given = found.properties
    group = node_groups.group_behind(world, found)
    issues = node_groups.issues(world, found)
    plain = {"InstanceTypes", "AmiType", "CapacityType", "Subnets", "ReleaseVersion", "NodeRole", "DiskSize"}
    plain |= {"LaunchTemplate", "UpdateConfig", "NodeRepairConfig", "Taints"}
    document: Json = with_small_letters({"CapacityType": "ON_DEMAND"} | {k: given[k] for k in plain & given.keys()})
    document |= {
        "nodegroupName": found.attributes["NodegroupName"],
        "nodegroupArn": found.attributes["Arn"],
        "clusterName": given["ClusterName"],
        "status": "DEGRADED" if issues else _PRESENT,
        "scalingConfig": {"minSize": group.minimum, "maxSize": group.maximum, "desiredSize": group.desired},
        "labels": given.get("Labels", {}),
        "resources": {"autoScalingGroups": [{"name": group.name}]},
        "health": {"issues": issues},
        "createdAt": group.created_at,
        "tags": given.get("Tags", {}) | found.settings.get("Tags", {}),
    }
    version = node_groups.version_of(world, found)
    return {"nodegroup": document | ({"version": version} if version else {})}


def describe_addon(world: World, params: Json) -> Json:
    name = params["addonName"]
    found = _one(world, Type.ADD_ON, params, "AddonName", name, f"No addon: {name} found")
    given = {key: value for key, value in found.properties.items() if key in _ADD_ON_MEMBERS}
    document = with_small_letters(given) | {"addonArn": found.attributes["Arn"], "status": _PRESENT}
    return {"addon": {**document, "health": {"issues": []}, "tags": _tags(found.properties.get("Tags", []))}}


_ADD_ON_MEMBERS = ("AddonName", "ClusterName", "AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn")


def list_access_entries(world: World, params: Json) -> Json:
    """The entries of stacks, and those that EKS makes for the roles of managed nodes."""
    cluster = _cluster(world, params)
    entries = [one.properties["PrincipalArn"] for one in _of(world, Type.ACCESS_ENTRY, cluster)]
    if authentication_mode(cluster.properties) != "CONFIG_MAP":
        entries += [one.properties["NodeRole"] for one in world.node_groups(cluster.physical_id)]
    return {"accessEntries": list(dict.fromkeys(entries))}


def list_associated_access_policies(world: World, params: Json) -> Json:
    arn = params["principalArn"]
    message = f"The specified principalArn could not be found: {arn}"
    found = _one(world, Type.ACCESS_ENTRY, params, "PrincipalArn", arn, message)
    policies = with_small_letters(found.properties.get("AccessPolicies", []))
    return {"clusterName": params["clusterName"], "principalArn": arn, "associatedAccessPolicies": policies}


def list_pod_identity_associations(world: World, params: Json) -> Json:
    return {
        "associations": [
            {
                **{
                    key: one.properties[key[:1].upper() + key[1:]]
                    for key in ("clusterName", "namespace", "serviceAccount")
                },
                "associationArn": one.physical_id,
                "associationId": one.attributes["AssociationId"],
            }
            for one in _of(world, Type.POD_IDENTITY, _cluster(world, params))
        ]
    }


def update_nodegroup_config(world: World, params: Json) -> Json:
    """Change sizes, labels, taints and how nodes are updated and repaired; the nodes stay."""
    found = _node_group(world, params)
    if "warmPoolConfig" in params:
        raise ApiError("NotEmulated", "warm pools are not emulated")
    given = found.properties
    labels, taints = params.get("labels", {}), params.get("taints", {})
    if labels:
        kept = {key: one for key, one in given.get("Labels", {}).items() if key not in labels.get("removeLabels", [])}
        given["Labels"] = kept | labels.get("addOrUpdateLabels", {})
    if taints:
        changed = [_capital(one) for kind in taints.values() for one in kind]
        kept_taints = [one for one in given.get("Taints", []) if _taint(one) not in map(_taint, changed)]
        given["Taints"] = [*kept_taints, *map(_capital, taints.get("addOrUpdateTaints", []))]
    for key in ("updateConfig", "nodeRepairConfig"):
        if key in params:
            name = key[:1].upper() + key[1:]
            given[name] = {**given.get(name, {}), **_capital(params[key])}
    node_groups.resize(world, found, _capital(params.get("scalingConfig", {})))
    return {"update": _update(world, found, "ConfigUpdate")}


def _taint(given: Json) -> tuple[str, str]:
    return given["Key"], given["Effect"]


def update_nodegroup_version(world: World, params: Json) -> Json:
    """Bring a node group to another launch template version, and replace its nodes."""
    found = _node_group(world, params)
    template = _capital(params.get("launchTemplate", {}))
    changed = {"LaunchTemplate": {**found.properties.get("LaunchTemplate", {}), **template}} if template else {}
    changed |= {key: value for key, value in _capital(params).items() if key in ("Version", "ReleaseVersion")}
    provisioning.update(world, found, {**found.properties, **changed}, update_policy=found.update_policy)
    return {"update": _update(world, found, "VersionUpdate")}


def update_addon(world: World, params: Json) -> Json:
    found = _add_on(world, params)
    changes = {key: value for key, value in _capital(params).items() if key in _ADD_ON_MEMBERS[2:]}
    found.properties |= changes
    return {"update": _update(world, found, "AddonUpdate")}


def delete_addon(world: World, params: Json) -> Json:
    found = _add_on(world, params)
    provisioning.delete(world, found.type, found.physical_id)
    return {"addon": {"addonName": params["addonName"], "status": "DELETING"}}


def _add_on(world: World, params: Json) -> Resource:
    name = params["addonName"]
    return _one(world, Type.ADD_ON, params, "AddonName", name, f"No addon: {name} found")


def tag_resource(world: World, params: Json) -> Json:
    """Tags of a node group; CloudFormation takes none of them back that its template does not have."""
    for found in world.of_type(Type.NODE_GROUP):
        if found.attributes["Arn"] == params["resourceArn"]:
            found.settings["Tags"] = found.settings.get("Tags", {}) | params["tags"]
            return {}
    raise ApiError("NotFoundException", f"no node group has the ARN {params['resourceArn']}")


def delete_cluster(world: World, params: Json) -> Json:
    found = _cluster(world, params)
    _delete(world, found, "ResourceInUseException")
    return {"cluster": {"name": found.physical_id, "arn": found.attributes["Arn"], "status": "DELETING"}}


def delete_nodegroup(world: World, params: Json) -> Json:
    found = _node_group(world, params)
    _delete(world, found, "ResourceInUseException")
    name = found.attributes["NodegroupName"]
    return {"nodegroup": {"nodegroupName": name, "clusterName": params["clusterName"], "status": "DELETING"}}


def _delete(world: World, found: Resource, code: str) -> None:
    for fault in deletion_faults(found.type, found.physical_id, world):
        raise ApiError(code, fault.message)
    provisioning.delete(world, found.type, found.physical_id)


def _update(world: World, found: Resource, kind: str) -> Json:
    now: datetime = world.clock.now()
    identifier = world.new_id("", f"{found.physical_id} update", 32)
    return {
        "id": identifier,
        "status": "Successful",
        "type": kind,
        "params": [],
        "createdAt": now,
        "errors": [],
    }


def _cluster(world: World, params: Json) -> Resource:
    name = params.get("clusterName") or params["name"]
    found = world.cluster(name)
    if found is None:
        raise ApiError("ResourceNotFoundException", f"No cluster found for name: {name}.")
    return found


def _node_group(world: World, params: Json) -> Resource:
    cluster, name = _cluster(world, params).physical_id, params["nodegroupName"]
    found = world.find(Type.NODE_GROUP, f"{cluster}/{name}")
    if found is None:
        raise ApiError("ResourceNotFoundException", f"No node group found for name: {name}.")
    return found


def _of(world: World, type_name: str, cluster: Resource) -> list[Resource]:
    return [one for one in world.of_type(type_name) if one.properties["ClusterName"] == cluster.physical_id]


def _one(world: World, type_name: str, params: Json, key: str, value: str, message: str) -> Resource:
    for found in _of(world, type_name, _cluster(world, params)):
        if found.properties[key] == value:
            return found
    raise ApiError("ResourceNotFoundException", message)


def _tags(given: list[Json]) -> dict[str, Any]:
    return {one["Key"]: one["Value"] for one in given}


def list_clusters(world: World, _params: Json) -> Json:
    return {"clusters": [one.physical_id for one in world.of_type(Type.CLUSTER)]}


def list_nodegroups(world: World, params: Json) -> Json:
    groups = world.node_groups(_cluster(world, params).physical_id)
    return {"nodegroups": [one.attributes["NodegroupName"] for one in groups]}


def list_addons(world: World, params: Json) -> Json:
    return {"addons": [one.properties["AddonName"] for one in _of(world, Type.ADD_ON, _cluster(world, params))]}
