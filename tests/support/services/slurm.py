"""A real Slurm cluster on loopback: munged, slurmctld, and a slurmd for each node, without systemd."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from nodebox.debian import program

_PATIENCE_SECONDS = 60.0
_CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class State(NamedTuple):
    """A node, as the controller has it.

    Attributes:
        state: Such as `IDLE` or `MIXED+DRAIN`.
        reason: Why it is drained, and who did it; empty without.
    """

    state: str
    reason: str


class Slurm:
    """A cluster, as a context manager.

    Args:
        folder: An empty folder.
        nodes: Names of its nodes.

    Attributes:
        programs: Folder of its commands.
        configuration: Its slurm.conf.
        port: Where the controller answers.
    """

    def __init__(self, folder: Path, *nodes: str) -> None:
        daemons = {name: program(name, name) for name in ("slurmctld", "slurmd")}
        self.programs = Path(program("scontrol", "slurm-client")).parent
        self.configuration = folder / "slurm.conf"
        self._folder, self._nodes = folder, nodes
        self._commands = [
            [program("munged", "munge"), "--foreground", "--force", *_munge_options(folder)],
            [daemons["slurmctld"], "-D"],
        ]
        self._slurmd = daemons["slurmd"]
        self._slurmds: dict[str, subprocess.Popen[bytes]] = {}
        self.port = 0
        self._jobs: list[Job] = []
        self._daemons = ExitStack()

    def __enter__(self) -> Self:
        host = socket.gethostname().partition(".")[0]
        self.port, *ports = _free_ports(1 + len(self._nodes))
        lines = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={own} CPUs=2 RealMemory=100 State=UNKNOWN"
            for node, own in zip(self._nodes, ports, strict=True)
        ]
        text = _CONFIGURATION.format(
            host=host, folder=self._folder, spool=self._spool(), port=self.port, nodes="\n".join(lines)
        )
        self.configuration.write_text(text)
        (self._folder / "munge.key").write_bytes(os.urandom(1024))
        (self._folder / "munge.key").chmod(0o400)
        (self._folder / "state").mkdir()
        for command in self._commands:
            self._start(command)
        for node in self._nodes:
            self._slurmds[node] = self._start([self._slurmd, "-D", "-N", node])
        self.eventually(lambda: all(self.node(node).state == "IDLE" for node in self._nodes))
        return self

    def __exit__(self, *_: object) -> None:
        # A job outlives its daemons.
        try:
            for job in self._jobs:
                job.end.touch()
            self.eventually(lambda: self._ask("squeue", "--noheader") == "")
        finally:
            self._daemons.close()

    def _spool(self) -> str:
        """A folder with a short name: slurmstepd binds a socket in it, whose path may have 107 characters (unix(7)).

        With a longer one it dies, and the controller puts the job back into the queue: "failed to send return code".
        """
        return self._daemons.enter_context(tempfile.TemporaryDirectory(prefix="slurm-"))

    def node(self, name: str) -> State:
        """What the controller says of a node; nothing while it does not answer."""
        words = self._ask("scontrol", "--oneliner", "show", "node", name, check=False)
        state, reason = (_field(words, field, until) for field, until in (("State", " "), ("Reason", "\n")))
        return State(state, reason.strip())

    def run_job(self, node: str) -> Job:
        """Start a job of one core on a node, which runs until it is told to end."""
        number = len(self._jobs)
        end, output = self._folder / f"end-{number}", self._folder / f"job-{number}"
        script = f"until [ -e {end} ]; do sleep 0.1; done; echo done"
        job = self._ask("sbatch", "--parsable", f"--nodelist={node}", f"--output={output}", f"--wrap={script}").strip()
        self._jobs.append(Job(job, end, output))
        self.eventually(lambda: self.job_state(job) == "RUNNING")
        return self._jobs[-1]

    def job_state(self, job: str) -> str:
        return _field(self._ask("scontrol", "--oneliner", "show", "job", job), "JobState", " ")

    def drains(self, node: str) -> int:
        """How many times somebody told the controller to drain a node."""
        log = (self._folder / "slurmctld.log").read_text()
        return log.count(f"update_node: node {node} state set to DRAIN")

    def update(self, node: str, *changes: str) -> None:
        """What an operator changes about a node."""
        self._ask("scontrol", "update", f"NodeName={node}", *changes)

    def reboot(self, node: str) -> None:
        """What a reboot of a node is to the controller: its daemon is gone, and registers with a new boot (`-b`)."""
        before = self._boot_time(node)
        self._slurmds[node].kill()
        self._slurmds[node].wait()
        self._slurmds[node] = self._start([self._slurmd, "-D", "-b", "-N", node])
        self.eventually(lambda: self._boot_time(node) > before)

    def _boot_time(self, node: str) -> str:
        return _field(self._ask("scontrol", "--oneliner", "show", "node", node), "BootTime", " ")

    def eventually(self, look: Callable[[], object]) -> None:
        """Wait for something."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not look():
            logs = "".join(file.read_text() for file in self._folder.glob("*.log"))
            assert time.monotonic() < end, f"nothing after {_PATIENCE_SECONDS} s; said:\n{logs}"
            time.sleep(0.1)

    def _ask(self, command: str, *arguments: str, check: bool = True) -> str:
        return subprocess.run(
            [self.programs / command, *arguments], env={**os.environ, **self.environment}, text=True,
            check=check, capture_output=True, timeout=60, cwd=self._folder,
        ).stdout  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """By which its commands find it."""
        return {"SLURM_CONF": str(self.configuration)}

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        output = self._daemons.enter_context((self._folder / f"{Path(command[0]).name}.output.log").open("ab"))
        daemon = subprocess.Popen(
            command, env={**os.environ, **self.environment}, stdout=output, stderr=output, cwd=self._folder
        )
        self._daemons.callback(daemon.wait)
        self._daemons.callback(daemon.kill)
        return daemon


class Job(NamedTuple):
    """A job that was started.

    Attributes:
        id: Its number.
        end: File that it waits for.
        output: File that it writes to at its end.
    """

    id: str
    end: Path
    output: Path


def _munge_options(folder: Path) -> list[str]:
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    return [f"--{option}={folder}/munge.{end}" for option, end in files.items()]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


def _field(line: str, name: str, until: str) -> str:
    """The value of `name=` in what scontrol says."""
    return line.partition(f" {name}=")[2].partition(until)[0]
