"""The command `gpunode job`: looks for a job of the fleet, and runs it on this node as a unit of systemd."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from .. import paths, state
from ..command import run
from ..events import Events
from ..lifecycle import membership
from ..node import AwsError, Node, this_node
from ..topology.peers import NoPeersError, NotYetError, find_peers, network_nodes
from .attempts import Attempts
from .board import JOB_ID, JOBS, STOPPED, UNKNOWN, Member
from .output import FOLDER as LOG_FOLDER
from .output import Output
from .posts import LoggedPosts, current_request
from .ranks import JOBS as JOBS_FOLDER
from .ranks import Ranks, StartError
from .request import JobRequest, RequestError

_TEXT = """\
Jobs that a user starts on all nodes of a fleet by `gpu-clusters run`.

  gpunode job sync     start or stop what the fleet's parameter requests; Systems Manager and each boot run it
  gpunode job run ID   take part in a job until it ends; the unit gpu-job@ID runs it
  gpunode job list     the job that runs on this node

Exit status: 0 done, 64 a wrong command line, 69 this node takes no jobs, 75 not now.
"""
_UNIT = "gpu-job@{}.service"
# CloudWatch Logs shows events a moment after it has accepted them.
_REQUEST_SECONDS, _PAUSE_SECONDS = 120, 3
_KEPT_JOBS = 10


def add_job(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to those of `gpunode`."""
    command = commands.add_parser(
        "job",
        help="run the jobs of `gpu-clusters run`",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("sync", help="start or stop what is asked for").set_defaults(run=lambda _: sync(this_node()))
    actions.add_parser("list", help="the job of this node").set_defaults(run=lambda _: _list())
    one = actions.add_parser("run", help="take part in a job")
    one.add_argument("job_id", metavar="ID")
    one.set_defaults(run=lambda given: run_job(this_node(), given.job_id))


def sync(node: Node) -> int:
    """Start the newest job of the fleet on this node, or stop the one that runs."""
    refusal = _refusal(node)
    if refusal is not None:
        return refusal
    try:
        request = current_request(node)
        wanted = "" if request is None or _has_ended(node, request) else request.job_id
    except AwsError as fault:
        return _fail(str(fault), os.EX_TEMPFAIL)
    except RequestError as fault:
        return _fail(str(fault), os.EX_UNAVAILABLE)
    # A deployment may have emptied the parameter: that ends no job.
    return 0 if request is None else _switch_to(wanted)


def _refusal(node: Node) -> int | None:
    """Exit status of a node that takes no jobs, or none yet; None of one that does."""
    if not node.settings.text("log_group") or not node.instance_id:
        return _fail("this node has no log group or no identity: it takes no jobs", os.EX_UNAVAILABLE)
    boot = state.boot_result().get("state", "")
    if boot == "failed" or state.announced():
        return _fail(f"this node takes no jobs: {state.announced() or 'its boot has failed'}", os.EX_UNAVAILABLE)
    if boot != "ready":
        return _fail("this node takes no jobs yet: it boots", os.EX_TEMPFAIL)
    return None


def _has_ended(node: Node, request: JobRequest) -> bool:
    return request.is_stopped or bool(LoggedPosts(node, request.job_id).read().result)


def _switch_to(wanted: str) -> int:
    """Run one job, or none if its id is empty, and no other."""
    running = _running()
    for job_id in running:
        if job_id != wanted:
            run("systemctl", "stop", "--no-block", _UNIT.format(job_id))
            sys.stdout.write(f"stopping {job_id}\n")
    if wanted and wanted not in running:
        started = run("systemctl", "start", "--no-block", _UNIT.format(wanted))
        if not started.ok:
            return _fail(started.words, os.EX_TEMPFAIL)
        sys.stdout.write(f"starting {wanted}\n")
    return 0


def run_job(node: Node, job_id: str) -> int:
    """Take part in a job until it ends."""
    own = _member(node)
    if not JOB_ID.fullmatch(job_id) or own is None:
        return _fail("no id of a job, or no identity of this node", os.EX_USAGE)
    posts = LoggedPosts(node, job_id)
    try:
        request = current_request(node)
        if request is None or request.job_id != job_id or request.is_stopped:
            return _fail(f"{job_id} is not the job of this fleet", os.EX_DATAERR)
        ranks = Ranks(node, job_id, request)
        cannot_start = _unpack(posts, request, ranks)
    except AwsError as fault:
        return _fail(str(fault), os.EX_TEMPFAIL)
    except RequestError as fault:
        return _fail(str(fault), os.EX_DATAERR)
    output = Output(node, f"{JOBS}/{job_id}/log/{node.stream_name}", job_id)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    attempts = Attempts(
        request,
        own,
        posts,
        ranks,
        in_service=lambda: in_service(node),
        are_known=lambda members: are_known(node, members),
        place=place_of(node),
        copy=output.copy,
        say=output.say,
        is_ending=lambda: bool(state.announced()),
        cannot_start=cannot_start,
        has_crashed=_has_run(job_id),
    )
    return _run(node, request, posts, ranks, attempts, output)


def _unpack(posts: LoggedPosts, request: JobRequest, ranks: Ranks) -> str:
    """Put the files of a job in place; why that fails, or an empty text.

    Raises:
        AwsError: If AWS refuses or does not answer.
    """
    try:
        remove_old(request.job_id)
        ranks.unpack(_wait_for_files(posts, request))
    except (RequestError, StartError, OSError) as fault:
        return str(fault)
    return ""


def _has_run(job_id: str) -> bool:
    """Whether this program has run the job since the node was started; it has from now on."""
    name = f"job-{job_id}"
    before = bool(state.recall(name))
    with suppress(OSError):
        state.remember(name, {"started": True})
    return before


def _run(node: Node, request: JobRequest, posts: LoggedPosts, ranks: Ranks, attempts: Attempts, output: Output) -> int:
    events = Events(node.instance_id)
    events.write("job", "started", f"{request.job_id}: {' '.join(request.command)}")
    result = "ended"
    try:
        result = attempts.run()
    except SystemExit:
        # The unit is stopped: by a user, or with the node.
        ranks.end(request.grace_seconds)
        if posts.is_stopped() and not state.announced():
            result = STOPPED
            posts.post(f"result/{result}")
        raise
    finally:
        ranks.end(request.grace_seconds)
        state_of_event = "ok" if result in ("0", STOPPED) else "failed"
        events.write("job", state_of_event, f"{request.job_id}: {result}")
        output.close()
    return 0


def _wait_for_files(posts: LoggedPosts, request: JobRequest) -> bytes:
    until = time.monotonic() + _REQUEST_SECONDS
    while (found := posts.files(request)) is None:
        if time.monotonic() >= until:
            raise RequestError(f"the files are still incomplete after {_REQUEST_SECONDS} s")
        time.sleep(_PAUSE_SECONDS)
    return found


def _member(node: Node) -> Member | None:
    instance_id, _, address = node.stream_name.partition("/")
    return Member(instance_id, address) if instance_id and address else None


#: Lifecycle states of instances that are about to go (EC2 Auto Scaling user guide, "Lifecycle states").
_LEAVING = ("Terminating", "Terminated", "Detaching", "Detached")


def in_service(node: Node) -> Collection[str]:
    """The instances of this node's group that do not leave it; empty if AWS does not answer."""
    try:
        group = membership(node).group
        answer = node.aws.call("autoscaling", "describe-auto-scaling-groups", "--auto-scaling-group-names", group)
    except AwsError:
        return ()
    rows = [one for found in (answer or {}).get("AutoScalingGroups", []) for one in found.get("Instances", [])]
    return [str(one["InstanceId"]) for one in rows if not str(one["LifecycleState"]).startswith(_LEAVING)]


def are_known(node: Node, members: list[Member]) -> bool:
    """Whether EC2 knows all members, with these addresses, in this fleet."""
    try:
        peers = find_peers(node, by_network=False).nodes
    except (NoPeersError, NotYetError):
        return False
    return set(members) <= {Member(one.instance_id, one.private_ip) for one in peers}


def place_of(node: Node) -> str:
    """The place of this node in EC2's network, as its flags have it."""
    try:
        above = network_nodes(node.aws, [node.instance_id]).above.get(node.instance_id, ())
    except AwsError:
        above = ()
    return ".".join(above) or UNKNOWN


def remove_old(job_id: str) -> None:
    """Remove the files and the output of older jobs than the last few: nothing else does."""
    for folder in (paths.below(JOBS_FOLDER), paths.below(LOG_FOLDER)):
        kept = sorted(folder.iterdir())[-_KEPT_JOBS:] if folder.is_dir() else []
        for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
            if entry not in kept and JOB_ID.fullmatch(entry.stem) and entry.stem != job_id:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _running() -> list[str]:
    """The jobs whose units run."""
    listed = run("systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating", _UNIT.format("*"))
    names = [line.split()[0] for line in listed.output.splitlines() if line.split()]
    return [name[len("gpu-job@") : -len(".service")] for name in names if name.startswith("gpu-job@")]


def _list() -> int:
    sys.stdout.write("".join(f"{name}\n" for name in _running()))
    return 0


def _fail(words: str, status: int) -> int:
    sys.stderr.write(f"gpunode job: {words}\n")
    return status
