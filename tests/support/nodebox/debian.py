"""Programs that the tests of this tier need, from the Debian that the machine is set up for."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What this tier keeps between its runs; `make distclean` removes it.
CACHE = Path(__file__).resolve().parents[3] / ".tools" / "node"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def need_root() -> None:
    """Fail where containers cannot be booted."""
    assert os.geteuid() == 0, "this tier boots containers and installs packages: run `make test-node` as root"


def program(name: str, *packages: str) -> str:
    """Path of a program, whose packages are installed where it is missing."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        need_root()
        with locked("apt"):
            _install(packages or (name,))
        found = shutil.which(name, path=_PATH)
    assert found, f"{name} is not there, and the Debian packages {packages or name} did not bring it"
    return found


def sources(release: str) -> list[str]:
    """One-line entries of the mirrors that the machine uses for a release; none where it uses another one."""
    if not _index_targets():
        with locked("apt"):
            _apt_get("update")
    return [line for line in dict.fromkeys(_index_targets()) if line.split()[2].split("-")[0] == release]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(packages: tuple[str, ...]) -> None:
    install = ("install", "-y", "--no-install-recommends", *packages)
    try:
        _apt_get(*install)
    except subprocess.CalledProcessError:
        _apt_get("update")
        _apt_get(*install)


def _index_targets() -> list[str]:
    # Only of lists that are on disk: a fresh machine may have none.
    line = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    return _apt_get("indextargets", "--format", line, "Created-By: Packages", "Origin: Debian").splitlines()


def _apt_get(*arguments: str) -> str:
    return subprocess.run(
        ["apt-get", "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=True, capture_output=True, text=True, timeout=300,
    ).stdout  # fmt: skip
