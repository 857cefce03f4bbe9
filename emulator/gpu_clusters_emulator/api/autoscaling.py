"""EC2 Auto Scaling's API over the world, in the shapes of its API model."""

from __future__ import annotations

from .. import fleets
from ..world import Group, Instance, Json, Type, World


def _instance(instance: Instance) -> Json:
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "AvailabilityZone": instance.availability_zone,
        "LifecycleState": instance.lifecycle_state,
        "HealthStatus": "Healthy" if instance.is_healthy else "Unhealthy",
        "ProtectedFromScaleIn": False,
        "LaunchTemplate": {"LaunchTemplateId": instance.template_id, "Version": instance.template_version},
    }


def _document(world: World, group: Group) -> Json:
    resource = world.find("AWS::AutoScaling::AutoScalingGroup", group.name)
    given = resource.properties if resource else {}
    subnets = given.get("VPCZoneIdentifier", [])
    skip = {"LifecycleHookSpecificationList", "NotificationConfigurations", "MetricsCollection", "Tags"}
    return {
        "HealthCheckType": "EC2",
        **{key: value for key, value in given.items() if key not in skip},
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": resource.attributes["AutoScalingGroupARN"] if resource else "",
        "MinSize": group.minimum,
        "MaxSize": group.maximum,
        "DesiredCapacity": group.desired,
        "DefaultCooldown": int(given.get("Cooldown", 300)),
        "VPCZoneIdentifier": ",".join(subnets),
        "AvailabilityZones": sorted({world.zone_of_subnet(subnet) or "" for subnet in subnets} - {""}),
        "HealthCheckGracePeriod": int(given.get("HealthCheckGracePeriod", 0)),
        "CreatedTime": group.created_at,
        "Instances": [_instance(instance) for instance in group.instances],
        "SuspendedProcesses": [{"ProcessName": name} for name in sorted(group.suspended)],
        "EnabledMetrics": [
            {"Metric": metric, "Granularity": collection.get("Granularity", "1Minute")}
            for collection in given.get("MetricsCollection", [])
            for metric in collection.get("Metrics", [])
        ],
        "Tags": [
            {"ResourceId": group.name, "ResourceType": "auto-scaling-group", **tag}
            for tag in [
                *given.get("Tags", []),
                *({"Key": key, "Value": value, "PropagateAtLaunch": False} for key, value in group.tags.items()),
            ]
        ],
    }


def describe_auto_scaling_groups(world: World, params: Json) -> Json:
    names = params.get("AutoScalingGroupNames")
    groups = [group for name, group in world.auto_scaling_groups().items() if not names or name in names]
    return {"AutoScalingGroups": [_document(world, group) for group in groups]}


def describe_auto_scaling_instances(world: World, params: Json) -> Json:
    wanted = params.get("InstanceIds")
    return {
        "AutoScalingInstances": [
            {"AutoScalingGroupName": group.name, **_instance(instance)}
            for group in world.auto_scaling_groups().values()
            for instance in group.instances
            if not wanted or instance.id in wanted
        ]
    }


def describe_lifecycle_hooks(world: World, params: Json) -> Json:
    return {"LifecycleHooks": fleets.hooks_of(world, params["AutoScalingGroupName"])}


def describe_scaling_activities(world: World, params: Json) -> Json:
    name = params.get("AutoScalingGroupName")
    groups = [group for group in world.auto_scaling_groups().values() if name in (None, group.name)]
    return {"Activities": [activity for group in groups for activity in group.activities]}


def describe_scheduled_actions(world: World, params: Json) -> Json:
    name = params.get("AutoScalingGroupName")
    return {
        "ScheduledUpdateGroupActions": [
            {**found.properties, "ScheduledActionName": found.physical_id.split("|")[0]}
            for found in world.of_type(Type.SCHEDULED_ACTION)
            if name in (None, found.properties.get("AutoScalingGroupName"))
        ]
    }


def set_desired_capacity(world: World, params: Json) -> Json:
    fleets.set_desired(world, params["AutoScalingGroupName"], int(params["DesiredCapacity"]))
    return {}


def update_auto_scaling_group(world: World, params: Json) -> Json:
    """Sizes at once, the rest for nodes that start later: Auto Scaling replaces none for it."""
    name = params["AutoScalingGroupName"]
    fleets.resize(world, name, params)
    given = _properties(world, name)
    given |= {key: value for key, value in params.items() if key not in _NOT_SET_HERE}
    if "VPCZoneIdentifier" in params:
        given["VPCZoneIdentifier"] = params["VPCZoneIdentifier"].split(",")
    return {}


_NOT_SET_HERE = ("AutoScalingGroupName", "MinSize", "MaxSize", "DesiredCapacity", "VPCZoneIdentifier")


def _properties(world: World, name: str) -> Json:
    """The properties of a group, to be changed without its template."""
    fleets.group_named(world, name)
    resource = world.find(Type.AUTO_SCALING_GROUP, name)
    return {} if resource is None else resource.properties


def put_lifecycle_hook(world: World, params: Json) -> Json:
    name, hook = params["AutoScalingGroupName"], params["LifecycleHookName"]
    given = _properties(world, name)
    hooks = given.get(_HOOKS, [])
    changed = {key: value for key, value in params.items() if key != "AutoScalingGroupName"}
    present: Json = next((one for one in hooks if one["LifecycleHookName"] == hook), {})
    given[_HOOKS] = [*(one for one in hooks if one is not present), {**present, **changed}]
    return {}


def delete_lifecycle_hook(world: World, params: Json) -> Json:
    given = _properties(world, params["AutoScalingGroupName"])
    given[_HOOKS] = [one for one in given.get(_HOOKS, []) if one["LifecycleHookName"] != params["LifecycleHookName"]]
    return {}


_HOOKS = "LifecycleHookSpecificationList"


def terminate_instance_in_auto_scaling_group(world: World, params: Json) -> Json:
    fleets.terminate(world, params["InstanceId"], decrement=params["ShouldDecrementDesiredCapacity"])
    return {}


def create_or_update_tags(world: World, params: Json) -> Json:
    for tag in params["Tags"]:
        _forget_tag(world, tag)
        fleets.group_named(world, tag["ResourceId"]).tags[tag["Key"]] = tag.get("Value", "")
    return {}


def _forget_tag(world: World, tag: Json) -> None:
    """Take a tag of the template off a group."""
    given = _properties(world, tag["ResourceId"])
    if any(one["Key"] == tag["Key"] for one in given.get("Tags", [])):
        given["Tags"] = [one for one in given["Tags"] if one["Key"] != tag["Key"]]


def delete_tags(world: World, params: Json) -> Json:
    for tag in params["Tags"]:
        fleets.group_named(world, tag["ResourceId"]).tags.pop(tag["Key"], None)
        _forget_tag(world, tag)
    return {}


def suspend_processes(world: World, params: Json) -> Json:
    group = fleets.group_named(world, params["AutoScalingGroupName"])
    group.suspended |= set(params.get("ScalingProcesses") or _PROCESSES)
    return {}


def resume_processes(world: World, params: Json) -> Json:
    group = fleets.group_named(world, params["AutoScalingGroupName"])
    group.suspended -= set(params.get("ScalingProcesses") or _PROCESSES)
    fleets.settle(world)
    return {}


def complete_lifecycle_action(world: World, params: Json) -> Json:
    fleets.complete_lifecycle_action(
        world,
        params["AutoScalingGroupName"],
        params["InstanceId"],
        params["LifecycleHookName"],
        params["LifecycleActionResult"],
    )
    return {}


def record_lifecycle_action_heartbeat(world: World, params: Json) -> Json:
    group = fleets.group_named(world, params["AutoScalingGroupName"])
    fleets.extend(world, group, params["InstanceId"], params["LifecycleHookName"])
    return {}


def set_instance_health(world: World, params: Json) -> Json:
    fleets.set_health(
        world,
        params["InstanceId"],
        params["HealthStatus"],
        respect_grace=params.get("ShouldRespectGracePeriod", True),
    )
    return {}


def describe_policies(world: World, params: Json) -> Json:
    name = params.get("AutoScalingGroupName")
    return {
        "ScalingPolicies": [
            {
                "PolicyType": "SimpleScaling",
                **found.properties,
                "PolicyARN": found.physical_id,
                "PolicyName": found.attributes["PolicyName"],
                "Enabled": True,
            }
            for found in world.of_type(Type.SCALING_POLICY)
            if name in (None, found.properties["AutoScalingGroupName"])
        ]
    }


# EC2 Auto Scaling user guide, "Suspend and resume Amazon EC2 Auto Scaling processes"
_PROCESSES = (
    "Launch",
    "Terminate",
    "AddToLoadBalancer",
    "AlarmNotification",
    "AZRebalance",
    "HealthCheck",
    "InstanceRefresh",
    "ReplaceUnhealthy",
    "ScheduledActions",
)
