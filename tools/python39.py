"""A Python 3.9, the oldest that the node software runs on, for its tests.

It is the machine's own, if the machine has one. Otherwise it is Debian 11's: five packages, compared with the digests
in ``requirements/python39-debian.txt`` and unpacked, which needs neither root nor apt, but Linux with glibc.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "python39-debian.txt"
# Debian moves old releases from the first to the second. DEBIAN_MIRROR names another, as in http://mirror/debian.
MIRRORS = ("http://deb.debian.org/debian", "http://archive.debian.org/debian")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TRIES = 3


def install(folder: Path) -> None:
    """Leave a Python 3.9 as ``bin/python3.9`` below a folder, or end with what to do."""
    shutil.rmtree(folder, ignore_errors=True)
    program = folder / "bin" / "python3.9"
    program.parent.mkdir(parents=True)
    own = shutil.which("python3.9")
    if own and is_python39(own):
        program.symlink_to(own)
        return
    for package in packages():
        unpack(fetch(*package), folder / "debian")
    start(program, folder / "debian" / "usr")
    if not is_python39(str(program)):
        sys.exit("tools/python39.py: Debian's Python 3.9 does not run here: put a python3.9 on the PATH")


def start(program: Path, unpacked: Path) -> None:
    """Write a program that starts the unpacked one with its own libraries."""
    libraries = next((unpacked / "lib").glob("*-linux-gnu"))
    program.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{unpacked / "bin" / "python3.9"}" "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)


def is_python39(program: str) -> bool:
    """Whether a program runs and is Python 3.9; the python3.9 of a version manager may be a stub."""
    ask = [program, "-c", "import sys; print(sys.version_info[:2])"]
    try:
        return subprocess.run(ask, check=False, capture_output=True, text=True).stdout == "(3, 9)\n"
    except OSError:
        return False


def packages() -> Iterator[tuple[str, str]]:
    """Digest and place in the archive of each package for this machine."""
    architecture = ARCHITECTURES.get(platform.machine()) if sys.platform == "linux" else None
    if architecture is None:
        sys.exit("tools/python39.py: the tests of the node software need Python 3.9: put a python3.9 on the PATH")
    for line in LOCK.read_text().splitlines():
        if line.endswith(f"_{architecture}.deb"):
            sha256, place = line.split()
            yield sha256, place


def fetch(sha256: str, place: str) -> bytes:
    """A package from the first mirror that has it; bytes with another digest count as none."""
    own = os.environ.get("DEBIAN_MIRROR")
    faults = []
    for mirror in ([own] if own else MIRRORS) * TRIES:
        try:
            with urllib.request.urlopen(f"{mirror}/{place}", timeout=60) as answer:  # noqa: S310 - http, checked below
                content = bytes(answer.read())
        except OSError as fault:
            faults.append(f"{mirror}: {fault}")
            continue
        if hashlib.sha256(content).hexdigest() == sha256:
            return content
        faults.append(f"{mirror}: other bytes than the lock file says")
    sys.exit(f"tools/python39.py: no {place}: {'; '.join(faults)}. Put a python3.9 on the PATH, or set DEBIAN_MIRROR")


def unpack(package: bytes, folder: Path) -> None:
    """Unpack what a Debian package installs: a tar inside an `ar` archive (deb(5))."""
    for name, content in members(package):
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(content)) as data:
                data.extraction_filter = lambda member, _: member  # Python 3.14 refuses Debian's own links otherwise
                data.extractall(folder)  # noqa: S202 - the digest says that it is Debian's


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of an `ar` archive."""
    start = len(b"!<arch>\n")
    while start < len(archive):
        header = archive[start : start + 60]
        size = int(header[48:58])
        yield header[:16].decode().rstrip("/ "), archive[start + 60 : start + 60 + size]
        start += 60 + size + size % 2
