"""Which checks apply to which resource type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..schemas import resource_schema
from ..service_shapes import shape_faults
from .auto_scaling_groups import group_faults, update_policy_faults
from .capacity_reservations import reservation_faults
from .data_repositories import data_repository_faults
from .directory_buckets import directory_bucket_faults, directory_bucket_policy_faults
from .eks_access import access_entry_faults, pod_identity_faults
from .eks_add_ons import add_on_faults
from .eks_clusters import cluster_change_faults, cluster_deletion_faults, cluster_faults
from .eks_node_groups import node_group_change_faults, node_group_faults
from .file_systems import change_faults as file_system_change_faults
from .file_systems import file_system_faults
from .launch_templates import launch_template_faults
from .listeners import certificate_deletion_faults, listener_faults, listener_rule_faults
from .load_balancers import load_balancer_deletion_faults, load_balancer_faults
from .network_interfaces import group_deletion_faults, subnet_deletion_faults
from .placement_groups import placement_group_deletion_faults
from .scaling_policies import scaling_policy_faults
from .scaling_schedules import lifecycle_hook_faults, scheduled_action_faults, warm_pool_faults
from .security_groups import rule_faults, security_group_deletion_faults, security_group_faults
from .target_groups import target_group_deletion_faults, target_group_faults

if TYPE_CHECKING:
    from ..world import World

Check = Callable[[dict[str, Any], "World"], Iterator[Fault]]
ChangeCheck = Callable[[str, dict[str, Any], dict[str, Any], "World"], Iterator[Fault]]
DeletionCheck = Callable[[str, "World"], Iterator[Fault]]

_CREATION: Mapping[str, Check] = {
    "AWS::AutoScaling::AutoScalingGroup": group_faults,
    "AWS::AutoScaling::LifecycleHook": lifecycle_hook_faults,
    "AWS::AutoScaling::ScalingPolicy": scaling_policy_faults,
    "AWS::AutoScaling::ScheduledAction": scheduled_action_faults,
    "AWS::AutoScaling::WarmPool": warm_pool_faults,
    "AWS::EC2::CapacityReservation": reservation_faults,
    "AWS::EC2::LaunchTemplate": launch_template_faults,
    "AWS::EC2::SecurityGroup": security_group_faults,
    "AWS::EC2::SecurityGroupEgress": rule_faults,
    "AWS::EC2::SecurityGroupIngress": rule_faults,
    "AWS::EKS::AccessEntry": access_entry_faults,
    "AWS::EKS::Addon": add_on_faults,
    "AWS::EKS::Cluster": cluster_faults,
    "AWS::EKS::Nodegroup": node_group_faults,
    "AWS::EKS::PodIdentityAssociation": pod_identity_faults,
    "AWS::ElasticLoadBalancingV2::Listener": listener_faults,
    "AWS::ElasticLoadBalancingV2::ListenerRule": listener_rule_faults,
    "AWS::ElasticLoadBalancingV2::LoadBalancer": load_balancer_faults,
    "AWS::ElasticLoadBalancingV2::TargetGroup": target_group_faults,
    "AWS::FSx::DataRepositoryAssociation": data_repository_faults,
    "AWS::FSx::FileSystem": file_system_faults,
    "AWS::S3Express::BucketPolicy": directory_bucket_policy_faults,
    "AWS::S3Express::DirectoryBucket": directory_bucket_faults,
}
# Calls whose input carries the names of the properties.
_CALLS: Mapping[str, tuple[str, str]] = {
    "AWS::AutoScaling::ScalingPolicy": ("autoscaling", "PutScalingPolicy"),
    "AWS::ElasticLoadBalancingV2::Listener": ("elbv2", "CreateListener"),
    "AWS::ElasticLoadBalancingV2::ListenerRule": ("elbv2", "CreateRule"),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("elbv2", "CreateLoadBalancer"),
    "AWS::ElasticLoadBalancingV2::TargetGroup": ("elbv2", "CreateTargetGroup"),
    "AWS::FSx::DataRepositoryAssociation": ("fsx", "CreateDataRepositoryAssociation"),
    "AWS::FSx::FileSystem": ("fsx", "CreateFileSystem"),
}
_CHANGE: Mapping[str, ChangeCheck] = {
    "AWS::EKS::Cluster": cluster_change_faults,
    "AWS::EKS::Nodegroup": node_group_change_faults,
    "AWS::FSx::FileSystem": file_system_change_faults,
}
_DELETION: Mapping[str, tuple[DeletionCheck, ...]] = {
    "AWS::CertificateManager::Certificate": (certificate_deletion_faults,),
    "AWS::EC2::PlacementGroup": (placement_group_deletion_faults,),
    "AWS::EC2::SecurityGroup": (security_group_deletion_faults, group_deletion_faults),
    "AWS::EC2::Subnet": (subnet_deletion_faults,),
    "AWS::EKS::Cluster": (cluster_deletion_faults,),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": (load_balancer_deletion_faults,),
    "AWS::ElasticLoadBalancingV2::TargetGroup": (target_group_deletion_faults,),
}


def creation_faults(
    type_name: str,
    properties: dict[str, Any],
    world: World,
    *,
    update_policy: Mapping[str, Any] = MappingProxyType({}),
) -> list[Fault]:
    """Every reason to refuse a resource, at creation or update.

    The schema comes first, then the service's API model, then what the models know: where one of them refuses, values
    have no sure shape and the further checks do not run.

    Args:
        type_name: CloudFormation type name.
        properties: As the schema types them.
        world: What exists beside the resource.
        update_policy: The template's `UpdatePolicy` for an Auto Scaling group.
    """
    schema = resource_schema(type_name, world.region)
    if schema is None:
        return []
    faults = schema.faults(properties)
    if not faults and type_name in _CALLS:
        faults = list(shape_faults(*_CALLS[type_name], properties))
    check = _CREATION.get(type_name)
    if not faults and check is not None:
        faults = list(check(properties, world))
    if not faults and update_policy:
        faults = list(update_policy_faults(dict(update_policy), properties))
    return faults


def change_faults(
    type_name: str, physical_id: str, old: dict[str, Any], new: dict[str, Any], world: World
) -> list[Fault]:
    """Every further reason to refuse a change that is made in place."""
    check = _CHANGE.get(type_name)
    return list(check(physical_id, old, new, world)) if check is not None else []


def deletion_faults(type_name: str, physical_id: str, world: World) -> list[Fault]:
    """Every reason to refuse a deletion."""
    return [fault for check in _DELETION.get(type_name, ()) for fault in check(physical_id, world)]
