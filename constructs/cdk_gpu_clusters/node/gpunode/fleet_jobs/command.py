"""The command `gpunode job`: looks for a job of the fleet, and runs it on this node as a unit of systemd."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Collection
from typing import Any

from .. import paths, state
from ..command import run
from ..events import Events
from ..lifecycle import membership
from ..node import AwsError, Node, this_node
from ..topology.peers import NoPeersError, NotYetError, find_peers
from .attempts import Attempts
from .board import JOB_ID, JOBS, STOPPED, Member
from .output import Output
from .posts import LoggedPosts, current_request
from .ranks import Ranks, StartError
from .request import JobRequest, RequestError

_TEXT = """\
Jobs that a user starts on all nodes of a fleet by `gpu-clusters run`.

  gpunode job sync     start or stop what the fleet's log group asks for; Systems Manager and each boot run it
  gpunode job run ID   take part in a job until it ends; the unit gpu-job@ID runs it
  gpunode job list     the job that runs on this node

Exit status: 0 done, 64 a wrong command line, 69 this node takes no jobs, 75 not now.
"""
_UNIT = "gpu-job@{}.service"
# CloudWatch Logs shows events a moment after it has accepted them.
_REQUEST_SECONDS, _PAUSE_SECONDS = 120, 3


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
    if not node.settings.text("log_group") or not node.instance_id:
        return _fail("this node has no log group or no identity: it takes no jobs", os.EX_UNAVAILABLE)
    boot = state_of_boot()
    if boot != "ready" or state.announced():
        return _fail(f"this node takes no jobs now: {state.announced() or boot or 'it boots'}", os.EX_TEMPFAIL)
    try:
        request = current_request(node)
        is_wanted = request is not None and not request.is_stopped and not _result(node, request.job_id)
    except (AwsError, RequestError) as fault:
        return _fail(str(fault), os.EX_TEMPFAIL)
    wanted = request.job_id if request is not None and is_wanted else ""
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


def _result(node: Node, job_id: str) -> str:
    return LoggedPosts(node, job_id).read().result


def run_job(node: Node, job_id: str) -> int:
    """Take part in a job until it ends."""
    own = _member(node)
    if not JOB_ID.fullmatch(job_id) or own is None:
        return _fail("no id of a job, or no identity of this node", os.EX_USAGE)
    posts = LoggedPosts(node, job_id)
    output = Output(node, f"{JOBS}/{job_id}/log/{node.stream_name}", job_id)
    events = Events(node.instance_id)
    try:
        request = current_request(node)
        if request is None or request.job_id != job_id or request.is_stopped:
            return _fail(f"{job_id} is not the job of this fleet", os.EX_DATAERR)
        files = _wait_for_files(posts, request)
        ranks = Ranks(node, job_id, request)
        ranks.unpack(files)
    except (RequestError, StartError, AwsError, OSError) as fault:
        output.say(f"cannot start: {fault}")
        output.close()
        return _fail(str(fault), os.EX_DATAERR)
    events.write("job", "started", f"{job_id}: {' '.join(request.command)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    attempts = Attempts(
        request,
        own,
        posts,
        ranks,
        in_service=lambda: in_service(node),
        in_order=lambda members: in_order(node, members),
        copy=output.copy,
        say=output.say,
        is_ending=lambda: bool(state.announced()),
    )
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
        events.write("job", "ok" if result in ("0", STOPPED) else "failed", f"{job_id}: {result}")
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


def in_order(node: Node, members: list[Member]) -> list[Member] | None:
    """Members in the order of their ranks; None unless EC2 knows all of them, with these addresses, in this fleet."""
    try:
        peers = find_peers(node).nodes
    except (NoPeersError, NotYetError):
        return None
    known = [Member(one.instance_id, one.private_ip) for one in peers]
    ordered = [one for one in known if one in members]
    return ordered if len(ordered) == len(members) else None


def state_of_boot() -> str:
    """How this boot went: `ready`, `failed`, or empty while it goes on."""
    try:
        boot = json.loads(paths.read_text(paths.below("/var/lib/gpu-cluster/boot.json")))
        return str(boot["state"]) if boot["boot_id"] == paths.boot_id() else ""
    except (ValueError, KeyError, TypeError):
        return ""


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
