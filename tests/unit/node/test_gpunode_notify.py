"""What systemd hears from a service."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.watch.watch import notify


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        name = str(tmp_path / "notify")
        server.bind(name if request.param == "path" else f"\0{name}")
        server.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", name if request.param == "path" else f"@{name}")
        yield server


def test_states_arrive_in_one_message(systemd: socket.socket) -> None:
    notify("READY=1", "STATUS=watching")
    assert systemd.recv(100) == b"READY=1\nSTATUS=watching"


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@nobody-listens-here"])
def test_nobody_who_listens_is_no_fault(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("WATCHDOG=1")
