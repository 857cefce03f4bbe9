"""Sends spooled records to CloudWatch Logs, in batches. What AWS does not accept now is kept for the next time.

The metrics among them need no agent and no header: CloudWatch finds records in the embedded metric format by itself
("When calling PutLogEvents, you have the option to include the following HTTP header ... but it's not required",
CloudWatch user guide, "Using the PutLogEvents API to send manually-created embedded metric format logs").

Every record arrives at least once. If AWS accepts a record but its answer is lost, the record is sent again.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import paths, spool
from .command import run
from .log_streams import create_stream
from .node import AwsError, Node
from .spool import locked
from .state import recall, remember

#: Name of the state that holds when records were sent last, and how many.
SHIPPED = "shipped"
#: Spool -> suffix of its log stream after the name of the node.
STREAMS = {"events": "", "metrics": "/metrics"}

# CloudWatch Logs API reference, PutLogEvents: at most 10,000 events and 1,048,576 bytes with 26 bytes for each event,
# in the order of their times, and no batch longer than 24 hours. Sequence tokens are ignored, and none is sent.
_BATCH_EVENTS = 10_000
_BATCH_BYTES = 1_048_576
_EVENT_BYTES = 26
_BATCH_MILLISECONDS = 24 * 60 * 60 * 1000
# The JSON file of the call quotes the batch. Half of the limit leaves room for that.
_CAREFUL_BYTES = _BATCH_BYTES // 2
# An event may have 1 MB, in older editions of that page 256 KB. Ours are far smaller.
_LONGEST_BYTES = 256 * 1024 - _EVENT_BYTES
# AWS rejects events outside this range: the clock was wrong when they were written.
_OLDEST_MILLISECONDS = 14 * _BATCH_MILLISECONDS
_NEWEST_MILLISECONDS = 2 * 60 * 60 * 1000
# Another program of this node may be sending; its calls have deadlines of their own.
_TURN_SECONDS = 90.0


def ship(node: Node) -> int:
    """Send all records to the log group of the fleet, with the journal of the storage units and gpu-mig.

    Returns:
        Number of records sent.

    Raises:
        AwsError: If AWS does not accept all of them; the others stay.
    """
    group = node.settings.text("log_group")
    if not group:
        return 0
    with locked(paths.run_folder() / "shipping.lock", _TURN_SECONDS) as my_turn:
        if not my_turn:  # two programs would send everything twice
            raise AwsError("another program of this node is still sending records")
        collect_journal()
        own = node.stream_name
        count = sum(_send(node, group, name, own + suffix) for name, suffix in STREAMS.items())
        with suppress(OSError):
            remember(SHIPPED, {"at": round(time.time()), "records": count})
        return count


def _send(node: Node, group: str, name: str, stream: str) -> int:
    """Send one spool. Unsent lines return to it, before newer ones."""
    left = sorted((line for line in map(_readable, spool.take(name)) if line), key=_time_of)
    count = len(left)
    try:
        while left:
            events = _first_batch(left)
            _put_or_drop(node, group, stream, events)
            left = left[len(events) :]
    finally:
        spool.give_back(name, left)
    return count


def _readable(line: str) -> str:
    """A line; empty if a full disk truncated it."""
    try:
        record = json.loads(line)
        int(record["timestamp"]), str(record["message"])
    except (ValueError, KeyError, TypeError):
        return ""
    return line


def _time_of(line: str) -> int:
    return _timestamp(int(json.loads(line)["timestamp"]))


def _timestamp(milliseconds: int) -> int:
    """A time that AWS accepts: the present if the record's clock was wrong."""
    now = int(time.time() * 1000)
    return milliseconds if now - _OLDEST_MILLISECONDS < milliseconds < now + _NEWEST_MILLISECONDS else now


def _first_batch(lines: Sequence[str]) -> list[dict[str, Any]]:
    """The events of as many lines as one call accepts."""
    events: list[dict[str, Any]] = []
    size = 0
    for line in lines[:_BATCH_EVENTS]:
        event = _event(line)
        size += len(event["message"].encode()) + _EVENT_BYTES
        late = events and event["timestamp"] - events[0]["timestamp"] >= _BATCH_MILLISECONDS
        if events and (late or size > _CAREFUL_BYTES):
            break
        events.append(event)
    return events


def _event(line: str) -> dict[str, Any]:
    record = json.loads(line)
    message = str(record["message"])
    length = len(message.encode())
    if length > _LONGEST_BYTES:
        message = json.dumps({**spool.lost(1, f"a record of {length} bytes is too long"), "begin": message[:500]})
    return {"timestamp": _timestamp(int(record["timestamp"])), "message": message}


def _put_or_drop(node: Node, group: str, stream: str, events: list[dict[str, Any]]) -> None:
    """Send them. Those that AWS will never accept are dropped and counted, or they would block all others."""
    try:
        put_events(node, group, stream, events)
    except AwsError as fault:
        if "InvalidParameter" not in str(fault):
            raise
        spool.keep("events", spool.lost(len(events), str(fault)))


def put_events(node: Node, group: str, stream: str, events: list[dict[str, Any]]) -> None:
    """Send events to a log stream in one call. The stream is created if it does not exist.

    Raises:
        AwsError: If AWS does not accept them.
    """
    where = ("--log-group-name", group, "--log-stream-name", stream)
    # In memory: the disk may be full.
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=paths.run_folder(), encoding="utf-8") as file:
        json.dump(events, file)
        file.flush()
        call = ("logs", "put-log-events", *where, "--log-events", f"file://{file.name}")
        try:
            node.aws.call(*call)
        except AwsError as fault:
            if "ResourceNotFound" not in str(fault):
                raise
            create_stream(node, group, stream)
            node.aws.call(*call)


#: Units that are no part of this program, and log one JSON line for each event.
UNITS = ("gpu-software", "gpu-mig", "gpu-metadata", "gpu-scratch", "gpu-nfs", "gpu-lustre", "gpu-exporters")
_TIMEOUT_SECONDS = 30
_MEMORY = "shipping"


def collect_journal() -> None:
    """Spool the journal of these units since the last call; nothing if there is no journal.

    journalctl is started only if a unit has run since: each leaves its result in a file.
    """
    try:
        cursor = paths.state_folder() / "journal.cursor"
        results = [_changed_at(paths.state_folder() / f"{unit.partition('-')[2]}.json") for unit in UNITS]
    except OSError:
        return
    known = {"results": results}
    before = recall(_MEMORY)
    # The lines of a unit may come after its result: once more in the next call.
    if before.get("results") == results and before.get("settled"):
        return
    with suppress(OSError):
        remember(_MEMORY, {**known, "settled": before.get("results") == results})
    units = [f"--unit={unit}.service" for unit in UNITS]
    options = ("--quiet", "--no-pager", "--output=json", f"--cursor-file={cursor}")
    outcome = run("journalctl", *options, *units, timeout_seconds=_TIMEOUT_SECONDS)
    for line in outcome.output.splitlines() if outcome.ok else ():
        _keep(line)


def _changed_at(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _keep(line: str) -> None:
    try:
        entry = json.loads(line)
        milliseconds, message = int(entry["__REALTIME_TIMESTAMP"]) // 1000, entry["MESSAGE"]
        unit = str(entry.get("_SYSTEMD_UNIT") or entry.get("UNIT") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    if isinstance(message, str):  # a message that is no text is a list of bytes
        spool.keep("events", _record(unit.partition(".")[0], message), milliseconds=milliseconds)


def _record(unit: str, message: str) -> dict[str, Any]:
    try:
        record = json.loads(message)
    except ValueError:
        record = None
    return record if isinstance(record, dict) else {"stage": unit, "state": "said", "reason": message}
