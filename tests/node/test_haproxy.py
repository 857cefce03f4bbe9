"""The balancer's configuration in the real HAProxy, in front of 56 servers on loopback."""

from __future__ import annotations

import csv
import http.client
import io
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.model_server import NODE_DRAIN_PATH, NODE_HEALTH_PATH, ServerSettings, render_haproxy
from loopback_haproxy import free_ports, listens, on_loopback, settings_of
from toy_servers import ToyServers

COUNT = 56
MINIMUM = 28


@dataclass
class Proxy:
    """A running HAProxy."""

    settings: ServerSettings
    process: subprocess.Popen[bytes]

    @contextmanager
    def answer(self, path: str) -> Iterator[http.client.HTTPResponse]:
        """One request on a connection of its own; the body is still to be read."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.settings.plan.port, timeout=10)) as connection:
            connection.request("GET", path)
            with connection.getresponse() as response:
                yield response

    def ask(self, path: str = "/") -> tuple[int, str]:
        """Status and text of one request."""
        with self.answer(path) as response:
            return response.status, response.read().decode().strip()

    def states(self) -> dict[int, str]:
        """What HAProxy thinks of each server that it has checked: UP, DOWN or in between."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.settings.plan.stats_port, timeout=10)) as connection:
            connection.request("GET", "/;csv")
            rows = csv.DictReader(io.StringIO(connection.getresponse().read().decode()))
        return {
            int(row["svname"][1:]): row["status"]
            for row in rows
            if row["# pxname"] == "servers" and row["svname"] != "BACKEND" and row["check_status"] != "INI"
        }

    def up(self) -> set[int]:
        """The servers that are up and checked."""
        return {index for index, state in self.states().items() if state == "UP"}


def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.1)


@pytest.fixture
def servers() -> Iterator[ToyServers]:
    with ToyServers(COUNT) as running:
        yield running


@pytest.fixture
def proxy(haproxy: str, servers: ToyServers, tmp_path: Path) -> Iterator[Proxy]:
    """HAProxy in front of the servers, with quick checks, when it has checked them all."""
    port, stats_port = free_ports(2)
    settings = settings_of(
        COUNT, port=port, stats_port=stats_port, minimum_servers=MINIMUM, idle_timeout_seconds=2, drain_seconds=20
    )
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(on_loopback(settings, servers.ports))
    with subprocess.Popen([haproxy, "-db", "-f", str(configuration)], stdout=subprocess.DEVNULL) as process:
        running = Proxy(settings, process)
        try:
            eventually(lambda: listens(stats_port))
            eventually(lambda: len(running.up()) == COUNT)
            yield running
        finally:
            process.kill()


@pytest.mark.parametrize("count", [1, 2, 7, 8, 16, COUNT])
@pytest.mark.parametrize("limit", [None, 4])
def test_the_real_program_accepts_the_configuration(
    haproxy: str, tmp_path: Path, count: int, limit: int | None
) -> None:
    settings = settings_of(count, health_path="/v1/health?deep=1", minimum_servers=count, requests_per_server=limit)
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(render_haproxy(settings))
    done = subprocess.run(
        [haproxy, "-c", "-f", str(configuration)], capture_output=True, text=True, timeout=10, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()


def test_the_real_program_refuses_a_broken_configuration(haproxy: str, tmp_path: Path) -> None:
    """Otherwise the test above would show nothing."""
    text = render_haproxy(settings_of(1))
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(text.replace("balance leastconn", "balance leastcon"))
    done = subprocess.run([haproxy, "-c", "-f", str(configuration)], capture_output=True, timeout=10, check=False)
    assert done.returncode != 0


def test_requests_spread_evenly(proxy: Proxy) -> None:
    answers = Counter(proxy.ask() for _ in range(COUNT * 4))
    assert {status for status, _ in answers} == {200}
    assert len(answers) == COUNT
    assert max(answers.values()) <= 2 * min(answers.values()), answers


def test_a_request_goes_to_the_server_with_the_fewest(proxy: Proxy) -> None:
    with ExitStack() as stack:
        busy = {int(stack.enter_context(proxy.answer("/stream")).readline()) for _ in range(COUNT - 1)}
        assert len(busy) == COUNT - 1
        (idle,) = set(range(COUNT)) - busy
        assert proxy.ask() == (200, str(idle))


def test_dead_servers_lose_no_request_and_are_dropped_and_come_back(proxy: Proxy, servers: ToyServers) -> None:
    dead = set(range(0, COUNT, 3))
    servers.kill(*dead)
    # HAProxy has not checked yet: what finds no server is tried on another one.
    assert {status for status, _ in (proxy.ask() for _ in range(COUNT))} == {200}
    eventually(lambda: proxy.up() == set(range(COUNT)) - dead)
    assert not {int(text) for _, text in (proxy.ask() for _ in range(COUNT * 2))} & dead
    servers.start(*dead)
    eventually(lambda: len(proxy.up()) == COUNT)
    eventually(lambda: int(proxy.ask()[1]) in dead)


def test_a_server_that_calls_itself_ill_gets_nothing_new_and_keeps_its_stream(
    proxy: Proxy, servers: ToyServers
) -> None:
    with proxy.answer("/stream") as stream:
        ill = int(stream.readline())
        servers.ill.add(ill)
        eventually(lambda: ill not in proxy.up())
        assert ill not in {int(proxy.ask()[1]) for _ in range(COUNT * 2)}
        assert [int(stream.readline()) for _ in range(20)] == [ill] * 20


def test_a_long_stream_lives_on_while_all_others_die(proxy: Proxy, servers: ToyServers) -> None:
    begin = time.monotonic()
    with proxy.answer("/stream") as stream:
        own = int(stream.readline())
        others = [index for index in range(COUNT) if index != own]
        for first in range(0, len(others), 11):
            servers.kill(*others[first : first + 11])
            assert [int(stream.readline()) for _ in range(10)] == [own] * 10
        eventually(lambda: proxy.up() == {own})
        # Longer than the idle time-out: data keeps a stream alive.
        while time.monotonic() < begin + 2 * proxy.settings.idle_timeout_seconds:
            assert int(stream.readline()) == own
        servers.end_streams()
        rest = stream.read().split()
        assert set(rest) <= {str(own).encode()}


def test_a_silent_request_ends_at_the_idle_timeout(proxy: Proxy) -> None:
    begin = time.monotonic()
    assert proxy.ask("/hang")[0] == 504
    assert time.monotonic() - begin < proxy.settings.idle_timeout_seconds + 2


def test_a_request_that_reached_a_server_is_never_sent_twice(proxy: Proxy, servers: ToyServers) -> None:
    with closing(socket.create_connection(("127.0.0.1", proxy.settings.plan.port), timeout=10)) as client:
        client.sendall(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: servers.asked["/hang"] == 1)
        servers.kill(*range(COUNT))
        servers.start(*range(COUNT))
        assert b" 502 " in client.recv(4096).split(b"\r\n")[0] + b" "
    assert servers.asked["/hang"] == 1


def test_the_node_is_healthy_while_enough_servers_are_up(proxy: Proxy, servers: ToyServers) -> None:
    assert proxy.ask(NODE_HEALTH_PATH)[0] == 200
    servers.kill(*range(COUNT - MINIMUM))
    eventually(lambda: len(proxy.up()) == MINIMUM)
    assert proxy.ask(NODE_HEALTH_PATH)[0] == 200
    servers.kill(COUNT - 1)
    eventually(lambda: proxy.ask(NODE_HEALTH_PATH)[0] == 503)
    assert proxy.ask()[0] == 200, "what still runs is still used"
    assert servers.asked[NODE_HEALTH_PATH] == 0


def test_a_connection_of_the_load_balancer_outlives_its_idle_timeout(proxy: Proxy) -> None:
    """Otherwise both end it at once, and a request that is sent at that moment is lost."""
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.settings.plan.port, timeout=10)) as connection:
        for _ in range(2):
            connection.request("GET", "/")
            assert connection.getresponse().read()
            kept = connection.sock
            time.sleep(proxy.settings.idle_timeout_seconds + 1)
        connection.request("GET", "/")
        assert (connection.getresponse().status, connection.sock) == (200, kept)


def test_a_node_that_will_drain_fails_its_health_check_and_still_serves(proxy: Proxy) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.settings.plan.stats_port, timeout=10)) as connection:
        connection.request("POST", NODE_DRAIN_PATH)
        assert connection.getresponse().status == 200
    assert proxy.ask(NODE_HEALTH_PATH)[0] == 503
    assert proxy.ask()[0] == 200
    assert len(proxy.up()) == COUNT


def test_a_drain_closes_the_port_and_lets_streams_end(proxy: Proxy, servers: ToyServers) -> None:
    with proxy.answer("/stream") as stream:
        own = stream.readline()
        proxy.process.send_signal(signal.SIGUSR1)
        eventually(lambda: not listens(proxy.settings.plan.port))
        assert [stream.readline() for _ in range(10)] == [own] * 10
        servers.end_streams()
        stream.read()
    assert proxy.process.wait(10) == 0


def test_only_the_one_port_is_open_to_others() -> None:
    text = render_haproxy(settings_of(2))
    binds = [line.split()[1] for line in text.splitlines() if line.strip().startswith("bind ")]
    assert binds == ["*:8080", "127.0.0.1:8404"]
