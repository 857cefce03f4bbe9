"""Jobs from Kueue: its Workload objects, as `kubectl get workloads.kueue.x-k8s.io -A -o json` prints them.

A workload holds its GPUs from the time at which it is admitted to the time at which it is finished. Its flavors name
the groups of nodes: the queues that `gpu-clusters manifests` writes have a flavor for each fleet, with its name.

Sources: kubernetes-sigs/kueue v0.19.2: CRD of Workload (status.conditions, status.admission), and
pkg/workload/admissionchecks.go: a workload that loses its admission adds the time that it had to
accumulatedPastExecutionTimeSeconds, and keeps nothing else of it. Kubernetes API reference, Quantity.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE

from .accounting import Accounting, NoAccounting, Run

Json = dict[str, Any]
COMMAND = "kubectl get workloads.kueue.x-k8s.io --all-namespaces -o json"
_MIG = "nvidia.com/mig-"
# By its name in v1beta2, and in v1beta1.
_PAST = ("accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
_QUANTITY = re.compile(r"(\d+)(k|M|G)?")
_THOUSANDS = {None: 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
# A workload that has no end runs to the end of any period.
_FOR_EVER = 10**10


def is_kueue(text: str) -> bool:
    """Whether a text is meant to be JSON: sacct prints none."""
    return text.lstrip().startswith(("{", "["))


def read_workloads(text: str) -> Accounting:
    """Read the workloads of Kueue.

    Args:
        text: A list of Workload objects as JSON. What runs in it has no end.

    Raises:
        NoAccounting: If it is something else, with all faults.
    """
    faults: list[str] = []
    runs: list[Run] = []
    left_out: Counter[str] = Counter({"waiting": 0, "ran_before": 0})
    for where, one in items_of(text, "Workload", COMMAND, faults):
        try:
            found = list(_runs(one))
            left_out["ran_before"] += any(one.get("status", {}).get(name) for name in _PAST)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            faults.append(f"{where}: {error if isinstance(error, ValueError) else 'is no Workload of Kueue'}")
            continue
        left_out["waiting"] += not found
        runs += found
    if faults:
        raise NoAccounting(faults)
    return Accounting(source="kueue", runs=tuple(runs), left_out=dict(left_out))


def items_of(text: str, kind: str, command: str, faults: list[str]) -> Iterator[tuple[str, Json]]:
    """The objects of a list that kubectl printed as JSON, each with its place.

    Args:
        text: The list.
        kind: A kind of Kueue.
        command: What prints such a list.
        faults: Gets what is wrong.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        faults.append(f"it is no JSON: {error}")
        return
    kinds = ("List", f"{kind}List")
    if not isinstance(found, dict) or found.get("kind") not in kinds or not isinstance(found.get("items"), list):
        faults.append(f"it is no list of {kind.lower()}s; write the file with: {command}")
        return
    for number, item in enumerate(found["items"], 1):
        if not isinstance(item, dict) or item.get("kind") != kind or not _is_of_kueue(item):
            faults.append(f"item {number}: is no {kind} of Kueue; write the file with: {command}")
        else:
            yield f"item {number}", item


def _is_of_kueue(item: Json) -> bool:
    """Kubernetes has an API with workloads of its own (kubernetes-sigs/kueue#8113)."""
    return str(item.get("apiVersion", "")).startswith("kueue.x-k8s.io/")


def _runs(workload: Json) -> Iterator[Run]:
    """What a workload holds, by flavor; nothing if it is not admitted."""
    metadata, status = workload["metadata"], workload.get("status", {})
    if any(one.get("kind") == "Workload" for one in metadata.get("ownerReferences", [])):
        return  # a variant, whose admission its owner has as well
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    since, end = (_time(conditions.get(name)) for name in ("Admitted", "Finished"))
    admission = status.get("admission")
    if since is None or admission is None:
        return
    held = _held(admission)
    for flavor, gpus in held.items() or [("", {})]:
        yield Run(
            job=f"{metadata['namespace']}/{_name(metadata)}",
            user=metadata["namespace"],
            account=admission["clusterQueue"],
            start=since,
            seconds=_FOR_EVER if end is None else max(end - since, 0),
            gpus=gpus,
            nodes=(flavor,) if flavor else (),
        )


def _name(metadata: Json) -> str:
    """The name of the job that a workload is made for, or its own."""
    owners = [str(one["name"]) for one in metadata.get("ownerReferences", []) if one.get("controller")]
    return owners[0] if owners else str(metadata["name"])


def _time(condition: Json | None) -> int | None:
    """When a condition became true, in seconds since 1970; None if it is not."""
    if condition is None or condition["status"] != "True":
        return None
    text = condition["lastTransitionTime"]
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise ValueError(f"lastTransitionTime {text!r} of {condition['type']} is no time") from None
    if moment.tzinfo is None:
        raise ValueError(f"lastTransitionTime {text!r} of {condition['type']} has no time zone")
    return int(moment.timestamp())


def _held(admission: Json) -> dict[str, Mapping[str, int]]:
    """The GPUs and MIG devices of all pods, by flavor and by the name of the resource."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for pods in admission["podSetAssignments"]:
        for resource, quantity in pods.get("resourceUsage", {}).items():
            if not is_device(resource):
                continue
            flavor = pods.get("flavors", {}).get(resource)
            if flavor is None:
                raise ValueError(f"{resource} of the pods {pods['name']} has no flavor")
            if number := whole_number(resource, quantity):
                found[flavor][resource] += number
    return dict(found)


def is_device(resource: str) -> bool:
    """Whether a resource is GPUs or slices of them."""
    return resource == WHOLE_GPU_RESOURCE or resource.startswith(_MIG)


def whole_number(resource: str, quantity: Any) -> int:
    """A quantity of devices.

    Raises:
        ValueError: If it is no whole number.
    """
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError(f"{resource} {quantity!r} is no whole number")
    return int(match[1]) * _THOUSANDS[match[2]]
