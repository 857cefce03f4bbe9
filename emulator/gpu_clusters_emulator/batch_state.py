"""Jobs of AWS Batch, and what the emulated account knows of their instances; `batch_jobs` moves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

SUBMITTED = "SUBMITTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt of a job ends.

    Attributes:
        lasts: From the start of its main container.
        reason: What ECS states about the container; empty for nothing.
    """

    lasts: timedelta = timedelta(minutes=10)
    exit_code: int = 0
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Job:
    """A multi-node job.

    Attributes:
        nodes: Its properties, as CloudFormation spells them, with the number of nodes of the submission.
        since: When it came into its status.
        instances: Ids of the instances of its nodes, in their order; empty while it waits.
        blocked_since: When the present reason first kept it at the head of its queue.
        attempts: Attempts that have ended, as DescribeJobs has them.
    """

    id: str
    name: str
    queue: str
    definition: str
    region: str
    nodes: Json
    retry: Json
    timeout: timedelta | None
    tags: Json
    created_at: datetime
    since: datetime
    status: str = SUBMITTED
    reason: str = ""
    environment: str = ""
    instances: list[str] = field(default_factory=list)
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    blocked_since: datetime | None = None
    exit_code: int | None = None
    container_reason: str = ""
    is_cancelled: bool = False
    is_terminated: bool = False
    attempts: list[Json] = field(default_factory=list)

    @property
    def main_node(self) -> int:
        """Index of the node whose end is the job's."""
        return int(self.nodes["MainNode"])

    @property
    def count(self) -> int:
        """Its nodes."""
        return int(self.nodes["NumNodes"])


@dataclass(slots=True)
class Batch:
    """Jobs, and what instances of compute environments are kept until.

    Attributes:
        outcomes: How attempts of jobs end, by the name of the job; the last one repeats.
        idle_since: When the last job of an instance ended.
        replaced_at: When an instance of an old configuration ends at the latest.
    """

    jobs: dict[str, Job] = field(default_factory=dict)
    outcomes: dict[str, tuple[Outcome, ...]] = field(default_factory=dict)
    idle_since: dict[str, datetime] = field(default_factory=dict)
    replaced_at: dict[str, datetime] = field(default_factory=dict)


def outcomes_of(documents: list[Json]) -> tuple[Outcome, ...]:
    """Read the seed of one job: `minutes`, `exit_code` and `reason` of each attempt."""
    return tuple(
        Outcome(
            lasts=timedelta(minutes=float(one.get("minutes", 10))),
            exit_code=int(one.get("exit_code", 0)),
            reason=str(one.get("reason", "")),
        )
        for one in documents
    )
