"""The Debian that nodes boot: made once by mmdebstrap from the machine's own mirror, then kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from nodebox.debian import CACHE, program, sources

#: The distribution nearest to Amazon Linux 2023 that can be had: systemd 252, bash 5.2, version 2 of the AWS CLI.
RELEASE = "bookworm"
#: What GPU images have, as far as the node's scripts use it.
PACKAGES = (
    "awscli",
    "ca-certificates",
    "cloud-init",
    "curl",
    "dbus",
    "haproxy",
    "iproute2",
    "kmod",
    "mdadm",
    "procps",
    "python3",
    "systemd-sysv",
    "udev",
    "xfsprogs",
)
# dpkg need not wait for the disk: a build that is cut short is thrown away.
_OPTIONS = (
    "--variant=apt",
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    '--aptopt=Apt::Install-Recommends "false"',
    # GPU images have no HAProxy that starts by itself; nothing here sets up the network but the tests.
    '--customize-hook=systemctl --root="$1" disable haproxy',
    '--customize-hook=systemctl --root="$1" mask networking apt-daily.timer apt-daily-upgrade.timer',
)


def debian_root() -> Path:
    """The root directory of a Debian with systemd and cloud-init; nothing may write to it, and nobody removes it
    before this process has ended.
    """
    return kept("rootfs", "\n".join([RELEASE, *PACKAGES, *_OPTIONS]), _build)


def kept(kind: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """A directory that is made once for its recipe; nobody removes it before this process has ended.

    Args:
        kind: What it is; the newest recipe of each kind is kept.
        recipe: All that it depends on.
        build: Makes it, at a place that does not exist.
    """
    made = CACHE / f"{kind}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = os.open(CACHE / f"{kind}.lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)  # never closed
    fcntl.flock(lock, fcntl.LOCK_SH)
    if not made.exists():
        fcntl.flock(lock, fcntl.LOCK_EX)  # once nobody uses an older one
        if not made.exists():
            for old in CACHE.glob(f"{kind}-*"):
                shutil.rmtree(old)
            unfinished = made.with_name(f"{made.name}.new")
            build(unfinished)
            unfinished.rename(made)
        fcntl.flock(lock, fcntl.LOCK_SH)
    return made


def _build(root: Path) -> None:
    command = [program("mmdebstrap"), "--quiet", *_OPTIONS, f"--include={','.join(PACKAGES)}"]
    done = subprocess.run(
        [*command, RELEASE, str(root), *sources(RELEASE)],
        check=False, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
