"""Load balancers in front of accelerated nodes: those of model servers."""

from __future__ import annotations

from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import AUTO_SCALING_GROUP, launch_of_group
from cdk_gpu_clusters.template_rules.lookups.launches import accelerated_launch, values_at
from cdk_gpu_clusters.template_rules.rule import NotApplicable

LOAD_BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
TARGET_GROUP = "AWS::ElasticLoadBalancingV2::TargetGroup"

_TARGETS = (
    "DefaultActions/*/TargetGroupArn",
    "DefaultActions/*/ForwardConfig/TargetGroups/*/TargetGroupArn",
)


def groups_behind(target_group: Resource) -> list[Resource]:
    """The Auto Scaling groups of accelerated nodes that a target group sends requests to."""
    return [
        group
        for group in target_group.case.resources_naming(target_group, AUTO_SCALING_GROUP)
        if any(target_group.is_target_of(value) for value in group.get("TargetGroupARNs").items())
        and _is_accelerated(group)
    ]


def balancer_of(listener: Resource) -> Resource | None:
    """The load balancer of a listener that sends requests to accelerated nodes; None of another one."""
    targets = [target_of(value) for path in _TARGETS for value in values_at(listener.properties, path)]
    if not any(groups_behind(one) for one in targets if one is not None):
        return None
    return target_of(listener.get("LoadBalancerArn"))


def serves_models(balancer: Resource) -> bool:
    """Whether one of an Application Load Balancer's listeners sends requests to accelerated nodes."""
    if (balancer.get("Type").text() or "application") != "application":
        return False
    return any(balancer_of(one) == balancer for one in balancer.case.resources_naming(balancer, LISTENER))


def is_internet_facing(listener: Resource) -> bool:
    """Whether the load balancer of a listener has public addresses, as by default."""
    balancer = target_of(listener.get("LoadBalancerArn"))
    scheme = None if balancer is None else balancer.get("Scheme").text()
    return scheme != "internal"


def redirects(listener: Resource) -> bool:
    """Whether a listener only sends clients elsewhere, such as to HTTPS."""
    kinds = [value.text() for value in values_at(listener.properties, "DefaultActions/*/Type")]
    return bool(kinds) and set(kinds) <= {"redirect", "fixed-response"}


def attribute_of(resource: Resource, attributes: str, key: str) -> Value | None:
    """The value of an attribute of a load balancer or target group; None if it is not given."""
    for one in resource.get(attributes).items():
        if one.get("Key").text() == key:
            return one.get("Value")
    return None


def _is_accelerated(group: Resource) -> bool:
    try:
        accelerated_launch(launch_of_group(group).resource)
    except NotApplicable:
        return False
    return True
