"""A real Slurm cluster in a box: munge, MariaDB, slurmdbd, slurmctld, and a slurmd for each node.

A node has its own process, mount and time namespaces: to kill it ends all of its processes at once, as a power cut
does, its devices, its settings and its state in memory are those of no other node, and its uptime begins with its boot.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from slurmbox.box import Box

#: A user of the cluster.
USER = 2000
#: Storage that all nodes share.
SHARED = "/fsx"
# Slurm 26.05 takes minutes to start a job again, on a busy machine.
_PATIENCE_SECONDS = 180.0
_FIRST_PORT = 17001
#: What AWS PCS decides itself, in the place of its controller. Nodes that do not answer are lost within seconds.
_CONTROLLER = {
    "ClusterName": "lab",
    "SlurmctldHost": "controller(127.0.0.1)",
    "SlurmUser": "root",
    # AWS PCS has it from Slurm 24.05 on ("Release notes for Slurm versions in AWS PCS").
    "SlurmctldParameters": "enable_stepmgr",
    "AuthType": "auth/munge",
    # A job that was put back into the queue waits as long as its old credential is valid: 120 s by default.
    "AuthInfo": "cred_expire=5",
    "StateSaveLocation": "/var/spool/slurm/state",
    "SlurmdSpoolDir": "/var/spool/slurm/%n",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd-%n.pid",
    "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurm/%n.log",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    "GresTypes": "gpu",
    "MpiDefault": "none",
    "SlurmdTimeout": "6",
    "KillWait": "5",
    "ReturnToService": "2",
    "TreeWidth": "65533",
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": "localhost",
}
_ACCOUNTING = """\
AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
_NODE = """\
set -e
hostname {name}
mount --bind /nodes/{name}/dev /dev
mount --bind /nodes/{name}/run /run/gpu-cluster
mount --bind /nodes/{name}/etc/node.env /etc/gpu-cluster/node.env
mount --bind /nodes/{name}/etc/gres.conf /etc/slurm/gres.conf
{before_slurmd}
exec slurmd -D -N {name}
"""
#: Idle nodes are powered down, and jobs power them up, as in a group of AWS PCS that scales. The programs only note the
#: nodes: a test is the service that launches and ends instances.
_POWER = "/var/spool/slurm/power"
_POWER_SAVING = {
    "SuspendProgram": f"{_POWER}/suspend",
    "ResumeProgram": f"{_POWER}/resume",
    "SuspendTime": "1",
    "SuspendTimeout": "3",
    "ResumeTimeout": "120",
    # What AWS PCS has, and looks at the nodes every second: the default is ten.
    "SlurmctldParameters": "enable_stepmgr,power_save_interval=1,power_save_min_interval=0",
}
_POWER_PROGRAM = """\
#!/bin/sh
# No PATH is set.
/usr/bin/scontrol show hostnames "$1" >>{file}
"""


class Cluster:
    """The cluster, as a context manager.

    Args:
        box: Where it runs.
        nodes: Names of the nodes to what `NodeName` says of them besides, such as their GRES.
        settings: Cluster settings, as the library makes them.
        gres: Text of gres.conf.
        devices: Names of further device files of a node.
        topology: Text of topology.conf; none if empty.
        node_environment: Lines of the node settings.
        scales: Whether Slurm powers nodes down and up; then all are powered down at first.
        before_slurmd: Lines of shell that a node runs when it boots, with its name in `{name}`.
    """

    def __init__(
        self,
        box: Box,
        nodes: Mapping[str, str],
        settings: Mapping[str, str],
        *,
        gres: str = "",
        devices: Callable[[str], Sequence[str]] = lambda _: (),
        topology: str = "",
        node_environment: Sequence[str] = (),
        scales: bool = False,
        before_slurmd: str = "",
    ) -> None:
        self.box, self.nodes, self._scales = box, nodes, scales
        self._settings, self._gres, self._topology = settings, gres, topology
        self._devices, self._node_environment = devices, node_environment
        self._before_slurmd = before_slurmd
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._taken: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Self:
        self._write_files()
        for name in self.nodes:
            self._make_node(name)
        self._start_services()
        if not self._scales:
            for name in self.nodes:
                self.power_on(name)
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.kill()
            daemon.wait()

    def _write_files(self) -> None:
        box = self.box
        for folder in ("/var/log/slurm", "/var/spool/slurm/state", "/run/gpu-cluster", "/run/munge", "/run/mysqld"):
            box.path(folder).mkdir(parents=True, exist_ok=True)
        box.run("chown", "munge:", "/run/munge")
        box.run("chown", "mysql:", "/run/mysqld")
        box.path(SHARED).mkdir(mode=0o777)
        box.path(SHARED).chmod(0o1777)
        for path in ("/etc/passwd", "/etc/group"):
            with box.path(path).open("a") as file:
                file.write(f"alice:x:{USER}:{USER}::{SHARED}:/bin/bash\n" if "passwd" in path else f"alice:x:{USER}:\n")
        box.path("/etc/munge/munge.key").write_bytes(os.urandom(1024))
        box.run("chown", "-R", "munge:", "/etc/munge")
        box.run("chmod", "400", "/etc/munge/munge.key")
        box.write("/etc/hosts", f"127.0.0.1 localhost controller {' '.join(self.nodes)}\n")
        box.write("/etc/slurm/slurmdbd.conf", _ACCOUNTING, 0o600)
        box.write("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
        box.write("/etc/slurm/gres.conf", self._gres)
        box.write("/etc/gpu-cluster/node.env", "")
        conf = {**_CONTROLLER, **self._settings, **(_POWER_SAVING if self._scales else {})}
        for program in ("suspend", "resume"):
            box.write(f"{_POWER}/{program}", _POWER_PROGRAM.format(file=f"{_POWER}/{program}.nodes"), 0o755)
        if self._topology:
            conf["TopologyPlugin"] = "topology/tree"
            box.write("/etc/slurm/topology.conf", self._topology)
        lines = [f"{name}={value}" for name, value in conf.items()]
        for port, (name, more) in enumerate(self.nodes.items(), start=_FIRST_PORT):
            state = "CLOUD" if self._scales else "UNKNOWN"
            lines.append(f"NodeName={name} NodeAddr=127.0.0.1 Port={port} State={state} {more}".strip())
        lines.append("PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        box.write("/etc/slurm/slurm.conf", "\n".join([*lines, ""]))

    def _start_services(self) -> None:
        box = self.box
        self._start("munged", "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground")
        self._start("mariadbd", "mariadbd", "--user=mysql", "--skip-networking")
        self.eventually(lambda: box.run("mariadb-admin", "ping", check=False).returncode == 0)
        # slurmdbd makes it, too, but libmariadb 11.8.9 loses its defaults after a connection to none ("Number of columns").
        box.run("mariadb", "--execute=create database slurm_acct")
        self._start("slurmdbd", "slurmdbd", "-D")
        self.eventually(lambda: box.run("sacctmgr", "--noheader", "show", "cluster", check=False).returncode == 0)
        box.run("sacctmgr", "--immediate", "add", "cluster", "lab")
        self._start("slurmctld", "slurmctld", "-D")
        self.eventually(lambda: box.run("scontrol", "ping", check=False).returncode == 0)

    def _start(self, name: str, *command: str) -> None:
        self._daemons[name] = self.box.start(*command, log=self.box.path(f"/var/log/slurm/{name}.output"))

    def power_on(self, name: str) -> None:
        """Boot a node. Its devices and its state in memory are new."""
        if self._scales:
            # Slurm takes a node only if it booted after the request. Times are whole seconds, and the uptime is rounded
            # up (sysinfo(2)); no instance boots within two seconds.
            time.sleep(2)
        uptime = Path("/proc/uptime").read_text().partition(".")[0]
        own = ["unshare", "--mount", "--pid", "--uts", "--time", f"--boottime=-{uptime}"]
        own += ["--fork", "--kill-child", "--mount-proc"]
        script = _NODE.format(name=name, before_slurmd=self._before_slurmd.format(name=name))
        self._start(name, *own, "--propagation", "private", "sh", "-c", script)

    def _make_node(self, name: str) -> None:
        node = self.in_node(name, "")
        for folder in ("dev/shm", "run", "etc"):
            (node / folder).mkdir(parents=True)
        (node / "dev/shm").chmod(0o1777)
        self.box.make_devices(node / "dev", self._devices(name))
        (node / "etc/gres.conf").write_text(self._gres)
        (node / "etc/node.env").write_text("\n".join([*self._node_environment, f"GPU_NODE_NAME={name}", ""]))

    def cut_power(self, name: str) -> None:
        """End all processes of a node at once."""
        self._daemons[name].kill()
        self._daemons[name].wait()

    def is_asked_for(self, name: str) -> bool:
        """Whether the controller wants an instance for a node, and not only its end; the request is taken."""
        return self._is_noted("resume", name)

    def is_to_end(self, name: str) -> bool:
        """Whether the controller wants the instance of a node to end; the request is taken."""
        return self._is_noted("suspend", name)

    def _is_noted(self, request: str, name: str) -> bool:
        file = self.box.path(f"{_POWER}/{request}.nodes")
        asked = file.read_text().split().count(name) if file.exists() else 0
        is_new = asked > self._taken[request, name]
        self._taken[request, name] += is_new
        return is_new

    def in_node(self, name: str, path: str) -> Path:
        """A file of a node, below `dev`, `run` (of gpu-cluster) or `etc`."""
        return self.box.path(f"/nodes/{name}/{path}")

    def node(self, name: str) -> dict[str, str]:
        """What the controller says of a node."""
        return _fields(self.ask("scontrol", "--oneliner", "show", "node", name))

    def job(self, number: str) -> dict[str, str]:
        """What the controller says of a job."""
        return _fields(self.ask("scontrol", "--oneliner", "show", "job", number))

    def submit(self, script: str, *options: str) -> str:
        """Submit a script as the user; returns the number of the job."""
        path = f"{SHARED}/job.sh"
        self.box.write(path, script, 0o755)
        arguments = ["sbatch", "--parsable", f"--chdir={SHARED}", *options, path]
        return self.box.run(*arguments, user=USER).stdout.strip()

    def ask(self, *arguments: str) -> str:
        """What a command of Slurm prints."""
        return self.box.run(*arguments).stdout

    def eventually(self, look: Callable[[], object]) -> None:
        """Wait for something."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not look():
            assert time.monotonic() < end, f"nothing after {_PATIENCE_SECONDS} s; {self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        """The end of every log."""
        files = sorted(self.box.path("/var/log/slurm").iterdir())
        return "\n".join(f"{file.name}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)


def _fields(line: str) -> dict[str, str]:
    """Fields without blanks in their values, and the reason."""
    fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
    if " Reason=" in line:
        fields["Reason"] = line.partition(" Reason=")[2].partition(" [")[0].strip()
    return fields
