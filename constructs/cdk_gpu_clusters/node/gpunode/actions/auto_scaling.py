"""An Auto Scaling group: a node that is taken out is replaced.

Changes by an operator are respected: only a node in service is marked. Standby, detaching and terminating nodes are
left alone, as by Auto Scaling itself (EC2 Auto Scaling user guide, "Temporarily remove instances from your Auto Scaling
group"). Scale-in protection prevents scaling in, but not the replacement of unhealthy instances, with Auto Scaling
and here. A group whose process `ReplaceUnhealthy` is suspended keeps the marked node.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..checks.check import Severity
from ..node import AwsError, Node
from .orchestrator import HOUR_SECONDS, ActionError, moment_of

_IN_SERVICE = "InService"
# On their way into service: the launch hook still checks them.
_COMING = ("Pending", "Warmed")
# The API is eventually consistent: an answer without a group counts only after several tries.
_TRIES_WITHOUT_GROUP = 3
_TIMEOUT_SECONDS = 30


class AutoScaling:
    """Marks this node as unhealthy in its group."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = ""
        self._alone = 0
        self.size: int = 0
        self.knows_jobs: bool = False

    def why_out(self) -> str:
        """A state such as Standby, or an existing mark."""
        answer = self._call("describe-auto-scaling-instances", "--instance-ids", self._node.instance_id)
        rows = [row for row in _rows(answer, "AutoScalingInstances") if self._is_me(row)]
        if not rows:
            self._alone += 1
            if self._alone < _TRIES_WITHOUT_GROUP:
                raise ActionError("in no Auto Scaling group, so far")
            return "in no Auto Scaling group"
        self._alone, self._group = 0, str(rows[0]["AutoScalingGroupName"])
        state = str(rows[0].get("LifecycleState"))
        if state.startswith(_COMING):
            raise ActionError(f"{self._group} has this node {state}, not in service yet")
        if state != _IN_SERVICE:
            return f"{self._group} has this node {state}"
        return f"{self._group} has this node Unhealthy" if _is_unhealthy(rows[0]) else ""

    def taken_out(self, severity: Severity) -> set[str]:  # noqa: ARG002 - it knows only replaced nodes
        """Members that are unhealthy now, and those that were terminated for a health check within the hour."""
        group = ("--auto-scaling-group-name", self._group)
        groups = self._call("describe-auto-scaling-groups", "--auto-scaling-group-names", self._group)
        activities = self._call("describe-scaling-activities", *group, "--max-items", "200")
        members = [row for found in _rows(groups, "AutoScalingGroups") for row in _rows(found, "Instances")]
        if not any(self._is_me(row) for row in members):
            raise ActionError(f"{self._group} does not list this node")
        self.size = len(members)
        unhealthy = {str(row["InstanceId"]) for row in members if _is_unhealthy(row)}
        return (unhealthy | set(_replaced(_rows(activities, "Activities")))) - {self._node.instance_id}

    def take_out(self, severity: Severity, reason: str) -> None:  # noqa: ARG002 - the API takes no reason
        """Mark the node, without the group's grace period, which is for nodes that still start."""
        options = ("--health-status", "Unhealthy", "--no-should-respect-grace-period")
        self._call("set-instance-health", "--instance-id", self._node.instance_id, *options)

    def hold(self, severity: Severity, reason: str) -> None:
        """Nothing: Auto Scaling assigns no work. A load balancer notices by its own checks."""

    def holds(self) -> bool:
        """Whether the node is in service, and no operator has taken it over."""
        return not self.why_out()

    def busy(self) -> str:
        """Nothing: it knows of no work. The processes of the node show it."""
        return ""

    def release(self) -> None:
        """Nothing, since there is no hold."""

    def reboot(self) -> bool:
        """Nothing: the node reboots itself."""
        return False

    def keep_new_work_away(self, reason: str) -> None:
        """Nothing: Auto Scaling assigns no work, and ends the node by itself."""

    def end_work(self) -> str:
        """Nothing: it runs no jobs."""
        return ""

    def _is_me(self, row: Mapping[str, Any]) -> bool:
        return bool(row.get("InstanceId") == self._node.instance_id)

    def _call(self, operation: str, *arguments: str) -> Any:
        try:
            return self._node.aws.call("autoscaling", operation, *arguments, timeout_seconds=_TIMEOUT_SECONDS)
        except AwsError as fault:
            raise ActionError(f"{operation}: {fault}") from fault


def _rows(answer: Any, name: str) -> list[Mapping[str, Any]]:
    rows = answer.get(name) if isinstance(answer, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _is_unhealthy(row: Mapping[str, Any]) -> bool:
    # One call returns UNHEALTHY, the other Unhealthy.
    return str(row.get("HealthStatus")).lower() == "unhealthy"


def _replaced(activities: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Instances that were replaced within the hour, "... taken out of service in response to a user health-check".

    EC2 Auto Scaling user guide, "View the reason for health check failures". The hour is that of this node's
    clock. A slow clock counts more instances, and a fast one still counts those that are unhealthy now.
    """
    for activity in activities:
        instance = str(activity.get("Description")).rpartition(" ")[2]
        cause = str(activity.get("Cause")).replace("-", " ")
        if instance.startswith("i-") and "health check" in cause and _is_recent(activity.get("StartTime")):
            yield instance


def _is_recent(moment: object) -> bool:
    start = moment_of(str(moment))
    return start is None or time.time() - start < HOUR_SECONDS
