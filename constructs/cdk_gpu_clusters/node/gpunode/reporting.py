"""What a node reports before it may go: its events, and a bundle of evidence in S3."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

from . import paths
from .checks.verify import as_json, checks_of, verify, worst
from .command import Outcome, run
from .events import Events
from .node import Node
from .redaction import redacted
from .shipping import ship

# The policy that allows a call may be attached after the boot, and the node is gone soon.
_PAUSES_SECONDS = (1, 2, 4, 8)


def event_reporter(node: Node, events: Events) -> Callable[[], None]:
    """A function that sends the events to AWS at once. If it fails, they stay spooled, and the journal has them."""

    def report() -> None:
        fault = _repeat(lambda: ship(node))
        if fault:
            events.write("log", "failed", f"{node.settings.text('log_group')}: {fault}")

    return report


def evidence_reporter(node: Node, events: Events) -> Callable[[str], None]:
    """A function that collects the evidence of a failure, given its reason, and copies it to the fleet's bucket."""

    def collect(reason: str) -> None:
        addresses: list[str] = []
        fault = _repeat(lambda: addresses.append(keep_evidence(node, reason)))
        if fault:
            events.write("evidence", "failed", fault)
        elif addresses[-1]:
            events.write("evidence", "ok", addresses[-1])
        else:
            events.write("evidence", "skipped", "the fleet has no bucket for it: it stays on the node")

    return collect


def _repeat(action: Callable[[], object]) -> str:
    """Try a few times. Return why it failed, empty if it did not."""
    fault = _fault_of(action)
    for pause in _PAUSES_SECONDS:
        if not fault:
            break
        time.sleep(pause)
        fault = _fault_of(action)
    return fault


def _fault_of(action: Callable[[], object]) -> str:
    try:
        action()
    except Exception as fault:  # noqa: BLE001 - the launch must still be completed
        return str(fault) or type(fault).__name__
    return ""


_TIMEOUT_SECONDS = 20
# In parallel, since a node that is about to go must not wait long.
_PROGRAMS_AT_ONCE = 4
_UPLOAD_SECONDS = 120
# The journal's 5,000 lines fill most of a part. The bundle is collected in memory, and stored in /run, which is memory.
_LONGEST_PART_BYTES = 2 * 1024 * 1024
_LONGEST_BUNDLE_BYTES = 16 * 1024 * 1024

#: File of the bundle -> the program whose output it holds.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "nvidia-smi.txt": ("nvidia-smi",),
    "nvidia-smi-q.txt": ("nvidia-smi", "-q"),
    "nvidia-smi-topology.txt": ("nvidia-smi", "topo", "-m"),
    "neuron-ls.txt": ("neuron-ls",),
    "fi_info.txt": ("fi_info", "-p", "efa"),
    "pci.txt": ("lspci", "-vv"),
    "kernel.txt": ("dmesg", "--ctime"),
    "journal.txt": ("journalctl", "-b", "-o", "short-iso", "--no-pager", "-n", "5000"),
    "units.txt": ("systemctl", "list-units", "--no-pager", "--all"),
    "failed.txt": ("systemctl", "--failed", "--no-pager"),
    "mounts.txt": ("findmnt", "--output-all"),
    "disks.txt": ("lsblk", "--output-all"),
    "memory.txt": ("free", "-m"),
    "processes.txt": ("ps", "-eo", "pid,stat,wchan:30,etimes,args"),
}
#: Files of the node that are copied. The user data is left out: it may hold secrets that were not recognized.
_FILES = (
    "/var/log/cloud-init-output.log",
    "/var/lib/gpu-cluster/boot.json",
    "/var/lib/gpu-cluster/mig.json",
    "/var/lib/gpu-cluster/lustre.json",
    "/var/lib/gpu-cluster/nfs.json",
    "/var/lib/gpu-cluster/scratch.json",
    "/etc/gpu-cluster/node.env",
    "/etc/os-release",
)


def keep_evidence(node: Node, reason: str) -> str:
    """Collect a bundle in memory, since the disk may be full or hang, and copy it to S3.

    Only root may read it, and secrets that are found are left out.

    Returns:
        Its `s3://` address; empty if the fleet has no bucket for it.

    Raises:
        AwsError: If S3 does not accept it.
        OSError: If it cannot be written.
    """
    bundle = _collect(node, reason)
    place = node.settings.text("evidence_uri").rstrip("/")
    if not place:
        return ""
    address = f"{place}/{node.evidence_folder}/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz"
    node.aws.call("s3", "cp", "--only-show-errors", str(bundle), address, timeout_seconds=_UPLOAD_SECONDS)
    return address


def _collect(node: Node, reason: str) -> Path:
    """Write the bundle, in place of an earlier one."""
    parts = {"reason.json": json.dumps({"instance_id": node.instance_id, "reason": reason, "time": time.time()})}
    with ThreadPoolExecutor(_PROGRAMS_AT_ONCE) as pool:
        outcomes = {
            name: pool.submit(run, *program, timeout_seconds=_TIMEOUT_SECONDS) for name, program in _PROGRAMS.items()
        }
        checks = pool.submit(_checks, node, outcomes["nvidia-smi.txt"])
        parts.update({name: _printed(outcome.result()) for name, outcome in outcomes.items()})
        parts["checks.json"] = checks.result()
    for path in _FILES:
        parts[path.rsplit("/", 1)[-1]] = paths.read_regular(paths.below(path), _LONGEST_PART_BYTES)
    bundle = paths.run_folder() / "evidence.tar.gz"
    # Of a process that was killed while it collected.
    for old in bundle.parent.glob(f"{bundle.name}.*"):
        old.unlink()
    paths.replace_atomically(bundle, lambda stream: _write(stream, parts), paths.PRIVATE)
    return bundle


def _printed(outcome: Outcome) -> str:
    return outcome.output + (f"\nstandard error:\n{outcome.errors}" if outcome.errors else "")


def _write(stream: IO[bytes], parts: Mapping[str, str]) -> None:
    left = _LONGEST_BUNDLE_BYTES
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in parts.items():
            body = _clean(text)[-left:] if left else b""
            left -= len(body)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(body), int(time.time()), paths.PRIVATE
            archive.addfile(entry, io.BytesIO(body))


def _clean(text: str) -> bytes:
    """The end of a text, in complete lines and without secrets: half of a secret could not be recognized."""
    if len(text) > _LONGEST_PART_BYTES:
        text = text[-_LONGEST_PART_BYTES:].partition("\n")[2]
    return redacted(text).encode("utf-8", "replace")[-_LONGEST_PART_BYTES:]


def _checks(node: Node, nvidia_smi: Future[Outcome]) -> str:
    """The output of `gpunode verify --json`; empty if the driver hangs, to leave no more stuck children."""
    if nvidia_smi.result().hung:
        return ""
    results = verify(node, checks_of(node), deadline_seconds=_TIMEOUT_SECONDS)
    return as_json(results, worst(results), node.instance_id)
