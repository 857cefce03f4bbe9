"""Invariants of the Auto Scaling group, and of what resizes the group of a Capacity Block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from matrix.cloud import Json, Place, Properties
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
    """The group's bounds are those that were asked for; a block's group starts empty."""
    if nodes.launcher is None:
        return
    asked, bounds = nodes.asked, nodes.bounds
    wanted = (0 if asked.purchase.is_block else asked.minimum, asked.maximum)
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
    if nodes.group is None:
        return
    version = nodes.group.get("LaunchTemplate", {}).get("Version")
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


@invariant("replaced-only-when-asked", "CloudFormation, UpdatePolicy: MinInstancesInService is below MaxSize")
def replaced_only_when_asked(nodes: Nodes) -> Iterator[str]:
    """A new template version replaces running nodes only where the user says so, and can always make progress."""
    if nodes.group_place is None or nodes.group is None:
        return
    policy = nodes.cloud.resource(nodes.group_place).get("UpdatePolicy", {})
    if bool(policy) is not nodes.asked.rolling:
        yield f"update policy {sorted(policy) or 'missing'}"
    rolling = policy.get("AutoScalingRollingUpdate", {})
    most, in_service = int(nodes.group["MaxSize"]), rolling.get("MinInstancesInService", 0)
    if rolling and in_service >= most:
        yield f"{in_service} nodes in service of {most}"
    if "AutoScalingReplacingUpdate" in policy:
        yield "the whole group is replaced"


def _event_rules(nodes: Nodes) -> Iterator[tuple[Place, Properties, str]]:
    """The event rules about the group, each with the action that it starts."""
    group = nodes.group_place
    if group is None:
        return
    for place, rule in nodes.cloud.of_type("AWS::Events::Rule").items():
        created = rule.get("EventPattern", {}).get("detail", {}).get("logical-resource-id", ())
        if place.stack == group.stack and (
            nodes.mentions(place.stack, rule["Targets"], group) or group.logical_id in created
        ):
            action = re.search(r'\\*"action\\*":\\*"([a-z]+)', json.dumps(rule["Targets"]))
            yield place, rule, action[1] if action else ""


@invariant(
    "block-drains-in-time",
    f"{_BLOCKS}; EC2 terminates from 30 minutes before the end, of UltraServers from 60",
)
def block_drains_in_time(nodes: Nodes) -> Iterator[str]:
    """A block's group goes to zero before EC2 terminates its instances; nothing else is ever drained by a clock."""
    if nodes.group is None:
        return
    asked = nodes.asked.purchase
    drains = [rule for _, rule, action in _event_rules(nodes) if action == "drain"]
    moments = [_yearly(rule["ScheduleExpression"]) for rule in drains if "ScheduleExpression" in rule]
    if asked.ends_at is None:
        yield from (f"drained by {moment}" for moment in moments)
        return
    latest = asked.ends_at - _TERMINATION[asked.kind]
    for moment in moments:
        at = asked.ends_at.replace(month=moment[0], day=moment[1], hour=moment[2], minute=moment[3])
        hook = hook_of(nodes, "TERMINATING") or {}
        stopped = at + timedelta(seconds=hook.get("HeartbeatTimeout", 0))
        if not latest - timedelta(hours=1) <= at <= stopped <= latest:
            yield f"drained from {at:%H:%M} to {stopped:%H:%M}, EC2 terminates at {latest:%H:%M}"
    if not moments:
        yield "no schedule drains the group"
    if asked.block_id and not any(_listens(rule, asked.block_id, "Expiration") for rule in drains):
        yield "EC2's expiration warning drains nothing"


@invariant("block-grows", f'{_BLOCKS}; AWS EC2 user guide, "Monitor Capacity Blocks using EventBridge"')
def block_grows(nodes: Nodes) -> Iterator[str]:
    """A block's group grows to its whole size at the start, and also where it is made later; no other one does."""
    if nodes.group is None or nodes.group_place is None:
        return
    asked = nodes.asked.purchase
    grows = [rule for _, rule, action in _event_rules(nodes) if action in ("start", "delivered")]
    if not asked.is_block:
        if grows:
            yield f"{len(grows)} rules grow the group"
        return
    starts = [_yearly(rule["ScheduleExpression"]) for rule in grows if "ScheduleExpression" in rule]
    if starts != ([_moment(asked.starts_at)] if asked.starts_at else []):
        yield f"starts at {starts}, the block at {asked.starts_at}"
    if not any("logical-resource-id" in rule.get("EventPattern", {}).get("detail", {}) for rule in grows):
        yield "a group that is made while its block runs stays empty"
    if asked.block_id and not any(_listens(rule, asked.block_id, "Delivered") for rule in grows):
        yield "EC2's delivery event grows nothing"
    sizes = {size for rule in grows for size in _sizes(nodes, rule)}
    if sizes != {0, nodes.asked.maximum}:
        yield f"resized to {sorted(sizes)}, the block has {nodes.asked.maximum}"


def _listens(rule: Properties, block: str, word: str) -> bool:
    pattern = rule.get("EventPattern", {})
    ids = pattern.get("detail", {}).get("capacity-reservation-id", ())
    return block in ids and all(word in kind for kind in pattern["detail-type"])


def _yearly(expression: str) -> tuple[int, int, int, int]:
    """Month, day, hour and minute of `cron(30 11 15 12 ? *)`."""
    fields = re.fullmatch(r"cron\((\d+) (\d+) (\d+) (\d+) \? \*\)", expression)
    assert fields, expression
    minute, hour, day, month = map(int, fields.groups())
    return month, day, hour, minute


def _moment(instant: datetime) -> tuple[int, int, int, int]:
    return instant.month, instant.day, instant.hour, instant.minute


def _sizes(nodes: Nodes, rule: Properties) -> set[int]:
    """The sizes that the state machine behind a rule gives to a group."""
    stack = nodes.stack
    machine = nodes.cloud.find(stack, rule["Targets"][0]["Arn"])
    if machine is None:
        return set()
    definition = json.dumps(nodes.cloud.properties(machine)["DefinitionString"])
    return {int(size) for size in re.findall(r'\\*"DesiredCapacity\\*":\s*(\d+)', definition)}
