"""`gpunode status`: this node on one screen. It reads what the other programs stored, and asks the driver once."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import jobs, nvidia_smi, paths
from .checks.check import Severity
from .command import run
from .containers import container_words
from .facts import FACTS, last_facts
from .health import assess, late_seconds, symptoms_of
from .node import Metadata, Settings, read_settings
from .quoting import one_line
from .redaction import redacted
from .state import announced, recall

_TEXT = """\
Show this node on one screen: its last boot, its health, what the watchdog did last, its jobs and its GPUs.

The exit status is that of the worst symptom, as with verify: 0 healthy, 1 unknown, 2 monitor, 3 reset, 4 reboot,
5 replace. It is 1 if no watchdog runs.
"""
# A person waits for it.
_DRIVER_SECONDS, _JOURNAL_SECONDS = 5, 5
_LONGEST_VALUE = 200
_LONGEST_FILE_BYTES = 1024 * 1024
_MOST_ROWS = 20
_GPU_FIELDS = ("name", "uuid", "memory.used", "memory.total", "utilization.gpu", "temperature.gpu")
_ACTIONS = ("action", "repair")
# Symptoms of a driver that holds every program that asks it.
_STUCK = "stuck in the kernel"


def add_status(commands: Any) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "status",
        help="show this node on one screen: boot, health, jobs, GPUs",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--json", action="store_true", help="one JSON object instead of a screen")
    command.set_defaults(run=show)


def show(given: argparse.Namespace) -> int:
    """Print the status, and return the exit status."""
    status = collect()
    with suppress(BrokenPipeError):
        sys.stdout.write((json.dumps(status) if given.json else as_screen(status)) + "\n")
        sys.stdout.flush()
    return int(Severity[status["severity"].upper()])


def collect() -> dict[str, Any]:
    """The status of this node. What cannot be read is left out, with the reason."""
    settings, boot = read_settings(), _boot()
    watchdog = _watchdog(settings)
    known = watchdog.pop("known")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "instance_id": boot.get("instance_id") or _instance_id(),
        "fleet": settings.text("fleet"),
        "orchestrator": settings.text("orchestrator"),
        "severity": watchdog["severity"],
        "state": watchdog["state"],
        "reasons": list(symptoms_of(known)) or watchdog["reasons"],
        "boot": {name: boot.get(name, "") for name in ("state", "reason", "fix")} if boot else {},
        "watchdog": {"mode": watchdog["mode"], "acts_from": watchdog["acts_from"]},
        "last_action": _try(_last_action, {}),
        "repairs": _try(_repairs, []),
        "maintenance": paths.read_regular(paths.below("/etc/gpu-cluster/maintenance"), 1024).strip(),
        "ending": announced(),
        "drain_at": settings.text("drain_at"),
        "jobs": _try(_jobs, []),
        "gpus": _try(lambda: _gpus(settings, symptoms_of(known)), []),
        "last_shipped": _shipped(),
        FACTS: _try(last_facts, {}),
        "containers": container_words(settings) if settings.text("orchestrator") in ("pcs", "slurm") else "",
    }


def _try(part: Callable[[], Any], default: Any) -> Any:
    """A part of the status; the default if something unexpected is in the way."""
    try:
        return part()
    except Exception as fault:  # noqa: BLE001 - the other parts are needed most when one is broken
        sys.stderr.write(f"{one_line(f'{type(fault).__name__}: {fault}')}\n")
        return default


def _boot() -> dict[str, Any]:
    """The result of this boot; empty if there is none."""
    for folder in ("/run/gpu-cluster", "/var/lib/gpu-cluster"):
        found = _read_json(f"{folder}/boot.json")
        if isinstance(found, dict) and found.get("boot_id") == paths.boot_id():
            return found
    return {}


def _instance_id() -> str:
    return Metadata().get("instance-id") or ""


def _watchdog(settings: Settings) -> dict[str, Any]:
    """What the watchdog finds, from its state of this boot."""
    mode = settings.text("watch", "on").lower()
    memory = "watch" if mode == "on" else f"watch-{mode}"
    word = settings.text("watch_acts_from", "reset").upper()
    acts_from = Severity[word] if word in Severity.__members__ else Severity.RESET
    known = _try(lambda: _recall(memory), {})
    late = late_seconds(settings.number("watch_interval", 10))
    health = assess(known, acts_from=acts_from, dry_run=mode == "dry-run", late_seconds=late)
    is_blind = not known or health.state == "late"
    severity = max(health.severity, Severity.UNKNOWN) if is_blind and mode != "off" else health.severity
    return {
        "known": known,
        "mode": mode,
        "acts_from": acts_from.name.lower(),
        "state": "not watched" if mode == "off" else health.state,
        "severity": severity.name.lower(),
        "reasons": list(health.reasons),
    }


def _recall(name: str) -> Mapping[str, Any]:
    # Reading must create nothing: `recall` makes the folder.
    return recall(name) if paths.below("/run/gpu-cluster").is_dir() else {}


def _last_action() -> dict[str, str]:
    """The last event of the watchdog's actions, from the journal; empty if there is none that this user may read."""
    options = ("-b", "-u", "gpu-node-watch", "-o", "cat", "--no-pager", "-n", "500")
    for line in reversed(run("journalctl", *options, timeout_seconds=_JOURNAL_SECONDS).output.splitlines()):
        event = _parsed(line)
        if isinstance(event, dict) and event.get("stage") in _ACTIONS:
            return {name: str(event.get(name, "")) for name in ("time", "stage", "state", "reason")}
    return {}


def _repairs() -> list[dict[str, str]]:
    """The repairs that this instance had, as the watchdog stored them, the newest last; one that goes on has no end."""
    found = _read_json("/var/lib/gpu-cluster/repairs.json") or _read_json("/run/gpu-cluster/repairs.json")
    rows = [*found["past"], found["current"]] if isinstance(found, dict) else []
    return [_repair(row) for row in rows if row][-_MOST_ROWS:]


def _repair(row: Mapping[str, Any]) -> dict[str, str]:
    begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["at"]))
    return {"begun": begun, **{name: str(row[name] or "") for name in ("rung", "step", "end", "reason")}}


def _jobs() -> list[dict[str, Any]]:
    return [{"pid": job.pid, "command": _command(job.pid)} for job in jobs.running()[:_MOST_ROWS]]


def _command(pid: int) -> str:
    words = paths.read_text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")
    return one_line(redacted(words), 80)


def _gpus(settings: Settings, reasons: Sequence[str]) -> list[str]:
    """A line for each GPU. A driver that holds its callers is not asked: another one would only be stuck, too."""
    if settings.text("accelerator") != "gpu":
        return []
    if any(_STUCK in reason for reason in reasons):
        return ["not asked: the driver does not return"]
    found = nvidia_smi.query(_GPU_FIELDS, timeout_seconds=_DRIVER_SECONDS)
    rows = [_gpu(row) for row in found.rows] + [f"does not answer: {one_line(row, 120)}" for row in found.lost]
    return rows or [f"nvidia-smi: {one_line(found.outcome.words, _LONGEST_VALUE) or 'no GPU'}"]


def _gpu(row: Mapping[str, str]) -> str:
    memory = f"{row['memory.used']} of {row['memory.total']} MiB"
    cells = (
        row["index"],
        row["name"],
        memory,
        f"{row['utilization.gpu']} %",
        f"{row['temperature.gpu']} C",
        row["uuid"],
    )
    return one_line(", ".join(cells), _LONGEST_VALUE)


def _shipped() -> dict[str, Any]:
    found = _try(lambda: _recall("shipped"), {})
    return {name: found[name] for name in ("at", "records") if isinstance(found.get(name), int)}


def _read_json(path: str) -> Any:
    return _parsed(paths.read_regular(paths.below(path), _LONGEST_FILE_BYTES))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def as_screen(status: Mapping[str, Any]) -> str:
    """The status as lines of text: a name, and what belongs to it."""
    rows: list[tuple[str, list[str]]] = [
        ("node", [f"{status['instance_id'] or 'unknown instance'}, fleet {status['fleet'] or 'unknown'}"]),
        ("boot", _boot_lines(status["boot"])),
        ("health", [f"{status['state']}, severity {status['severity']}", *status["reasons"]]),
        ("watchdog", [_plan(status), *_action_lines(status)]),
        ("ending", _ending_lines(status)),
        ("jobs", [f"{job['pid']} {job['command']}" for job in status["jobs"]] or ["none registered"]),
        ("GPUs", status["gpus"] or ["none"]),
        ("containers", [status["containers"]] if status["containers"] else []),
        ("records", [_shipped_line(status["last_shipped"])]),
    ]
    return "\n".join(_block(name, lines) for name, lines in rows if lines)


def _block(name: str, lines: Sequence[str]) -> str:
    heads = [name, *[""] * (len(lines) - 1)]
    return "\n".join(f"{head:<11}{one_line(str(line), _LONGEST_VALUE)}" for head, line in zip(heads, lines))


def _boot_lines(boot: Mapping[str, str]) -> list[str]:
    if not boot:
        return ["no result of this boot"]
    return [
        ": ".join(filter(None, (boot["state"], boot["reason"]))),
        *([f"to do: {boot['fix']}"] if boot["fix"] else []),
    ]


def _plan(status: Mapping[str, Any]) -> str:
    """What the watchdog will do."""
    mode, acts_from = status["watchdog"]["mode"], status["watchdog"]["acts_from"]
    if mode == "off":
        return "off: nothing is done"
    if status["maintenance"]:
        return f"suspended: {status['maintenance']}"
    if status["state"] in ("starting", "late"):
        return "does not run, or not yet: systemctl status gpu-node-watch"
    begin = f"acts from {acts_from} on" if mode == "on" else f"only reports ({mode})"
    severity = Severity[status["severity"].upper()]
    if severity < Severity[acts_from.upper()]:
        return f"{begin}; nothing to do"
    return f"{begin}; for this node: {severity.name.lower()}"


def _action_lines(status: Mapping[str, Any]) -> list[str]:
    last = status["last_action"]
    lines = [f"last: {last['time']} {last['stage']} {last['state']}: {last['reason']}"] if last else []
    return lines + [_repair_line(row) for row in status["repairs"][-3:]]


def _repair_line(row: Mapping[str, str]) -> str:
    return f"{row['rung']} of {row['begun']}, {row['end'] or row['step']}: {row['reason']}"


def _ending_lines(status: Mapping[str, Any]) -> list[str]:
    ending = [f"about to end: {status['ending']}"] if status["ending"] else []
    return ending + ([f"drains itself at {status['drain_at']}"] if status["drain_at"] else [])


def _shipped_line(shipped: Mapping[str, int]) -> str:
    if not shipped:
        return "none sent in this boot, or this user may not read it"
    ago = max(0, round(time.time() - shipped.get("at", 0)))
    return f"{shipped.get('records', 0)} sent {ago} s ago"
