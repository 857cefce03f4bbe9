"""Without credentials or a network, a command says so at once, in one line."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks import aws_session
from cdk_gpu_clusters_stacks.aws_session import NoSession, open_session, require_answer
from cdk_gpu_clusters_stacks.cli.main import main

FILE = str(Path(__file__).resolve().parents[3] / "examples" / "p5-lustre.yaml")
LIVE = [
    ["preflight", FILE],
    ["capacity", "search", "--type", "p5.48xlarge", "--count", "16", "--duration", "14d"],
    ["capacity", "watch", "--type", "p5.48xlarge", "--count", "16", "--duration", "14d"],
    ["pin-image", FILE],
]


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    # A network that swallows packets: RFC 5737 keeps these addresses free.
    monkeypatch.setattr(aws_session, "_METADATA", ("192.0.2.1", 80))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def waited_seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the command would have waited for an answer, and between tries: the processor's load is not part of it."""
    waits: list[float] = []
    connect = socket.create_connection

    def counted(address: tuple[str, int], timeout: float | None = None, **options: Any) -> socket.socket:
        if address[0] == "192.0.2.1":
            waits.append(60 if timeout is None else timeout)
            raise TimeoutError
        return connect(address, timeout, **options)

    monkeypatch.setattr(socket, "create_connection", counted)
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


@pytest.mark.parametrize("command", LIVE, ids=lambda words: " ".join(words[:2])[:16])
def test_missing_credentials_are_one_line_in_a_second(
    command: list[str], capsys: pytest.CaptureFixture[str], waited_seconds: list[float]
) -> None:
    assert main(command) == 2
    assert waited_seconds
    assert sum(waited_seconds) < 1
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("gpu-clusters: "))
    assert "no AWS credentials: sign in" in line


def test_without_boto3_every_command_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    for command in LIVE:
        assert main(command) == 2
        assert "pip install 'gpu-clusters[live]'" in capsys.readouterr().err


@pytest.mark.parametrize("command", LIVE[:3], ids=lambda words: " ".join(words[:2])[:16])
def test_a_missing_network_is_one_line(
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    waited_seconds: list[float],
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # the discard port: nothing listens
    assert main(command) == 2
    assert sum(waited_seconds) < 5
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("gpu-clusters: "))
    assert "nothing answers at http://127.0.0.1:9" in line


def test_an_answer_that_is_no_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether permissions suffice is for each check to say."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    from moto import mock_aws

    with mock_aws():
        require_answer(open_session(), ["us-east-1"])


def test_a_profile_that_does_not_exist_is_named() -> None:
    with pytest.raises(NoSession, match="nope"):
        open_session("nope")
