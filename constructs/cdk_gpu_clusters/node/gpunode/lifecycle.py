"""The Auto Scaling group of this node: its lifecycle hooks, and how a failed launch is kept for inspection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from . import paths
from .events import Events
from .node import AwsError, Node

_LONGEST_PAUSE_SECONDS = 30
# The API is eventually consistent: an answer without a group counts only after several tries.
_TRIES_WITHOUT_GROUP = 3


class Membership(NamedTuple):
    """The Auto Scaling group of a node, and its lifecycle state there; both empty without one."""

    group: str
    state: str


def membership(node: Node) -> Membership:
    """The group of this node. The user data cannot name it: the group needs the template that holds the user data.

    Raises:
        AwsError: If AWS does not answer.
    """
    answer = node.aws.call("autoscaling", "describe-auto-scaling-instances", "--instance-ids", node.instance_id)
    for row in (answer or {}).get("AutoScalingInstances", []):
        return Membership(str(row["AutoScalingGroupName"]), str(row["LifecycleState"]))
    return Membership("", "")


def _early_membership() -> Membership:
    """The answer that `fetch-software` got at the first boot; both empty if it got none."""
    group, _, state = paths.read_text(paths.below("/run/gpu-cluster/group")).strip().partition("\t")
    return Membership(group, state)


def complete_hook(
    node: Node, events: Events, hook: str, result: str, *, phase: str, until_uptime_seconds: float
) -> bool:
    """Complete the action of a hook while the node is in that phase.

    Failed calls are tried again: the policy that allows the call may be attached after the boot.

    Args:
        result: `CONTINUE` or `ABANDON`.
        phase: `Pending` or `Terminating`.

    Returns:
        Whether nothing is left to complete.
    """
    pause, alone = 1.0, 0
    states = (phase, f"{phase}:Wait")
    known = _early_membership()
    while True:
        reason = ""
        try:
            # A call takes most of a second. If the early answer is outdated, completing fails, and the next try asks.
            found = known if known.state in states else membership(node)
            known = Membership("", "")
            if found.group and found.state not in states:
                events.write("hook", "skipped", f"nothing to complete: {found.group} has this node {found.state}")
                return True
            if found.group:
                _call(node, "complete-lifecycle-action", hook, found.group, "--lifecycle-action-result", result)
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


def _call(node: Node, operation: str, hook: str, group: str, *arguments: str) -> None:
    names = ("--lifecycle-hook-name", hook, "--auto-scaling-group-name", group, "--instance-id", node.instance_id)
    node.aws.call("autoscaling", operation, *names, *arguments)


# A node that failed its boot stays for inspection if the launches of its group are suspended. Otherwise it is
# replaced. The launching hook holds the node, and every heartbeat extends that by the hook's own timeout, up to 48
# hours or 100 timeouts, whichever is less (EC2 Auto Scaling API reference, RecordLifecycleActionHeartbeat and
# LifecycleHook: GlobalTimeout).

_HEARTBEAT_SECONDS = 60
# The policy that allows the calls may be attached after the boot, and an API may fail.
_HEARTBEAT_TRIES = 3


def keep_for_inspection(node: Node, events: Events, report: Callable[[], None]) -> None:
    """Wait, if the launches of this node's group are suspended, until they are resumed or the time is up.

    Args:
        node: This node, which failed its first boot.
        report: Sends the events to AWS.
    """
    until = paths.uptime_seconds() + node.settings.number("inspection")
    hook = node.settings.text("launch_hook")
    # The boot's deadline is shorter than the hook's timeout: four heartbeats fit in.
    pause = min(_HEARTBEAT_SECONDS, node.settings.number("boot_deadline", 900) / 4)
    kept, faults = False, 0
    while hook and paths.uptime_seconds() < until:
        try:
            if not _extend(node, hook):
                break
            faults = 0
            if not kept:
                events.write("inspection", "started", _words(node))
                report()
            kept = True
        except AwsError as fault:
            faults += 1
            if not kept and faults == _HEARTBEAT_TRIES:
                events.write("inspection", "failed", str(fault))
                return
        time.sleep(pause)
    if kept:
        events.write("inspection", "ok", "launches were resumed, or the time is up: this node goes")


def _extend(node: Node, hook: str) -> bool:
    """Extend the hook's hold, if launches are suspended and it still holds this node."""
    found = membership(node)
    if not found.state.startswith("Pending") or not _is_suspended(node, found.group):
        return False
    _call(node, "record-lifecycle-action-heartbeat", hook, found.group)
    return True


def _is_suspended(node: Node, group: str) -> bool:
    answer = node.aws.call("autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", group)
    groups = (answer or {}).get("AutoScalingGroups", [])
    suspended = {row.get("ProcessName") for found in groups for row in found.get("SuspendedProcesses", [])}
    return "Launch" in suspended


def _words(node: Node) -> str:
    minutes = node.settings.number("inspection") // 60
    command = f"aws ssm start-session --region {node.aws.region} --target {node.instance_id}"
    return f"launches of this group are suspended: kept for inspection for {minutes} minutes: {command}"
