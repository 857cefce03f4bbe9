"""Records on their way to CloudWatch Logs: batches within the limits, outages, and clocks that were wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import paths, shipping, spool
from cdk_gpu_clusters.node.gpunode.node import Aws, AwsError, Metadata, Node, Settings

INSTANCE = "i-0123456789abcdef0"
HOUR = 60 * 60 * 1000


class Logs(Aws):
    """CloudWatch Logs with its limits.

    Attributes:
        batches: What each call brought, with its stream.
        fault: Why it takes nothing now; after as many more calls as `patience`.
    """

    def __init__(self) -> None:
        super().__init__("us-east-2")
        self.streams: set[str] = set()
        self.batches: list[tuple[str, list[dict[str, Any]]]] = []
        self.fault, self.patience = "", 0

    def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
        assert service == "logs"
        options = {arguments[at]: arguments[at + 1] for at in range(0, len(arguments), 2)}
        assert options["--log-group-name"] == "/gpu-cluster/trainers"
        stream = options["--log-stream-name"]
        if operation == "create-log-stream":
            self.streams.add(stream)
            return None
        if self.fault and self.patience <= 0:
            raise AwsError(self.fault)
        self.patience -= 1
        if stream not in self.streams:
            raise AwsError("An error occurred (ResourceNotFoundException)")
        events = json.loads(Path(options["--log-events"].removeprefix("file://")).read_text())
        self._check(events)
        self.batches.append((stream, events))
        return {}

    @staticmethod
    def _check(events: list[dict[str, Any]]) -> None:
        times = [event["timestamp"] for event in events]
        assert 0 < len(events) <= 10_000
        assert sum(len(event["message"].encode()) + 26 for event in events) <= 1_048_576
        assert all(len(event["message"].encode()) <= 256 * 1024 for event in events)
        assert times == sorted(times)
        assert times[-1] - times[0] < 24 * HOUR
        now = time.time() * 1000
        assert now - 14 * 24 * HOUR < times[0]
        assert times[-1] < now + 2 * HOUR

    def messages(self, stream: str = INSTANCE) -> list[dict[str, Any]]:
        return [json.loads(event["message"]) for name, batch in self.batches for event in batch if name == stream]

    def numbers(self) -> list[int]:
        return [message["n"] for message in self.messages() if "n" in message]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Logs:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return Logs()


@pytest.fixture
def node(logs: Logs) -> Node:
    return Node(Settings({"log_group": "/gpu-cluster/trainers"}), Metadata(), INSTANCE, logs)


def fill(count: int, first: int = 0, **more: Any) -> None:
    for number in range(first, first + count):
        spool.keep("events", {"n": number, **more})


def test_events_and_metrics_go_to_streams_of_their_own(logs: Logs, node: Node) -> None:
    fill(2)
    spool.keep("metrics", {"n": 3})
    assert shipping.ship(node) == 3
    assert logs.numbers() == [0, 1]
    assert logs.messages(f"{INSTANCE}/metrics") == [{"n": 3}]
    assert shipping.ship(node) == 0
    assert len(logs.batches) == 2


def test_nothing_is_lost_or_sent_twice_in_an_outage(logs: Logs, node: Node) -> None:
    fill(5)
    logs.fault = "Could not connect to the endpoint URL"
    for first in (5, 10):
        with pytest.raises(AwsError, match="Could not connect"):
            shipping.ship(node)
        fill(5, first)
    logs.fault = ""
    shipping.ship(node)
    assert logs.numbers() == list(range(15))


def test_batches_that_arrived_are_not_sent_again(logs: Logs, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_BATCH_EVENTS", 4)
    fill(10)
    shipping.ship(node)
    fill(10, 10)
    logs.fault, logs.patience = "An error occurred (ServiceUnavailable)", 2
    with pytest.raises(AwsError):
        shipping.ship(node)
    assert logs.numbers() == list(range(18))
    logs.fault = ""
    shipping.ship(node)
    assert logs.numbers() == list(range(20))


def test_big_spools_go_in_batches_within_the_limits(logs: Logs, node: Node) -> None:
    fill(40, padding="x" * 60_000)
    shipping.ship(node)
    assert logs.numbers() == list(range(40))
    assert len(logs.batches) > 2


def test_a_record_that_is_too_long_is_named_instead(logs: Logs, node: Node) -> None:
    spool.keep("events", {"evidence": "x" * 300_000})
    fill(1)
    shipping.ship(node)
    told, _ = logs.messages()
    assert told["state"] == "dropped"
    assert told["begin"].startswith('{"evidence": "xxx')


def test_a_wrong_clock_holds_nothing_up(logs: Logs, node: Node) -> None:
    """Of before the clock was set, of after it jumped ahead, and of more than a day."""
    now = int(time.time() * 1000)
    for number, moment in enumerate((0, now + 30 * HOUR, now - 30 * HOUR, now - 3 * HOUR)):
        spool.keep("events", {"n": number}, milliseconds=moment)
    shipping.ship(node)
    assert sorted(logs.numbers()) == [0, 1, 2, 3]
    assert len(logs.batches) == 2


def test_a_line_that_a_full_disk_cut_short_is_left_out(logs: Logs, node: Node) -> None:
    fill(1)
    with (paths.state_folder() / "spool/events.jsonl").open("a") as file:
        file.write('{"timestamp": 1, "mess\n[]\n\0\n')
    fill(1, 1)
    shipping.ship(node)
    assert logs.numbers() == [0, 1]


def test_what_aws_will_never_take_is_dropped_and_counted(logs: Logs, node: Node) -> None:
    fill(1)
    shipping.ship(node)
    fill(2, 1)
    logs.fault = "An error occurred (InvalidParameterException) when calling the PutLogEvents operation: odd"
    shipping.ship(node)
    logs.fault = ""
    fill(1, 3)
    shipping.ship(node)
    assert logs.numbers() == [0, 3]
    [told] = [message for message in logs.messages() if "records" in message]
    assert told["records"] == 2
    assert "odd" in told["reason"]


def test_two_programs_do_not_send_the_same(logs: Logs, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_TURN_SECONDS", 0.05)
    fill(1)
    with (
        spool.locked(paths.run_folder() / "shipping.lock", 0),
        pytest.raises(AwsError, match="another program"),
    ):
        shipping.ship(node)
    shipping.ship(node)
    assert logs.numbers() == [0]


def test_a_fleet_without_a_log_group_keeps_its_records(logs: Logs) -> None:
    fill(1)
    assert shipping.ship(Node(Settings(), Metadata(), INSTANCE, logs)) == 0
    assert logs.batches == []


def test_what_the_storage_units_said_goes_along(logs: Logs, node: Node, tmp_path: Path) -> None:
    """Once: the journal keeps the place in a file."""
    now = int(time.time() * 1_000_000)
    said: list[dict[str, object]] = [
        {"_SYSTEMD_UNIT": "gpu-mig.service", "MESSAGE": '{"stage": "mig", "state": "ok"}'},
        {"UNIT": "gpu-lustre.service", "MESSAGE": "Started gpu-lustre.service."},
        {"_SYSTEMD_UNIT": "gpu-mig.service", "MESSAGE": [255, 254]},
        {"MESSAGE": None},
    ]
    entries = "\n".join(json.dumps({"__REALTIME_TIMESTAMP": str(now), **entry}) for entry in said)
    (tmp_path / "tools").mkdir()
    program = tmp_path / "tools/journalctl"
    program.write_text(
        f"#!/bin/sh\nfor option; do case $option in --cursor-file=*) cursor=${{option#*=}};; esac; done\n"
        f"[ -e $cursor ] || printf '%s\\nnoise\\n' '{entries}'\n: >$cursor\n"
    )
    program.chmod(0o755)
    shipping.ship(node)
    shipping.ship(node)
    started = {"stage": "gpu-lustre", "state": "said", "reason": "Started gpu-lustre.service."}
    assert logs.messages() == [{"stage": "mig", "state": "ok"}, started]


def test_the_units_are_those_of_the_node(logs: Logs) -> None:
    files = Path(shipping.__file__).parents[1] / "files"
    assert all((files / f"{unit}.service").exists() for unit in shipping.UNITS)
