"""A Debian with Slurm in namespaces of its own: its files, its processes and its loopback are those of nobody else."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cdk_gpu_clusters.node.software import software_files
from nodebox.debian import CACHE, need_root
from nodebox.namespace import NetworkNamespace
from nodebox.rootfs import Recipe, root_of

_PACKAGES = (
    "iproute2", "mariadb-server", "munge", "procps", "python3", "slurm-client", "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin", "slurmctld", "slurmd", "slurmdbd",
)  # fmt: skip
#: Releases of Debian by what they have: the pinned Slurm, and the newest, whose version may change at any time.
PINNED, NEWEST = "trixie", "forky"
_RECIPES = {
    PINNED: Recipe(f"slurm-{PINNED}", PINNED, (*_PACKAGES, "sssd-ldap", "sssd-tools")),
    # The Release file of testing on a mirror that is not updated is out of date.
    NEWEST: Recipe(f"slurm-{NEWEST}", NEWEST, (*_PACKAGES, "mount"), ('--aptopt=Acquire::Check-Valid-Until "false"',)),
}
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
# The root is an overlay on memory: nothing of a test is left on the disk. The host's name is that of the controller.
# getaddrinfo(3), AI_ADDRCONFIG: Slurm finds no address to listen on where there is only loopback.
_ENTER = """\
set -e
mount -t tmpfs -o mode=755 slurmbox {folder}
mkdir {folder}/upper {folder}/work {folder}/root
mount -t overlay -o lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work overlay {folder}/root
mount -t proc proc {folder}/root/proc
mount -t sysfs -o ro sysfs {folder}/root/sys
mount -t tmpfs -o mode=755 dev {folder}/root/dev
mkdir {folder}/root/dev/shm
chmod 1777 {folder}/root/dev/shm
ip link set lo up
ip link add eth0 type veth peer name wire
ip address add 10.78.0.1/24 dev eth0
ip link set eth0 up
hostname controller
exec chroot {folder}/root sleep infinity
"""
_START_SECONDS = 30.0
_COMMAND_SECONDS = 120


class Box:
    """The namespaces, as a context manager.

    Args:
        release: Of Debian.

    Attributes:
        root: Its root directory, as this process sees it.
    """

    def __init__(self, release: str) -> None:
        need_root()
        self._lower, self.root, self._pid = root_of(_RECIPES[release]), Path(), 0
        self._holder: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        folder = CACHE / "slurmbox"
        folder.mkdir(parents=True, exist_ok=True)
        unshare = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
        script = _ENTER.format(folder=folder, lower=self._lower)
        self._holder = subprocess.Popen([*unshare, "--propagation", "private", "sh", "-c", script])
        end = time.monotonic() + _START_SECONDS
        while not self._is_inside():
            assert self._holder.poll() is None, "the namespaces cannot be made"
            assert time.monotonic() < end, "the namespaces are not there"
            time.sleep(0.05)
        self.root = Path(f"/proc/{self._pid}/root")
        self.make_devices(self.root / "dev")
        for file in software_files():
            self.write(file.path, file.text, file.mode)
        return self

    def __exit__(self, *_: object) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()

    def _is_inside(self) -> bool:
        """Whether the first process of the namespaces has its own root."""
        assert self._holder is not None
        try:
            children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
            self._pid = int(children[0])
            return Path(f"/proc/{self._pid}/comm").read_text() == "sleep\n"
        except (OSError, IndexError):
            return False

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs a program inside."""
        return ["nsenter", "--target", str(self._pid), "--all", "--root", "--wdns=/", *arguments]

    def run(self, *arguments: str, check: bool = True, user: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a program inside to its end."""
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        done = subprocess.run(
            self.command(*drop, *arguments),
            env=self.environment, capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def start(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a daemon inside, which ends with the process that is returned: nsenter only waits for it."""
        command = self.command("setpriv", "--pdeathsig=KILL", *arguments)
        with log.open("ab") as output:
            return subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)

    def listen(self, address: str, port: int) -> socket.socket:
        """A socket of this process that listens inside."""
        network = NetworkNamespace(self._pid)
        try:
            return network.listen(address, port)
        finally:
            network.close()

    def write(self, path: str, text: str, mode: int = 0o644, *, owner: str = "") -> Path:
        """Write a file inside."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        if owner:
            self.run("chown", owner, path)
        return file

    def path(self, path: str) -> Path:
        """A path inside, as this process sees it."""
        return self.root / path.lstrip("/")

    @staticmethod
    def make_devices(folder: Path, others: Sequence[str] = ()) -> None:
        """Make the devices that every program needs, and others, which do nothing."""
        for name, minor in _DEVICES.items():
            make_device(folder / name, minor)
        for name in others:
            make_device(folder / name, _DEVICES["null"])

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


def make_device(path: Path, minor: int) -> None:
    """Make a character device of the kernel's memory (major number 1), open to all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, 0o020666, os.makedev(1, minor))
    path.chmod(0o666)
