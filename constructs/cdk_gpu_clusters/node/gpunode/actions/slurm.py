"""Slurm, through sinfo and scontrol: the node is drained, and its running jobs end by themselves.

The state decides, never the reason: Slurm 24.11 keeps the old reason after RESUME, 22.05 clears it. Changes
by an operator are respected: only a node that accepts jobs is drained, and the reason of another drain stays. A drain
by slurmd itself, after a failed prolog or epilog, is no operator's: a repair takes it over.

A drain belongs to the name of a node, and Slurm keeps it while the node is powered down. In a group that scales
(GPU_SCALES), Slurm would never start an instance for that name again. There, a node that has to go is powered down as
soon as its jobs have ended, which ends its drain (scontrol manual, POWER_DOWN_ASAP; SchedMD/slurm,
src/slurmctld/power_save.c, "Clear power_down_asap"). A drain for another purpose ends by itself after a day
(ResumeAfter). Slurm keeps that time when an operator takes such a drain over: theirs then ends with it, unless they
write ResumeAfter=-1.

AWS ParallelCluster ends a drained node at once, and launches another one (GPU_REPLACES_DRAINED;
aws/aws-parallelcluster-node @ 2e8f9a8, clustermgtd.py: terminate_drain_nodes). At the end of the capacity that would
not help, and launches that fail stop the queue. There, a node reserves itself for maintenance, as ParallelCluster does
with the nodes of a Capacity Block that is not active (the same, capacity_block_manager.py).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import NamedTuple

from .. import paths
from ..checks.check import Severity
from ..command import run
from ..node import Node
from ..slurm_jobs.commands import SlurmCommands
from .orchestrator import HOUR_SECONDS, REPAIRS, SIGNATURE, ActionError, NotYet, moment_of

# sinfo manual, "NODE STATE CODES": states of nodes that accept jobs, now or after the current one.
_ACCEPTS_JOBS = ("allocated", "completing", "idle", "mixed", "planned", "reserved")
# The same, "a node state code followed by a character".
_MARKS = "*~#!%$@^+-"
_TO_POWER_DOWN, _POWERING_DOWN, _POWERED_DOWN = "!", "%", "~"
# The same: states without jobs. `draining` still has some. slurmctld sets a node DOWN that was rebooted without it.
_WITHOUT_JOBS = ("drained", "down", "fail", "unknown")
# What slurmd drains its node for (SchedMD/slurm, src/slurmd/slurmd/req.c).
_OF_SLURMD = ("Prolog error", "Epilog error")
#: Where the lifecycle script leaves PCS_NODE_ID: the host has another name, that of EC2.
_NAME_FROM_PCS = "/run/gpu-cluster/slurm-node"
_COLUMNS = "%N|%n|%o|%P|%T|%H|%E"
_TIMEOUT_SECONDS = 15
# Longer than almost every wait for jobs. An idle node is powered down with its drain, if nobody has ended that before.
_DRAIN_SECONDS = 24 * 3600
# As long as from the time to drain to the end of a Capacity Block. Another instance under this name is free after it.
_RESERVATION_MINUTES = 40
# AWS PCS starts slurmd when cloud-init has run the scripts of the user. The wait has an end: if the clock was set after
# slurmd sent its time of boot, that looks old.
_REGISTRATION_SECONDS = 600.0
# slurmd sends its time of boot in whole seconds, and clocks are corrected by seconds.
_CLOCK_SECONDS = 10.0


class _Row(NamedTuple):
    """A node in a partition, as sinfo shows it."""

    name: str
    host: str
    address: str
    partition: str
    state: str
    since: str
    reason: str


class Slurm:
    """Drains this node, or has Slurm power it down."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._folder = node.settings.text("slurm_bin").rstrip("/")
        config = node.settings.text("slurm_conf")
        self._environment = {"SLURM_CONF": config} if config else {}
        self._scales = bool(node.settings.number("scales"))
        self.size: int = 0
        self.knows_jobs: bool = True

    @property
    def name(self) -> str:
        """Name of this node in Slurm.

        Raises:
            ActionError: If the controller does not answer, or does not list it.
        """
        return self._mine(self._rows())[0].name

    @property
    def own_name(self) -> str:
        """Its name by the settings, or as AWS PCS calls it (`lifecycle_scripts`), or that of the host; asks no one."""
        given = self._node.settings.text("node_name") or paths.read_text(paths.below(_NAME_FROM_PCS)).strip()
        return given or socket.gethostname().partition(".")[0]

    def why_out(self) -> str:
        """Any state in which it accepts no jobs, unless slurmd itself drained it.

        A drain of a node that is being powered down would outlive it.
        """
        mine = self._mine(self._rows())[0]
        state = mine.state.rstrip(_MARKS)
        if mine.state.endswith(_POWERING_DOWN):
            return f"Slurm powers {mine.name} down"
        if state in _ACCEPTS_JOBS or mine.reason.startswith(_OF_SLURMD):
            return ""
        return f"Slurm has {mine.name} {state}: {mine.reason}"

    def taken_out(self, severity: Severity) -> set[str]:
        """Nodes of the same partitions that were drained, or powered down, by this software within the hour."""
        rows = self._rows()
        mine = self._mine(rows)
        partitions = {row.partition for row in mine}
        self.size = len({row.name for row in rows if row.partition in partitions})
        return {
            row.name
            for row in rows
            if row.partition in partitions
            and _is_out(row)
            and _repair_of(row.reason) >= severity
            and _is_recent(row.since)
        } - {mine[0].name}

    def take_out(self, severity: Severity, reason: str) -> None:
        """Drain it permanently, or power it down once its jobs have ended."""
        self._end(f"{severity.name.lower()}: {reason}")

    def hold(self, severity: Severity, reason: str) -> None:
        """Drain it. The reason begins with the signature, by which `release` knows its own hold."""
        self._drain(f"{severity.name.lower()}: {reason}")

    def holds(self) -> bool:
        """Whether it accepts no jobs for a reason of this software."""
        mine = self._mine(self._rows())[0]
        return mine.state.rstrip(_MARKS) not in _ACCEPTS_JOBS and _repair_of(mine.reason) is not Severity.OK

    def busy(self) -> str:
        """The state of a drained node that still has jobs."""
        mine = self._mine(self._rows())[0]
        state = mine.state.rstrip(_MARKS)
        return "" if state in _WITHOUT_JOBS else f"Slurm has {mine.name} {state}"

    def release(self) -> None:
        """Resume it, unless someone has changed the reason or has resumed it."""
        if self.holds():
            name = self.name
            self._expect_registration(name)
            self._run("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def _expect_registration(self, name: str) -> None:
        """Wait for slurmd after a boot, beside which the watchdog starts.

        Without it, the controller would send jobs to a node that cannot take them. Unless `ReturnToService` is 2, it
        also sets a node DOWN that was not drained when it registers with a new boot ("Node unexpectedly rebooted",
        SchedMD/slurm, src/slurmctld/node_mgr.c, validate_node_specs).

        Raises:
            NotYet: If it has not registered since this boot, which is young.
        """
        uptime = paths.uptime_seconds()
        if uptime >= _REGISTRATION_SECONDS:
            return
        shown = (SlurmCommands(self._node.settings).nodes(name) or [{}])[0]
        booted = _moment_of(shown.get("BootTime", ""))
        if booted is None or booted < time.time() - uptime - _CLOCK_SECONDS:
            raise NotYet(f"slurmd of {name} has not registered since this boot")

    def release_former(self, started: float) -> str:
        """Resume it if this software, or slurmd, drained it before this instance started; returns the reason.

        A drain belongs to the name of a node, and AWS PCS gives the name to the instance that takes its place. A node
        that registers stays drained (SchedMD/slurm, src/slurmctld/node_mgr.c, validate_node_specs).

        Args:
            started: When this instance started, in seconds since 1970.
        """
        mine = self._mine(self._rows())[0]
        drained = _moment_of(mine.since)
        is_out = mine.state.rstrip(_MARKS) not in _ACCEPTS_JOBS
        if not is_out or not _is_of_software(mine) or drained is None or drained >= started:
            return ""
        self._run("scontrol", "update", f"NodeName={mine.name}", "State=RESUME")
        return mine.reason

    def reboot(self) -> bool:
        """Nothing: the node reboots itself."""
        return False

    def keep_new_work_away(self, reason: str) -> None:
        """End it, unless it already accepts no jobs.

        In a group that scales, a drain of this software or of slurmd must not outlive the node.
        """
        mine = self._mine(self._rows())[0]
        stays = not mine.state.endswith((_TO_POWER_DOWN, _POWERING_DOWN))
        if not self.why_out() or (self._scales and stays and _is_of_software(mine)):
            self._end(reason)

    def end_work(self) -> str:
        """SIGTERM to every job on this node, its batch script and their children (scancel manual, `--full`).

        Slurm ends a job of several nodes when one of them goes.
        """
        name = self.name
        self._run("scancel", "--signal=TERM", "--full", f"--nodelist={name}")
        return f"scancel: SIGTERM to the jobs of {name}"

    def _end(self, reason: str) -> None:
        """Take it out of service permanently. Its name stays unused only if no other instance may have it.

        When the capacity ends, another instance would end at once, too.
        """
        ends_at = moment_of(self._node.settings.text("drain_at"))
        is_over = ends_at is not None and time.time() >= ends_at
        if is_over and self._node.settings.number("replaces_drained"):
            self._reserve()
        elif self._scales and not is_over:
            self._update("State=POWER_DOWN_ASAP", reason)
        else:
            self._drain(reason)

    def _reserve(self) -> None:
        """Keep new jobs away without a drain. Running jobs go on (scontrol manual, MAINT and IGNORE_JOBS)."""
        name = self.name
        reservation = f"{SIGNATURE}-{name}"
        with suppress(ActionError):  # there is none yet
            self._run("scontrol", "show", "reservation", reservation)
            return
        self._run(
            "scontrol", "create", "reservation", f"ReservationName={reservation}", f"Nodes={name}", "Users=root",
            "StartTime=now", f"Duration={_RESERVATION_MINUTES}", "Flags=MAINT,IGNORE_JOBS",
        )  # fmt: skip

    def _drain(self, reason: str) -> None:
        self._update("State=DRAIN", reason, *([f"ResumeAfter={_DRAIN_SECONDS}"] if self._scales else []))

    def _update(self, state: str, reason: str, *more: str) -> None:
        name = self.name
        words = f"{SIGNATURE}: {reason}"[:200]
        self._run("scontrol", "update", f"NodeName={name}", state, f"Reason={words}", *more)

    def _rows(self) -> list[_Row]:
        lines = self._run("sinfo", "--noheader", "--Node", f"--format={_COLUMNS}").splitlines()
        cells = (line.split("|", len(_Row._fields) - 1) for line in lines)
        return [_Row(*(cell.strip() for cell in row)) for row in cells if len(row) == len(_Row._fields)]

    def _mine(self, rows: list[_Row]) -> list[_Row]:
        """This node in each of its partitions: by GPU_NODE_NAME, or by its own, host name or address."""
        name, own = self._node.settings.text("node_name"), self.own_name
        host = socket.gethostname().partition(".")[0]
        address = self._node.metadata.get("local-ipv4") if not name else None
        for mine in (
            [row for row in rows if row.name == own],
            [row for row in rows if not name and host in (row.name, row.host.partition(".")[0])],
            [row for row in rows if not name and address and row.address == address],
        ):
            if mine:
                return mine
        raise ActionError(f"sinfo lists no node {own}")

    def _run(self, program: str, *arguments: str) -> str:
        path = f"{self._folder}/{program}" if self._folder else program
        outcome = run(path, *arguments, timeout_seconds=_TIMEOUT_SECONDS, environment=self._environment)
        if not outcome.ok:
            raise ActionError(f"{program}: {outcome.words}")
        return outcome.output


def _is_out(row: _Row) -> bool:
    """Whether a node accepts no jobs, or was replaced: Slurm keeps the reason until it powers the node up again."""
    is_down = row.state.endswith((_POWERING_DOWN, _POWERED_DOWN))
    return row.state.rstrip(_MARKS) not in _ACCEPTS_JOBS or (is_down and _repair_of(row.reason) is Severity.REPLACE)


def _is_of_software(row: _Row) -> bool:
    """Whether the reason is that of this software or of slurmd, not of a person."""
    return row.reason.startswith((f"{SIGNATURE}: ", *_OF_SLURMD))


def _repair_of(reason: str) -> Severity:
    """The repair that a reason of this software names; OK for any other reason."""
    signature, _, rest = reason.partition(": ")
    return REPAIRS.get(rest.partition(":")[0], Severity.OK) if signature == SIGNATURE else Severity.OK


def _is_recent(since: str) -> bool:
    """Whether a time of sinfo lies within the last hour."""
    start = _moment_of(since)
    return start is None or time.time() - start < HOUR_SECONDS


def _moment_of(since: str) -> float | None:
    """A time of sinfo, which is in the node's own time zone, in seconds since 1970; None for anything else."""
    try:
        return time.mktime(time.strptime(since, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
