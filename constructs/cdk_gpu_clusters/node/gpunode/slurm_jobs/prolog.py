"""`gpunode prolog`: whether this node may begin a job, by what its watchdog and its boot have found.

slurmd runs it as root before each job. A failure drains the node with the reason "Prolog error", and puts the job back
into the queue (Slurm documentation, "Prolog and Epilog Guide", "Failure Handling"). It reads files in memory only,
starts no program of the driver and uses no network, except on UltraServers: jobs of thousands of nodes wait for it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import paths
from ..checks.check import Severity
from ..events import Events
from ..health import assess, late_seconds
from ..node import Settings, read_settings
from ..state import announced, boot_result, recall
from .commands import SlurmCommands
from .imex import configure_imex

# Beginning, or late: systemd starts the watchdog again, and its silence says nothing about the GPUs.
_FIT = ("ok", "starting", "late")
_SEVERITIES = {severity.name.lower(): severity for severity in Severity}


def add_prolog(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser("prolog", help="slurmd: may this node begin a job?")
    command.set_defaults(run=prolog)


def prolog(_: argparse.Namespace) -> int:
    """Check and prepare the node for the job of the environment; returns the exit status."""
    settings, job = read_settings(), os.environ.get("SLURM_JOB_ID", "")
    reason = why_not(settings)
    if not reason and settings.number("imex"):
        reason = configure_imex(SlurmCommands(settings), os.environ.get("SLURM_JOB_NODELIST", ""), job)
    if reason:
        Events(instance_id()).write("prolog", "failed", reason, job=job)
        return 1
    folder = job_folder(settings, job)
    if folder:
        make_folder(folder, user=int(os.environ.get("SLURM_JOB_UID") or 0))
    return 0


def why_not(settings: Settings) -> str:
    """Why no job may begin on this node; empty if one may. What the watchdog only reports does not count."""
    ending = announced()
    if ending:
        return f"the node is about to end: {ending}"
    mode = settings.text("watch", "on").lower()
    if mode != "on":
        return ""
    boot = boot_result()
    if boot.get("state") == "failed":
        return f"the boot checks failed: {boot.get('reason', '')}"
    health = assess(
        recall("watch"),
        acts_from=_SEVERITIES.get(settings.text("watch_acts_from").lower(), Severity.RESET),
        dry_run=False,
        late_seconds=late_seconds(settings.number("watch_interval", 10)),
    )
    return "" if health.state in _FIT else f"{health.state}: {'; '.join(health.reasons)}"


def instance_id() -> str:
    """This instance, as its boot noted it: the metadata service is not asked before each job."""
    return str(boot_result().get("instance_id", ""))


def job_folder(settings: Settings, job: str) -> Path | None:
    """The folder of a job on the local disks; None without local disks."""
    scratch = settings.text("scratch")
    return paths.below(scratch) / f"job-{job}" if scratch and job.isdecimal() else None


def make_folder(folder: Path, *, user: int) -> None:
    """Make the folder of a job, for its user only. A job can do without it, so a failure is none of the prolog."""
    with suppress(OSError):
        folder.mkdir(mode=0o700)
        os.chown(folder, user, -1)


def remove_folder(folder: Path) -> None:
    """Remove the folder of a job. No link in it leads out (`shutil.rmtree.avoids_symlink_attacks`)."""
    shutil.rmtree(folder, ignore_errors=True)
