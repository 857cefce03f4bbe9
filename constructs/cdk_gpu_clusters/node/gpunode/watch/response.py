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
from ..lifecycle import take_slot
from ..node import AwsError, Node
from .probes import Symptom

# A broken node must not stay in service because S3 does not answer or a program exceeds its deadline.
_EVIDENCE_TRIES = 3
_EVIDENCE_SECONDS = 180.0


class ResponseOutcome(Enum):
    """The outcome of a response."""

    #: The orchestrator takes the node out.
    DONE = "ok"
    #: It would have been asked to.
    DRY_RUN = "dry-run"
    #: The node is out of service already, for any reason.
    NOT_NEEDED = "skipped"
    #: The fleet has reached its limit of nodes per hour.
    HELD = "held"
    #: It failed and will be tried again.
    FAILED = "failed"


class ResponseResult(NamedTuple):
    """The result of a response.

    Attributes:
        words: Why, in a sentence.
    """

    outcome: ResponseOutcome
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
        take_slot: Callable[[Iterable[int]], bool] = lambda _: True,
    ) -> None:
        """Prepare it.

        Args:
            orchestrator: What takes the node out.
            keep_evidence: Stores the evidence for a reason outside the node, and returns its address.
            limit_per_hour: How many nodes of the fleet may be taken out within an hour, this one included. Every
                node asks the orchestrator, which has the same answer for all of them.
            dry_run: Whether the action is only reported.
            take_slot: Takes one of the slots that are left in this hour, each of which only one node can have. Returns
                False if none is free.
        """
        self._orchestrator, self._keep_evidence = orchestrator, keep_evidence
        self._limit, self._dry_run = limit_per_hour, dry_run
        self._take_slot, self._has_slot = take_slot, False
        self._evidence: dict[str, str] = {}
        self._tries = 0

    def respond(self, symptoms: Sequence[Symptom]) -> ResponseResult:
        """Take the node out of service; raises nothing.

        Args:
            symptoms: What requires it; the worst one is the reason.
        """
        worst = max(symptoms, key=lambda symptom: symptom.severity)
        try:
            return self._respond(worst.severity, worst.reason, len(symptoms) - 1)
        except Exception as fault:  # noqa: BLE001 - whatever it was, the next poll tries again
            return ResponseResult(ResponseOutcome.FAILED, f"{fault or type(fault).__name__}; because of {worst.reason}")

    def _respond(self, severity: Severity, reason: str, more: int) -> ResponseResult:
        out = self._orchestrator.why_out()
        if out:
            return ResponseResult(ResponseOutcome.NOT_NEEDED, f"{out}; seen: {reason}")
        evidence = "" if self._dry_run else self._ensure_evidence(reason)
        others = self._orchestrator.taken_out()
        if len(others) >= self._limit:
            return self._held(f"gone are: {', '.join(sorted(others)) or 'none'}", reason)
        if self._dry_run:
            return ResponseResult(ResponseOutcome.DRY_RUN, f"would take this node out of service: {reason}")
        self._has_slot = self._has_slot or self._take_slot(range(len(others) + 1, self._limit + 1))
        if not self._has_slot:
            return self._held("as many are being taken out", reason)
        self._orchestrator.take_out(severity, f"{reason} (and {more} more)" if more else reason)
        self._has_slot = False
        return ResponseResult(ResponseOutcome.DONE, f"{reason}; evidence: {evidence}")

    def _held(self, why: str, reason: str) -> ResponseResult:
        words = f"the fleet may lose {self._limit} nodes an hour, {why}; because of {reason}"
        return ResponseResult(ResponseOutcome.HELD, words)

    def _ensure_evidence(self, reason: str) -> str:
        """Store the evidence for a reason, once."""
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
        """The address of the evidence, or why there is none."""

        def keep() -> str | Exception:
            try:
                return self._keep_evidence(reason) or "the fleet keeps none"
            except Exception as fault:  # noqa: BLE001 - reported by the caller
                return fault

        keeping: Background[str | Exception] = Background()
        keeping.start(keep, time.monotonic())
        kept = keeping.take(_EVIDENCE_SECONDS)
        return f"none, since it was not there within {_EVIDENCE_SECONDS:g} s" if kept is None else kept


# Slots limit how many nodes of a fleet are taken out within an hour: each slot can be taken once. Nodes that fail at
# the same moment ask the orchestrator at the same moment, and it reports no other node out of service yet. So a node
# takes a slot before it acts: an empty log stream in the fleet's log group.


class TakeOutSlots:
    """The slots of a node's fleet.

    A fleet without a log group has none: its nodes that fail at the same moment may all be taken out. The same holds
    while CloudWatch Logs does not answer, since a broken node must not stay in service for that. Nodes that fail on
    different sides of a full hour use the slots of different hours.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = node.settings.text("log_group")

    def take(self, numbers: Iterable[int]) -> bool:
        """Take the first slot that is free in this hour.

        Returns:
            Whether this node may act.
        """
        if not self._group:
            return True
        hour = time.strftime("%Y-%m-%dT%H", time.gmtime())
        return any(self._make(f"taken-out/{hour}/{number}") for number in numbers)

    def _make(self, stream: str) -> bool:
        try:
            return take_slot(self._node, stream)
        except AwsError as fault:
            sys.stderr.write(f"slots are not counted: {fault}\n")
        return True
