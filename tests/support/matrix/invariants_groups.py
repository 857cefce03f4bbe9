"""Invariants of the Auto Scaling group, and of what resizes the group of a Capacity Block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from matrix.cloud import Json, Properties
from matrix.invariant import invariant
from matrix.nodes import Nodes

SCALING_GUIDE = "Amazon EC2 Auto Scaling user guide"
_BLOCKS = f'{SCALING_GUIDE}, "Use Capacity Blocks"'

#: EC2 begins to terminate so long before the end of a block ("Capacity Blocks for ML"; P6e-GB200: instances have to be
#: gone 60 minutes before).
_TERMINATION = {"capacity-block": timedelta(minutes=30), "ultraserver-block": timedelta(minutes=60)}


@invariant(
    "one-zone",
    "AWS EC2 user guide, EFA limitations and Capacity Reservations; EC2 Auto Scaling, Capacity Blocks",
)
def one_zone(nodes: Nodes) -> Iterator[str]:
    """EFA traffic stays in one subnet, and reserved instances are in one zone: the one that was asked for."""
    if nodes.launcher_place is None:
        return
    subnets = nodes.subnets
    if not subnets:
        yield "no subnet"
    if nodes.has_efa() and len(subnets) != 1:
        yield f"{len(subnets)} subnets of nodes that exchange EFA traffic"
    zones = {_zone_of(nodes, nodes.launcher_place.stack, subnet) for subnet in subnets} - {None}
    if (nodes.asked.purchase.is_reserved or nodes.has_efa()) and zones and zones != {nodes.asked.zone}:
        yield f"subnets in {sorted(map(str, zones))}, not in {nodes.asked.zone}"


def _zone_of(nodes: Nodes, stack: str, subnet: Json) -> str | None:
    place = nodes.cloud.find(stack, subnet)
    if place is None:
        return nodes.asked.zones.get(str(nodes.cloud.literal(stack, subnet)))
    made = nodes.cloud.properties(place)
    return str(made.get("AvailabilityZone") or made.get("AvailabilityZoneId"))


@invariant("no-desired-capacity", f"{_BLOCKS}; AWS CDK: a desired capacity resets the group at every deployment")
def no_desired_capacity(nodes: Nodes) -> Iterator[str]:
    """A deployment never resizes a live group."""
    if nodes.group is not None and "DesiredCapacity" in nodes.group:
        yield f"DesiredCapacity {nodes.group['DesiredCapacity']}"


@invariant("group-size", f"{_BLOCKS}: no instances before the block's start and after its end")
def group_size(nodes: Nodes) -> Iterator[str]:
    """The group's bounds are those that were asked for; a group starts empty that is kept filled, or is to end."""
    if nodes.launcher is None or nodes.compute_node_group is not None:  # whose bounds are those of AWS PCS
        return
    asked, bounds = nodes.asked, nodes.bounds
    is_kept = asked.purchase.is_block or (asked.purchase.is_reserved and asked.minimum == asked.maximum)
    made = nodes.reservation if isinstance(nodes.reservation, Mapping) else {}
    wanted = (0 if is_kept or made.get("EndDate") else asked.minimum, asked.maximum)
    if bounds != wanted:
        yield f"{bounds[0]} to {bounds[1]} nodes, not {wanted[0]} to {wanted[1]}"


@invariant(
    "terminate-before-launch",
    f'{SCALING_GUIDE}, "Instance maintenance policies": no capacity above the limit',
)
def terminate_before_launch(nodes: Nodes) -> Iterator[str]:
    """Reserved capacity has no spare slot: a replacement is launched when its forerunner is gone."""
    if nodes.group is None or not nodes.asked.purchase.is_reserved:
        return
    policy = nodes.group.get("InstanceMaintenancePolicy", {})
    if policy.get("MaxHealthyPercentage") != 100 or "MinHealthyPercentage" not in policy:
        yield f"maintenance policy {policy or 'missing'}"


@invariant("one-template", f"{_BLOCKS}: no mixed instances policy, no warm pool; EFA: one layout for one type")
def one_template(nodes: Nodes) -> Iterator[str]:
    """The group launches from one template alone, and keeps no warm pool."""
    if nodes.group is None:
        return
    if "MixedInstancesPolicy" in nodes.group:
        yield "MixedInstancesPolicy"
    for place, pool in nodes.cloud.of_type("AWS::AutoScaling::WarmPool").items():
        if nodes.cloud.find(place.stack, pool["AutoScalingGroupName"]) == nodes.group_place:
            yield f"warm pool {place.logical_id}"


@invariant(
    "newest-template-version",
    "awslabs/awsome-distributed-ai, PCS templates: a fixed version never changes nodes",
)
def newest_template_version(nodes: Nodes) -> Iterator[str]:
    """The group follows the newest version of its template."""
    if nodes.node_group is not None or nodes.launcher is None:
        return
    version = (nodes.launcher.get("LaunchTemplate") or nodes.launcher["CustomLaunchTemplate"]).get("Version")
    if version != {"Fn::GetAtt": [nodes.template.logical_id, "LatestVersionNumber"]}:
        yield f"version {version}"


@invariant("hooks-in-group", f'{SCALING_GUIDE}, "Lifecycle hooks": 30 to 7,200 seconds; a hook of its own comes late')
def hooks_in_group(nodes: Nodes) -> Iterator[str]:
    """Both hooks stand in the group, so that its first instances have them; a node that is not ready is given up."""
    if nodes.group is None:
        return
    apart = [
        place.logical_id
        for place, hook in nodes.cloud.of_type("AWS::AutoScaling::LifecycleHook").items()
        if nodes.cloud.find(place.stack, hook["AutoScalingGroupName"]) == nodes.group_place
    ]
    yield from (f"hook {name} stands apart from the group" for name in apart)
    for transition, wanted in (("LAUNCHING", "ABANDON"), ("TERMINATING", "CONTINUE")):
        hook = hook_of(nodes, transition)
        if hook is None:
            yield f"no hook for {transition}"
            continue
        if hook.get("DefaultResult") != wanted:
            yield f"{transition} without an answer: {hook.get('DefaultResult')}"
        if not 30 <= hook.get("HeartbeatTimeout", 0) <= 7200:
            yield f"{transition} waits {hook.get('HeartbeatTimeout')} seconds"


def hook_of(nodes: Nodes, transition: str) -> Mapping[str, Json] | None:
    """The group's own hook for `LAUNCHING` or `TERMINATING`."""
    hooks: Sequence[Mapping[str, Json]] = (nodes.group or {}).get("LifecycleHookSpecificationList", ())
    found = [hook for hook in hooks if hook["LifecycleTransition"] == f"autoscaling:EC2_INSTANCE_{transition}"]
    return found[0] if len(found) == 1 else None


@invariant("replaced-only-when-asked", "EC2 Auto Scaling, RefreshPreferences: room for one node less, or one more")
def replaced_only_when_asked(nodes: Nodes) -> Iterator[str]:
    """A new template version replaces running nodes only where the user says so, and can always make progress."""
    if nodes.group_place is None or nodes.group is None:
        return
    policy = nodes.cloud.resource(nodes.group_place).get("UpdatePolicy", {})
    if bool(policy) is not nodes.asked.rolling:
        yield f"update policy {sorted(policy) or 'missing'}"
    healthy = policy.get("AutoScalingInstanceRefresh", {}).get("Preferences", {})
    if policy and (healthy.get("MinHealthyPercentage", 100), healthy.get("MaxHealthyPercentage", 100)) == (100, 100):
        yield "no node may leave, and none may be added"
    if "AutoScalingReplacingUpdate" in policy:
        yield "the whole group is replaced"


def _sizing_rules(nodes: Nodes) -> list[Properties]:
    """The event rules that start what sizes the group, all of which name it."""
    group = nodes.group_place
    if group is None:
        return []
    return [
        rule
        for place, rule in nodes.cloud.of_type("AWS::Events::Rule").items()
        if place.stack == group.stack
        and f'"{group.logical_id}"' in json.dumps(rule)
        and _windows(nodes, rule) is not None
    ]


def _windows(nodes: Nodes, rule: Properties) -> list[Mapping[str, Json]] | None:
    """The windows in the definition of the state machine behind a rule; None if it has none."""
    for target in rule.get("Targets", ()):
        machine = nodes.cloud.find(nodes.stack, target["Arn"])
        properties = {} if machine is None else nodes.cloud.properties(machine)
        definition = json.dumps(properties.get("DefinitionString", ""))
        found = re.search(r"\$windows := (\[.*?\])", definition.replace("\\", ""))
        if found:
            return list(json.loads(found[1]))
    return None


def _is_kept(nodes: Nodes) -> bool:
    asked = nodes.asked.purchase
    return asked.is_block or asked.is_reserved


@invariant(
    "block-drains-in-time",
    f"{_BLOCKS}; EC2 terminates from 30 minutes before the end, of UltraServers from 60",
)
def block_drains_in_time(nodes: Nodes) -> Iterator[str]:
    """A block's group goes to zero before EC2 terminates its instances; what has no end is never drained by a clock."""
    if nodes.group is None:
        return
    asked = nodes.asked.purchase
    rules = _sizing_rules(nodes)
    ends = {window["until"] for rule in rules for window in _windows(nodes, rule) or ()}
    if asked.ends_at is None:
        made = nodes.reservation if isinstance(nodes.reservation, Mapping) else {}
        if not made.get("EndDate"):
            yield from (f"drained at {end}" for end in ends if not end.startswith("9999"))
        return
    latest = asked.ends_at - _TERMINATION[asked.kind]
    yield from ("never drained" for end in ends if end.startswith("9999"))
    for end in (one for one in ends if not one.startswith("9999")):
        at = datetime.fromisoformat(f"{end}+00:00")
        hook = hook_of(nodes, "TERMINATING") or {}
        stopped = at + timedelta(seconds=hook.get("HeartbeatTimeout", 0))
        if not latest - timedelta(hours=1) <= at <= stopped <= latest:
            yield f"drained from {at:%H:%M} to {stopped:%H:%M}, EC2 terminates at {latest:%H:%M}"
    if not any(rule.get("ScheduleExpression") == "rate(5 minutes)" for rule in rules):
        yield "nothing drains the group if the event is lost"
    if asked.block_id and not any(_listens(rule, asked.block_id, "Expiration") for rule in rules):
        yield "EC2's expiration warning drains nothing"


@invariant("block-grows", f'{_BLOCKS}; AWS EC2 user guide, "Monitor Capacity Blocks using EventBridge"')
def block_grows(nodes: Nodes) -> Iterator[str]:
    """A group on paid capacity grows to its whole size at the start, and when it is made or changed; no other does."""
    if nodes.group is None or nodes.group_place is None:
        return
    asked = nodes.asked.purchase
    rules = _sizing_rules(nodes)
    if not _is_kept(nodes):
        if rules:
            yield f"{len(rules)} rules size the group"
        return
    deployed = [rule["EventPattern"]["detail"] for rule in rules if "stack-id" in json.dumps(rule.get("EventPattern"))]
    statuses = [detail["status-details"]["status"] for detail in deployed]
    if statuses != [["CREATE_COMPLETE", "UPDATE_COMPLETE"]]:
        yield f"a group that is made or changed while its capacity runs is not sized: {statuses}"
    elif deployed[0]["logical-resource-id"] != [nodes.group_place.logical_id]:
        yield "the group is not the one whose changes are followed"
    if asked.block_id and not any(_listens(rule, asked.block_id, "Delivered") for rule in rules):
        yield "EC2's delivery event grows nothing"
    starts = "1970-01-01T00:00:00" if asked.starts_at is None else f"{asked.starts_at:%Y-%m-%dT%H:%M:%S}"
    found = {(window["from"], window["nodes"]) for rule in rules for window in _windows(nodes, rule) or ()}
    if found != {(starts, nodes.asked.maximum)}:
        yield f"{sorted(found)}, not {nodes.asked.maximum} from {starts}"


def _listens(rule: Properties, block: str, word: str) -> bool:
    pattern = rule.get("EventPattern", {})
    ids = pattern.get("detail", {}).get("capacity-reservation-id", ())
    return block in ids and any(word in kind for kind in pattern["detail-type"])
