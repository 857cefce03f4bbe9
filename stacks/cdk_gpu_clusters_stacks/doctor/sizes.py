"""Sizes of groups that a deployed cluster sets itself: which of them are as planned.

A state machine sizes a fleet on a Capacity Block or a reservation (`compute.reconcile`), and an autoscaler sizes a
group between its bounds. Neither is a change by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cdk_gpu_clusters.compute.reconcile import BELOW_FLOOR, COMMENT, MANUAL, SIZE_TAG

from .compare import Difference
from .planned import UNKNOWN, Json, Stack

#: The least size that a state machine sets for a group which others scale.
_FLOOR = re.compile(rf"{re.escape(BELOW_FLOOR)}(\d+)")


def size_differences(stack: Stack, kind: str, planned: dict[str, Any], live: Json) -> Iterator[Difference]:
    """Differences of sizes that others set; sizes that they may have set are taken out of the plan.

    Args:
        stack: The stack of the group.
        kind: Type of the resource; only groups have sizes.
        planned: Its planned properties.
        live: Its live properties.
    """
    if kind == "AWS::AutoScaling::AutoScalingGroup":
        yield from _auto_scaling_group(stack, planned, live)
    elif kind == "AWS::EKS::Nodegroup" and _is_desired(stack, planned, live):
        planned["ScalingConfig"] = {**planned["ScalingConfig"], "DesiredSize": UNKNOWN}
    elif kind == "AWS::PCS::ComputeNodeGroup" and _is_set_here(stack, planned, live):
        del planned["ScalingConfiguration"]


def _auto_scaling_group(stack: Stack, planned: dict[str, Any], live: Json) -> Iterator[Difference]:
    if floor := _FLOOR.search(_state_machine(stack)):
        if str(live.get("MinSize")) == floor[1]:
            planned.pop("MinSize", None)
    elif "DesiredCapacity" not in planned and str(planned.get("MinSize")) == "0" and _on_one_block(stack):
        most, desired = planned.get("MaxSize"), live.get("DesiredCapacity")
        if str(desired) not in ("0", str(most)) and not _is_manual(live):
            yield Difference(path=("DesiredCapacity",), planned=f"0 or {most}", live=desired)


def _is_desired(stack: Stack, planned: Json, live: Json) -> bool:
    """Whether the desired size of a node group is one that others may have set between its bounds."""
    least, most = _numbers(planned.get("ScalingConfig"), "MinSize", "MaxSize")
    (desired,) = _numbers(live.get("ScalingConfig"), "DesiredSize")
    if least is None or most is None or desired is None or least == most or not least <= desired <= most:
        return False
    return not _on_one_block(stack) or desired in (0, most) or _is_manual(live)


def _is_set_here(stack: Stack, planned: Json, live: Json) -> bool:
    """Whether the state machine of a compute node group may have set its bounds; it raises none above the plan."""
    if not _state_machine(stack):
        return False
    least, most = _numbers(live.get("ScalingConfiguration"), "MinInstanceCount", "MaxInstanceCount")
    (bound,) = _numbers(planned.get("ScalingConfiguration"), "MaxInstanceCount")
    if least is None or most is None or bound is None:
        return False
    return least in (0, most) and (most == bound or (most < bound and not _on_one_block(stack)))


def _state_machine(stack: Stack) -> str:
    """The definition of the state machine that sizes the group of a stack; empty without one."""
    machines = (json.dumps(one.get("Properties")) for _, one in stack.resources("AWS::StepFunctions::StateMachine"))
    return next((text for text in machines if COMMENT in text), "")


def _on_one_block(stack: Stack) -> bool:
    """Whether the group of a stack buys from a single Capacity Block: it has no nodes, or all of them."""
    for _, resource in stack.resources("AWS::EC2::LaunchTemplate"):
        data = (resource.get("Properties") or {}).get("LaunchTemplateData") or {}
        target = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
        market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
        if market == "capacity-block" and "CapacityReservationId" in target:
            return True
    return False


def _is_manual(live: Json) -> bool:
    """Whether an operator took the size over, by the tag that the state machine reads."""
    tags = live.get("Tags") or {}
    if not isinstance(tags, Mapping):
        tags = {one.get("Key"): one.get("Value") for one in tags}
    return bool(tags.get(SIZE_TAG) == MANUAL)


def _numbers(sizes: Any, *names: str) -> list[int | None]:
    texts = [str(sizes.get(name)) if isinstance(sizes, Mapping) else "" for name in names]
    return [int(text) if text.isdecimal() else None for text in texts]
