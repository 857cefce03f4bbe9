"""The state of a live cluster: fleets and nodes, jobs, capacity, alarms and cost. All calls only read."""

from .model import Alarm, Capacity, Fleet, Job, Node, NodeState, Queue, QueueDevice, Status
from .queues import read_queues
from .read import policy_for_status, read_status
from .text import status_text

__all__ = [
    "Alarm",
    "Capacity",
    "Fleet",
    "Job",
    "Node",
    "NodeState",
    "Queue",
    "QueueDevice",
    "Status",
    "policy_for_status",
    "read_queues",
    "read_status",
    "status_text",
]
