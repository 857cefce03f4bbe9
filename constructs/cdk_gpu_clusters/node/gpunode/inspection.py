"""A node that failed its boot stays for people to look at, once the launches of its group are suspended.

As long as they are not, another node is the better cure. The launching hook holds the node, and every heartbeat extends
that by the hook's own time-out, up to 48 hours or 100 time-outs, whichever is less (EC2 Auto Scaling API reference,
RecordLifecycleActionHeartbeat and LifecycleHook: GlobalTimeout).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from . import paths
from .aws import AwsError
from .events import Events
from .lifecycle import membership
from .node import Node

_LONGEST_PAUSE_SECONDS = 60
# The policy that allows the calls may be attached after the boot, and an API may fail.
_TRIES = 3


def keep_for_inspection(node: Node, events: Events, tell: Callable[[], None]) -> None:
    """Wait, if the launches of this node's group are suspended, until they are resumed or the time is over.

    Args:
        node: This node, which failed its first boot.
        events: Where it is told.
        tell: Carries the events to AWS.
    """
    until = paths.uptime_seconds() + node.settings.number("inspection")
    hook = node.settings.text("launch_hook")
    # The deadline of the boot lies below the hook's time-out: four heartbeats before that.
    pause = min(_LONGEST_PAUSE_SECONDS, node.settings.number("boot_deadline", 900) / 4)
    kept, faults = False, 0
    while hook and paths.uptime_seconds() < until:
        try:
            if not _extend(node, hook):
                break
            faults = 0
            if not kept:
                events.write("inspection", "started", _words(node))
                tell()
            kept = True
        except AwsError as fault:
            faults += 1
            if not kept and faults == _TRIES:
                events.write("inspection", "failed", str(fault))
                return
        time.sleep(pause)
    if kept:
        events.write("inspection", "ok", "launches were resumed, or the time is over: this node goes")


def _extend(node: Node, hook: str) -> bool:
    """Extend the hook's hold, if launches are suspended and it still holds this node."""
    found = membership(node)
    if not found.state.startswith("Pending") or not _is_suspended(node, found.group):
        return False
    node.aws.call(
        "autoscaling",
        "record-lifecycle-action-heartbeat",
        "--lifecycle-hook-name",
        hook,
        "--auto-scaling-group-name",
        found.group,
        "--instance-id",
        node.instance_id,
    )
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
