"""The Debian that nodes boot: made once by mmdebstrap from the machine's own mirror, then kept."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from nodebox.debian import program, sources

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
CACHE = Path("/var/cache/cdk-gpu-clusters")
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
    """The root directory of a Debian with systemd and cloud-init; nothing may write to it."""
    mmdebstrap = program("mmdebstrap")
    recipe = "\n".join([RELEASE, *PACKAGES, *_OPTIONS])
    root = CACHE / f"node-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _build(mmdebstrap, root)
    return root


def _build(mmdebstrap: str, root: Path) -> None:
    for old in CACHE.glob("node-*"):
        shutil.rmtree(old)
    unfinished = root.with_name(f"{root.name}.new")
    command = [mmdebstrap, "--quiet", *_OPTIONS, f"--include={','.join(PACKAGES)}"]
    done = subprocess.run(
        [*command, RELEASE, str(unfinished), *sources(RELEASE)],
        check=False, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    unfinished.rename(root)
