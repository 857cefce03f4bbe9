"""The scrape configuration of a cluster of Amazon EKS: what Prometheus' checker and a real collector make of it.

Debian builds Prometheus without its discovery by Kubernetes. `vmagent` of VictoriaMetrics has it, and reads the same
configuration.
"""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
import yaml

from cdk_gpu_clusters import EKS_POD_TARGETS, PodTarget, eks_scrape_configuration
from prometheus_server import Server, eventually

#: What AWS's managed collectors support of a cluster. Source: Amazon Managed Service for Prometheus user guide,
#: "Scraper configuration".
SUPPORTED = {"job_name", "metrics_path", "scheme", "kubernetes_sd_configs", "relabel_configs"}
FLEETS = ["trainers", "a.b"]
OWN = PodTarget(
    job="triton", ports=[8002, 8003], path="/m", pod_labels={"app.kubernetes.io/name": "a.b"}, namespaces=["research"]
)
TEXT = eks_scrape_configuration([*EKS_POD_TARGETS, OWN], fleets=FLEETS, cluster_name="lab")


def node(name: str, address: str, **labels: str) -> dict[str, Any]:
    found = {f"gpu-cluster/{key}": value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "labels": found, "resourceVersion": "1"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def pod(
    name: str, address: str, container_name: str, *ports: int, phase: str = "Running", **about: Any
) -> dict[str, Any]:
    container = {"name": container_name, "ports": [{"containerPort": port} for port in ports]}
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    return {
        "metadata": {**metadata, **about},
        "spec": {"nodeName": "gpu-1", "containers": [container]},
        "status": {"phase": phase, "podIP": address, "hostIP": "127.2.0.1"},
    }


NODES = [
    node("gpu-1", "127.2.0.1", fleet="trainers"),
    node("gpu-2", "127.2.0.2", fleet="a.b"),
    node("system", "127.2.0.3"),
    node("other", "127.2.0.4", fleet="axb"),
]
_RAY: dict[str, Any] = {"labels": {"ray.io/is-ray-node": "yes"}}
_MINE: dict[str, Any] = {"labels": {"app.kubernetes.io/name": "a.b"}, "namespace": "research"}
PODS = [
    pod("dcgm", "127.2.1.1", "exporter", 9400),
    pod("done", "127.2.1.2", "exporter", 9400, phase="Succeeded"),
    pod("chat", "127.2.1.3", "server", 8000, 8001),
    pod("sidecar", "127.2.1.4", "server-2", 8000),
    pod("head", "127.2.1.5", "ray-head", 6379, 8080, **_RAY),
    pod("web", "127.2.1.6", "nginx", 8080),
    pod("mine", "127.2.1.7", "triton-server", 8001, 8002, 8003, **_MINE),
    pod("theirs", "127.2.1.8", "triton-server", 8002, labels=_MINE["labels"]),
]
#: Addresses that each job scrapes.
EXPECTED = {
    "gpunode": {"127.2.0.1:9810", "127.2.0.2:9810"},
    "dcgm": {"127.2.1.1:9400"},
    "vllm": {"127.2.1.3:8000"},
    "ray": {"127.2.1.5:8080"},
    "triton": {"127.2.1.7:8002", "127.2.1.7:8003"},
}


def test_prometheus_takes_the_configuration(promtool: str, tmp_path: Path) -> None:
    configuration = yaml.safe_load(TEXT)
    assert {key for job in configuration["scrape_configs"] for key in job} == SUPPORTED
    for job in configuration["scrape_configs"]:
        assert [set(one) <= {"role", "namespaces"} for one in job.pop("kubernetes_sd_configs")] == [True]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    command = [promtool, "check", "config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Lists(BaseHTTPRequestHandler):
    """The lists of an API server of Kubernetes; a watch has no news until the test ends."""

    protocol_version = "HTTP/1.1"
    ended = threading.Event()

    def do_GET(self) -> None:
        url = urlparse(self.path)
        *_, kind = url.path.split("/")
        parts = url.path.split("/")
        found = NODES if kind == "nodes" else PODS
        if "namespaces" in parts:
            found = [one for one in found if one["metadata"]["namespace"] == parts[parts.index("namespaces") + 1]]
        body = {"kind": f"{kind[:-1].title()}List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
        answer = json.dumps({**body, "items": found}).encode()
        is_watch = "watch" in parse_qs(url.query)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header(*(("Transfer-Encoding", "chunked") if is_watch else ("Content-Length", str(len(answer)))))
        self.end_headers()
        if is_watch:
            self.wfile.flush()
            self.ended.wait(60)
            self.close_connection = True
            return
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Lists) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        Lists.ended.set()
        server.shutdown()


@contextmanager
def collecting(vmagent: str, folder: Path, configuration: dict[str, Any]) -> Iterator[Server]:
    """A collector with its data in a folder."""
    file, log = folder / "prometheus.yml", folder / "log"
    file.write_text(yaml.safe_dump(configuration))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {
        "httpListenAddr": f"127.0.0.1:{port}",
        "promscrape.config": file,
        "promscrape.config.strictParse": "true",
        "remoteWrite.url": "http://127.0.0.1:1/none",
        "remoteWrite.tmpDataPath": folder / "data",
    }
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [vmagent, *(f"-{name}={value}" for name, value in options.items())], stdout=output, stderr=output
        ) as process,
    ):
        try:
            yield Server(port)
        except AssertionError as fault:
            raise AssertionError(log.read_text()) from fault
        finally:
            process.kill()


def test_a_collector_finds_what_serves_metrics(vmagent: str, api_server: str, tmp_path: Path) -> None:
    configuration = yaml.safe_load(TEXT)
    for job in configuration["scrape_configs"]:
        for discovery in job["kubernetes_sd_configs"]:
            discovery["api_server"] = api_server
    with collecting(vmagent, tmp_path, configuration) as server:

        def labels() -> dict[str, list[dict[str, str]]]:
            by_job: dict[str, list[dict[str, str]]] = defaultdict(list)
            for one in server.ask("targets")["activeTargets"]:
                by_job[one["labels"]["job"]].append({**one["labels"], "url": one["scrapeUrl"]})
            return by_job

        eventually(lambda: set(labels()) == set(EXPECTED))
        found = labels()
    scraped = {job: {urlparse(one["url"]).netloc for one in targets} for job, targets in found.items()}
    assert scraped == EXPECTED
    paths = {job: {urlparse(one["url"]).path for one in targets} for job, targets in found.items()}
    assert paths == {job: {"/m" if job == "triton" else "/metrics"} for job in EXPECTED}
    assert [{key: one[key] for key in ("namespace", "pod", "node")} for one in found["dcgm"]] == [
        {"namespace": "default", "pod": "dcgm", "node": "gpu-1"}
    ]
    assert {one["node"] for one in found["gpunode"]} == {"gpu-1", "gpu-2"}
