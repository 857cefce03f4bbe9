"""`/healthz`: when a node may work, and a server that no client can hold up."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import health, paths, state
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from cdk_gpu_clusters.node.gpunode.health import Health, HealthServer, assess, late_seconds
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(tmp_path))
    return tmp_path


def known(severity: Severity = Severity.OK, **more: Any) -> dict[str, Any]:
    symptom = {"key": "xid-79", "severity": severity.name, "reason": "Xid 79\n token=abc"}
    opened = [{"probe": "kernel", "symptom": symptom}] if severity else []
    return {"at": paths.uptime_seconds(), "severity": int(severity), "open": opened, "handled": [], **more}


def judged(stored: dict[str, Any], *, acts_from: Severity = Severity.REBOOT, dry_run: bool = False) -> Health:
    return assess(stored, acts_from=acts_from, dry_run=dry_run, late_seconds=30)


@pytest.mark.parametrize(
    ("severity", "acts_from", "state_word"),
    [
        (Severity.OK, Severity.REBOOT, "ok"),
        (Severity.UNKNOWN, Severity.REBOOT, "ok"),
        (Severity.RESET, Severity.REBOOT, "ok"),
        (Severity.RESET, Severity.RESET, "unhealthy"),
        (Severity.REBOOT, Severity.REBOOT, "unhealthy"),
        (Severity.REPLACE, Severity.REBOOT, "unhealthy"),
    ],
)
def test_node_may_work_below_the_severity_that_acts(
    root: Path, severity: Severity, acts_from: Severity, state_word: str
) -> None:
    found = judged(known(severity), acts_from=acts_from)
    assert (found.state, found.may_work) == (state_word, state_word == "ok")


def test_reasons_are_quoted_and_hold_no_secrets(root: Path) -> None:
    assert judged(known(Severity.REPLACE)).reasons == ("Xid 79 token=[redacted]",)


def test_symptoms_that_require_no_action_are_listed_once(root: Path) -> None:
    found = judged(known(Severity.MONITOR, open=[], seen=["the disk is full", "the disk is full", "slow clocks"]))
    assert (found.may_work, found.reasons) == (True, ("the disk is full", "slow clocks"))


def test_node_that_ends_is_repaired_or_not_watched_may_not_work(root: Path) -> None:
    assert judged({}).state == "starting"
    assert judged(known(at=paths.uptime_seconds() - 31)).state == "late"
    repairing = judged(known(Severity.RESET, repair="reset, wait: Xid 95"))
    assert (repairing.state, repairing.reasons[0]) == ("repairing", "reset, wait: Xid 95")
    state.announce("spot-interruption")
    assert judged(known()) == Health("ending", Severity.OK, ("spot-interruption",))


def test_dry_run_lets_nobody_act_by_its_findings(root: Path) -> None:
    assert judged(known(Severity.REPLACE), dry_run=True).may_work


@pytest.mark.parametrize("broken", [{"severity": "x"}, {"at": None}, {"open": 3}, {"open": [3]}, {"open": [{}]}])
def test_state_of_another_version_breaks_nothing(root: Path, broken: dict[str, Any]) -> None:
    assert judged({**known(), **broken}).state in ("ok", "late")


def test_polls_of_half_a_minute_are_not_late() -> None:
    assert (late_seconds(10), late_seconds(30)) == (30, 90)


class Service:
    """A server in a thread."""

    def __init__(self) -> None:
        self.health = Health("ok", Severity.OK)
        self.server = HealthServer(lambda: self.health)
        self.port = self.server.listen("127.0.0.1", 0)
        threading.Thread(target=self.server.serve, daemon=True).start()

    def ask(self, method: str = "GET", path: str = "/healthz", port: int | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=5)
        connection.request(method, path)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    def open(self, data: bytes = b"") -> socket.socket:
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        peer.sendall(data)
        return peer


@pytest.fixture
def service(root: Path) -> Service:
    return Service()


def test_healthy_node_answers_200_and_an_unhealthy_one_503(service: Service) -> None:
    status, body = service.ask()
    assert status == 200
    assert {**json.loads(body), "since": ""} == {"state": "ok", "severity": "ok", "since": "", "reasons": []}
    service.health = Health("unhealthy", Severity.REPLACE, ("Xid 79",))
    status, body = service.ask()
    assert (status, json.loads(body)["reasons"]) == (503, ["Xid 79"])
    assert service.ask("HEAD") == (503, "")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/healthz/../etc", 404), ("GET", "/healthz?x", 404), ("POST", "/healthz", 405)],
)
def test_nothing_else_is_served(service: Service, method: str, path: str, status: int) -> None:
    assert service.ask(method, path) == (status, "{}\n")


@pytest.mark.parametrize("request_bytes", [b"\r\n\r\n", b"GET /healthz\r\n\r\n", b"\x16\x03\x01\n\n", b"x" * 5_000])
def test_what_is_no_request_is_refused(service: Service, request_bytes: bytes) -> None:
    with service.open(request_bytes) as peer:
        assert peer.recv(100).startswith(b"HTTP/1.1 400 ")


def test_slow_and_silent_clients_hold_nobody_up(service: Service) -> None:
    peers = [service.open(b"GET /hea") for _ in range(200)]
    begin = time.monotonic()
    assert service.ask()[0] == 200
    # One after the other, they would take 200 times as long as each may be silent.
    assert time.monotonic() - begin < 20
    deadline = time.monotonic() + 20
    while service.server._clients and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not service.server._clients
    for peer in peers:
        peer.close()


def test_request_in_pieces_is_answered_once_and_the_connection_ends(service: Service) -> None:
    peer = service.open(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    time.sleep(0.1)
    peer.sendall(b"\r\nGET /healthz HTTP/1.1\r\n\r\n")
    with peer:
        answer = b"".join(iter(lambda: peer.recv(4096), b""))
    assert answer.count(b"HTTP/1.1") == 1
    assert b"Connection: close" in answer


def test_clients_outside_the_ranges_get_no_answer(service: Service) -> None:
    inside = service.server.listen("127.0.0.1", 0, ["127.0.0.0/8"])
    outside = service.server.listen("127.0.0.1", 0, ["10.0.0.0/16"])
    assert service.ask(port=inside)[0] == 200
    with pytest.raises((http.client.HTTPException, OSError)):
        service.ask(port=outside)


def test_assessment_that_fails_once_does_not_end_the_server(service: Service) -> None:
    good, service.health = service.health, None  # type: ignore[assignment]
    with pytest.raises((http.client.HTTPException, OSError)):
        service.ask()
    service.health = good
    assert service.ask()[0] == 200


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, root: Path) -> Callable[..., int]:
    """Starts the server of a node with settings, at a port that is free now."""
    monkeypatch.setattr(health, "_RETRY_SECONDS", 0.2)
    monkeypatch.setattr(Metadata, "wait_for", lambda *_, **__: "127.0.0.2")

    def serve(**settings: str) -> int:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        node = Node(Settings({"health_port": str(port), **settings}), Metadata(), "i-1", Aws("us-east-2"))
        health.serve_health(node, lambda: Health("ok", Severity.OK))
        return port

    return serve


def answers(address: str, port: int, seconds: float = 3) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection = http.client.HTTPConnection(address, port, timeout=2)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    return False


def test_node_listens_on_loopback_and_on_request_on_its_primary_interface(serve: Callable[..., int]) -> None:
    port = serve()
    assert answers("127.0.0.1", port)
    assert not answers("127.0.0.2", port, 0.5)
    port = serve(health_from="127.0.0.0/8 10.0.0.0/16")
    assert answers("127.0.0.1", port)
    assert answers("127.0.0.2", port)


def test_port_that_is_taken_is_tried_again(serve: Callable[..., int], capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        serve(health_port=str(port))
        time.sleep(0.3)
    assert answers("127.0.0.1", port)
    assert "cannot listen" in capfd.readouterr().err


def test_port_0_serves_nothing(serve: Callable[..., int]) -> None:
    threads = threading.active_count()
    serve(health_port="0")
    assert threading.active_count() == threads
