"""Prometheus and Alertmanager of Debian, unpacked and not installed: their packages would start services."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from nodebox.debian import CACHE, download, locked


def _programs(package: str) -> Path:
    """Folder with the programs of a package."""
    folder = CACHE / package
    with locked(package):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as fetched:
                # apt downloads as a user of its own where it can.
                Path(fetched).chmod(0o755)
                (archive,) = download(Path(fetched), package)
                whole = Path(fetched) / "whole"
                subprocess.run(["dpkg-deb", "--extract", archive, whole], check=True)
                whole.rename(folder)
    return folder / "usr/bin"


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of Prometheus' own checker."""
    return str(_programs("prometheus") / "promtool")


@pytest.fixture(scope="session")
def prometheus() -> str:
    """Path of Prometheus."""
    return str(_programs("prometheus") / "prometheus")


@pytest.fixture(scope="session")
def node_exporter() -> str:
    """Path of the node exporter."""
    return str(_programs("prometheus-node-exporter") / "prometheus-node-exporter")


@pytest.fixture(scope="session")
def vmagent() -> str:
    """Path of the collector of VictoriaMetrics: it reads Prometheus' configuration, and finds targets by Kubernetes."""
    return str(_programs("victoria-metrics") / "vmagent")


@pytest.fixture(scope="session")
def amtool() -> str:
    """Path of Alertmanager's own checker."""
    return str(_programs("prometheus-alertmanager") / "amtool")


@pytest.fixture(scope="session")
def alertmanager() -> list[str]:
    """Command of Alertmanager. It reads its templates below /usr/share, where its package would put them."""
    folder = _programs("prometheus-alertmanager")
    script = f'mount --bind {folder.parent}/share /usr/share && exec {folder}/prometheus-alertmanager "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "alertmanager"]
