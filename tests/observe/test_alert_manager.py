"""A real Alertmanager takes the configuration, and publishes to Amazon SNS as it says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.observability.alert_manager import alert_manager_configuration, alert_manager_definition
from cdk_gpu_clusters.observability.prometheus_rules import prometheus_rules

TOPIC, REGION = "arn:aws:sns:us-east-2:123456789012:operators", "us-east-2"
SECONDS = 30.0


def test_the_definition_of_a_workspace_is_the_configuration_under_one_key() -> None:
    inner = yaml.safe_load(alert_manager_definition([TOPIC], region=REGION))
    assert inner == {"alertmanager_config": alert_manager_configuration([TOPIC], region=REGION)}


def test_amtool_finds_no_fault(amtool: str, tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yml"
    file.write_text(alert_manager_configuration([TOPIC, f"{TOPIC}-2"], region=REGION))
    done = subprocess.run([amtool, "check-config", file], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 inhibit rules" in done.stdout
    assert "1 receivers" in done.stdout


def test_every_rule_has_the_labels_that_alerts_are_grouped_by() -> None:
    rules = [rule for group in yaml.safe_load(prometheus_rules())["groups"] for rule in group["rules"]]
    names = {rule["alert"] for rule in rules if "alert" in rule}
    inhibited = yaml.safe_load(alert_manager_configuration([TOPIC], region=REGION))["inhibit_rules"][0]
    for matchers in (inhibited["source_matchers"], inhibited["target_matchers"]):
        assert {one.split('"')[1] for one in matchers} <= names


class Topics:
    """An endpoint of Amazon SNS that keeps what is published, and answers as the API does."""

    def __init__(self) -> None:
        self.published: list[dict[str, str]] = []
        topics = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                topics.published.append(dict(urllib.parse.parse_qsl(body)))
                answer = (
                    b'<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult>'
                    b"<MessageId>0</MessageId></PublishResult></PublishResponse>"
                )
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def messages(self, status: str) -> list[str]:
        return [one["Message"] for one in self.published if status in one["Message"]]


class Manager:
    """A real Alertmanager."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v2/alerts"

    def send(self, alerts: Sequence[Mapping[str, str]], *, ended: bool = False) -> None:
        now = datetime.now(UTC)
        times = {"startsAt": (now - timedelta(minutes=1)).isoformat()} | ({"endsAt": now.isoformat()} if ended else {})
        body = json.dumps([{"labels": labels, "annotations": {"summary": "A node."}, **times} for labels in alerts])
        request = urllib.request.Request(  # noqa: S310 - loopback
            self._address, body.encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310


def wait(is_true: Any) -> None:
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.2)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def topics() -> Iterator[Topics]:
    made = Topics()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def manager(alertmanager: Sequence[str], topics: Topics, tmp_path: Path) -> Iterator[Manager]:
    configuration = yaml.safe_load(alert_manager_configuration([TOPIC], region=REGION))
    configuration["receivers"][0]["sns_configs"][0]["api_url"] = topics.address
    configuration["route"] |= {"group_wait": "1s", "group_interval": "1s"}
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(configuration))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *alertmanager,
        f"--config.file={tmp_path}/alertmanager.yml",
        f"--storage.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    keys = {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    }
    with (tmp_path / "log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **keys})
    try:
        wait(lambda: listens(port))
        yield Manager(port)
    finally:
        process.kill()
        process.wait()


def labels(name: str, node: str, fleet: str = "app/Trainers") -> dict[str, str]:
    return {"alertname": name, "fleet": fleet, "instance_id": node}


def test_alerts_of_a_fleet_are_one_message_and_clear(manager: Manager, topics: Topics) -> None:
    nodes = [labels("UnhealthyNode", f"i-{number}") for number in range(3)]
    manager.send([*nodes, labels("UnhealthyNode", "i-9", "app/Others")])
    wait(lambda: len(topics.published) >= 2)
    assert {one["TopicArn"] for one in topics.published} == {TOPIC}
    (together,) = [one for one in topics.messages("Firing") if "app/Trainers" in one]
    assert all(f"i-{number}" in together for number in range(3))
    manager.send(nodes, ended=True)
    wait(lambda: topics.messages("Resolved"))


def test_an_xid_keeps_the_unhealthy_node_silent(manager: Manager, topics: Topics) -> None:
    manager.send([labels("Xid", "i-1")])
    wait(lambda: len(topics.published) == 1)
    manager.send([labels("UnhealthyNode", "i-1"), labels("UnhealthyNode", "i-2")])
    wait(lambda: len(topics.published) >= 2)
    (unhealthy,) = [one for one in topics.messages("Firing") if "UnhealthyNode" in one]
    assert "i-2" in unhealthy
    assert "i-1" not in unhealthy
