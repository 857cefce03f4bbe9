"""The part of EC2's API that engines hold poorly: templates, placement groups and reservations."""

from __future__ import annotations

from .. import fleets, provisioning
from ..clock import parse_time
from ..faults import ApiError
from ..models.reservations import reservation_faults
from ..permissions import instance_tags, private_address
from ..reservations import Reservation
from ..world import Group, Instance, Json, Resource, Type, World, reservation_of


def _with_defaults(data: Json) -> Json:
    """Launch template data as EC2 answers it: what the template leaves out of an interface is filled in."""
    data = dict(data)
    if "NetworkInterfaces" in data:
        data["NetworkInterfaces"] = [
            {"InterfaceType": "interface", "NetworkCardIndex": 0, **item} for item in data["NetworkInterfaces"]
        ]
    return data


def _wanted_templates(world: World, params: Json) -> list[Resource]:
    ids = params.get("LaunchTemplateIds") or [params[key] for key in ("LaunchTemplateId",) if params.get(key)]
    names = params.get("LaunchTemplateNames") or [params[key] for key in ("LaunchTemplateName",) if params.get(key)]
    found = list(world.of_type(Type.LAUNCH_TEMPLATE))
    for wanted in ids:
        if wanted not in {one.physical_id for one in found}:
            raise ApiError("InvalidLaunchTemplateId.NotFound", f"The launch template {wanted} does not exist.")
    if not ids and not names:
        return found
    return [one for one in found if one.physical_id in ids or one.attributes["LaunchTemplateName"] in names]


def describe_launch_templates(world: World, params: Json) -> Json:
    return {
        "LaunchTemplates": [
            {
                "LaunchTemplateId": one.physical_id,
                "LaunchTemplateName": one.attributes["LaunchTemplateName"],
                "CreateTime": one.versions[0]["CreateTime"],
                "DefaultVersionNumber": int(one.attributes["DefaultVersionNumber"]),
                "LatestVersionNumber": len(one.versions),
            }
            for one in _wanted_templates(world, params)
        ]
    }


def describe_launch_template_versions(world: World, params: Json) -> Json:
    wanted = [str(version) for version in params.get("Versions") or []]
    found = []
    for template in _wanted_templates(world, params):
        for version in template.versions:
            names = {str(version["VersionNumber"])}
            names |= {"$Latest"} if version is template.versions[-1] else set()
            names |= {"$Default"} if version["DefaultVersion"] else set()
            if not wanted or names & set(wanted):
                found.append({**version, "LaunchTemplateData": _with_defaults(version["LaunchTemplateData"])})
    return {"LaunchTemplateVersions": found}


def create_launch_template_version(world: World, params: Json) -> Json:
    """A version made by hand: of the data given, over those of the source version.

    Source: EC2 API reference, CreateLaunchTemplateVersion: what the request has overrides the source version, member
    by member.
    """
    (template,) = _wanted_templates(world, params)
    data: Json = {}
    if source := str(params.get("SourceVersion", "")):
        named = [one for one in template.versions if str(one["VersionNumber"]) == source]
        if not named:
            message = f"Could not find launch template version {source}"
            raise ApiError("InvalidLaunchTemplateId.VersionNotFound", message)
        data = named[0]["LaunchTemplateData"]
    version = {
        **template.versions[-1],
        "VersionNumber": len(template.versions) + 1,
        "VersionDescription": params.get("VersionDescription", ""),
        "DefaultVersion": False,
        "CreateTime": world.clock.now(),
        "LaunchTemplateData": {**data, **params["LaunchTemplateData"]},
    }
    template.versions.append(version)
    template.attributes["LatestVersionNumber"] = str(version["VersionNumber"])
    return {"LaunchTemplateVersion": version}


def describe_instances(world: World, params: Json) -> Json:
    """The instances of every group, by id, tag, reservation and state."""
    filters = {one["Name"]: set(one["Values"]) for one in params.get("Filters") or []}
    found: list[Json] = [
        {
            "InstanceId": one.id,
            "InstanceType": one.instance_type,
            "Placement": {"AvailabilityZone": one.availability_zone},
            "State": {"Code": 16, "Name": "running"},
            "PrivateIpAddress": private_address(one.id),
            "Tags": [{"Key": key, "Value": value} for key, value in instance_tags(world, group).items()],
            **({"CapacityReservationId": one.reservation_id} if one.reservation_id else {}),
        }
        for group in world.groups.values()
        for one in group.instances
        if one.id in (params.get("InstanceIds") or [one.id])
        and all(_facts(world, group, one).get(name) in wanted for name, wanted in filters.items())
    ]
    return {"Reservations": [{"ReservationId": f"r-{one['InstanceId'][2:]}", "Instances": [one]} for one in found]}


def describe_tags(world: World, params: Json) -> Json:
    """The tags of the instances of every group, by key and value."""
    filters = {one["Name"]: set(one["Values"]) for one in params.get("Filters") or []}
    found = [
        {"Key": key, "Value": value, "ResourceId": one.id, "ResourceType": "instance"}
        for group in world.groups.values()
        for one in group.instances
        for key, value in instance_tags(world, group).items()
    ]
    facts = {"key": "Key", "value": "Value", "resource-id": "ResourceId", "resource-type": "ResourceType"}
    return {
        "Tags": [
            one
            for one in found
            if all(name in facts and one[facts[name]] in wanted for name, wanted in filters.items())
        ]
    }


def describe_network_interfaces(world: World, params: Json) -> Json:
    """The first interface of each instance, by instance and device index."""
    filters = {one["Name"]: set(one["Values"]) for one in params.get("Filters") or []}
    found: list[Json] = [
        {
            "NetworkInterfaceId": f"eni-{one.id[2:]}",
            "PrivateIpAddress": private_address(one.id),
            "Status": "in-use",
            "Attachment": {
                "InstanceId": one.id,
                "DeviceIndex": 0,
                "NetworkCardIndex": 0,
                "Status": "attached",
                "AttachTime": one.launched,
            },
        }
        for group in world.groups.values()
        for one in group.instances
    ]
    facts = {"attachment.instance-id": "InstanceId", "attachment.device-index": "DeviceIndex"}
    return {
        "NetworkInterfaces": [
            one
            for one in found
            if all(name in facts and str(one["Attachment"][facts[name]]) in wanted for name, wanted in filters.items())
        ]
    }


def _facts(world: World, group: Group, one: Instance) -> dict[str, str]:
    """What instances can be filtered by."""
    return {
        **{f"tag:{key}": value for key, value in instance_tags(world, group).items()},
        "capacity-reservation-id": one.reservation_id,
        "instance-id": one.id,
        "instance-state-name": "running",
    }


def describe_placement_groups(world: World, params: Json) -> Json:
    names = params.get("GroupNames")
    found = {one.physical_id: one.properties for one in world.of_type(Type.PLACEMENT_GROUP)}
    found |= {name: {"Strategy": strategy} for name, strategy in world.seeded_placement_groups.items()}
    for name in names or []:
        if name not in found:
            raise ApiError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
    return {
        "PlacementGroups": [
            {
                "GroupName": name,
                "State": "available",
                "Strategy": given.get("Strategy", "cluster"),
                "GroupArn": world.arn("ec2", f"placement-group/{name}"),
                **({"PartitionCount": given["PartitionCount"]} if "PartitionCount" in given else {}),
            }
            for name, given in found.items()
            if not names or name in names
        ]
    }


def delete_placement_group(world: World, params: Json) -> Json:
    """EC2 API reference, DeletePlacementGroup: no instance may be in it."""
    name = params["GroupName"]
    if world.find(Type.PLACEMENT_GROUP, name) is None:
        raise ApiError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
    provisioning.delete(world, Type.PLACEMENT_GROUP, name)
    return {}


def terminate_instances(world: World, params: Json) -> Json:
    """End instances at once: Auto Scaling finds them gone, and launches others."""
    known = {one.id for one in world.instances()}
    for identifier in params["InstanceIds"]:
        if identifier not in known:
            raise ApiError("InvalidInstanceID.NotFound", f"The instance ID '{identifier}' does not exist")
    for identifier in params["InstanceIds"]:
        fleets.lose(world, identifier)
    return {"TerminatingInstances": [{"InstanceId": identifier} for identifier in params["InstanceIds"]]}


def describe_capacity_reservations(world: World, params: Json) -> Json:
    known = world.reservations()
    for identifier in params.get("CapacityReservationIds") or []:
        if identifier not in known:
            raise _no_reservation(identifier)
    filters = {one["Name"]: set(one["Values"]) for one in params.get("Filters") or []}
    found = [
        _reservation(world, one)
        for one in known.values()
        if one.id in (params.get("CapacityReservationIds") or [one.id])
    ]
    return {
        "CapacityReservations": [
            one for one in found if all(_reservation_fact(one, name) in wanted for name, wanted in filters.items())
        ]
    }


def _no_reservation(identifier: str) -> ApiError:
    message = f"The capacity reservation '{identifier}' does not exist"
    return ApiError("InvalidCapacityReservationId.NotFound", message)


def _reservation_fact(document: Json, name: str) -> str | None:
    """What reservations can be filtered by: a tag or the state."""
    kind, _, key = name.partition(":")
    if kind == "tag":
        return next((tag["Value"] for tag in document.get("Tags", []) if tag["Key"] == key), None)
    return str(document["State"]) if name == "state" else None


def _reservation(world: World, one: Reservation) -> Json:
    now = world.clock.now()
    used = [instance.reservation_id for instance in world.instances()]
    resource = world.find(Type.CAPACITY_RESERVATION, one.id)
    document: Json = {
        "CapacityReservationId": one.id,
        "CapacityReservationArn": world.arn("ec2", f"capacity-reservation/{one.id}"),
        "InstanceType": one.instance_type,
        "InstancePlatform": one.platform,
        "AvailabilityZone": one.availability_zone,
        "TotalInstanceCount": one.count,
        "AvailableInstanceCount": one.count - used.count(one.id) if one.accepts_launches(now) else 0,
        "State": one.state(now),
        "ReservationType": one.kind,
        "InstanceMatchCriteria": one.match_criteria,
        "EndDateType": "limited" if one.ends_at else "unlimited",
        "Tenancy": resource.properties.get("Tenancy", "default") if resource else "default",
    }
    if one.placement_group:
        document["PlacementGroupArn"] = world.arn("ec2", f"placement-group/{one.placement_group}")
    if one.ends_at:
        document["EndDate"] = one.ends_at
    started = one.starts_at or (parse_time(resource.attributes["StartDate"]) if resource else None)
    if started:
        document["StartDate"] = started
    if resource is not None and "Tags" in resource.properties:
        document["Tags"] = resource.properties["Tags"]
    return document


# Reservations that are made by the API itself, and not by CloudFormation. Source: EC2 API, CreateCapacityReservation
# (a repeated client token answers what it made before), ModifyCapacityReservation, CancelCapacityReservation.


def create_capacity_reservation(world: World, params: Json) -> Json:
    token = params.get("ClientToken")
    for present in world.of_type(Type.CAPACITY_RESERVATION):
        if token and present.attributes.get("ClientToken") == token:
            return {"CapacityReservation": _reservation(world, reservation_of(present))}
    tags = [tag for one in params.get("TagSpecifications", []) for tag in one["Tags"]]
    properties = {key: value for key, value in params.items() if key not in ("ClientToken", "TagSpecifications")}
    _accept_reservation(properties, world)
    made = provisioning.create(world, Type.CAPACITY_RESERVATION, "", {**properties, "Tags": tags}, "")
    made.attributes["ClientToken"] = token
    return {"CapacityReservation": _reservation(world, reservation_of(made))}


def modify_capacity_reservation(world: World, params: Json) -> Json:
    resource = _made_reservation(world, params["CapacityReservationId"])
    changes = {key: value for key, value in params.items() if key != "CapacityReservationId"}
    properties = {**resource.properties, **changes}
    if properties.get("EndDateType") == "unlimited" and "EndDate" not in changes:
        properties.pop("EndDate", None)
    _accept_reservation(properties, world)
    provisioning.update(world, resource, properties)
    return {"Return": True}


def cancel_capacity_reservation(world: World, params: Json) -> Json:
    resource = _made_reservation(world, params["CapacityReservationId"])
    provisioning.delete(world, resource.type, resource.physical_id)
    return {"Return": True}


def _made_reservation(world: World, identifier: str) -> Resource:
    resource = world.find(Type.CAPACITY_RESERVATION, identifier)
    if resource is None:
        raise _no_reservation(identifier)
    return resource


def _accept_reservation(properties: Json, world: World) -> None:
    for fault in reservation_faults(properties, world):
        raise ApiError("InvalidParameterValue", str(fault))
