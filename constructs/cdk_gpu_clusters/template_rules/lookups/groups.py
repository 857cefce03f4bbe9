"""Groups that launch nodes: Auto Scaling groups, node groups of orchestrators, instance groups of HyperPod."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.lookup import instance_type, instance_type_names
from cdk_gpu_clusters.template_rules.case import Case, Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import (
    INSTANCE,
    Launch,
    launch_of,
    record_of,
    template_used_by,
    user_data_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.rule import NotApplicable

#: Where resources that launch name the most nodes that they run.
_MOST: dict[str, tuple[str, ...]] = {
    "AWS::AutoScaling::AutoScalingGroup": ("MaxSize",),
    "AWS::EKS::Nodegroup": ("ScalingConfig", "MaxSize"),
    "AWS::PCS::ComputeNodeGroup": ("ScalingConfiguration", "MaxInstanceCount"),
}
_WEIGHTS = "MixedInstancesPolicy/LaunchTemplate/Overrides/*/WeightedCapacity"


def users_of(launch: Launch) -> list[Resource]:
    """The resources that launch from a launch template, each once; the instance itself where it is one."""
    users = dict.fromkeys(use.resource for use in launch.uses())
    return [launch.resource] if launch.resource.type == INSTANCE else list(users)


def most_nodes_of(resource: Resource) -> int:
    """The most nodes that a resource runs.

    Raises:
        Undecidable: If the template does not show it, or counts something else than instances.
    """
    if resource.type == INSTANCE:
        return 1
    path = _MOST.get(resource.type)
    size = resource.get(*path) if path else resource.properties
    if path is None:
        raise size.undecidable("it counts something else than nodes")
    for weight in values_at(resource.properties, _WEIGHTS):
        raise weight.undecidable("the size of the group counts weights, not nodes")
    most = size.integer()
    if most is None:
        raise size.undecidable("no greatest size is given")
    return most


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
                raise specification.undecidable("this launch template is not in the template")
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
    """Rules, schedules, state machines and functions that receive the name of a group."""
    name = re.compile(rf'"{group.logical_id}[".]|\$\{{{group.logical_id}[.}}]')
    return [one for one, text in group.case.once(_automation) if name.search(text)]


def _automation(case: Case) -> list[tuple[Resource, str]]:
    """What may size groups of the template, as text."""
    return [
        (one, json.dumps(case.template.resources[one.logical_id], default=str))
        for one in case.resources(*_AUTOMATION)
        if one.case is case
    ]


EKS_NODE_GROUP = "AWS::EKS::Nodegroup"
PCS_NODE_GROUP = "AWS::PCS::ComputeNodeGroup"
PCS_CLUSTER = "AWS::PCS::Cluster"
COMPUTE_ENVIRONMENT = "AWS::Batch::ComputeEnvironment"

#: Where a node group names its launch template, and its instance types.
_NAMES = {
    EKS_NODE_GROUP: ("LaunchTemplate", "InstanceTypes/*"),
    PCS_NODE_GROUP: ("CustomLaunchTemplate", "InstanceConfigs/*/InstanceType"),
    COMPUTE_ENVIRONMENT: ("ComputeResources/LaunchTemplate", "ComputeResources/InstanceTypes/*"),
}


def specification_of(group: Resource) -> Value:
    """Where a node group names its launch template; may be absent."""
    return group.get(*_NAMES[group.type][0].split("/"))


def launch_of_node_group(group: Resource) -> Launch:
    """What a node group launches from.

    Raises:
        NotApplicable: If it names no launch template.
        Undecidable: If the launch template is not in the template.
    """
    specification = specification_of(group)
    if not specification.exists:
        raise NotApplicable
    template = template_used_by(specification)
    if template is None:
        raise specification.undecidable("this launch template is not in the template")
    return launch_of(template)


def own_types_of(group: Resource) -> list[Value]:
    """The instance types that a node group names itself."""
    return values_at(group.properties, _NAMES[group.type][1])


def records_of(group: Resource) -> list[tuple[Value, InstanceType]]:
    """The instance types of a node group, its own or its launch template's, with what the catalogue knows of them.

    Raises:
        Undecidable: If no type is named, or one is not known.
    """
    values = own_types_of(group)
    if not values and specification_of(group).exists:
        values = values_at(launch_of_node_group(group).data, "InstanceType")
    if not values:
        raise group.properties.undecidable("no instance type is named in this template")
    return [(value, record_of(value)) for value in values]


def market_faults(group: Resource, purchase: Value, *, block: str, spot: str) -> list[tuple[Value, str, str]]:
    """Where the purchase option of a node group and the market type of its launch template differ.

    Args:
        group: The node group.
        purchase: Its purchase option.
        block: What it calls a Capacity Block.
        spot: What it calls spot.

    Returns:
        Where, what is there, and what is allowed.
    """
    market = launch_of_node_group(group).data.get("InstanceMarketOptions", "MarketType")
    option, market_type = purchase.text(), market.text()
    if option == block and market_type != "capacity-block":
        return [(market, f"{block} with market type {market_type or 'none'}", "capacity-block")]
    if option != block and market_type == "capacity-block":
        return [(purchase, f"capacity-block with {option or 'no purchase option'}", block)]
    if market_type == "spot":
        return [(market, "market type spot in the launch template", f"{spot} on the node group alone")]
    return []


def has_plain_user_data(launch: Launch) -> Value | None:
    """The user data of a launch, if it is no MIME archive.

    Raises:
        Undecidable: If the template holds nothing of it.
    """
    user_data = user_data_of(launch)
    if user_data is None or user_data.text.lstrip().lower().startswith(("mime-version:", "content-type: multipart")):
        return None
    if user_data.text.startswith("${"):
        raise user_data.value.undecidable("the beginning of this user data is known at deployment only")
    return user_data.value


HYPERPOD = "AWS::SageMaker::Cluster"
_PREFIX = "ml."


def instance_groups(cluster: Resource) -> list[Value]:
    """The instance groups of a cluster."""
    return cluster.get("InstanceGroups").items()


def hyperpod_record_of(value: Value) -> InstanceType | None:
    """What the catalogue knows of a type with SageMaker's prefix; None if it knows nothing, or there is no type."""
    name = (value.text() or "").removeprefix(_PREFIX)
    return instance_type(name) if name in instance_type_names() else None


def efa_groups(cluster: Resource) -> Iterator[tuple[Value, Value]]:
    """The instance groups whose type has EFA, each with its network, its own or the cluster's."""
    for group in instance_groups(cluster):
        record = hyperpod_record_of(group.get("InstanceType"))
        if record is not None and record.network.efa is not None:
            own = group.get("OverrideVpcConfig")
            yield group, own if own.exists else cluster.get("VpcConfig")
