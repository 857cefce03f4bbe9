"""What Elastic Load Balancing refuses in a target group.

Sources: Elastic Load Balancing API, CreateTargetGroup (protocol, port and VPC are required but for Lambda; the time-out
is below the interval), ModifyTargetGroupAttributes, DeleteTargetGroup (ResourceInUse while an action names it);
user guide, "Slow start mode" (not with least outstanding requests or weighted random). Stored copies of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from .listeners import users_of_target_group
from .load_balancers import attribute_faults, kind_of_targets

if TYPE_CHECKING:
    from ..world import World

_NAME = re.compile(r"(?!-)[a-zA-Z0-9-]{1,32}(?<!-)")
_HTTP_CODE = re.compile(r"[2-4]\d\d(?:-[2-4]\d\d)?(?:,[2-4]\d\d(?:-[2-4]\d\d)?)*")
# Interval and time-out that the API takes for none, for instances behind an Application Load Balancer.
_INTERVAL_SECONDS, _TIMEOUT_SECONDS = 30, 5
_SLOW_START = "slow_start.duration_seconds"
_ALGORITHM = "load_balancing.algorithm.type"


def target_group_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::TargetGroup`."""
    name = properties.get("Name")
    if name is not None and not _NAME.fullmatch(name):
        yield Fault(
            check="target-group-name",
            message=f"a name has up to 32 letters, digits and inner hyphens, got {name!r}",
            path="Name",
        )
    yield from _place_faults(properties, world)
    yield from _health_check_faults(properties)
    given = properties.get("TargetGroupAttributes", [])
    kind = kind_of_targets(properties)
    yield from attribute_faults("TargetGroupAttribute", "TargetGroupAttributes", given, kind)
    values = {str(one.get("Key")): str(one.get("Value")) for one in given}
    if values.get(_SLOW_START, "0") != "0" and values.get(_ALGORITHM, "round_robin") != "round_robin":
        yield Fault(
            check="slow-start",
            message=f"slow start works with round_robin only, got {values[_ALGORITHM]}",
            path="TargetGroupAttributes",
        )


def target_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::ElasticLoadBalancingV2::TargetGroup`."""
    if users_of_target_group(physical_id, world):
        yield Fault(
            check="in-use",
            message=f"the target group {physical_id!r} is currently in use by a listener or a rule",
        )


def _place_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    if properties.get("TargetType") == "lambda":
        return
    for name in ("Protocol", "Port", "VpcId"):
        if name not in properties:
            yield Fault(check="target-group-place", message=f"{name} must be specified", path=name)
    vpc = properties.get("VpcId")
    if vpc is not None and not world.has_vpc(vpc):
        yield Fault(check="vpc-missing", message=f"the VPC {vpc!r} does not exist", path="VpcId")


def _health_check_faults(properties: dict[str, Any]) -> Iterator[Fault]:
    interval = properties.get("HealthCheckIntervalSeconds", _INTERVAL_SECONDS)
    timeout = properties.get("HealthCheckTimeoutSeconds", _TIMEOUT_SECONDS)
    if timeout >= interval:
        yield Fault(
            check="health-check-timeout",
            message=f"the health check's time-out is smaller than its interval, got {timeout} s and {interval} s",
            path="HealthCheckTimeoutSeconds",
        )
    path = properties.get("HealthCheckPath")
    if path is not None and not path.startswith("/"):
        yield Fault(
            check="health-check-path", message=f"a path begins with /, got {path!r}", path="HealthCheckPath"
        )
    codes = properties.get("Matcher", {}).get("HttpCode")
    if codes is not None and not _HTTP_CODE.fullmatch(codes):
        yield Fault(
            check="health-check-codes",
            message=f"codes are 200 to 499, such as 200,202 or 200-299, got {codes!r}",
            path="Matcher/HttpCode",
        )
