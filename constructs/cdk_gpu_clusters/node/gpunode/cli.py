"""The command `gpunode`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from . import jobs, nvml, paths
from .boot.boot import boot
from .boot.stages import stages_of
from .checkpoints import add_resume
from .checks.verify import as_json, as_table, checks_of, verify, worst
from .cores import keep_off_job_cores
from .cuda import add_cuda
from .drain import watch_for_end
from .events import Events
from .facts import record_facts
from .fleet_jobs.command import add_job
from .lustre import add_lustre_efa
from .metrics.collect import measure
from .node import AwsError, Node, this_node
from .reporting import event_reporter, evidence_reporter
from .shipping import ship
from .slurm_jobs.epilog import add_epilog
from .slurm_jobs.prolog import add_prolog
from .slurm_jobs.registration import add_registered
from .status import add_status
from .topology.nccl_test import add_nccl_test
from .topology.peers import add_peers
from .topology.run_command import add_run
from .watch.mode import Mode, mode_of
from .watch.service import orchestrator_of, watch

_VERIFY_TEXT = """\
Check this node. The report has each finding, the expected value and what to do.

The exit status is the worst of the findings: 0 healthy, 1 something cannot be determined here, 2 watch it, 3 reset the
GPU, 4 reboot the node, 5 replace the node. 64 is a wrong command line.
"""


class _Parser(argparse.ArgumentParser):
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        # argparse's own status 2 would look like a severity.
        super().exit(os.EX_USAGE if status == 2 else status, message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status."""
    parser = _Parser(prog="gpunode", description="Software of a GPU cluster node.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser("boot", help="check this boot stage by stage, then complete the launch")
    command.set_defaults(run=_boot)
    command = commands.add_parser(
        "verify",
        help="check this node: GPUs, memory, links, EFA, Lustre",
        description=_VERIFY_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    command.set_defaults(run=_verify)
    command = commands.add_parser("watch", help="watch the health of this node, and act when it fails")
    command.add_argument("--dry-run", action="store_true", help="only report what would be done")
    command.set_defaults(run=_watch)
    command = commands.add_parser("drain", help="wait for the end of this node, and drain it")
    command.set_defaults(run=_drain)
    command = commands.add_parser("metrics", help="measure this node once, and record it for CloudWatch")
    command.add_argument("--json", action="store_true", help="also print the record")
    command.set_defaults(run=_metrics)
    command = commands.add_parser("ship", help="send recorded events and metrics to CloudWatch Logs")
    command.add_argument("--measure", action="store_true", help="measure this node first, as `metrics` does")
    command.set_defaults(run=_ship)
    for add in (add_status, add_peers, add_run, add_resume, add_job, add_nccl_test, add_lustre_efa, add_cuda):
        add(commands)
    for add in (add_prolog, add_epilog, add_registered):
        add(commands)
    given = parser.parse_args(arguments)
    return int(given.run(given))


def _boot(_: argparse.Namespace) -> int:
    node = this_node()
    # Without its id it could not complete its launch, so it waits for the id as long as for anything else.
    while not node.instance_id and paths.uptime_seconds() < node.settings.number("boot_deadline", 900):
        node = this_node()
    events = Events(node.instance_id)
    return boot(node, events, stages_of, report=event_reporter(node, events), collect=evidence_reporter(node, events))


def _verify(given: argparse.Namespace) -> int:
    node = this_node()
    checks = checks_of(node)
    if not checks:
        sys.stderr.write("nothing to check: /etc/gpu-cluster/node.env names no accelerators, EFA or mounts\n")
    results = verify(node, checks)
    severity = worst(results)
    sys.stdout.write((as_json(results, severity, node.instance_id) if given.json else as_table(results)) + "\n")
    return int(severity)


def _watch(given: argparse.Namespace) -> int:
    node = this_node()
    if not node.instance_id:
        return _without_identity()
    keep_off_job_cores()
    nvml.enable()
    mode = Mode.DRY_RUN if given.dry_run else mode_of(node)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        return watch(node, Events(node.instance_id), checks_of(node), mode)
    finally:
        nvml.wait()  # a call of the driver is not interrupted


def _drain(_: argparse.Namespace) -> int:
    node = this_node()
    if not node.instance_id:
        return _without_identity()
    events = Events(node.instance_id)
    return watch_for_end(node, events, orchestrator=orchestrator_of(node), report=event_reporter(node, events))


def _metrics(given: argparse.Namespace) -> int:
    made = measure(this_node())
    if given.json:
        sys.stdout.write(json.dumps(made) + "\n")
    return 0


# gpu-node-ship.timer.
_SHIP_SECONDS = 60


def _ship(given: argparse.Namespace) -> int:
    jobs.remove_ended()
    node = this_node()
    if given.measure:
        keep_off_job_cores()
        nvml.enable()
    while True:
        if given.measure:
            _tried(measure, node)
            _tried(record_facts, node)
        status = _ship_records(node)
        # A process that ends while it uses the driver would be killed in the middle of a call. Its timer starts no
        # second one, so it goes on in its place.
        if nvml.wait(_SHIP_SECONDS):
            return status


def _tried(step: Callable[[Node], object], node: Node) -> None:
    try:
        step(node)
    except Exception as fault:  # noqa: BLE001 - what cannot be measured must not keep the rest from being sent
        sys.stderr.write(f"not measured: {type(fault).__name__}: {fault}\n")


def _ship_records(node: Node) -> int:
    if not node.instance_id:
        return _without_identity()
    try:
        ship(node)
    except AwsError as fault:
        sys.stderr.write(f"the records stay on this node for now: {fault}\n")
        return os.EX_TEMPFAIL
    return 0


def _without_identity() -> int:
    sys.stderr.write("the instance metadata service does not return the id of this instance\n")
    return os.EX_TEMPFAIL
