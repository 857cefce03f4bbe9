"""The probes of the watchdog: what it observes again and again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import nvidia_smi, paths
from ..checks.check import Check, Result, Severity, Undetermined
from ..command import NOT_EXECUTABLE, NOT_FOUND, STUCK
from ..devices import efa_devices
from ..driver_change import program_at_work
from ..node import Node
from ..quoting import one_line
from ..state import boot_result

# Slurm's reason and a condition of Kubernetes are read by people.
_LONGEST_REASON = 400


@dataclass(frozen=True)
class Symptom:
    """A condition or an event that shows an unhealthy node.

    Attributes:
        key: Its name, the same in every probe that observes it.
        severity: The action that it requires.
        reason: What was observed, in a sentence.
        confirmations: How many probes in a row must observe it before it counts: more than one if a single
            observation can be wrong.
        lasting: Whether it is a condition, which later probes observe again and which can end. Otherwise it is an
            event, such as a kernel message: it is reported once, and stays true.
    """

    key: str
    severity: Severity
    reason: str
    confirmations: int = 1
    lasting: bool = True

    def __post_init__(self) -> None:
        # It goes to the console, to events and to the orchestrator, and holds what tools and the kernel print.
        object.__setattr__(self, "reason", one_line(self.reason, _LONGEST_REASON))


@dataclass(frozen=True)
class Probe:
    """A probe that the watchdog runs again and again.

    Attributes:
        name: Its name in events. Symptoms belong to the probe of their name.
        take: Runs it and returns the symptoms.
        every: It runs once in this number of polls.
    """

    name: str
    take: Callable[[], Iterable[Symptom]]
    every: int = 1


# Checks of `gpunode verify` that are repeated. What changes while a node works is watched. What only another image or
# type would change (driver, PCIe, NUMA, MIG) is left to the boot and to `verify`.


class _Pace(NamedTuple):
    """How often a check runs, in seconds, and how many results in a row must agree.

    Counters and flags of the driver are reliable: two results guard against one garbled answer. A state that a person
    may cause for a moment, by a reset of a GPU or a restart of a driver, must last a minute or longer. Kernel messages
    report the faults that cannot wait, so the driver is asked rarely: every poll of it may delay the work of a GPU
    (NVIDIA/open-gpu-kernel-modules issue 953).
    """

    seconds: int
    confirmations: int


_PACES: Mapping[str, _Pace] = {
    "gpus": _Pace(30, 3),
    "ecc": _Pace(30, 2),
    "row-remapping": _Pace(30, 2),
    "clocks": _Pace(30, 3),
    "sram": _Pace(60, 2),
    "recovery": _Pace(60, 2),
    "nvlink": _Pace(60, 3),
    "fabric": _Pace(60, 3),
    "neuron": _Pace(60, 3),
    "neuron-memory": _Pace(10, 2),
    "efa": _Pace(60, 3),
    "lustre": _Pace(30, 2),
    "nfs": _Pace(30, 2),
}
_INTERVAL_SECONDS = 10


def _polls(node: Node, seconds: int) -> int:
    """The number of polls in this time. Probes of the driver then run in the same poll, and open it once."""
    return max(1, round(seconds / max(1, node.settings.number("watch_interval", _INTERVAL_SECONDS))))


def _probe(node: Node, name: str, check: Check) -> Probe:
    pace = _PACES[name]

    def take() -> Iterator[Symptom]:
        try:
            for result in check(node):
                if result.severity is not Severity.OK:
                    yield _symptom(result, pace.confirmations)
        except Undetermined as reason:
            yield Symptom(name, Severity.UNKNOWN, str(reason), pace.confirmations)

    return Probe(name, take, _polls(node, pace.seconds))


def _symptom(result: Result, confirmations: int) -> Symptom:
    words = f"{result.found} (expected: {result.expected})" if result.expected else result.found
    return Symptom(f"{result.check}-{result.severity.name.lower()}", result.severity, words, confirmations)


_TIMEOUT_SECONDS = 20
# A minute: the program's disk may be slow, or a person may reload the driver.
_EVERY_SECONDS, _CONFIRMATIONS = 30, 3
# nvidia-smi without a driver, exit status 9 (seen with 535). The node passed its boot, so the driver was there.
_NO_DRIVER = "communicate with the NVIDIA driver"


def probe_nvidia_smi() -> list[Symptom]:
    """List the GPUs, and check that `nvidia-smi` returns: a wedged driver holds every program that calls it.

    A program that is missing, slow or prints unexpected output proves nothing about the GPUs.
    """
    outcome = nvidia_smi.call("-L", timeout_seconds=_TIMEOUT_SECONDS)
    if outcome.status == STUCK:
        return [Symptom("nvidia-smi-stuck", Severity.REBOOT, "nvidia-smi is stuck in the kernel", _CONFIRMATIONS)]
    if _NO_DRIVER in outcome.text and not program_at_work():
        return [Symptom("driver-gone", Severity.REBOOT, f"nvidia-smi cannot {_NO_DRIVER}", _CONFIRMATIONS)]
    if outcome.hung or outcome.status in (NOT_FOUND, NOT_EXECUTABLE):
        return [Symptom("nvidia-smi", Severity.MONITOR, outcome.words, 2)]
    return []


# The spool of events may take 4 MiB, and a bundle of evidence more.
_LEAST_FREE_BYTES = 64 * 1024 * 1024


def probe_disk() -> list[Symptom]:
    """Check that the node's own disk accepts writes. It is only watched: a full disk is no broken GPU."""
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


# Linux kernel, drivers/staging/lustre/sysfs-fs-lustre: `healthy`, `NOT HEALTHY`, or `LBUG` after an internal
# assertion failure. No source recommends an action, so it is watched.

_CLIENT_CONFIRMATIONS = 2


def probe_lustre_client() -> list[Symptom]:
    """Read the Lustre client's own health: an internal fault, as opposed to a file system that is out of reach.

    A node without the client's module has no symptoms.
    """
    health = " ".join(paths.read_text(paths.below("/sys/fs/lustre/health_check")).split())
    if health in ("", "healthy"):
        return []
    words = f"the Lustre client reports: {health[:200]}"
    return [Symptom("lustre-client", Severity.MONITOR, words, _CLIENT_CONFIRMATIONS)]


# A few errors of an EFA device are normal in a network, many at once are not. Counters and limits:
# aws/eks-node-monitoring-agent @ 5313543, monitors/networking/efa/efa.go, which uses them while there is no
# authoritative approach. What they count: AWS EC2 user guide, "Monitor an Elastic Fabric Adapter on Amazon EC2". They
# are only watched: the cause may be any node of the fabric.

_EVENTS, _PACKETS, _BYTES = 100, 1_000, 1_000_000
# The agent refills every bucket with 1 a second. That is right for events; with 1 byte a second, the bucket of bytes
# would take 12 days to fill, and every normal retransmission would be a symptom. Here each is full again after the
# same time as that of events.
_REFILL_SECONDS = 100

#: Counter -> by how much it may rise at once.
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
    """Compares the counters of every device with a token bucket each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[Path, _Bucket] = {}

    def probe(self) -> list[Symptom]:
        """Counters that rose by more than their bucket held."""
        return [symptom for device in efa_devices() for symptom in self._of_device(device)]

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
        """By how much it rose, or 0 if that is within its limit."""
        value = paths.read_number(file)
        if value is None:
            return 0
        bucket = self._buckets.get(file)
        if bucket is None:
            self._buckets[file] = _Bucket(value, _BURSTS[file.name], self._clock())
            return 0
        return bucket.take(value, self._clock())


class _Bucket:
    """Tokens for the steps of one counter."""

    def __init__(self, value: int, burst: int, now: float) -> None:
        self._value, self._burst, self._refill = value, burst, burst / _REFILL_SECONDS
        self._tokens, self._at = float(burst), now

    def take(self, value: int, now: float) -> int:
        """Take a token for each step. Return the steps if there were not enough tokens, and then take none.

        A counter that fell was reset with its device, and starts again.
        """
        rise, self._value = max(0, value - self._value), value
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._refill)
        self._at = now
        if rise > self._tokens:
            return rise
        self._tokens -= rise
        return 0


# A node that fails the boot of its launch abandons the launch, so it needs no action here. A node that was in service
# and fails a later boot stays in service unless it is taken out: its hook is completed once in its life.


def probe_boot() -> list[Symptom]:
    """Check whether the node passed its reboot. If not, it does no work, however healthy its status checks are."""
    result = _failed()
    if result.get("first_boot") is not False:
        return []
    return [Symptom("boot", Severity.REPLACE, f"it did not pass its reboot: {result.get('reason')}")]


def is_launch_abandoned() -> bool:
    """Whether this was the boot of the launch, and it failed."""
    return bool(_failed().get("first_boot"))


def _failed() -> dict[str, Any]:
    """The result of this boot if it failed, otherwise empty."""
    result = boot_result()
    return result if result.get("state") == "failed" else {}


def probes_of(node: Node, checks: Mapping[str, Check], clock: Callable[[], float] = time.monotonic) -> list[Probe]:
    """All probes of a node, those of its checks that are watched among them."""
    probes = [
        Probe("boot", probe_boot),
        Probe("disk", probe_disk, every=6),
        *(_probe(node, name, check) for name, check in checks.items() if name in _PACES),
    ]
    if node.settings.text("accelerator") == "gpu":
        probes.append(Probe("nvidia-smi", probe_nvidia_smi, _polls(node, _EVERY_SECONDS)))
    if node.settings.number("efa_count"):
        probes.append(Probe("efa-counters", EfaCounters(clock).probe))
    if node.settings.number("mounts"):
        probes.append(Probe("lustre-client", probe_lustre_client))
    return probes
