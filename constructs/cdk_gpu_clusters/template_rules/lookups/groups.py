"""Groups that launch nodes: Auto Scaling groups, node groups of orchestrators, instance groups of HyperPod."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue.instances import instance_type, instance_type_names
from cdk_gpu_clusters.template_rules.case import Case, Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import (
    INSTANCE,
    Launch,
    launch_named_by,
    own_types_of,
    record_of,
    specification_of,
    user_data_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable

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
    if resource.type not in _MOST:
        raise resource.properties.undecidable("it counts something else than nodes")
    size = resource.get(*_MOST[resource.type])
    for weight in values_at(resource.properties, _WEIGHTS):
        raise weight.undecidable("the size of the group counts weights, not nodes")
    most = size.integer()
    if most is None:
        raise size.undecidable("no greatest size is given")
    return most


AUTO_SCALING_GROUP = "AWS::AutoScaling::AutoScalingGroup"
SCALING_POLICY = "AWS::AutoScaling::ScalingPolicy"
SCHEDULED_ACTION = "AWS::AutoScaling::ScheduledAction"
WARM_POOL = "AWS::AutoScaling::WarmPool"

_SPECIFICATIONS = ("LaunchTemplate", "MixedInstancesPolicy/LaunchTemplate/LaunchTemplateSpecification")
# What may call EC2 Auto Scaling by a definition, a target or code of its own.
_AUTOMATION = (
    "AWS::Events::Rule",
    "AWS::Lambda::Function",
    "AWS::Scheduler::Schedule",
    "AWS::StepFunctions::StateMachine",
)
_MACHINE = "AWS::StepFunctions::StateMachine"


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
            return launch_named_by(specification)
    raise group.properties.undecidable("no launch template is named")


def related_to(group: Resource, resource_type: str) -> list[Resource]:
    """The scaling policies, scheduled actions or warm pools of a group."""
    own = group.get("AutoScalingGroupName")
    # by its name it may be meant without a reference
    found = group.case.resources(resource_type) if own.exists else group.case.resources_naming(group, resource_type)
    named = [(one, one.get("AutoScalingGroupName")) for one in found]
    return [
        one for one, name in named if group.is_target_of(name) or (own.exists and own.identity() == name.identity())
    ]


def automation_of(group: Resource) -> list[Resource]:
    """Rules, schedules, state machines and functions that receive the name of a group."""
    name = re.compile(rf'"{group.logical_id}[".]|\$\{{{group.logical_id}[.}}]')
    return [one for one, text in group.case.once(_automation) if name.search(text)]


def keepers_of(group: Resource) -> list[Resource]:
    """Rules and schedules that start, again and again, a state machine which sets the size of a group."""
    texts = group.case.once(_automation)
    machines = [one.logical_id for one, text in texts if one.type == _MACHINE and "setDesiredCapacity" in text]
    return [
        one
        for one in automation_of(group)
        for text in (str(group.case.template.resources[one.logical_id]),)
        if "rate(" in text and any(f"'{machine}'" in text for machine in machines)
    ]


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


def launch_of_node_group(group: Resource) -> Launch:
    """What a node group launches from.

    Raises:
        NotApplicable: If it names no launch template.
        Undecidable: If the launch template is not in the template.
    """
    specification = specification_of(group)
    if not specification.exists:
        raise NotApplicable
    return launch_named_by(specification)


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


def market_faults(group: Resource, option: str) -> Iterator[Fault]:
    """A fault if the purchase option of a node group and the market type of its launch template differ.

    Args:
        group: The node group.
        option: The name of the property with its purchase option.
    """
    market = launch_of_node_group(group).data.get("InstanceMarketOptions", "MarketType")
    purchase = group.get(option)
    chosen, market_type = purchase.text(), market.text()
    if chosen == "CAPACITY_BLOCK" and market_type != "capacity-block":
        yield Fault(at=market, got=f"{chosen} with market type {market_type or 'none'}", allowed="capacity-block")
    elif chosen != "CAPACITY_BLOCK" and market_type == "capacity-block":
        yield Fault(at=purchase, got=f"capacity-block with {chosen or 'no purchase option'}", allowed="CAPACITY_BLOCK")
    elif market_type == "spot":
        got = "market type spot in the launch template"
        yield Fault(at=market, got=got, allowed=f"{option} SPOT on the node group alone")


def user_data_faults(launch: Launch) -> Iterator[Fault]:
    """A fault if the user data of a launch is no MIME archive, which orchestrators add their part to.

    Raises:
        NotApplicable: If there is none.
        Undecidable: If the template holds nothing of it.
    """
    user_data = user_data_of(launch)
    if user_data.text.lstrip().lower().startswith(("mime-version:", "content-type: multipart")):
        return
    if user_data.text.startswith("${"):
        raise user_data.value.undecidable("the beginning of this user data is known at deployment only")
    yield Fault(at=user_data.value, got="a text that does not start with MIME-Version", allowed="a MIME archive")


HYPERPOD = "AWS::SageMaker::Cluster"


def instance_groups(cluster: Resource) -> list[Value]:
    """The instance groups of a cluster."""
    return cluster.get("InstanceGroups").items()


def hyperpod_record_of(value: Value) -> InstanceType | None:
    """What the catalogue knows of a type with SageMaker's prefix; None if it knows nothing, or there is no type."""
    name = (value.text() or "").removeprefix("ml.")
    return instance_type(name) if name in instance_type_names() else None


def efa_groups(cluster: Resource) -> Iterator[tuple[Value, Value]]:
    """The instance groups whose type has EFA, each with its network, its own or the cluster's."""
    for group in instance_groups(cluster):
        record = hyperpod_record_of(group.get("InstanceType"))
        if record is not None and record.network.efa is not None:
            own = group.get("OverrideVpcConfig")
            yield group, own if own.exists else cluster.get("VpcConfig")
