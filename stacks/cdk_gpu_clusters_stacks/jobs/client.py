"""What a user does with the jobs of a fleet, in an account."""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cdk_gpu_clusters.node.gpunode.fleet_jobs.board import JOBS, Board, read_board
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import (
    LONGEST_REQUEST,
    JobRequest,
    RequestError,
    as_text,
    pieces_of,
    read_request,
    with_files,
)

from .fleet import JobFleet, read_fleets

# hashicorp/terraform-provider-aws issue 11611: a new stream is visible late.
_UNKNOWN_STREAM_SECONDS = (0.5, 1, 2)
_LETTERS = string.ascii_lowercase + string.digits
#: Service -> boto3 client of one Region.
Clients = Mapping[str, Any]


class JobError(Exception):
    """A job cannot be started, stopped or shown; the text is the reason."""


@dataclass(frozen=True, kw_only=True)
class PastJob:
    """A job of a fleet, as its parameter's history has it.

    Attributes:
        request: What was requested last, such as its end.
        requested_at: When it was first requested.
        requested_by: ARN of who did.
    """

    request: JobRequest
    requested_at: datetime
    requested_by: str

    @property
    def described(self) -> str:
        """That it was requested, and the name of its user."""
        name = self.requested_by.rpartition("/")[2]
        return f"{self.request.job_id} was requested by {name}" if name else f"{self.request.job_id} was requested"


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A job that has been requested.

    Attributes:
        command_id: Command that makes the nodes look for it.
        replaced: Job of someone else, requested in the same moment, whose place it took; None if there is none.
    """

    command_id: str
    replaced: PastJob | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line that a node has printed.

    Attributes:
        id: Id of the event.
        address: Address of the node.
        milliseconds: When it was printed, since 1970.
        text: The line.
    """

    id: str
    address: str
    milliseconds: int
    text: str


def new_job_id(now: datetime) -> str:
    """A name for a job: names of later jobs come later in order."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{''.join(secrets.choice(_LETTERS) for _ in range(4))}"


def find_fleets(clients: Clients) -> list[JobFleet]:
    """The fleets of a Region that run jobs."""
    pages = clients["autoscaling"].get_paginator("describe_auto_scaling_groups").paginate()
    return read_fleets([group for page in pages for group in page["AutoScalingGroups"]])


def jobs_of(versions: Sequence[Mapping[str, Any]]) -> list[PastJob]:
    """The jobs of some versions of the parameter, the oldest version first; the newest job first."""
    found: dict[str, PastJob] = {}
    for version in versions:
        with suppress(RequestError):
            request = read_request(version["Value"])
            if request is None:
                continue
            first = found.get(request.job_id)
            found[request.job_id] = PastJob(
                request=request,
                requested_at=first.requested_at if first else version["LastModifiedDate"],
                requested_by=first.requested_by if first else version.get("LastModifiedUser", ""),
            )
    return sorted(found.values(), key=lambda one: one.request.job_id, reverse=True)


def state_of(board: Board, past: PastJob) -> str:
    """The state of a job in a word or two: `waits 3/4`, `attempt 1`, `stops`, `stopped`, `done` or `failed 1`."""
    if board.result:
        return (
            "stopped" if not board.result.isdecimal() else "done" if board.result == "0" else f"failed {board.result}"
        )
    if past.request.is_stopped:
        return "stops"
    if board.newest == 0:
        return "waits"
    ready = len(board.attempt(board.newest).members(past.request.nodes))
    return f"attempt {board.newest}" if ready == past.request.nodes else f"waits {ready}/{past.request.nodes}"


class FleetJobs:
    """The jobs of one fleet.

    Args:
        fleet: The fleet.
        clients: Clients of its account and Region: autoscaling, logs and ssm.
    """

    def __init__(self, fleet: JobFleet, clients: Clients) -> None:
        self.fleet = fleet
        self._logs, self._ssm, self._scaling = clients["logs"], clients["ssm"], clients["autoscaling"]

    def submit(
        self, request: JobRequest, files: bytes = b"", *, on_sent: Callable[[int, int], object] = lambda *_: None
    ) -> Submitted:
        """Start a job.

        PutParameter has no condition, but each write gets the next number as its version (Systems Manager user guide,
        "Working with parameter versions in Parameter Store"). So of two users in the same moment the later one wins,
        and both learn it: the later one by a gap before its number, the earlier one by reading again.

        Args:
            request: The job.
            files: The tar.gz of its files; none if empty.
            on_sent: Called with the number of pieces of the files that are sent, and of all.

        Raises:
            JobError: If another job runs, or takes the place of this one at once, or the request is too long.
        """
        whole = with_files(request, files)
        text = as_text(whole)
        if len(text) > LONGEST_REQUEST:
            raise JobError(
                f"the command and its variables have {len(text):,} characters as a request, and {LONGEST_REQUEST:,} "
                "are allowed: put them into a script, and send that with --files"
            )
        seen = self._version_of_free_fleet()
        if files:
            # Before the request: nodes look for the files as soon as they see it. It takes seconds: look again.
            self._send(request.job_id, files, on_sent)
            seen = self._version_of_free_fleet()
        written = self._request(whole)
        replaced = self._requested_between(seen, written, other_than=request.job_id)
        command_id = self.tell_nodes()
        newer = self.replacement(request.job_id)
        if newer is not None:
            raise JobError(f"{request.job_id} does not run: {newer.described} in the same moment")
        return Submitted(command_id=command_id, replaced=replaced)

    def _version_of_free_fleet(self) -> int:
        """Version of the parameter while no job runs.

        Raises:
            JobError: If one runs.
        """
        current, version = self._newest()
        if current is not None and not current.is_stopped and not self.board(current.job_id).result:
            name = self.fleet.names[0]
            raise JobError(
                f"{current.job_id} runs on {name}, which takes one job at a time: wait for it, or stop it "
                f"(gpu-clusters jobs stop {name})"
            )
        return version

    def stop(self, past: PastJob) -> None:
        """End a job.

        Raises:
            JobError: If another one was requested since.
        """
        current, seen = self._newest()
        # A deployment that changes the parameter, such as its tags, empties it.
        newer = (
            None if current is None or current.job_id == past.request.job_id else self.replacement(past.request.job_id)
        )
        if newer is None:
            written = self._request(replace(past.request, is_stopped=True))
            newer = self._requested_between(seen, written, other_than=past.request.job_id)
            if newer is not None:
                self._request(newer.request)  # what was requested while this was written
            self.tell_nodes()
        if newer is not None:
            raise JobError(f"{past.request.job_id} has ended: {newer.described} since")

    def tell_nodes(self) -> str:
        """Make the nodes look for what is requested; the id of the command, empty if no node can be reached now."""
        target = {"Key": "tag:aws:autoscaling:groupName", "Values": [self.fleet.group]}
        # No error of a node keeps the others from being told.
        sent = self._ssm.send_command(
            DocumentName=self.fleet.document, Targets=[target], MaxConcurrency="100%", MaxErrors="100%"
        )
        return str(sent["Command"]["CommandId"])

    def refusals(self, command_id: str) -> dict[str, str]:
        """Why nodes did not look for the job: instance -> reason."""
        found = {}
        pages = self._ssm.get_paginator("list_command_invocations").paginate(CommandId=command_id, Details=True)
        for page in pages:
            for one in page["CommandInvocations"]:
                output = " ".join(plugin.get("Output", "") for plugin in one.get("CommandPlugins", ()))
                if one["Status"] not in ("Pending", "InProgress", "Success", "Delayed"):
                    found[one["InstanceId"]] = f"{one.get('StatusDetails') or one['Status']}: {output.strip()}".strip(
                        ": "
                    )
        return found

    def replacement(self, job_id: str) -> PastJob | None:
        """The job that was requested in the place of another one; None if there is none.

        A deployment that changes the parameter, such as its tags, empties it, and replaces no job.
        """
        current, _version = self._newest()
        if current is None or current.job_id == job_id:
            return None
        return next((one for one in self.past() if one.request.job_id == current.job_id), None)

    def past(self) -> list[PastJob]:
        """The jobs that the parameter's history still has, the newest first. AWS keeps 100 versions."""
        return jobs_of(self._history())

    def _newest(self) -> tuple[JobRequest | None, int]:
        """The newest request, None before the first, and the version of the parameter."""
        found = self._ssm.get_parameter(Name=self.fleet.parameter)["Parameter"]
        with suppress(RequestError):
            return read_request(found["Value"]), found["Version"]
        return None, found["Version"]

    def _history(self) -> list[Mapping[str, Any]]:
        """The versions of the parameter, the oldest first."""
        pages = self._ssm.get_paginator("get_parameter_history").paginate(Name=self.fleet.parameter)
        return sorted((one for page in pages for one in page["Parameters"]), key=lambda one: one["Version"])

    def _requested_between(self, seen: int, written: int, *, other_than: str) -> PastJob | None:
        """The job that a write has overwritten since the parameter was read; None if there is none."""
        if written == seen + 1:
            return None
        between = jobs_of([one for one in self._history() if seen < one["Version"] < written])
        return next((one for one in between if one.request.job_id != other_than and not one.request.is_stopped), None)

    def board(self, job_id: str) -> Board:
        """What the nodes say of a job."""
        pages = self._logs.get_paginator("describe_log_streams").paginate(
            logGroupName=self.fleet.log_group, logStreamNamePrefix=f"{JOBS}/{job_id}/"
        )
        streams = {
            one["logStreamName"]: float(one.get("creationTime", 0)) for page in pages for one in page["logStreams"]
        }
        return read_board(job_id, streams)

    def lines(self, job_id: str, since_milliseconds: int = 0) -> Iterator[Line]:
        """What all nodes have printed from a time on, in the order of time."""
        prefix = f"{JOBS}/{job_id}/log/"
        pages = self._logs.get_paginator("filter_log_events").paginate(
            logGroupName=self.fleet.log_group,
            logStreamNamePrefix=prefix,
            startTime=since_milliseconds,
        )
        for page in pages:
            # Emulators of the service return other streams, too.
            for one in (event for event in page["events"] if event["logStreamName"].startswith(prefix)):
                yield Line(
                    id=one["eventId"],
                    address=one["logStreamName"].rpartition("/")[2],
                    milliseconds=one["timestamp"],
                    text=one["message"],
                )

    def nodes(self) -> JobFleet:
        """The fleet as it is now."""
        groups = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.fleet.group])
        found: Sequence[JobFleet] = read_fleets(groups["AutoScalingGroups"])
        return found[0] if found else replace(self.fleet, nodes={}, size=0)

    def _request(self, request: JobRequest) -> int:
        """Write a request.

        Returns:
            The version of the parameter that it is.

        Raises:
            JobError: If Parameter Store is writing another one.
        """
        try:
            written = self._ssm.put_parameter(
                Name=self.fleet.parameter, Value=as_text(request), Type="String", Overwrite=True
            )
        except self._ssm.exceptions.TooManyUpdates as fault:
            raise JobError(
                f"someone else requests a job on {self.fleet.names[0]} at this moment: look at it "
                f"(gpu-clusters jobs list {self.fleet.names[0]}), and try again"
            ) from fault
        return int(written["Version"])

    def _send(self, job_id: str, files: bytes, on_sent: Callable[[int, int], object]) -> None:
        where = {"logGroupName": self.fleet.log_group, "logStreamName": f"{JOBS}/{job_id}/files"}
        self._logs.create_log_stream(**where)
        now = int(datetime.now(UTC).timestamp() * 1000)
        pieces = pieces_of(files)
        for sent, piece in enumerate(pieces):
            on_sent(sent, len(pieces))
            self._put(where, [{"timestamp": now, "message": piece}])

    def _put(self, where: dict[str, str], events: list[dict[str, Any]]) -> None:
        """Put events into a stream that was created just now: CloudWatch Logs may not know it everywhere yet."""
        for wait in _UNKNOWN_STREAM_SECONDS:
            try:
                self._logs.put_log_events(**where, logEvents=events)
            except self._logs.exceptions.ResourceNotFoundException:
                time.sleep(wait)
            else:
                return
        self._logs.put_log_events(**where, logEvents=events)
