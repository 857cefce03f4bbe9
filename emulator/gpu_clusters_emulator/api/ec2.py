"""The part of EC2's API that engines hold poorly: templates, placement groups and reservations."""

from __future__ import annotations

from ..clock import parse_time
from ..faults import ApiError
from ..world import Json, Resource, Type, World


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


def describe_placement_groups(world: World, params: Json) -> Json:
    names = params.get("GroupNames")
    found = {one.physical_id: one.properties for one in world.of_type(Type.PLACEMENT_GROUP)}
    found |= {name: {"Strategy": strategy} for name, strategy in world.seeded_placement_groups.items()}
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


def describe_capacity_reservations(world: World, params: Json) -> Json:
    wanted = params.get("CapacityReservationIds")
    now = world.clock.now()
    used = [one.reservation_id for one in world.instances()]
    answer = []
    for one in world.reservations().values():
        if wanted and one.id not in wanted:
            continue
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
        answer.append(document)
    return {"CapacityReservations": answer}
