"""Auto Scaling groups: who sets their size, their names, and their deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_target
from cdk_gpu_clusters.template_rules.lookups.groups import (
    AUTO_SCALING_GROUP,
    SCALING_POLICY,
    SCHEDULED_ACTION,
    keepers_of,
    launch_of_group,
    related_to,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, applicable, define_template_rule

_GROUP = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-autoscalinggroup.html"
_POLICIES = ("AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role")


@define_template_rule(
    "GPU-FLT-022",
    "a group whose size a state machine keeps has no scaling policy and no scheduled action",
    source="EC2 Auto Scaling API reference, SetDesiredCapacity: the last call holds",
    cause="the state machine sets the size that is paid for again at its next run",
    fix="remove the policy or the action; for a size of your own, give the group the tag that the state machine reads",
    url=_GROUP,
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "AWS::AutoScaling::ScalingPolicy",
        "AWS::AutoScaling::ScheduledAction",
        "rules and schedules with a rate, and state machines that call SetDesiredCapacity",
    ),
)
def one_writer(resource: Resource) -> Iterator[Fault]:
    keepers = applicable(keepers_of(resource))
    for other in (*related_to(resource, SCALING_POLICY), *related_to(resource, SCHEDULED_ACTION)):
        yield Fault(at=other, got=f"{other.type} beside {keepers[0].logical_id}", allowed="none")


@define_template_rule(
    "GPU-FLT-023",
    "a group has the name that the permissions of its nodes expect",
    source='CloudFormation user guide, "Name type": a generated name begins with those of the stack and the resource',
    cause="a policy names the group by what CloudFormation makes of the stack and the logical id: its nodes may not "
    "complete their lifecycle hooks, and every launch ends",
    fix="remove AutoScalingGroupName",
    url=_GROUP,
    on=(AUTO_SCALING_GROUP,),
    looks_at=("AutoScalingGroupName", *(f"{one}/PolicyDocument" for one in _POLICIES)),
)
def generated_name(resource: Resource) -> Iterator[Fault]:
    policies = applicable([one for one in resource.case.resources(*_POLICIES) if _expects_generated(resource, one)])
    name = resource.get("AutoScalingGroupName")
    if name.exists:
        yield Fault(at=name, got=f"{name.shown()} beside {policies[0].logical_id}", allowed="none")


def _expects_generated(group: Resource, policy: Resource) -> bool:
    text = json.dumps(policy.case.template.resources[policy.logical_id], default=str)
    is_near = policy.case is group.case
    return is_near and "autoScalingGroupName/" in text and f"-{group.logical_id}-*" in text


@define_template_rule(
    "GPU-FLT-024",
    "a group in reserved capacity refuses to be deleted by force, and lets CloudFormation delete it",
    source='EC2 Auto Scaling guide, "Configure deletion protection"; registry schema, handlers.delete: CloudFormation '
    "sets the sizes to 0 first, and does not force",
    severity=Severity.INFO,
    cause="by default one call ends all nodes of the group with their jobs; prevent-all-deletion lets no stack go",
    fix="set DeletionProtection to prevent-force-deletion",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/resource-deletion-protection.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "DeletionProtection",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
    ),
)
def deletion_protection(resource: Resource) -> Iterator[Fault]:
    if not reservation_target(launch_of_group(resource)).exists:
        raise NotApplicable
    protection = resource.get("DeletionProtection")
    if protection.text() != "prevent-force-deletion":
        yield Fault(at=protection, got=protection.text() or "none, by default", allowed="prevent-force-deletion")
