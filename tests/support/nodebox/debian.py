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
    assert os.geteuid() == 0, "this tier boots containers and installs packages: run it as root"


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
    """One-line entries of the mirrors that the machine uses, for its own release or for another one."""
    if not _index_targets():
        with locked("apt"):
            _apt_get("update")
    lines = [line.split() for line in dict.fromkeys(_index_targets())]
    own = [" ".join(words) for words in lines if words[2].split("-")[0] == release]
    # The mirror of the base suite has every release.
    others = dict.fromkeys(" ".join([*words[:2], release, *words[3:]]) for words in lines if "-" not in words[2])
    return own or list(others)


def dependencies(package: str) -> list[str]:
    """The packages that a package cannot do without."""
    if not _index_targets():
        with locked("apt"):
            _apt_get("update")
    wanted = ["--important", "--no-pre-depends", package]
    done = subprocess.run(["apt-cache", "depends", *wanted], check=True, capture_output=True, text=True)
    return [line.split()[1] for line in done.stdout.splitlines()[1:]]


def download(directory: Path, *packages: str) -> list[Path]:
    """Fetch the files of packages, without what they depend on, into an empty directory."""
    with locked("apt"):
        _with_fresh_lists("download", *packages, directory=directory)
    return sorted(directory.glob("*.deb"))


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(packages: tuple[str, ...]) -> None:
    _with_fresh_lists("install", "-y", "--no-install-recommends", *packages)


def _with_fresh_lists(*arguments: str, directory: Path | None = None) -> None:
    try:
        _apt_get(*arguments, directory=directory)
    except subprocess.CalledProcessError:
        _apt_get("update")
        _apt_get(*arguments, directory=directory)


def _index_targets() -> list[str]:
    # Only of lists that are on disk: a fresh machine may have none.
    line = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    return _apt_get("indextargets", "--format", line, "Created-By: Packages", "Origin: Debian").splitlines()


def _apt_get(*arguments: str, directory: Path | None = None) -> str:
    return subprocess.run(
        ["apt-get", "-qq", *arguments],
        cwd=directory,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=True, capture_output=True, text=True, timeout=300,
    ).stdout  # fmt: skip
