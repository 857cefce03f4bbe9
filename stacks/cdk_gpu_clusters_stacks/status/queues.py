"""Queues of Kueue: its ClusterQueue objects, as `kubectl get clusterqueues.kueue.x-k8s.io -o json` prints them.

The queues of a cluster file are those of its teams, and one for all others; their flavors are its fleets.

Source: kubernetes-sigs/kueue v0.19.2, CRD of ClusterQueue: spec.resourceGroups; status.flavorsUsage (used quotas of
admitted workloads, with what of it is borrowed), pendingWorkloads and admittedWorkloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters_stacks.cost import NoAccounting
from cdk_gpu_clusters_stacks.cost.kueue import is_device, items_of, whole_number

from .model import Queue, QueueDevice

Json = dict[str, Any]
COMMAND = "kubectl get clusterqueues.kueue.x-k8s.io -o json"


def read_queues(text: str) -> list[Queue]:
    """Read the queues of Kueue, in the order of the text.

    Args:
        text: A list of ClusterQueue objects as JSON.

    Raises:
        NoAccounting: If it is something else, with all faults.
    """
    faults: list[str] = []
    queues = []
    for where, one in items_of(text, "ClusterQueue", COMMAND, faults):
        try:
            queues.append(_queue(one))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            faults.append(f"{where}: {error if isinstance(error, ValueError) else 'is no ClusterQueue of Kueue'}")
    if faults:
        raise NoAccounting(faults)
    return queues


def _queue(one: Json) -> Queue:
    status = one.get("status") or {}
    return Queue(
        name=str(one["metadata"]["name"]),
        waiting=int(status.get("pendingWorkloads", 0)),
        running=int(status.get("admittedWorkloads", 0)),
        devices=list(_devices(one["spec"], status)),
    )


def _devices(spec: Json, status: Json) -> Iterator[QueueDevice]:
    """What the queue has of each device that it may use: a quota, a limit that lets it borrow, or some in use."""
    used = {
        (flavor["name"], resource["name"]): resource
        for flavor in status.get("flavorsUsage", [])
        for resource in flavor["resources"]
    }
    for group in spec.get("resourceGroups", []):
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                name = resource["name"]
                if not is_device(name):
                    continue
                use = used.get((flavor["name"], name), {})
                device = QueueDevice(
                    fleet=flavor["name"],
                    resource=name,
                    quota=whole_number(name, resource["nominalQuota"]),
                    used=whole_number(name, use.get("total", 0)),
                    borrowed=whole_number(name, use.get("borrowed", 0)),
                )
                if device.quota or device.used:
                    yield device
