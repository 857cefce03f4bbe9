"""EC2 Auto Scaling's API over the world, in the shapes of its API model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import fleets
from ..groups import Group, Instance
from ..world import SCHEDULED_ACTION, Json, World, template_specification


def _instance(world: World, group: Group, instance: Instance) -> Json:
    resource = world.find("AWS::AutoScaling::AutoScalingGroup", group.name)
    specification = template_specification(resource.properties) if resource else None
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "AvailabilityZone": instance.availability_zone,
        "LifecycleState": instance.lifecycle_state,
        "HealthStatus": "Healthy",
        "ProtectedFromScaleIn": False,
        "LaunchTemplate": {
            "LaunchTemplateId": (specification or {}).get("LaunchTemplateId", ""),
            "Version": instance.template_version,
        },
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
        "Instances": [_instance(world, group, instance) for instance in group.instances],
        "SuspendedProcesses": [{"ProcessName": name} for name in sorted(group.suspended)],
        "EnabledMetrics": [
            {"Metric": metric, "Granularity": collection.get("Granularity", "1Minute")}
            for collection in given.get("MetricsCollection", [])
            for metric in collection.get("Metrics", [])
        ],
        "Tags": [
            {"ResourceId": group.name, "ResourceType": "auto-scaling-group", **tag}
            for tag in given.get("Tags", [])
        ],
    }


def describe_auto_scaling_groups(world: World, params: Json) -> Json:
    names = params.get("AutoScalingGroupNames")
    groups = [group for name, group in world.groups.items() if not names or name in names]
    return {"AutoScalingGroups": [_document(world, group) for group in groups]}


def describe_auto_scaling_instances(world: World, params: Json) -> Json:
    wanted = params.get("InstanceIds")
    return {
        "AutoScalingInstances": [
            {"AutoScalingGroupName": group.name, **_instance(world, group, instance)}
            for group in world.groups.values()
            for instance in group.instances
            if not wanted or instance.id in wanted
        ]
    }


def describe_lifecycle_hooks(world: World, params: Json) -> Json:
    return {"LifecycleHooks": fleets.hooks_of(world, params["AutoScalingGroupName"])}


def describe_scaling_activities(world: World, params: Json) -> Json:
    name = params.get("AutoScalingGroupName")
    groups = [group for group in world.groups.values() if name in (None, group.name)]
    return {"Activities": [activity for group in groups for activity in group.activities]}


def describe_scheduled_actions(world: World, params: Json) -> Json:
    name = params.get("AutoScalingGroupName")
    return {
        "ScheduledUpdateGroupActions": [
            {**found.properties, "ScheduledActionName": found.physical_id.split("|")[0]}
            for found in world.of_type(SCHEDULED_ACTION)
            if name in (None, found.properties.get("AutoScalingGroupName"))
        ]
    }


def set_desired_capacity(world: World, params: Json) -> Json:
    fleets.set_desired(world, params["AutoScalingGroupName"], int(params["DesiredCapacity"]))
    return {}


def update_auto_scaling_group(world: World, params: Json) -> Json:
    fleets.resize(world, params["AutoScalingGroupName"], params)
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
        world, params["AutoScalingGroupName"], params["InstanceId"], params["LifecycleActionResult"]
    )
    return {}


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

OPERATIONS: Mapping[str, Callable[[World, Json], Json]] = {
    "CompleteLifecycleAction": complete_lifecycle_action,
    "DescribeAutoScalingGroups": describe_auto_scaling_groups,
    "DescribeAutoScalingInstances": describe_auto_scaling_instances,
    "DescribeLifecycleHooks": describe_lifecycle_hooks,
    "DescribeScalingActivities": describe_scaling_activities,
    "DescribeScheduledActions": describe_scheduled_actions,
    "ResumeProcesses": resume_processes,
    "SetDesiredCapacity": set_desired_capacity,
    "SuspendProcesses": suspend_processes,
    "UpdateAutoScalingGroup": update_auto_scaling_group,
}
