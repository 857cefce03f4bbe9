"""How many nodes a resource launches."""

from __future__ import annotations

from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import INSTANCE, Launch, values_at

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
        Undecidable: If the template does not say, or counts something else than instances.
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
