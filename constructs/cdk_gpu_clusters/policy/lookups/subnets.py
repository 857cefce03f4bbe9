"""Where nodes are launched: subnets and their zones."""

from __future__ import annotations

from cdk_gpu_clusters.policy.case import Resource, target_of
from cdk_gpu_clusters.policy.lookups.launches import INSTANCE, Launch, values_at
from cdk_gpu_clusters.policy.value import Value

SUBNET = "AWS::EC2::Subnet"

#: Where resources that launch name their subnets.
_SUBNETS: dict[str, tuple[str, ...]] = {
    "AWS::AutoScaling::AutoScalingGroup": ("VPCZoneIdentifier/*",),
    "AWS::Batch::ComputeEnvironment": ("ComputeResources/Subnets/*",),
    "AWS::EC2::EC2Fleet": ("LaunchTemplateConfigs/*/Overrides/*/SubnetId",),
    "AWS::EC2::SpotFleet": ("SpotFleetRequestConfigData/LaunchTemplateConfigs/*/Overrides/*/SubnetId",),
    "AWS::EKS::Nodegroup": ("Subnets/*",),
    "AWS::PCS::ComputeNodeGroup": ("SubnetIds/*",),
    INSTANCE: ("SubnetId", "NetworkInterfaces/*/SubnetId"),
}


def subnets_of(resource: Resource) -> list[Value]:
    """The subnets that a resource names: a group, a fleet, an instance."""
    return [
        value for path in _SUBNETS.get(resource.type, ()) for value in values_at(resource.properties, path)
    ]


def subnets_of_launch(launch: Launch) -> list[Value]:
    """The subnets that a launch, or who uses it, names."""
    own = values_at(launch.data, "NetworkInterfaces/*/SubnetId")
    if launch.resource.type == INSTANCE:
        own = subnets_of(launch.resource)
    return [*own, *(value for use in launch.uses() for value in subnets_of(use.resource))]


def subnet_of(value: Value) -> Resource | None:
    """The subnet of the template that a value names; None if it is another one."""
    target = target_of(value)
    return target if target is not None and target.type == SUBNET else None


def zone_of(value: Value) -> Value | None:
    """The zone of the subnet that a value names; None if the subnet is not in the template, or leaves it open."""
    subnet = subnet_of(value)
    zones = [] if subnet is None else [subnet.get("AvailabilityZone"), subnet.get("AvailabilityZoneId")]
    return next((zone for zone in zones if zone.exists), None)
