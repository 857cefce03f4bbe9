"""Which checks apply to which resource type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..faults import Fault
from ..schemas import resource_schema
from ..service_shapes import shape_faults
from ..world import Json, World
from . import (
    auto_scaling,
    automation,
    batch,
    buckets,
    eks_clusters,
    eks_node_groups,
    home_file_systems,
    hyperpod,
    launch_templates,
    load_balancing,
    log_delivery,
    lustre,
    networks,
    pcs_clusters,
    pcs_node_groups,
    reservations,
)

Check = Callable[[Json, World], Iterator[Fault]]
ChangeCheck = Callable[[str, Json, Json, World], Iterator[Fault]]
DeletionCheck = Callable[[str, World], Iterator[Fault]]


def _file_system_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Of the types of FSx that are emulated; of the others only the schema is checked."""
    yield from lustre.file_system_faults(properties, world)
    if home_file_systems.is_openzfs(properties):
        yield from home_file_systems.openzfs_faults(properties, world)


def _file_system_change_faults(physical_id: str, old: Json, new: Json, world: World) -> Iterator[Fault]:
    if home_file_systems.is_openzfs(new):
        yield from home_file_systems.openzfs_change_faults(old, new)
    else:
        yield from lustre.change_faults(physical_id, old, new, world)


_CREATION: Mapping[str, Check] = {
    "AWS::AutoScaling::AutoScalingGroup": auto_scaling.group_faults,
    "AWS::AutoScaling::LifecycleHook": auto_scaling.lifecycle_hook_faults,
    "AWS::AutoScaling::ScalingPolicy": auto_scaling.scaling_policy_faults,
    "AWS::AutoScaling::ScheduledAction": auto_scaling.scheduled_action_faults,
    "AWS::AutoScaling::WarmPool": auto_scaling.warm_pool_faults,
    "AWS::Batch::ComputeEnvironment": batch.compute_environment_faults,
    "AWS::Batch::JobDefinition": batch.job_definition_faults,
    "AWS::Batch::JobQueue": batch.job_queue_faults,
    "AWS::EC2::CapacityReservation": reservations.reservation_faults,
    "AWS::EC2::LaunchTemplate": launch_templates.launch_template_faults,
    "AWS::EC2::SecurityGroup": networks.security_group_faults,
    "AWS::EC2::SecurityGroupEgress": networks.rule_faults,
    "AWS::EC2::SecurityGroupIngress": networks.rule_faults,
    "AWS::EC2::Subnet": networks.subnet_range_faults,
    "AWS::EC2::VPC": networks.vpc_range_faults,
    "AWS::EFS::FileSystem": home_file_systems.efs_faults,
    "AWS::EFS::MountTarget": home_file_systems.mount_target_faults,
    "AWS::EKS::AccessEntry": eks_clusters.access_entry_faults,
    "AWS::EKS::Addon": eks_clusters.add_on_faults,
    "AWS::EKS::Cluster": eks_clusters.cluster_faults,
    "AWS::EKS::Nodegroup": eks_node_groups.node_group_faults,
    "AWS::EKS::PodIdentityAssociation": eks_clusters.pod_identity_faults,
    "AWS::ElasticLoadBalancingV2::Listener": load_balancing.listener_faults,
    "AWS::ElasticLoadBalancingV2::ListenerRule": load_balancing.listener_rule_faults,
    "AWS::ElasticLoadBalancingV2::LoadBalancer": load_balancing.load_balancer_faults,
    "AWS::ElasticLoadBalancingV2::TargetGroup": load_balancing.target_group_faults,
    "AWS::Events::Rule": automation.rule_faults,
    "AWS::FSx::DataRepositoryAssociation": lustre.data_repository_faults,
    "AWS::FSx::FileSystem": _file_system_faults,
    "AWS::Logs::Delivery": log_delivery.delivery_faults,
    "AWS::Logs::DeliveryDestination": log_delivery.destination_faults,
    "AWS::Logs::DeliverySource": log_delivery.source_faults,
    "AWS::PCS::Cluster": pcs_clusters.cluster_faults,
    "AWS::PCS::ComputeNodeGroup": pcs_node_groups.compute_node_group_faults,
    "AWS::PCS::Queue": pcs_clusters.queue_faults,
    "AWS::S3Express::BucketPolicy": buckets.directory_bucket_policy_faults,
    "AWS::S3Express::DirectoryBucket": buckets.directory_bucket_faults,
    "AWS::SageMaker::Cluster": hyperpod.cluster_faults,
    "AWS::SageMaker::ClusterSchedulerConfig": hyperpod.governed_faults,
    "AWS::SageMaker::ComputeQuota": hyperpod.quota_faults,
    "AWS::StepFunctions::StateMachine": automation.state_machine_faults,
}
# Calls whose input carries the names of the properties. EC2 takes instance types that the enums of its model lack.
_CALLS: Mapping[str, tuple[str, str]] = {
    "AWS::AutoScaling::AutoScalingGroup": ("autoscaling", "CreateAutoScalingGroup"),
    "AWS::AutoScaling::LifecycleHook": ("autoscaling", "PutLifecycleHook"),
    "AWS::AutoScaling::ScalingPolicy": ("autoscaling", "PutScalingPolicy"),
    "AWS::AutoScaling::ScheduledAction": ("autoscaling", "PutScheduledUpdateGroupAction"),
    "AWS::CloudWatch::Alarm": ("cloudwatch", "PutMetricAlarm"),
    "AWS::EKS::Addon": ("eks", "CreateAddon"),
    "AWS::EKS::Cluster": ("eks", "CreateCluster"),
    "AWS::EKS::Nodegroup": ("eks", "CreateNodegroup"),
    "AWS::Events::Rule": ("events", "PutRule"),
    "AWS::PCS::Cluster": ("pcs", "CreateCluster"),
    "AWS::PCS::Queue": ("pcs", "CreateQueue"),
    "AWS::StepFunctions::StateMachine": ("stepfunctions", "CreateStateMachine"),
    "AWS::ElasticLoadBalancingV2::Listener": ("elbv2", "CreateListener"),
    "AWS::ElasticLoadBalancingV2::ListenerRule": ("elbv2", "CreateRule"),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("elbv2", "CreateLoadBalancer"),
    "AWS::ElasticLoadBalancingV2::TargetGroup": ("elbv2", "CreateTargetGroup"),
    "AWS::FSx::DataRepositoryAssociation": ("fsx", "CreateDataRepositoryAssociation"),
    "AWS::FSx::FileSystem": ("fsx", "CreateFileSystem"),
}
_CHANGE: Mapping[str, ChangeCheck] = {
    "AWS::Batch::ComputeEnvironment": batch.compute_environment_change_faults,
    "AWS::EKS::Cluster": eks_clusters.cluster_change_faults,
    "AWS::EKS::Nodegroup": eks_node_groups.node_group_change_faults,
    "AWS::FSx::FileSystem": _file_system_change_faults,
    "AWS::Logs::DeliverySource": log_delivery.source_change_faults,
    "AWS::PCS::Cluster": pcs_clusters.cluster_change_faults,
    "AWS::PCS::ComputeNodeGroup": pcs_node_groups.compute_node_group_change_faults,
}
_DELETION: Mapping[str, tuple[DeletionCheck, ...]] = {
    "AWS::Batch::ComputeEnvironment": (batch.compute_environment_deletion_faults,),
    "AWS::CertificateManager::Certificate": (load_balancing.certificate_deletion_faults,),
    "AWS::EC2::PlacementGroup": (reservations.placement_group_deletion_faults,),
    "AWS::EC2::SecurityGroup": (networks.security_group_deletion_faults, networks.group_deletion_faults),
    "AWS::EC2::Subnet": (networks.subnet_deletion_faults,),
    "AWS::EFS::FileSystem": (home_file_systems.efs_deletion_faults,),
    "AWS::EKS::Cluster": (eks_clusters.cluster_deletion_faults,),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": (load_balancing.load_balancer_deletion_faults,),
    "AWS::ElasticLoadBalancingV2::TargetGroup": (load_balancing.target_group_deletion_faults,),
    "AWS::Logs::DeliveryDestination": (log_delivery.destination_deletion_faults,),
    "AWS::Logs::DeliverySource": (log_delivery.source_deletion_faults,),
    "AWS::PCS::Cluster": (pcs_clusters.cluster_deletion_faults,),
    "AWS::PCS::ComputeNodeGroup": (pcs_node_groups.compute_node_group_deletion_faults,),
}


def creation_faults(
    type_name: str, properties: Json, world: World, *, update_policy: Mapping[str, Any] = MappingProxyType({})
) -> list[Fault]:
    """Every reason to refuse a resource, at creation or update.

    The schema comes first, then the service's API model, then what the models know: where one of them refuses, values
    have no sure shape and the further checks do not run.
    """
    schema = resource_schema(type_name, world.region, as_published=world.patterns_as_published)
    if schema is None:
        return []
    faults = schema.faults(properties)
    if not faults and type_name in _CALLS:
        faults = list(shape_faults(*_CALLS[type_name], properties))
    check = _CREATION.get(type_name)
    if not faults and check is not None:
        faults = list(check(properties, world))
    if not faults and update_policy:
        faults = list(auto_scaling.update_policy_faults(dict(update_policy), properties))
    return faults


def change_faults(type_name: str, physical_id: str, old: Json, new: Json, world: World) -> list[Fault]:
    """Every further reason to refuse a change that is made in place."""
    check = _CHANGE.get(type_name)
    return list(check(physical_id, old, new, world)) if check is not None else []


def deletion_faults(type_name: str, physical_id: str, world: World) -> list[Fault]:
    """Every reason to refuse a deletion."""
    return [fault for check in _DELETION.get(type_name, ()) for fault in check(physical_id, world)]
