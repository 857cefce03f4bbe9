"""Lifecycle hooks of the Auto Scaling group that this node is in."""

from __future__ import annotations

import time
from typing import NamedTuple

from . import paths
from .aws import AwsError
from .events import Events
from .node import Node

_LONGEST_PAUSE_SECONDS = 30
# A node that is in no group says so more than once before it is believed: the API is eventually consistent.
_TRIES_WITHOUT_GROUP = 3


class Membership(NamedTuple):
    """The Auto Scaling group of a node, and where it is in its life there; both empty without one."""

    group: str
    state: str


def membership(node: Node) -> Membership:
    """Ask which group this node is in. The user data cannot say: the group needs the template that holds it.

    Raises:
        AwsError: If AWS does not answer.
    """
    answer = node.aws.call(
        "autoscaling", "describe-auto-scaling-instances", "--instance-ids", node.instance_id
    )
    for row in (answer or {}).get("AutoScalingInstances", []):
        return Membership(str(row["AutoScalingGroupName"]), str(row["LifecycleState"]))
    return Membership("", "")


def _asked_early() -> Membership:
    """What `fetch-software` asked at the first boot while it fetched; both empty where it got no answer."""
    group, _, state = paths.read_text(paths.below("/run/gpu-cluster/group")).strip().partition("\t")
    return Membership(group, state)


def complete_hook(
    node: Node, events: Events, hook: str, result: str, *, phase: str, until_uptime_seconds: float
) -> bool:
    """Complete the action of a hook while the node is in that phase of its life.

    Errors are tried again: the policy that allows the call may be attached after the boot.

    Args:
        node: This node.
        events: Where it is told.
        hook: Name of the hook.
        result: `CONTINUE` or `ABANDON`.
        phase: `Pending` or `Terminating`.
        until_uptime_seconds: When to give up.

    Returns:
        Whether nothing is left to complete.
    """
    pause, alone = 1.0, 0
    states = (phase, f"{phase}:Wait")
    known = _asked_early()
    while True:
        reason = ""
        try:
            # A call takes most of a second. Where the early answer is old, completing fails, and the next try asks.
            found = known if known.state in states else membership(node)
            known = Membership("", "")
            if found.group and found.state not in states:
                events.write(
                    "hook", "skipped", f"nothing to complete: {found.group} has this node {found.state}"
                )
                return True
            if found.group:
                _complete(node, hook, found.group, result)
                events.write("hook", "ok", f"{hook} of {found.group}: {result}")
                return True
            alone += 1
            if alone == _TRIES_WITHOUT_GROUP:
                events.write("hook", "skipped", "not in an Auto Scaling group")
                return True
        except AwsError as fault:
            reason = str(fault)
        if paths.uptime_seconds() >= until_uptime_seconds:
            events.write("hook", "failed", f"{hook} not completed: {reason}")
            return False
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _complete(node: Node, hook: str, group: str, result: str) -> None:
    node.aws.call(
        "autoscaling",
        "complete-lifecycle-action",
        "--lifecycle-hook-name",
        hook,
        "--auto-scaling-group-name",
        group,
        "--instance-id",
        node.instance_id,
        "--lifecycle-action-result",
        result,
    )
