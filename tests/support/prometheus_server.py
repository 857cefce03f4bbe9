"""A real Prometheus on loopback, and the simulated day in it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cdk_gpu_clusters.node.gpunode.metrics.exposition import LABELS, MEASURED_AT
from cdk_gpu_clusters.node.gpunode.metrics.names import FLEET, INSTANCE, METRICS, NAMESPACE
from simulated_day import MINUTES, START, Metrics

SECONDS = 60.0
# Half the points, and two of 32 EFA devices: every line has its form, and Prometheus reads them in seconds.
_EACH_MINUTES, _MOST_EFA_DEVICES = 2, 2


class Server:
    """The HTTP API of a Prometheus."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"{self._address}/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
            return json.load(answer)["data"]

    def values(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=query)["result"]
        return found

    def raised(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}


def eventually(is_true: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            if is_true():
                return
        except OSError:
            pass
        assert time.monotonic() < end
        time.sleep(0.2)


@contextmanager
def running(prometheus: str, folder: Path, configuration: Mapping[str, Any], *options: str) -> Iterator[Server]:
    """A Prometheus with its data in a folder, when it answers."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(configuration)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        prometheus,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        *options,
    ]
    made, log = Server(port), folder / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(lambda: process.poll() is not None or made.values("vector(1)"))
            assert process.poll() is None, log.read_text()
            yield made
        finally:
            process.kill()


def load(promtool: str, folder: Path, lines: Iterator[str]) -> None:
    """Put samples in the text format of OpenMetrics into the data of a Prometheus."""
    file = folder / "samples.txt"
    with file.open("w") as output:
        output.writelines(f"{line}\n" for line in lines)
        output.write("# EOF\n")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(file), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    file.unlink()


def scraped(day: Metrics) -> Iterator[str]:
    """The day as nodes serve it, minute after minute: gauges, counters of events, and the time of each measurement."""
    by_name = {metric.name: metric for metric in METRICS}
    minutes = range(START // 60, START // 60 + MINUTES, _EACH_MINUTES)
    for (namespace, name, dimensions), values in day.values.items():
        of = dict(dimensions)
        if namespace != NAMESPACE or INSTANCE not in of or by_name[name].per == "event":
            continue
        for minute in minutes:
            yield from _samples(name, of, values.get(minute, ()), minute)
    for node in sorted({dimensions for _, _, dimensions in day.values if dict(dimensions).get(INSTANCE)}):
        for metric in METRICS:
            if metric.per == "event":
                events = day.values.get((NAMESPACE, metric.name, node), {})
                for minute in minutes:
                    count = sum(sum(found) for at, found in events.items() if at <= minute)
                    yield from _samples(metric.name, dict(node), [count], minute)
        for minute in minutes:
            yield f"{MEASURED_AT}{_labels(dict(node))} {minute * 60} {minute * 60}"


def _samples(name: str, of: Mapping[str, str], values: Sequence[float], minute: int) -> Iterator[str]:
    metric = next(one for one in METRICS if one.name == name)
    most = _MOST_EFA_DEVICES if metric.per == "EFA device" else None
    for number, value in enumerate(values[:most]):
        own = {LABELS[metric.per]: str(number)} if metric.per in LABELS else {}
        yield f"{metric.prometheus_name}{_labels(of, **own)} {value} {minute * 60}"


def _labels(of: Mapping[str, str], **own: str) -> str:
    labels = {"fleet": of[FLEET], "instance_id": of[INSTANCE], **own}
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"
