"""The state of a live cluster: fleets and nodes, jobs, capacity, alarms and cost. All calls only read."""

from .model import Alarm, Capacity, Fleet, Job, Node, NodeState, Status
from .read import policy_for_status, read_status
from .text import status_text

__all__ = [
    "Alarm",
    "Capacity",
    "Fleet",
    "Job",
    "Node",
    "NodeState",
    "Status",
    "policy_for_status",
    "read_status",
    "status_text",
]
