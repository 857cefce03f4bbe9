"""Facts of this node that `gpu-clusters doctor` compares with the plan: devices, driver, transport, pages, clock.

They travel to the fleet's log group as an event, so that whoever reads them needs no right on the node.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import nvidia_smi, paths
from .checks.network import lustre_is_over_efa
from .command import run
from .devices import efa_devices, neuron_devices
from .events import Events
from .node import Node, Settings
from .quoting import one_line
from .state import boot_result, recall, remember

#: The stage of the event, and its member `facts`.
FACTS = "facts"
#: From one event to the next, while a node runs.
INTERVAL_SECONDS = 3600
#: Digits of the digest of the node's software that are reported.
SOFTWARE_DIGITS = 12
_TIMEOUT_SECONDS = 30
_LONGEST_DRIVER = 40


def record_facts(node: Node) -> bool:
    """Write the event, once after a boot and then once an hour. Return whether it was due."""
    known, now = recall(FACTS), paths.uptime_seconds()
    since = known.get("at")
    has_booted = boot_result().get("state") in ("ready", "failed")
    if not has_booted or (isinstance(since, (int, float)) and now - since < INTERVAL_SECONDS):
        return False
    found = collect_facts(node.settings)
    remember(FACTS, {"at": now, FACTS: found})  # first: what cannot be stored must not be written every minute
    Events(node.instance_id).write(FACTS, "ok", facts=found)
    return True


def last_facts() -> dict[str, Any]:
    """The facts that were recorded last in this boot; empty if none were."""
    # Reading must create nothing: `recall` makes the folder.
    found = recall(FACTS).get(FACTS) if paths.below("/run/gpu-cluster").is_dir() else None
    return found if isinstance(found, dict) else {}


def collect_facts(settings: Settings) -> dict[str, Any]:
    """The facts of this node. What cannot be determined is left out: it is no difference from a plan."""
    kind = settings.text("accelerator")
    parts: list[Callable[[], Mapping[str, Any]]] = [
        lambda: {"efa_devices": len(efa_devices())},
        *([_neuron_facts] if kind == "neuron" else []),
        *([_gpu_facts, lambda: {"mig_devices": nvidia_smi.mig_profiles()}] if kind == "gpu" else []),
        lambda: {"lustre_over_efa": lustre_is_over_efa()},
        lambda: {"huge_pages": paths.read_number(paths.below("/proc/sys/vm/nr_hugepages"))},
        lambda: {"clock_synchronized": _clock_synchronized()},
        # fetch-software unpacks no other.
        lambda: {"software": settings.text("software_sha256")[:SOFTWARE_DIGITS] or None},
    ]
    return {name: value for part in parts for name, value in _tried(part).items() if value is not None}


def _tried(part: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return part()
    except Exception as fault:  # noqa: BLE001 - a broken tool must affect only its own fact
        sys.stderr.write(f"no fact: {one_line(f'{type(fault).__name__}: {fault}')}\n")
        return {}


def _neuron_facts() -> dict[str, Any]:
    listed, _ = neuron_devices()
    return {"accelerators": None if listed is None else len(listed)}


def _gpu_facts() -> dict[str, Any]:
    """The GPUs that answer, and the release of their driver. A list that broke off proves no GPU missing."""
    answer = nvidia_smi.query(["driver_version", "memory.total"], timeout_seconds=_TIMEOUT_SECONDS)
    seen = sum(nvidia_smi.number(row["memory.total"]) is not None for row in answer.rows)
    is_proof = answer.is_complete and (seen or answer.without_row)
    drivers = {row["driver_version"] for row in answer.rows}
    return {
        "accelerators": seen if is_proof else None,
        "driver": one_line(drivers.pop(), _LONGEST_DRIVER) if len(drivers) == 1 else None,
    }


def _clock_synchronized() -> bool | None:
    """Whether the kernel takes its clock for synchronized, by chrony or another service.

    Source: org.freedesktop.timedate1(5), NTPSynchronized; timedatectl(1), "show", since systemd 239.
    """
    outcome = run("timedatectl", "show", timeout_seconds=_TIMEOUT_SECONDS)
    found = re.search(r"^NTPSynchronized=(yes|no)$", outcome.output, re.MULTILINE) if outcome.ok else None
    return None if found is None else found[1] == "yes"
