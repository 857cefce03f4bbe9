"""What a user does with the jobs of a fleet, in an account."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator, Mapping, Sequence
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


class FleetJobs:
    """The jobs of one fleet.

    Args:
        fleet: The fleet.
        clients: Clients of its account and Region: autoscaling, logs and ssm.
    """

    def __init__(self, fleet: JobFleet, clients: Clients) -> None:
        self.fleet = fleet
        self._logs, self._ssm, self._scaling = clients["logs"], clients["ssm"], clients["autoscaling"]

    def submit(self, request: JobRequest, files: bytes = b"") -> str:
        """Start a job.

        Returns:
            Id of the command that makes the nodes look for it; empty if none of them can be reached now.

        Raises:
            JobError: If another job runs, or the request is too long.
        """
        current = self.current()
        if current is not None and not current.is_stopped and not self.board(current.job_id).result:
            name = self.fleet.names[0]
            raise JobError(
                f"{current.job_id} runs on {name}, which takes one job at a time: wait for it, or stop it "
                f"(gpu-clusters jobs stop {name})"
            )
        whole = with_files(request, files)
        text = as_text(whole)
        if len(text) > LONGEST_REQUEST:
            raise JobError(
                f"the command and its variables have {len(text):,} characters as a request, and {LONGEST_REQUEST:,} "
                "are allowed: put them into a script, and send that with --files"
            )
        # Before the request: nodes look for the files as soon as they see it.
        self._send(request.job_id, files)
        self._request(whole)
        return self.tell_nodes()

    def stop(self, past: PastJob) -> None:
        """End a job.

        Raises:
            JobError: If another one was requested since.
        """
        current = self.current()
        # A deployment that changes the parameter, such as its tags, empties it.
        if current is not None and current.job_id != past.request.job_id:
            raise JobError(f"{past.request.job_id} has ended: {current.job_id} was requested since")
        self._request(replace(past.request, is_stopped=True))
        self.tell_nodes()

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

    def current(self) -> JobRequest | None:
        """The newest request; None before the first."""
        found = self._ssm.get_parameter(Name=self.fleet.parameter)
        with suppress(RequestError):
            return read_request(found["Parameter"]["Value"])
        return None

    def is_replaced(self, job_id: str) -> bool:
        """Whether another job was requested since."""
        current = self.current()
        return current is not None and current.job_id != job_id

    def past(self) -> list[PastJob]:
        """The jobs that the parameter's history still has, the newest first. AWS keeps 100 versions."""
        pages = self._ssm.get_paginator("get_parameter_history").paginate(Name=self.fleet.parameter)
        found: dict[str, PastJob] = {}
        for version in sorted((one for page in pages for one in page["Parameters"]), key=lambda one: one["Version"]):
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

    def _request(self, request: JobRequest) -> None:
        self._ssm.put_parameter(Name=self.fleet.parameter, Value=as_text(request), Type="String", Overwrite=True)

    def _send(self, job_id: str, files: bytes) -> None:
        if not files:
            return
        where = {"logGroupName": self.fleet.log_group, "logStreamName": f"{JOBS}/{job_id}/files"}
        self._logs.create_log_stream(**where)
        now = int(datetime.now(UTC).timestamp() * 1000)
        for piece in pieces_of(files):
            self._logs.put_log_events(**where, logEvents=[{"timestamp": now, "message": piece}])
