"""What Auto Scaling refuses in a scaling policy.

Sources: EC2 Auto Scaling API, PutScalingPolicy, and PredefinedMetricSpecification: ALBRequestCountPerTarget needs the
resource label app/<name>/<id>/targetgroup/<name>/<id> of a target group that is attached to the group; a load balancer
without a listener for it is refused with "The load balancer does not route traffic to the target group".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..world import AUTO_SCALING_GROUP, LOAD_BALANCER, TARGET_GROUP
from .listeners import users_of_target_group

if TYPE_CHECKING:
    from ..world import Resource, World

_TRACKING = "TargetTrackingConfiguration"
_BY_REQUESTS = "ALBRequestCountPerTarget"
_METRICS = ("PredefinedMetricSpecification", "CustomizedMetricSpecification")
_PATH = f"{_TRACKING}/PredefinedMetricSpecification/ResourceLabel"


def scaling_policy_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::AutoScaling::ScalingPolicy`."""
    group = world.find(AUTO_SCALING_GROUP, properties["AutoScalingGroupName"])
    if group is None:
        yield Fault(
            check="group-missing",
            message=f"the group {properties['AutoScalingGroupName']!r} does not exist",
            path="AutoScalingGroupName",
        )
        return
    tracking = properties.get(_TRACKING)
    if (properties.get("PolicyType") == "TargetTrackingScaling") != (tracking is not None):
        yield Fault(
            check="scaling-type",
            message=f"policy type TargetTrackingScaling and {_TRACKING} go together",
            path="PolicyType",
        )
    if tracking is None:
        return
    if sum(name in tracking for name in _METRICS) != 1:
        yield Fault(
            check="scaling-metric", message=f"give exactly one of {' and '.join(_METRICS)}", path=_TRACKING
        )
    predefined = tracking.get(_METRICS[0], {})
    if predefined.get("PredefinedMetricType") == _BY_REQUESTS:
        yield from _label_faults(predefined.get("ResourceLabel", ""), group, world)


def _label_faults(label: str, group: Resource, world: World) -> Iterator[Fault]:
    balancers = {one.attributes["LoadBalancerFullName"]: one for one in world.of_type(LOAD_BALANCER)}
    target_groups = {one.attributes["TargetGroupFullName"]: one for one in world.of_type(TARGET_GROUP)}
    front, separator, rest = label.partition("/targetgroup/")
    balancer, targets = balancers.get(front), target_groups.get(f"targetgroup/{rest}")
    message = ""
    if not separator or balancer is None or targets is None:
        message = f"the resource label names no load balancer with its target group: {label!r}"
    elif targets.physical_id not in group.properties.get("TargetGroupARNs", []):
        message = f"the target group {targets.physical_id} is not attached to the group {group.physical_id}"
    elif balancer.physical_id not in users_of_target_group(targets.physical_id, world):
        message = f"the load balancer {front} does not route traffic to the target group targetgroup/{rest}"
    if message:
        yield Fault(check="scaling-label", message=message, path=_PATH)
