"""Root directories of Debian: made once by mmdebstrap from the machine's own mirror, then kept."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
_SMALL = (
    "--variant=apt",
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    '--aptopt=Apt::Install-Recommends "false"',
)
_OPTIONS = (
    # GPU images have no HAProxy that starts by itself; nothing here sets up the network but the tests.
    '--customize-hook=systemctl --root="$1" disable haproxy',
    '--customize-hook=systemctl --root="$1" mask networking apt-daily.timer apt-daily-upgrade.timer',
)


@dataclass(frozen=True)
class Recipe:
    """What a root directory is made from.

    Attributes:
        name: Of what it is, in the name of its directory.
        release: Code name of the release.
        packages: What is installed besides the essential ones.
        options: Further options of mmdebstrap.
    """

    name: str
    release: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()


class NoSuchDebian(Exception):
    """A root directory cannot be made; the text is what mmdebstrap says."""


def debian_root() -> Path:
    """The root directory of a Debian with systemd and cloud-init, which nodes boot."""
    return root_of(Recipe("rootfs", RELEASE, PACKAGES, _OPTIONS))


def root_of(recipe: Recipe) -> Path:
    """A root directory; nothing may write to it, and nobody removes it before this process has ended.

    Raises:
        NoSuchDebian: If the mirror does not have it.
    """
    text = "\n".join([recipe.release, *recipe.packages, *_SMALL, *recipe.options])
    return kept(recipe.name, text, partial(_build, recipe))


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
            for old in CACHE.glob(f"{kind}-[0-9a-f]*"):
                shutil.rmtree(old)
            unfinished = made.with_name(f"{made.name}.new")
            build(unfinished)
            unfinished.rename(made)
        fcntl.flock(lock, fcntl.LOCK_SH)
    return made


def _build(recipe: Recipe, root: Path) -> None:
    command = [program("mmdebstrap"), "--quiet", *_SMALL, *recipe.options, f"--include={','.join(recipe.packages)}"]
    done = subprocess.run(
        [*command, recipe.release, str(root), *sources(recipe.release)],
        check=False, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    if done.returncode != 0:
        raise NoSuchDebian(done.stderr[-4000:])
