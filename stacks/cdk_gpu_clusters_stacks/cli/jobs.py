"""`gpu-clusters jobs`: the jobs of a fleet, what they print, and their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdk_gpu_clusters_stacks import terminal

from . import complete, output
from .account import Profile
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.jobs.client import FleetJobs, Line, PastJob
    from cdk_gpu_clusters_stacks.jobs.follow import View

_STOPPED_STATUS = 130

app = new_app(
    help="Jobs on all nodes of a fleet: list them, read what they print, follow and stop them.",
    epilog=examples("gpu-clusters jobs list trainers", "gpu-clusters jobs attach trainers"),
)
Fleet = Annotated[
    str, typer.Argument(metavar="FLEET", help="The fleet: its key in the cluster file, its construct, or its group.")
]
_Job = Annotated[str | None, typer.Argument(metavar="JOB", help="The job. Default: the newest.")]
Region = Annotated[
    str | None,
    typer.Option("--region", help="Region. Default: that of the AWS configuration.", autocompletion=complete.regions),
]


@app.command("list", epilog=examples("gpu-clusters jobs list trainers"))
def list_jobs(fleet: Fleet, region: Region = None, profile: Profile = None, as_json: output.Json = False) -> None:
    """List the jobs of a fleet, the newest first."""
    from cdk_gpu_clusters_stacks.jobs.client import state_of

    with connected(fleet, region, profile) as jobs, terminal.progress("asking how each job ended") as on_done:
        past = jobs.past()
        found = []
        for done, one in enumerate(past):
            on_done(done, len(past))
            found.append((one, state_of(jobs.board(one.request.job_id), one)))
    if as_json:
        output.write_document({"jobs": [_as_json(one, state) for one, state in found]})
        return
    rows = [
        (
            one.request.job_id,
            state,
            str(one.request.nodes),
            f"{one.requested_at:%Y-%m-%d %H:%M}",
            one.requested_by.rpartition("/")[2],
            " ".join(one.request.command),
        )
        for one, state in found
    ]
    output.write_table(("JOB", "STATE", "NODES", "REQUESTED", "BY", "COMMAND"), rows, right=("NODES",))


@app.command(epilog=examples("gpu-clusters jobs logs trainers > train.log"))
def logs(fleet: Fleet, job: _Job = None, region: Region = None, profile: Profile = None) -> None:
    """Print what all ranks of a job have printed, each line with its node."""
    from cdk_gpu_clusters_stacks.jobs.follow import host_name

    with connected(fleet, region, profile) as jobs:
        for line in jobs.lines(_chosen(jobs, job).request.job_id):
            print_line(host_name(line.address), line)


@app.command(epilog=examples("gpu-clusters jobs attach trainers", then="Ctrl-C leaves the job running."))
def attach(fleet: Fleet, job: _Job = None, region: Region = None, profile: Profile = None) -> None:
    """Follow a job to its end; the exit status is that of the job."""
    with connected(fleet, region, profile) as jobs:
        past = _chosen(jobs, job)
        output.leave(watch(jobs, past.request.job_id, past.request.nodes))


@app.command(epilog=examples("gpu-clusters jobs stop trainers"))
def stop(fleet: Fleet, job: _Job = None, region: Region = None, profile: Profile = None) -> None:
    """Stop a job on all nodes: SIGTERM, and SIGKILL after its grace period."""
    from cdk_gpu_clusters_stacks.jobs.client import JobError

    with connected(fleet, region, profile) as jobs:
        chosen = _chosen(jobs, job)
        job_id = chosen.request.job_id
        if result := jobs.board(job_id).result:
            output.write(f"{job_id} has already ended: {result}\n", stderr=True)
            return
        try:
            jobs.stop(chosen)
        except JobError as fault:
            output.refuse(f"jobs: {fault}")
        output.write(f"{job_id} ends on all nodes\n", stderr=True)


@contextmanager
def connected(fleet: str, region: str | None, profile: str | None) -> Iterator[FleetJobs]:
    """The jobs of a fleet; what AWS refuses meanwhile ends the command in one line, with exit status 2."""
    from cdk_gpu_clusters_stacks.aws_errors import aws_error
    from cdk_gpu_clusters_stacks.jobs.client import FleetJobs, find_fleets
    from cdk_gpu_clusters_stacks.jobs.fleet import NoFleetError, choose_fleet

    clients = _clients(region, profile)
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        where = clients["ssm"].meta.region_name
        with terminal.steps(f"looking for {fleet} in {where}"):
            fleets = find_fleets(clients)
        yield FleetJobs(choose_fleet(fleets, fleet, region=where), clients)
    except NoFleetError as fault:
        output.refuse(f"jobs: {fault}")
    except (BotoCoreError, ClientError) as fault:
        found = aws_error(fault)
        output.refuse(f"jobs: {found.trouble.value}: {found.message}")


def _clients(region: str | None, profile: str | None) -> dict[str, Any]:
    from cdk_gpu_clusters_stacks.aws_session import NoSession, open_session

    try:
        session = open_session(profile)
    except NoSession as fault:
        output.refuse(f"jobs: {fault}")
    from botocore.config import Config

    # boto3 reads AWS_DEFAULT_REGION alone, and the other SDKs and the AWS CLI AWS_REGION first.
    where = region or os.environ.get("AWS_REGION") or session.region_name
    if not where:
        output.refuse("jobs: no Region: give --region, or set AWS_REGION")
    config = Config(retries={"mode": "standard", "total_max_attempts": 8}, connect_timeout=5, read_timeout=20)
    make = getattr(session, "client")  # noqa: B009 - its type has an overload for each service
    return {name: make(name, region_name=where, config=config) for name in ("autoscaling", "logs", "ssm")}


def watch(jobs: FleetJobs, job_id: str, wanted: int, command_id: str = "") -> int:
    """Show a job until it ends.

    Returns:
        Its exit status, 130 if it was stopped.
    """
    from cdk_gpu_clusters_stacks.jobs.follow import follow

    shown = _Shown(job_id)
    try:
        with shown:
            result = follow(jobs, job_id, wanted=wanted, on_line=shown.line, on_view=shown.view, command_id=command_id)
    except KeyboardInterrupt:
        name = jobs.fleet.names[0]
        output.write(
            f"\n{job_id} goes on: gpu-clusters jobs attach {name}; gpu-clusters jobs stop {name}\n", stderr=True
        )
        return 0
    if result.isdecimal():
        return int(result)
    if (newer := jobs.replacement(job_id)) is not None:
        output.write(f"{job_id} has ended: {newer.described}\n", stderr=True)
    return _STOPPED_STATUS


def print_line(host: str, line: Line) -> None:
    """Print a line of a rank, with its node."""
    output.write(f"{host} | {line.text}\n")


class _Shown:
    """The lines of a job on standard output, and its state on standard error.

    The state is a live table on a terminal, and a line for each change elsewhere.
    """

    def __init__(self, job_id: str) -> None:
        from rich.live import Live

        self._job_id, self._last = job_id, ""
        # Lines on a terminal go above the table; those in a pipe or a file go there.
        self._lines_above = sys.stdout.isatty()
        self._live = (
            Live(
                console=terminal.console(stderr=True),
                transient=True,
                auto_refresh=False,
                redirect_stdout=self._lines_above,
            )
            if terminal.can_be_redrawn()
            else None
        )

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def line(self, host: str, line: Line) -> None:
        """Show a line; a live table moves below it."""
        if self._live is None or not self._lines_above:
            print_line(host, line)
            return
        from rich.text import Text

        from cdk_gpu_clusters._untrusted import printable_line

        self._live.console.print(Text(host, style="cyan").append(f" | {printable_line(line.text)}", "default"))

    def view(self, view: View) -> None:
        """Show the state."""
        words = "".join(
            [f"{self._job_id}: {view.summary}\n", *(f"{name}: {why}\n" for name, why in view.refusals.items())]
        )
        if self._live is None:
            if words != self._last:
                output.write(words, stderr=True)
            self._last = words
            return
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        from cdk_gpu_clusters._untrusted import printable_line

        table = Table(box=None, pad_edge=False)
        for column in ("node", "instance", "state"):
            table.add_column(column)
        for node in view.nodes:
            why = view.refusals.get(node.instance_id, "")
            state = f"{node.state}: {why}" if why else node.state
            table.add_row(*(printable_line(cell) for cell in (node.name, node.instance_id, state)))
        # A title of the table would be as narrow as the table.
        self._live.update(Group(Text(f"{self._job_id}: {view.summary}", "bold"), table), refresh=True)


def _chosen(jobs: FleetJobs, job_id: str | None) -> PastJob:
    past = jobs.past()
    found = [one for one in past if job_id in (None, one.request.job_id)]
    if not found:
        known = ", ".join(one.request.job_id for one in past[:5])
        name = jobs.fleet.names[0]
        output.refuse(
            f"jobs: {name} has no job {job_id}; it has {known}" if known else f"jobs: {name} has had no job yet"
        )
    return found[0]


def _as_json(past: PastJob, state: str) -> dict[str, object]:
    return {
        **output.as_json(past.request),
        "state": state,
        "requested_at": past.requested_at.isoformat(),
        "requested_by": past.requested_by,
    }
