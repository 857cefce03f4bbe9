"""A node that boots: systemd as PID 1 in systemd-nspawn, on a disk, in a network and with an uptime of its own.

Everything that a machine is made of belongs to its processes, which die with this one: a killed run leaves nothing but
directories, which the next run removes or pytest does.
"""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from nodebox.debian import program
from nodebox.namespace import NetworkNamespace

#: How systemd-nspawn says, with --keep-unit, that the system inside wants to reboot.
REBOOT = 133
# Where processes have a cgroup: unified hosts, and those with systemd's own hierarchies beside the controllers'.
_CGROUPS = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified")]
_numbers = itertools.count(1)
#: A node that reboots more often than this, without its power being cut, is in a loop.
_MOST_BOOTS = 4
# A cgroup of its own: systems that share one would end each other's services.
_START = """
for hierarchy in {cgroups}; do
  [ -e $hierarchy/cgroup.procs ] || continue
  mkdir -p $hierarchy/{name}
  echo 0 >$hierarchy/{name}/cgroup.procs
done
mount --bind {network} {directory}/network
mount -t overlay overlay -o lowerdir={lower},upperdir={directory}/disk,workdir={directory}/work {directory}/root
mount -t proc proc /proc
exec systemd-nspawn --quiet --register=no --keep-unit --machine={name} --directory={directory}/root \
  --network-namespace-path={directory}/network --console=read-only --capability=CAP_NET_ADMIN,CAP_SYSLOG \
  --resolv-conf=off --timezone=off --link-journal=no {options} --boot {variables}
"""


class Machine:
    """One machine, and its disk over all its boots.

    Args:
        directory: An empty directory for it.
        layers: Directories below its disk, the topmost first; never written to.
        network: Its network.
        binds: Files and directories of the host by their place in the machine.
        variables: Environment of all its services.

    Attributes:
        disk: What the machine has written; to be changed only while it is off.
        boots: How often it was started.
        tools: Programs that it needs on the host, and their packages.
    """

    tools: ClassVar[dict[str, str]] = {"systemd-nspawn": "systemd-container"}

    def __init__(
        self,
        directory: Path,
        *,
        layers: Sequence[Path],
        network: NetworkNamespace,
        binds: Mapping[str, Path] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"nodebox-{os.getpid()}-{next(_numbers)}"
        self.disk, self.boots = directory / "disk", 0
        self.network, self._layers = network, layers
        self._binds, self._variables = dict(binds or {}), dict(variables or {})
        self._directory = directory
        self._console = directory / "console"
        self._console.touch()
        (directory / "network").touch()
        for one in ("disk", "work", "root"):
            (directory / one).mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        for tool, package in {"nsenter": "util-linux", "ip": "iproute2", **self.tools}.items():
            program(tool, package)

    def power_on(self, *, uptime_seconds: int = 5) -> None:
        """Start it; from then on it starts again whenever it reboots.

        Args:
            uptime_seconds: How long its kernel believes to run already.
        """
        started = threading.Event()
        self._keeper = threading.Thread(target=self._keep, args=(uptime_seconds, started), daemon=True)
        self._keeper.start()
        started.wait()

    def powered_on(self) -> None:
        """Called before each boot."""

    def power_off(self) -> None:
        """Take its power away."""
        if self._keeper is None:
            return
        while self._keeper.is_alive():
            # systemd-nspawn, whose parent takes note of its end.
            with suppress(OSError, ValueError):
                os.kill(self._descendant(1), signal.SIGKILL)
            self._keeper.join(0.1)

    @property
    def console(self) -> str:
        """What it wrote to its console, in all its boots."""
        return self._console.read_text(errors="replace")

    @property
    def is_on(self) -> bool:
        """Whether it runs."""
        return self._keeper is not None and self._keeper.is_alive()

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file on its disk while it is off."""
        file = self.disk / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def read(self, path: str) -> str:
        """A file that it has written; empty where there is none."""
        file = self.disk / path.lstrip("/")
        return file.read_text() if file.exists() else ""

    def run(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command in it as root, with the environment of its services."""
        inside = ["nsenter", "--target", str(self.leader()), "--all", "--root", "--wdns=/"]
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
            "HOME": "/root",
            **self._variables,
        }
        done = subprocess.run(
            [*inside, "/bin/bash", "-c", command],
            env=environment, check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def boot_id(self) -> str:
        """What its kernel calls this boot; empty while it reboots."""
        with suppress(OSError):
            return Path(f"/proc/{self.leader()}/root/proc/sys/kernel/random/boot_id").read_text().strip()
        return ""

    def leader(self) -> int:
        """Its PID 1, as the host knows it, once its own system runs in it."""
        while True:
            assert self.is_on, f"{self.name} is off:\n{self.console[-4000:]}"
            with suppress(OSError, ValueError):
                leader = self._descendant(2)
                # Before its last exec it is still systemd-nspawn.
                if Path(f"/proc/{leader}/comm").read_text() == "systemd\n":
                    return leader
            time.sleep(0.05)

    def _descendant(self, generations: int) -> int:
        assert self._process is not None
        process = self._process.pid
        for _ in range(generations):
            (process,) = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
        return process

    def _keep(self, uptime_seconds: int, started: threading.Event) -> None:
        status, last = REBOOT, self.boots + _MOST_BOOTS
        while status == REBOOT and self.boots < last:
            self.boots += 1
            self.powered_on()
            with self._console.open("ab") as console:
                self._process = subprocess.Popen(
                    self._command(uptime_seconds),
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                )
            started.set()
            status = self._process.wait()
            _remove_cgroups(self.name)
            uptime_seconds = 5

    def _command(self, uptime_seconds: int) -> list[str]:
        script = _START.format(
            name=self.name,
            lower=":".join(map(str, self._layers)),
            directory=self._directory,
            cgroups=" ".join(map(str, _CGROUPS)),
            network=self.network.path,
            options=shlex.join(self._options()),
            variables=shlex.join(f"systemd.setenv={name}={value}" for name, value in self._variables.items()),
        )
        offset = uptime_seconds - int(float(Path("/proc/uptime").read_text().split()[0]))
        return dies_with_us(script, "--time", "--boottime", str(offset))

    def _options(self) -> list[str]:
        """Options of systemd-nspawn beside those of every machine."""
        return [f"--bind={source}:{place}" for place, source in self._binds.items()]


def dies_with_us(script: str, *namespaces: str) -> list[str]:
    """Runs a shell script all of which dies with this process: a PID namespace takes its processes along, nested ones
    too.

    Args:
        script: The script.
        namespaces: What `unshare` gives it besides namespaces of processes and mounts.
    """
    private = ["unshare", "--mount", "--pid", "--kill-child", *namespaces]
    return ["setpriv", "--pdeathsig", "KILL", *private, "sh", "-ec", script]


def remove_leftovers() -> None:
    """Remove what machines of killed runs have left in the kernel."""
    names = {name for top in _CGROUPS if top.exists() for name in os.listdir(top)}  # noqa: PTH208 - names are wanted
    for name in names:
        if name.startswith("nodebox-") and not Path("/proc", name.split("-")[1]).exists():
            _remove_cgroups(name)


def _remove_cgroups(name: str) -> None:
    for top in _CGROUPS:
        for directory, _, _ in os.walk(top / name, topdown=False):
            _remove(Path(directory))


def _remove(cgroup: Path) -> None:
    # Its last processes may still be about to end. Another run may remove it too.
    for _ in range(50):
        if not cgroup.exists():
            return
        with suppress(OSError):
            cgroup.rmdir()
            return
        time.sleep(0.05)
