"""The Auto Scaling group of this node: its lifecycle hooks, and how a failed launch is kept for inspection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from . import paths
from .events import Events
from .node import AwsError, Node
from .slots import Slots

_LONGEST_PAUSE_SECONDS = 30
# The API is eventually consistent: an answer without a group counts only after several tries.
_TRIES_WITHOUT_GROUP = 3
# The states from which a node may still get to `Pending:Wait` or `Terminating:Wait`, by phase. The group first takes a
# node out of its load balancer, for up to the deregistration delay, and the hook begins after that (EC2 Auto Scaling
# user guide, "How lifecycle hooks work in Auto Scaling groups"). There is no action to complete before.
_EARLIER = {"Pending": ("Pending",), "Terminating": ("InService", "Terminating")}


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
    """Complete the action of a hook, once the node is in the wait state of that phase.

    Failed calls are tried again: the policy that allows the call may be attached after the boot.

    Args:
        result: `CONTINUE` or `ABANDON`.
        phase: `Pending` or `Terminating`.

    Returns:
        Whether nothing is left to complete.
    """
    pause, alone = 1.0, 0
    awaited = f"{phase}:Wait"
    known = _early_membership()
    while True:
        failed, reason = False, "not in an Auto Scaling group"
        try:
            # A call takes most of a second. If the early answer is outdated, completing fails, and the next try asks.
            found = known if known.state == awaited else membership(node)
            known = Membership("", "")
            if found.state == awaited:
                _call(node, "complete-lifecycle-action", hook, found.group, "--lifecycle-action-result", result)
                events.write("hook", "ok", f"{hook} of {found.group}: {result}")
                return True
            if found.group:
                reason = f"{found.group} has this node {found.state}"
            alone += not found.group
            if (found.group and found.state not in _EARLIER[phase]) or alone == _TRIES_WITHOUT_GROUP:
                events.write("hook", "skipped", f"nothing to complete: {reason}")
                return True
        except AwsError as fault:
            failed, reason = True, str(fault)
        if paths.uptime_seconds() >= until_uptime_seconds:
            events.write("hook", "failed" if failed else "waiting", f"{hook} not completed: {reason}")
            return False
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def restart_hook(node: Node, events: Events, hook: str) -> None:
    """Restart the time-out of the launching hook: the boot's own deadline restarts with the kernel.

    A fault is only reported: the hook may still be long enough.
    """
    try:
        found = membership(node)
        if found.state.startswith("Pending"):
            _call(node, "record-lifecycle-action-heartbeat", hook, found.group)
            events.write("hook", "restarted", f"{hook} of {found.group}: this node was rebooted during its launch")
    except AwsError as fault:
        events.write("hook", "failed", f"{hook} not restarted: {fault}")


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
    return f"launches of this group are suspended: kept for inspection for {minutes} minutes: {_session(node)}"


def _session(node: Node) -> str:
    return f"aws ssm start-session --region {node.aws.region} --target {node.instance_id}"


# A managed node group of EKS has no hook of ours to abandon: a node that failed its first boot would stay, bill, and do
# nothing. It ends itself, and the group launches another (EC2 Auto Scaling user guide, "Health checks for instances in
# an Auto Scaling group": an instance that is not running is replaced). If every launch fails, that must stop: only a
# few nodes of a group may do so in an hour.


def replace_failed_launch(node: Node, events: Events, report: Callable[[], None]) -> None:
    """End this node, which failed its first boot, if its group has such replacements left in this hour.

    A node that cannot count them stays.

    Args:
        node: This node.
        report: Sends the events to AWS, which the end would not wait for.
    """
    budget = node.settings.number("replacements")
    if not budget:
        return
    slots = Slots(node)
    try:
        # Another node may take a slot first; each try then sees one more.
        if not any(slots.take("replaced", budget) for _ in range(budget)):
            reason = f"{budget} nodes of this group were replaced within an hour; this one stays: {_session(node)}"
            events.write("replacement", "skipped", reason)
        else:
            events.write("replacement", "started", "this node ends, and its group launches another")
            report()
            node.aws.call("ec2", "terminate-instances", "--instance-ids", node.instance_id)
    except AwsError as fault:
        events.write("replacement", "failed", f"{fault}; this node stays: {_session(node)}")
    report()
