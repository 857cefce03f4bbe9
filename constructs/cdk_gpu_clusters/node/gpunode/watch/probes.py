"""The probes of the watchdog: what it observes again and again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import devices, paths
from ..checks.check import Check, Result, Severity, Untold
from ..command import NOT_EXECUTABLE, NOT_FOUND, STUCK, run
from ..node import Node

# Something that a look at the node saw and that is not well.


@dataclass(frozen=True)
class Symptom:
    """What one look saw.

    Attributes:
        key: What it is, the same in every look that sees it.
        severity: What it asks for.
        reason: What was seen, in a sentence.
        looks: How many looks in a row must see it before it is believed: more than one where a single observation can
            be wrong.
        lasting: Whether it is a condition, which the next look sees again and which can end. Otherwise it is an
            event, such as a message of the kernel: it is said once, and stays true.
    """

    key: str
    severity: Severity
    reason: str
    looks: int = 1
    lasting: bool = True


# A look at the node that the watchdog takes again and again.


@dataclass(frozen=True)
class Look:
    """One look.

    Attributes:
        name: Its name in events; symptoms of looks of other names are not its own.
        take: Takes it: what is not well.
        every: It is taken once in so many polls.
    """

    name: str
    take: Callable[[], Iterable[Symptom]]
    every: int = 1


# The checks of `gpunode verify`, taken again and again.
#
# What changes while a node works is watched; what only another image or type would change (driver, PCIe, NUMA, MIG)
# is
# left to the boot and to `verify`.


class _Pace(NamedTuple):
    """How often a check is taken, in polls, and how many looks in a row must agree.

    Counters and flags of the driver are what they are: two looks, against one garbled answer. What a person may
    cause for moments, by a reset of a GPU or a restart of a driver, must last a minute or longer. Costly checks are
    taken less often.
    """

    every: int
    looks: int


_PACES: Mapping[str, _Pace] = {
    "gpus": _Pace(1, 6),
    "ecc": _Pace(1, 2),
    "row-remapping": _Pace(1, 2),
    "clocks": _Pace(1, 6),
    "sram": _Pace(6, 2),
    "recovery": _Pace(6, 2),
    "nvlink": _Pace(6, 3),
    "fabric": _Pace(6, 3),
    "neuron": _Pace(6, 3),
    "neuron-memory": _Pace(1, 2),
    "efa": _Pace(6, 3),
    "lustre": _Pace(3, 2),
}


def looks_at(node: Node, checks: Mapping[str, Check]) -> list[Look]:
    """The looks for those checks of a node that are watched.

    Args:
        node: The node.
        checks: Its checks by name, as `checks_of` gives them.
    """
    return [_look(node, name, check) for name, check in checks.items() if name in _PACES]


def _look(node: Node, name: str, check: Check) -> Look:
    pace = _PACES[name]

    def take() -> Iterator[Symptom]:
        try:
            for result in check(node):
                if result.severity is not Severity.OK:
                    yield _symptom(result, pace.looks)
        except Untold as reason:
            yield Symptom(name, Severity.UNKNOWN, str(reason), pace.looks)

    return Look(name, take, pace.every)


def _symptom(result: Result, looks: int) -> Symptom:
    words = f"{result.found} (expected: {result.expected})" if result.expected else result.found
    return Symptom(f"{result.check}-{result.severity.name.lower()}", result.severity, words, looks)


# Whether `nvidia-smi` still comes back: a driver that is wedged holds everyone who asks it.

_TIMEOUT_SECONDS = 20
# A minute at the default pace: the disk under the program may be slow, or a person may reload the driver.
_LOOKS = 6
# nvidia-smi without a driver, exit status 9 (seen with 535).
_NO_DRIVER = "communicate with the NVIDIA driver"


def look_at_nvidia_smi() -> list[Symptom]:
    """Ask for the list of GPUs, and see what becomes of the program.

    A program that is only missing or slow, or that talks nonsense, says nothing of the GPUs.
    """
    outcome = run("nvidia-smi", "-L", timeout_seconds=_TIMEOUT_SECONDS)
    if outcome.status == STUCK:
        return [Symptom("nvidia-smi-stuck", Severity.REBOOT, "nvidia-smi is stuck in the kernel", _LOOKS)]
    if _NO_DRIVER in outcome.output:
        return [Symptom("driver-gone", Severity.REBOOT, f"nvidia-smi cannot {_NO_DRIVER}", _LOOKS)]
    if outcome.hung or outcome.status in (NOT_FOUND, NOT_EXECUTABLE):
        return [Symptom("nvidia-smi", Severity.MONITOR, outcome.words, 2)]
    return []


# Whether the node's own disk still takes what is written. It is watched only: a full disk is no broken GPU.

# The spool of events may take 4 MiB, a bundle of evidence some more.
_LEAST_FREE_BYTES = 64 * 1024 * 1024


def look_at_disk() -> list[Symptom]:
    """Look at the file system of the node's state."""
    place = paths.below("/var/lib")
    try:
        found = os.statvfs(place)
    except OSError as fault:
        return [Symptom("disk", Severity.MONITOR, f"{place}: {fault.strerror}")]
    if found.f_flag & os.ST_RDONLY:
        return [Symptom("disk-read-only", Severity.MONITOR, f"the file system of {place} is read-only")]
    free = found.f_bavail * found.f_frsize
    if free < _LEAST_FREE_BYTES:
        return [Symptom("disk-full", Severity.MONITOR, f"{free // 2**20} MiB are free at {place}")]
    return []


# What the Lustre client says of itself: an internal fault, as opposed to a file system that is out of reach.
#
# Linux kernel, drivers/staging/lustre/sysfs-fs-lustre: `healthy`, `NOT HEALTHY`, or `LBUG` after an internal
# assertion
# failure. What that asks for, no source says: it is watched.

_CLIENT_LOOKS = 2


def look_at_lustre_client() -> list[Symptom]:
    """Read what it says; a node without the client's module says nothing."""
    said = " ".join(paths.read_text(paths.below("/sys/fs/lustre/health_check")).split())
    if said in ("", "healthy"):
        return []
    return [
        Symptom("lustre-client", Severity.MONITOR, f"the Lustre client says: {said[:200]}", _CLIENT_LOOKS)
    ]


# Error counters of EFA devices: a few now and then are the daily business of a network, many at once are not.
#
# Counters and limits: aws/eks-node-monitoring-agent @ 5313543, monitors/networking/efa/efa.go, which calls them
# what it
# uses while there is no authoritative approach. What they count: AWS EC2 user guide, "Monitor an Elastic Fabric
# Adapter
# on Amazon EC2". They are watched only: the cause may be any node of the fabric.

_EVENTS, _PACKETS, _BYTES = 100, 1_000, 1_000_000
_REFILL_PER_SECOND = 1

#: Counter -> what it may rise by at once.
_BURSTS: Mapping[str, int] = {
    "rx_drops": _EVENTS,
    "rdma_read_wr_err": _EVENTS,
    "rdma_write_wr_err": _EVENTS,
    "unresponsive_remote_events": _EVENTS,
    "impaired_remote_conn_events": _EVENTS,
    "retrans_timeout_events": _EVENTS,
    "retrans_pkts": _PACKETS,
    "retrans_bytes": _BYTES,
}


class EfaCounters:
    """Looks at the counters of every device, against a token bucket for each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[Path, _Bucket] = {}

    def look(self) -> list[Symptom]:
        """Counters that rose by more than their bucket held."""
        return [symptom for device in devices.efa_devices() for symptom in self._of_device(device)]

    def _of_device(self, device: Path) -> list[Symptom]:
        found = []
        for file in sorted(device.glob("ports/*/hw_counters/*")):
            if file.name in _BURSTS:
                risen = self._risen(file)
                if risen:
                    words = f"EFA {device.name} port {file.parent.parent.name}: {file.name} rose by {risen}"
                    found.append(Symptom(f"efa-{device.name}-{file.name}", Severity.MONITOR, words))
        return found

    def _risen(self, file: Path) -> int:
        """By how much it rose, if that was too much."""
        try:
            value = int(paths.read_text(file))
        except ValueError:
            return 0
        bucket = self._buckets.get(file)
        if bucket is None:
            self._buckets[file] = _Bucket(value, _BURSTS[file.name], self._clock())
            return 0
        return bucket.take(value, self._clock())


class _Bucket:
    """Tokens for the steps of one counter."""

    def __init__(self, value: int, burst: int, now: float) -> None:
        self._value, self._burst = value, burst
        self._tokens, self._at = float(burst), now

    def take(self, value: int, now: float) -> int:
        """Take a token for each step; the steps, if there were not enough tokens, which then stay.

        A counter that fell was set back with its device, and begins anew.
        """
        rise, self._value = max(0, value - self._value), value
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * _REFILL_PER_SECOND)
        self._at = now
        if rise > self._tokens:
            return rise
        self._tokens -= rise
        return 0


# Whether the node got through this boot, as `gpunode boot` left it.
#
# A node that fails the boot of its launch gives the launch up, and is nobody's to take out. One that was in service
# and
# fails a later boot stays in service unless somebody says so: its hook is completed once in its life.


def look_at_boot() -> list[Symptom]:
    """A reboot that the node did not get through: it does no work, however healthy its status checks are."""
    result = _failed()
    if result.get("first_boot") is not False:
        return []
    return [Symptom("boot", Severity.REPLACE, f"it did not get through its reboot: {result.get('reason')}")]


def is_launch_given_up() -> bool:
    """Whether this was the boot of the launch, and failed."""
    return bool(_failed().get("first_boot"))


def _failed() -> dict[str, Any]:
    """The result of this boot; empty where it is good, or not known."""
    # Memory takes what a disk may not: its word is the later one.
    result = _boot_result(paths.run_folder()) or _boot_result(paths.state_folder())
    return result if result.get("state") == "failed" else {}


def _boot_result(folder: Path) -> dict[str, Any]:
    """What a folder holds of this boot; what cannot be read says nothing."""
    try:
        result = dict(json.loads(paths.read_text(folder / "boot.json")))
        return result if result["boot_id"] == paths.boot_id() else {}
    except (ValueError, KeyError, TypeError):
        return {}


def looks_of(
    node: Node, checks: Mapping[str, Check], clock: Callable[[], float] = time.monotonic
) -> list[Look]:
    """What is looked at on a node.

    Args:
        node: The node.
        checks: Its checks by name.
        clock: Seconds that never go back.
    """
    looks = [Look("boot", look_at_boot), Look("disk", look_at_disk, every=6), *looks_at(node, checks)]
    if node.settings.text("accelerator") == "gpu":
        looks.append(Look("nvidia-smi", look_at_nvidia_smi))
    if node.settings.number("efa_count"):
        looks.append(Look("efa-counters", EfaCounters(clock).look))
    if node.settings.number("mounts"):
        looks.append(Look("lustre-client", look_at_lustre_client))
    return looks
