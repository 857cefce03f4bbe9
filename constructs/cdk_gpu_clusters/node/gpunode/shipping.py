"""Carries spooled records to CloudWatch Logs, in batches; what AWS does not take now is kept for the next time."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import paths
from .aws import AwsError
from .events import spool_file
from .node import Node

# CloudWatch Logs API reference, PutLogEvents: at most 10,000 events and 1,048,576 bytes with 26 bytes for each event,
# and no batch longer than 24 hours.
_BATCH_EVENTS = 10_000
_BATCH_BYTES = 1_048_576
_EVENT_BYTES = 26
_BATCH_MILLISECONDS = 24 * 60 * 60 * 1000
# The JSON file of the call quotes what a batch holds; half of the limit leaves room for it.
_CAREFUL_BYTES = _BATCH_BYTES // 2


def ship(node: Node, spool: str, *, stream: str) -> int:
    """Carry a spool to the log group of the fleet.

    Args:
        node: This node.
        spool: Spool, such as `events`.
        stream: Log stream; made where it does not exist.

    Returns:
        Records carried.

    Raises:
        AwsError: If AWS takes nothing; the records stay.
    """
    group = node.settings.text("log_group")
    if not group:
        return 0
    carried = 0
    for file in _sealed(spool):
        records = sorted(_records(file), key=lambda record: int(record["timestamp"]))
        for batch in _batches(records):
            _put(node, group, stream, batch)
            carried += len(batch)
        file.unlink()
    return carried


def _sealed(spool: str) -> list[Path]:
    """The files to carry: what an earlier try left, and what was written since, which nobody writes to any more."""
    current = spool_file(spool)
    sealed = current.with_suffix(".sending")
    if not sealed.exists() and current.exists():
        current.replace(sealed)
    return [sealed] if sealed.exists() else []


def _records(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a spool; a line that a full disk cut short is left out."""
    for line in paths.read_text(file).splitlines():
        record = _record(line)
        if record is not None:
            yield record


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
        return {"timestamp": int(record["timestamp"]), "message": str(record["message"])}
    except (ValueError, KeyError, TypeError):
        return None


def _batches(records: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        weight = len(record["message"].encode()) + _EVENT_BYTES
        full = len(batch) >= _BATCH_EVENTS or size + weight > _CAREFUL_BYTES
        if batch and (full or record["timestamp"] - batch[0]["timestamp"] >= _BATCH_MILLISECONDS):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += weight
    if batch:
        yield batch


def _put(node: Node, group: str, stream: str, batch: list[dict[str, Any]]) -> None:
    where = ("--log-group-name", group, "--log-stream-name", stream)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(batch, file)
        file.flush()
        events = ("--log-events", f"file://{file.name}")
        try:
            node.aws.call("logs", "put-log-events", *where, *events)
        except AwsError as fault:
            if "ResourceNotFound" not in str(fault):
                raise
            _make_stream(node, where)
            node.aws.call("logs", "put-log-events", *where, *events)


def _make_stream(node: Node, where: tuple[str, ...]) -> None:
    try:
        node.aws.call("logs", "create-log-stream", *where)
    except AwsError as fault:
        if "ResourceAlreadyExists" not in str(fault):
            raise
