"""Scrape configurations, judged by Prometheus' own checker, and the targets that a real Prometheus finds by DNS."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters import Exporter, ScrapeTarget, scrape_configuration
from cdk_gpu_clusters.rules.scrape import MOST_NODES

#: What AWS's managed collectors support. Source: Amazon CloudWatch user guide, "Scraper configuration".
SUPPORTED = {
    "job_name",
    "metrics_path",
    "scheme",
    "scrape_interval",
    "scrape_timeout",
    "static_configs",
    "dns_sd_configs",
    "relabel_configs",
    "metric_relabel_configs",
    "tls_config",
}
MANY, ONE, NONE = (f"{name}.metrics.internal" for name in ("many", "one", "none"))
RECORDS = {MANY: [f"127.1.0.{number}" for number in range(1, MOST_NODES + 1)], ONE: ["127.1.1.1"]}
RESOLVER = "127.53.0.1"
SECONDS = 60.0

TARGETS: dict[str, list[ScrapeTarget]] = {
    **{f"{one.name} by name": one.at(dns_name=MANY, labels={"fleet": "App/Many$1"}) for one in Exporter},
    **{f"{one.name} at addresses": one.at(addresses=["10.0.0.1", "lb.example"], labels={"a": "b"}) for one in Exporter},
    "all": [
        *(
            target
            for one in Exporter
            for name in (MANY, ONE)
            for target in one.at(dns_name=name, labels={"fleet": name})
        ),
        *(target for one in Exporter for target in one.at(addresses=["10.0.0.1"])),
    ],
}


@pytest.mark.parametrize("name", TARGETS)
def test_prometheus_takes_the_configuration(promtool: str, tmp_path: Path, name: str) -> None:
    text = scrape_configuration(TARGETS[name])
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    done = subprocess.run(
        [promtool, "check", "config", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    configuration = yaml.safe_load(text)
    assert set(configuration) <= {"global", "scrape_configs"}
    assert {key for job in configuration["scrape_configs"] for key in job} <= SUPPORTED
    jobs = [job["job_name"] for job in configuration["scrape_configs"]]
    assert len(jobs) == len(set(jobs)) == len({target.job for target in TARGETS[name]})


def test_the_checker_finds_faults(promtool: str, tmp_path: Path) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(scrape_configuration(TARGETS["all"]).replace("scrape_timeout: 10s", "scrape_timeout: 61s"))
    done = subprocess.run([promtool, "check", "config", str(file)], capture_output=True, check=False, timeout=60)
    assert done.returncode != 0


class Resolver:
    """A DNS server of A records, as Route 53 answers: all values, or over TCP what is too long for a packet."""

    def __init__(self, records: Mapping[str, Sequence[str]]) -> None:
        self._records = records
        self._packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._packets.bind((RESOLVER, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, client = self._packets.recvfrom(4096)
            self._packets.sendto(self._answer(question), client)

    def _answer(self, question: bytes) -> bytes:
        end = question.index(b"\0", 12)
        labels, at = [], 12
        while at < end:
            labels.append(question[at + 1 : at + 1 + question[at]].decode())
            at += 1 + question[at]
        found = self._records.get(".".join(labels))
        answers = b"".join(
            struct.pack("!HHHIH", 0xC00C, 1, 1, 30, 4) + socket.inet_aton(address) for address in found or ()
        )
        assert len(answers) + end + 5 < 4096, "Route 53 sends 4,096 bytes in a packet at most"
        code = 0x8180 if found is not None else 0x8183
        header = question[:2] + struct.pack("!HHHHH", code, 1, len(found or ()), 0, 0)
        return header + question[12 : end + 5] + answers


@pytest.fixture
def targets_found(prometheus: str, tmp_path: Path) -> Iterator[Any]:
    """The targets of a Prometheus whose resolver knows `RECORDS`, by job."""
    Resolver(RECORDS)
    resolver = tmp_path / "resolv.conf"
    resolver.write_text(f"nameserver {RESOLVER}\n")
    config = tmp_path / "prometheus.yml"
    names = {MANY: {"fleet": "App/Many$1"}, ONE: {"fleet": "App/One"}, NONE: {"fleet": "App/None"}}
    config.write_text(
        scrape_configuration(
            [
                *(target for name in names for target in Exporter.GPUNODE.at(dns_name=name)),
                *(
                    target
                    for name, labels in names.items()
                    for target in Exporter.DCGM.at(dns_name=name, labels=labels)
                ),
                *Exporter.SLURMCTLD.at(addresses=["127.1.2.1"], labels={"cluster": "lab"}),
            ]
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # In a mount namespace of its own: Prometheus reads /etc/resolv.conf.
    line = f'mount --bind {resolver} /etc/resolv.conf && exec "$@"'
    options = [
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", line, "sh", prometheus, *options], stdout=output, stderr=output
        ) as process,
    ):
        try:
            yield _found(f"http://127.0.0.1:{port}/api/v1/targets", process, log)
        finally:
            process.kill()


def _found(url: str, process: subprocess.Popen[bytes], log: Path) -> dict[str, list[dict[str, str]]]:
    end = time.monotonic() + SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        by_job = defaultdict(list)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
                for one in json.load(answer)["data"]["activeTargets"]:
                    by_job[one["labels"]["job"]].append(one["labels"])
        except OSError:
            pass
        if len(by_job["dcgm"]) == len(by_job["gpunode"]) == MOST_NODES + 1:
            return by_job
        assert time.monotonic() < end, (dict(by_job), log.read_text())
        time.sleep(0.5)


def test_prometheus_finds_every_node_of_a_record(targets_found: dict[str, list[dict[str, str]]]) -> None:
    addresses = {address for each in RECORDS.values() for address in each}
    assert {one["instance"] for one in targets_found["gpunode"]} == {f"{address}:9810" for address in addresses}
    assert {tuple(one) for one in targets_found["gpunode"]} == {("instance", "job")}
    fleets = {one["instance"]: one["fleet"] for one in targets_found["dcgm"]}
    assert fleets["127.1.0.1:9400"] == "App/Many$1"
    assert fleets["127.1.1.1:9400"] == "App/One"
    assert set(fleets.values()) == {"App/Many$1", "App/One"}
    assert targets_found["slurmctld-jobs"] == [
        {"cluster": "lab", "instance": "127.1.2.1:6817", "job": "slurmctld-jobs"}
    ]
