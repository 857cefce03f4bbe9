"""Two users of one fleet in the same moment, against moto's Parameter Store and log groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import NO_REQUEST, JobRequest
from cdk_gpu_clusters_stacks.jobs.client import FleetJobs, JobError, PastJob
from cdk_gpu_clusters_stacks.jobs.fleet import JobFleet

PARAMETER, LOG_GROUP, DOCUMENT = "CFN-Jobs", "/fleet/nodes", "Fleet-Jobs"
MINE, THEIRS = "20261123-120000-aaaa", "20261123-120000-bbbb"
FLEET = JobFleet(
    group="trainers-group",
    path="Training/Trainers",
    size=2,
    nodes={},
    instance_types=frozenset(),
    document=DOCUMENT,
    parameter=PARAMETER,
    log_group=LOG_GROUP,
)
Clients = dict[str, Any]


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        made = {name: boto3.client(name, region_name="us-east-1") for name in ("autoscaling", "logs", "ssm")}
        made["logs"].create_log_group(logGroupName=LOG_GROUP)
        made["ssm"].put_parameter(Name=PARAMETER, Value=NO_REQUEST, Type="String")
        made["ssm"].create_document(
            Name=DOCUMENT, Content='{"schemaVersion":"2.2","mainSteps":[]}', DocumentType="Command"
        )
        yield made


class Interrupted:
    """A client that lets something happen once before or after one of its operations."""

    def __init__(self, client: Any, operation: str, what: Callable[[], object], *, after: bool = False) -> None:
        self._client, self._operation, self._what, self._after = client, operation, what, after

    def __getattr__(self, name: str) -> Any:
        if name != self._operation:
            return getattr(self._client, name)
        self._operation = ""

        def call(**arguments: Any) -> Any:
            if not self._after:
                self._what()
            answer = getattr(self._client, name)(**arguments)
            if self._after:
                self._what()
            return answer

        return call


def job(job_id: str) -> JobRequest:
    return JobRequest(job_id=job_id, command=("true",), nodes=2)


def requested(clients: Clients) -> list[str]:
    """All values that the parameter had, as the ids of jobs."""
    history = clients["ssm"].get_parameter_history(Name=PARAMETER)["Parameters"]
    return [next((one for one in (MINE, THEIRS) if one in version["Value"]), "none") for version in history]


def commands(clients: Clients) -> int:
    return len(clients["ssm"].list_commands()["Commands"])


def test_a_job_alone_replaces_none(clients: Clients) -> None:
    submitted = FleetJobs(FLEET, clients).submit(job(MINE))
    assert submitted.replaced is None
    assert submitted.command_id
    assert requested(clients) == ["none", MINE]


def test_the_later_of_two_users_takes_the_fleet_and_is_told_of_the_other(clients: Clients) -> None:
    theirs = FleetJobs(FLEET, clients)
    interrupted = Interrupted(clients["ssm"], "put_parameter", lambda: theirs.submit(job(THEIRS)))
    submitted = FleetJobs(FLEET, {**clients, "ssm": interrupted}).submit(job(MINE))
    assert submitted.replaced is not None
    assert submitted.replaced.request.job_id == THEIRS
    assert submitted.replaced.described.startswith(f"{THEIRS} was requested by ")
    assert requested(clients) == ["none", THEIRS, MINE]
    # Whoever follows the other job learns it, too.
    replacement = theirs.replacement(THEIRS)
    assert replacement is not None
    assert replacement.request.job_id == MINE


def test_the_earlier_of_two_users_is_told_at_once(clients: Clients) -> None:
    """The other one looked before the request of the first, and writes after it."""
    ssm = clients["ssm"]
    other = FleetJobs(FLEET, clients)
    interrupted = Interrupted(ssm, "put_parameter", lambda: other._request(job(THEIRS)), after=True)
    with pytest.raises(JobError, match=rf"{MINE} does not run: {THEIRS} was requested by .* in the same moment"):
        FleetJobs(FLEET, {**clients, "ssm": interrupted}).submit(job(MINE))
    assert requested(clients) == ["none", MINE, THEIRS]
    # The nodes look, and find what counts.
    assert commands(clients) == 1


def test_files_are_sent_before_the_last_look(clients: Clients) -> None:
    """Sending takes seconds: who requests a job meanwhile keeps the fleet."""
    theirs = FleetJobs(FLEET, clients)
    interrupted = Interrupted(clients["logs"], "put_log_events", lambda: theirs.submit(job(THEIRS)))
    with pytest.raises(JobError, match=f"{THEIRS} runs on Trainers, which takes one job at a time"):
        FleetJobs(FLEET, {**clients, "logs": interrupted}).submit(job(MINE), b"files")
    assert requested(clients) == ["none", THEIRS]


def test_progress_counts_the_pieces_of_the_files(clients: Clients) -> None:
    seen: list[tuple[int, int]] = []
    FleetJobs(FLEET, clients).submit(job(MINE), b"x" * 400_000, on_sent=lambda done, of: seen.append((done, of)))
    assert seen == [(0, 3), (1, 3), (2, 3)]


def test_a_write_that_was_repeated_is_no_other_user(clients: Clients) -> None:
    """Clients repeat a call whose answer was lost."""
    jobs = FleetJobs(FLEET, clients)
    interrupted = Interrupted(clients["ssm"], "put_parameter", lambda: jobs._request(job(MINE)))
    submitted = FleetJobs(FLEET, {**clients, "ssm": interrupted}).submit(job(MINE))
    assert submitted.replaced is None
    assert requested(clients) == ["none", MINE, MINE]


def past(job_id: str) -> PastJob:
    return PastJob(request=job(job_id), requested_at=datetime.now(UTC), requested_by="")


def test_the_end_of_a_job_does_not_end_the_next_one(clients: Clients) -> None:
    jobs = FleetJobs(FLEET, clients)
    jobs.submit(job(THEIRS))
    # It has ended, and another user requests the next one while the first is being stopped.
    clients["logs"].create_log_stream(logGroupName=LOG_GROUP, logStreamName=f"jobs/{THEIRS}/result/0/i-1/10.0.0.1")
    interrupted = Interrupted(clients["ssm"], "put_parameter", lambda: jobs.submit(job(MINE)))
    with pytest.raises(JobError, match=f"{THEIRS} has ended: {MINE} was requested by .* since"):
        FleetJobs(FLEET, {**clients, "ssm": interrupted}).stop(past(THEIRS))
    assert requested(clients) == ["none", THEIRS, MINE, THEIRS, MINE]
    newest = jobs.past()[-1]
    assert (newest.request.job_id, newest.request.is_stopped) == (MINE, False)


def test_a_job_that_was_replaced_cannot_be_stopped(clients: Clients) -> None:
    jobs = FleetJobs(FLEET, clients)
    jobs._request(job(THEIRS))
    jobs._request(job(MINE))
    with pytest.raises(JobError, match=f"{THEIRS} has ended: {MINE} was requested"):
        jobs.stop(past(THEIRS))
    assert requested(clients) == ["none", THEIRS, MINE]
    jobs.stop(past(MINE))
    (stopped, _) = sorted(jobs.past(), key=lambda one: one.request.job_id)
    assert stopped.request.is_stopped


def test_what_parameter_store_refuses_in_the_same_moment_says_to_try_again(clients: Clients) -> None:
    def refuse() -> None:
        raise clients["ssm"].exceptions.TooManyUpdates({"Error": {"Code": "TooManyUpdates"}}, "PutParameter")

    assert issubclass(clients["ssm"].exceptions.TooManyUpdates, ClientError)
    interrupted = Interrupted(clients["ssm"], "put_parameter", refuse)
    with pytest.raises(JobError, match="someone else requests a job on Trainers at this moment"):
        FleetJobs(FLEET, {**clients, "ssm": interrupted}).submit(job(MINE))
    assert requested(clients) == ["none"]
    assert commands(clients) == 0


def test_a_stream_that_logs_do_not_know_yet_is_tried_again(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("cdk_gpu_clusters_stacks.jobs.client.time.sleep", waits.append)

    def unknown() -> None:
        raise clients["logs"].exceptions.ResourceNotFoundException({"Error": {}}, "PutLogEvents")

    late = Interrupted(clients["logs"], "put_log_events", unknown)
    FleetJobs(FLEET, {**clients, "logs": late}).submit(job(MINE), b"files")
    assert waits == [0.5]
    streams = clients["logs"].describe_log_streams(logGroupName=LOG_GROUP)["logStreams"]
    assert [one["logStreamName"] for one in streams] == [f"jobs/{MINE}/files"]
