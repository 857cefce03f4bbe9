"""The response to an unhealthy node: keep evidence, then take it out of service, within the fleet's limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from ..actions.orchestrator import Orchestrator
from ..checks.check import Severity
from ..command import Background
from ..node import AwsError, Node
from .probes import Symptom

# What is done about a node that is not well: evidence, then its orchestrator is told, within the fleet's limit.

# A broken node must not stay in service because S3 does not answer, or because a program hangs past its deadline.
_EVIDENCE_TRIES = 3
_EVIDENCE_SECONDS = 180.0


class Outcome(Enum):
    """How a response ended."""

    #: The orchestrator was told.
    DONE = "ok"
    #: It would have been told.
    DRY_RUN = "dry-run"
    #: The node is out of service already, whoever decided it.
    NEEDLESS = "skipped"
    #: The fleet has lost as many nodes as it may within an hour.
    HELD = "held"
    #: It did not work; to be tried again.
    FAILED = "failed"


class Answer(NamedTuple):
    """What became of a response.

    Attributes:
        outcome: How it ended.
        words: Why, in a sentence.
    """

    outcome: Outcome
    words: str


class Response:
    """Takes this node out of service, once."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        *,
        keep_evidence: Callable[[str], str],
        limit_per_hour: int,
        dry_run: bool,
        take_place: Callable[[Iterable[int]], bool] = lambda _: True,
    ) -> None:
        """Prepare it.

        Args:
            orchestrator: Who is told.
            keep_evidence: Keeps the evidence of a reason where it outlives the node, and says where.
            limit_per_hour: How many nodes of the fleet may be taken out within an hour, this one included. Every
                node asks the orchestrator, which all of them see.
            dry_run: Whether it is only said what would be done.
            take_place: Takes one of the places that are left in this hour, which nodes that fail in the same moment
                cannot both have; False where none is free.
        """
        self._orchestrator, self._keep_evidence = orchestrator, keep_evidence
        self._limit, self._dry_run = limit_per_hour, dry_run
        self._take_place, self._has_place = take_place, False
        self._evidence: dict[str, str] = {}
        self._tries = 0

    def respond(self, symptoms: Sequence[Symptom]) -> Answer:
        """Do it; raises nothing.

        Args:
            symptoms: What calls for it; the worst one is the reason.
        """
        worst = max(symptoms, key=lambda symptom: symptom.severity)
        try:
            return self._respond(worst.severity, worst.reason, len(symptoms) - 1)
        except Exception as fault:  # noqa: BLE001 - whatever it was, the next poll tries again
            return Answer(Outcome.FAILED, f"{fault or type(fault).__name__}; because of {worst.reason}")

    def _respond(self, severity: Severity, reason: str, more: int) -> Answer:
        out = self._orchestrator.why_out()
        if out:
            return Answer(Outcome.NEEDLESS, f"{out}; seen: {reason}")
        evidence = "" if self._dry_run else self._ensure_evidence(reason)
        others = self._orchestrator.taken_out()
        if len(others) >= self._limit:
            return self._held(f"gone are: {', '.join(sorted(others)) or 'none'}", reason)
        if self._dry_run:
            return Answer(Outcome.DRY_RUN, f"would take this node out of service: {reason}")
        self._has_place = self._has_place or self._take_place(range(len(others) + 1, self._limit + 1))
        if not self._has_place:
            return self._held("as many are on their way out", reason)
        self._orchestrator.take_out(severity, f"{reason} (and {more} more)" if more else reason)
        self._has_place = False
        return Answer(Outcome.DONE, f"{reason}; evidence: {evidence}")

    def _held(self, why: str, reason: str) -> Answer:
        words = f"the fleet may lose {self._limit} nodes an hour, {why}; because of {reason}"
        return Answer(Outcome.HELD, words)

    def _ensure_evidence(self, reason: str) -> str:
        """Keep the evidence of a reason, once."""
        if reason not in self._evidence:
            kept = self._kept(reason)
            if isinstance(kept, Exception):
                self._tries += 1
                if self._tries < _EVIDENCE_TRIES:
                    raise kept
                kept = f"none, since {kept}"
            self._evidence, self._tries = {reason: kept}, 0
        return self._evidence[reason]

    def _kept(self, reason: str) -> str | Exception:
        """Where the evidence is, or why there is none."""

        def keep() -> str | Exception:
            try:
                return self._keep_evidence(reason) or "the fleet keeps none"
            except Exception as fault:  # noqa: BLE001 - told where it is taken
                return fault

        keeping: Background[str | Exception] = Background()
        keeping.start(keep, time.monotonic())
        kept = keeping.take(_EVIDENCE_SECONDS)
        return f"none, since it was not there within {_EVIDENCE_SECONDS:g} s" if kept is None else kept


# Places for nodes that are taken out within an hour: each can be taken once in a fleet.
#
# Nodes that fail in the same moment ask the orchestrator in the same moment, and all hear that nobody is gone yet.
# So a
# node takes a place before it acts: a log stream of the fleet's log group, without any records. Of all who make the
# same
# stream only the first one can (CloudWatch Logs API reference, CreateLogStream: ResourceAlreadyExistsException).

_SLOT_SECONDS = 10


class Places:
    """The places of a node's fleet.

    A fleet without a log group has none, and nodes of it that fail in the same moment may all be taken out. So they may
    while CloudWatch Logs does not answer: a broken node must not stay in service for that. Nodes that fail on either
    side of a full hour have places of either hour.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = node.settings.text("log_group")

    def take(self, numbers: Iterable[int]) -> bool:
        """Take the first one that is free in this hour.

        Args:
            numbers: Which ones there are.

        Returns:
            Whether this node may act.
        """
        if not self._group:
            return True
        hour = time.strftime("%Y-%m-%dT%H", time.gmtime())
        return any(self._make(f"taken-out/{hour}/{number}") for number in numbers)

    def _make(self, stream: str) -> bool:
        where = ("--log-group-name", self._group, "--log-stream-name", stream)
        try:
            self._node.aws.call("logs", "create-log-stream", *where, timeout_seconds=_SLOT_SECONDS)
        except AwsError as fault:
            if "ResourceAlreadyExists" in str(fault):
                return False
            sys.stderr.write(f"places are not counted: {fault}\n")
        return True
