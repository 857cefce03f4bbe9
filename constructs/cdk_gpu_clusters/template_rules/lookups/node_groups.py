"""Node groups of orchestrators, and the launch templates that they name."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import (
    Launch,
    launch_of,
    record_of,
    template_used_by,
    values_at,
)
from cdk_gpu_clusters.template_rules.lookups.user_data import user_data_of
from cdk_gpu_clusters.template_rules.rule import NotApplicable

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
        raise specification.undecidable("this launch template stands in no part of the template")
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
    if user_data is None or user_data.text.lstrip().lower().startswith(
        ("mime-version:", "content-type: multipart")
    ):
        return None
    if user_data.text.startswith("${"):
        raise user_data.value.undecidable("the beginning of this user data is known at deployment only")
    return user_data.value
