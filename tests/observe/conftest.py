"""Prometheus of Debian, unpacked and not installed: its package would start a service."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from nodebox.debian import CACHE, download, locked


@pytest.fixture(scope="session")
def programs() -> Path:
    """Folder with `prometheus` and `promtool`."""
    folder = CACHE / "prometheus"
    with locked("prometheus"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as fetched:
                # apt downloads as a user of its own where it can.
                Path(fetched).chmod(0o755)
                (package,) = download(Path(fetched), "prometheus")
                whole = Path(fetched) / "whole"
                subprocess.run(["dpkg-deb", "--extract", package, whole], check=True)
                whole.rename(folder)
    return folder / "usr/bin"


@pytest.fixture(scope="session")
def promtool(programs: Path) -> str:
    """Path of Prometheus' own checker."""
    return str(programs / "promtool")


@pytest.fixture(scope="session")
def prometheus(programs: Path) -> str:
    """Path of Prometheus."""
    return str(programs / "prometheus")
