"""Auto Scaling groups, and what else sets their size."""

from __future__ import annotations

import json
import re

from cdk_gpu_clusters.template_rules.case import Case, Resource
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, launch_of, template_used_by, values_at
from cdk_gpu_clusters.template_rules.rule import NotApplicable

AUTO_SCALING_GROUP = "AWS::AutoScaling::AutoScalingGroup"

_SPECIFICATIONS = ("LaunchTemplate", "MixedInstancesPolicy/LaunchTemplate/LaunchTemplateSpecification")
_NAMES_GROUP = {
    "AWS::AutoScaling::ScalingPolicy": "AutoScalingGroupName",
    "AWS::AutoScaling::ScheduledAction": "AutoScalingGroupName",
    "AWS::AutoScaling::WarmPool": "AutoScalingGroupName",
}
# What may call EC2 Auto Scaling by a definition, a target or code of its own.
_AUTOMATION = (
    "AWS::Events::Rule",
    "AWS::Lambda::Function",
    "AWS::Scheduler::Schedule",
    "AWS::StepFunctions::StateMachine",
)


def launch_of_group(group: Resource) -> Launch:
    """What a group launches from.

    Raises:
        NotApplicable: If it launches by a launch configuration, which knows no reservations and no EFA.
        Undecidable: If the launch template is not in the template.
    """
    if any(group.get(key).exists for key in ("LaunchConfigurationName", "InstanceId")):
        raise NotApplicable
    for path in _SPECIFICATIONS:
        for specification in values_at(group.properties, path):
            template = template_used_by(specification)
            if template is None:
                raise specification.undecidable("this launch template stands in no part of the template")
            return launch_of(template)
    raise group.properties.undecidable("no launch template is named")


def belongs_to(resource: Resource, group: Resource) -> bool:
    """Whether a scaling policy, a scheduled action or a warm pool is one of a group."""
    value = resource.get(_NAMES_GROUP[resource.type])
    own = group.get("AutoScalingGroupName")
    return group.is_target_of(value) or (own.exists and own.identity() == value.identity())


def scheduled_actions_of(group: Resource) -> list[Resource]:
    """The scheduled actions of a group."""
    return [one for one in _beside(group, "AWS::AutoScaling::ScheduledAction") if belongs_to(one, group)]


def scaling_policies_of(group: Resource) -> list[Resource]:
    """The scaling policies of a group."""
    return [one for one in _beside(group, "AWS::AutoScaling::ScalingPolicy") if belongs_to(one, group)]


def warm_pools_of(group: Resource) -> list[Resource]:
    """The warm pools of a group."""
    return [one for one in _beside(group, "AWS::AutoScaling::WarmPool") if belongs_to(one, group)]


def _beside(group: Resource, resource_type: str) -> list[Resource]:
    """Resources of a type that may be about a group; by its name they may be without a reference."""
    if group.get("AutoScalingGroupName").exists:
        return group.case.resources(resource_type)
    return group.case.resources_naming(group, resource_type)


def automation_of(group: Resource) -> list[Resource]:
    """Rules, schedules, state machines and functions that are told the name of a group."""
    name = re.compile(rf'"{group.logical_id}[".]|\$\{{{group.logical_id}[.}}]')
    return [one for one, text in group.case.once(_automation) if name.search(text)]


def _automation(case: Case) -> list[tuple[Resource, str]]:
    """What may size groups of the template, as text."""
    return [
        (one, json.dumps(case.template.resources[one.logical_id], default=str))
        for one in case.resources(*_AUTOMATION)
        if one.case is case
    ]
