"""What the tests of this tier need besides Python: they run real programs, as root where those must be installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest


@pytest.fixture(scope="session")
def haproxy() -> str:
    """The distribution's HAProxy, installed where it is missing."""
    found = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if found is None:
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "haproxy"]
        if subprocess.run(install, check=False, capture_output=True, timeout=120).returncode:
            subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True, timeout=120)
            subprocess.run(install, check=True, capture_output=True, timeout=120)
        found = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    assert found, "haproxy was installed and is not there"
    return found
