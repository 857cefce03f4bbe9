"""Programs that the tests of this tier need, from the Debian that the machine is set up for."""

from __future__ import annotations

import os
import shutil
import subprocess

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def need_root() -> None:
    """Fail where containers cannot be booted."""
    assert os.geteuid() == 0, "this tier boots containers and installs packages: run `make test-node` as root"


def program(name: str, *packages: str) -> str:
    """Path of a program, whose packages are installed where it is missing."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        need_root()
        _install(packages or (name,))
        found = shutil.which(name, path=_PATH)
    assert found, f"{name} is not there, and the Debian packages {packages or name} did not bring it"
    return found


def _install(packages: tuple[str, ...]) -> None:
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    if subprocess.run(install, check=False, capture_output=True, timeout=300).returncode:
        subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True, timeout=300)
        subprocess.run(install, check=True, capture_output=True, timeout=300)


def sources(release: str) -> list[str]:
    """One-line entries of the mirrors that the machine uses for a release; none where it uses another one."""
    listed = subprocess.run(
        [
            "apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
            "Origin: Debian",
        ],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    return [line for line in dict.fromkeys(listed.splitlines()) if line.split()[2].split("-")[0] == release]
