"""The response to an unhealthy node: evidence first, then the least repair that may help, within the fleet's limits.

One repair goes on at a time (`repair.history`), and `repair.ladder` decides on its steps. Each call of `respond` goes
as far as it can without waiting. What it waits for, and a call that failed, is tried again by a later one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple, Protocol

from .. import paths
from ..actions.orchestrator import NotYet, Orchestrator
from ..checks.check import Severity
from ..command import Background
from ..repair.history import End, History, Repair, Step
from ..repair.ladder import WINDOW_SECONDS, Facts, next_step, resume, rung_for
from ..repair.limit import SILENT, Limits, Pauses, Silence
from .probes import Symptom

# A broken node must not stay in service because S3 does not answer or a program exceeds its deadline.
_EVIDENCE_TRIES = 3
_EVIDENCE_SECONDS = 180.0
# A wait costs a call or two each time, and jobs run for hours.
_WAIT_SECONDS = 60.0
# An idle node waits for little more than a daemon that starts.
_SOON_SECONDS = 5.0
# systemd gives units 90 s to stop by default (systemd-system.conf, DefaultTimeoutStopSec), and EC2 four minutes to an
# operating system that it reboots (EC2 API reference, RebootInstances).
_REBOOT_SECONDS = 600.0
#: Amazon EKS user guide, "Automatically repair nodes in EKS clusters": most faults are repaired after 30 minutes.
GRACE_SECONDS = 1800

_VERBS = {Severity.RESET: "reset", Severity.REBOOT: "reboot", Severity.REPLACE: "lose"}


class ResponseOutcome(Enum):
    """The outcome of a response."""

    #: The orchestrator takes the node out for good.
    DONE = "ok"
    #: The node was repaired, and has work again.
    REPAIRED = "repaired"
    #: It would have been asked to.
    DRY_RUN = "dry-run"
    #: The node is out of service already, for any reason.
    NOT_NEEDED = "skipped"
    #: The repair goes on when the node is idle, or rebooted.
    WAITING = "waiting"
    #: Maintenance, or a change of the driver.
    SUSPENDED = "suspended"
    #: The fleet has reached its limit, or what counts it does not answer.
    HELD = "held"
    #: It failed and will be tried again.
    FAILED = "failed"


class ResponseResult(NamedTuple):
    """The result of a response.

    Attributes:
        words: Why, in a sentence.
        pause_seconds: How long to wait before the next response.
    """

    outcome: ResponseOutcome
    words: str
    pause_seconds: float = 0.0


class NodeSteps(Protocol):
    """What a repair does on the node, as `repair.steps.Steps`."""

    def why_suspended(self) -> str: ...
    def work(self) -> str: ...
    def is_leftover(self) -> bool: ...
    def end_work(self) -> None: ...
    def reset(self) -> str: ...
    def reboot(self) -> None: ...
    def boot_result(self) -> str: ...
    def check(self) -> str: ...


class SlotsOfFleet(Protocol):
    """What counts the repairs of the fleet, as `slots.Slots`."""

    def has_room(self, kind: str, limit: int) -> bool: ...
    def take(self, kind: str, limit: int) -> str: ...


class _Held(Exception):
    """The fleet has no room for the repair; the text is the reason."""


class Response:
    """Repairs this node, or takes it out of service.

    Attributes:
        report: Receives each step of a repair: its name, the reason, and the repair.
        before_release: Called before the orchestrator gives the node work again.
        rests: Whether programs that use the driver must wait, since the GPUs are being reset.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        *,
        keep_evidence: Callable[[str], str],
        history: History,
        steps: NodeSteps,
        limits: Limits,
        dry_run: bool,
        slots: SlotsOfFleet,
        silence: Silence,
        grace_seconds: float = GRACE_SECONDS,
        window_seconds: float = WINDOW_SECONDS,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Continue the repair that an earlier process began, if there is one.

        Args:
            orchestrator: What assigns work to the node, and takes it out.
            keep_evidence: Stores the evidence for a reason outside the node, and returns its address.
            history: The repairs of this instance.
            steps: What is done on the node.
            limits: How many nodes of the fleet may have each repair within an hour, this one included.
            dry_run: Whether the action is only reported.
            slots: As many as the limit within an hour, each of which only one node can have.
            silence: How long nothing has answered.
            grace_seconds: How long jobs may go on before a reboot.
            window_seconds: A repair that is needed again within this time did not help.
            clock: Seconds since 1970.
            chance: A random number of 0 to 1.
        """
        self._orchestrator, self._keep_evidence = orchestrator, keep_evidence
        self._history, self._steps = history, steps
        self._limits, self._dry_run, self._slots = limits, dry_run, slots
        self._silence, self._pauses = silence, Pauses(chance)
        self._grace, self._window = grace_seconds, window_seconds
        self._clock, self._chance = clock, chance
        self._tries = 0
        # When this process first asked for the present reboot.
        self._reboot_asked: float | None = None
        self.rests: bool = False
        self.report: Callable[[str, str, Repair], object] = lambda *_: None
        self.before_release: Callable[[], object] = lambda: None

    @property
    def is_repairing(self) -> bool:
        """Whether a repair goes on, with or without symptoms that are left."""
        return self._history.current is not None and not self._dry_run

    @property
    def progress(self) -> str:
        """The repair that goes on, for people; empty without one."""
        repair = self._history.current
        return (
            f"{repair.rung.name.lower()}, {repair.step.value}: {repair.reason}" if repair and self.is_repairing else ""
        )

    def respond(self, symptoms: Sequence[Symptom]) -> ResponseResult:
        """Begin a repair, or go on with it; raises nothing.

        Args:
            symptoms: All that requires one; the worst is the reason.
        """
        reason = _reason(symptoms)
        try:
            result = self._respond(symptoms, reason)
        except _Held as why:
            return self._later(ResponseOutcome.HELD, str(why))
        except NotYet as why:
            return ResponseResult(ResponseOutcome.WAITING, f"{why}; because of {reason}", _SOON_SECONDS)
        except Exception as fault:  # noqa: BLE001 - whatever it was, a later poll tries again
            self._silence.failed(str(fault))
            words = f"{fault or type(fault).__name__}; because of {reason}"
            return self._later(ResponseOutcome.FAILED, words)
        if result.outcome is not ResponseOutcome.SUSPENDED:
            self._pauses.restart()
        return result

    def _later(self, outcome: ResponseOutcome, words: str) -> ResponseResult:
        return ResponseResult(outcome, words, self._pauses.next_seconds())

    def _respond(self, symptoms: Sequence[Symptom], reason: str) -> ResponseResult:
        suspended = self._steps.why_suspended()
        if suspended:
            return ResponseResult(ResponseOutcome.SUSPENDED, suspended, self._wait_seconds())
        wanted = max((symptom.severity for symptom in symptoms), default=Severity.OK)
        if self._dry_run:
            return self._rehearse(wanted, reason)
        self._resume()
        repair = self._history.current
        if repair is not None and wanted > repair.rung:
            # It cannot mend what has appeared since.
            self._history.finish(End.CANCELLED)
            repair = self._begin(wanted, reason, holds=repair.holds, follows=repair.follows)
        elif repair is None:
            if wanted < Severity.RESET:
                return ResponseResult(ResponseOutcome.NOT_NEEDED, "no fault is left", self._wait_seconds())
            out = self._why_out(self._rung(wanted))
            if out:
                return ResponseResult(ResponseOutcome.NOT_NEEDED, f"{out}; seen: {reason}", self._wait_seconds())
            repair = self._begin(wanted, reason)
        return self._walk(repair, wanted)

    def _rehearse(self, wanted: Severity, reason: str) -> ResponseResult:
        out = self._orchestrator.why_out()
        if out:
            return ResponseResult(ResponseOutcome.NOT_NEEDED, f"{out}; seen: {reason}", self._wait_seconds())
        rung = self._rung(wanted)
        self._count(rung, reason)
        what = "take this node out of service" if rung is Severity.REPLACE else f"{_VERBS[rung]} this node once idle"
        return ResponseResult(ResponseOutcome.DRY_RUN, f"would {what}: {reason}")

    def _resume(self) -> None:
        """Find out how the repair of an earlier process goes on."""
        repair = self._history.current
        if repair is None:
            return
        step = resume(repair, paths.boot_id())
        if step is None:
            self._history.finish(End.CANCELLED)
        elif step is not repair.step:
            self._enter(step, repair.reason)

    def _rung(self, wanted: Severity) -> Severity:
        history = self._history
        return rung_for(
            wanted, history.past, now=self._clock(), window_seconds=self._window, is_durable=history.is_durable
        )

    def _begin(self, wanted: Severity, reason: str, *, holds: bool = False, follows: bool = False) -> Repair:
        repair = self._history.begin(self._rung(wanted), reason, holds=holds, follows=follows)
        rung = self._rung(wanted)
        if rung is not repair.rung:
            # The disk did not take the record.
            self._history.finish(End.CANCELLED)
            repair = self._history.begin(rung, reason, holds=holds, follows=follows)
        self._tries = 0
        self.report(Step.BEGIN.value, reason, repair)
        return repair

    def _escalate(self, why: str) -> Repair:
        """Begin the next repair, since the present one failed."""
        failed = self._history.finish(End.FAILED)
        self.report(End.FAILED.value, why, failed)
        return self._begin(failed.rung, f"{why}; first: {failed.reason}", holds=failed.holds, follows=True)

    def _walk(self, repair: Repair, wanted: Severity) -> ResponseResult:
        """Take steps until one has to wait, or the repair has ended."""
        while True:
            taken = self._TAKE[repair.step](self, repair, wanted)
            if isinstance(taken, ResponseResult):
                return taken
            repair = taken

    def _next(self, repair: Repair, facts: Facts = Facts()) -> Repair:  # noqa: B008 - immutable
        return self._enter(next_step(repair, facts), repair.reason)

    def _enter(self, step: Step, words: str) -> Repair:
        repair = self._history.enter(step)
        self.report(step.value, words, repair)
        return repair

    # Each of these takes the step of its name. It returns the repair with the next step, or a result to stop with.

    def _take_begin(self, repair: Repair, wanted: Severity) -> Repair | ResponseResult:
        if wanted < Severity.RESET and not (repair.holds or repair.follows):
            return self._give_up("the fault has gone")
        if not repair.evidence:
            repair = self._history.change(evidence=self._evidence(repair.reason))
        elif not repair.slot:
            # It was held before. Most nodes of a fleet that are held make one call at a time.
            self._expect_room(repair.rung, repair.reason)
            out = "" if repair.holds else self._why_out(repair.rung)
            if out:
                return self._give_up(f"{out}; seen: {repair.reason}")
        if not repair.slot:
            repair = self._history.change(slot=self._room(repair.rung, repair.reason))
        return self._next(repair)

    def _take_hold(self, repair: Repair, _: Severity) -> Repair | ResponseResult:
        if not (repair.holds and self._holds(repair)):
            out = self._why_out(repair.rung)
            if out:
                return self._give_up(f"{out}; seen: {repair.reason}")
            # Before the call: the hold of a process that dies in between is still its own.
            repair = self._history.change(holds=True)
        self._orchestrator.hold(repair.rung, repair.reason)
        return self._next(repair)

    def _take_wait(self, repair: Repair, wanted: Severity) -> Repair | ResponseResult:
        if not self._holds(repair):
            return self._give_up("someone else has changed the hold of this node")
        work = self._steps.work()
        waited = paths.uptime_seconds() - repair.uptime_seconds
        facts = Facts(
            wanted=wanted,
            work=work,
            is_leftover=bool(work) and self._steps.is_leftover(),
            waited_seconds=waited,
            grace_seconds=self._grace,
        )
        if next_step(repair, facts) is Step.RELEASE:
            self._release()
            return self._give_up("the fault has gone")
        if next_step(repair, facts) is Step.WAIT:
            return ResponseResult(ResponseOutcome.WAITING, f"{work}; {repair.reason}", self._wait_seconds())
        return self._next(repair, facts)

    def _take_end_work(self, repair: Repair, _: Severity) -> Repair | ResponseResult:
        self._steps.end_work()
        return self._next(repair)

    def _take_reset(self, repair: Repair, _: Severity) -> Repair | ResponseResult:
        self.rests = True
        try:
            fault = self._steps.reset()
        finally:
            self.rests = False
        return self._escalate(fault) if fault else self._next(repair)

    def _take_reboot(self, repair: Repair, _: Severity) -> Repair | ResponseResult:
        if not self._history.is_durable:
            return self._escalate("the disk takes no record of a reboot")
        now = paths.uptime_seconds()
        if self._reboot_asked is None:
            self._steps.reboot()
            self._reboot_asked = now
        elif now - self._reboot_asked >= _REBOOT_SECONDS:
            self._reboot_asked = None
            return self._escalate(f"no reboot within {_REBOOT_SECONDS:g} s")
        return ResponseResult(ResponseOutcome.WAITING, f"reboots: {repair.reason}", _WAIT_SECONDS)

    def _take_check(self, repair: Repair, _: Severity) -> Repair | ResponseResult:
        boot = self._steps.boot_result()
        if boot == "starting":
            return ResponseResult(ResponseOutcome.WAITING, "the boot checks go on", _WAIT_SECONDS)
        if boot == "failed":
            return self._escalate("it did not pass its reboot")
        # After a reboot they have just been passed.
        fault = "" if boot and repair.rung is Severity.REBOOT else self._steps.check()
        return self._escalate(fault) if fault else self._next(repair)

    def _take_release(self, repair: Repair, wanted: Severity) -> Repair | ResponseResult:  # noqa: ARG002
        self._release()
        ended = self._history.finish(End.OK)
        self.report(End.OK.value, repair.reason, ended)
        return ResponseResult(ResponseOutcome.REPAIRED, f"{_VERBS[repair.rung]}: {repair.reason}")

    def _take_take_out(self, repair: Repair, _: Severity) -> Repair | ResponseResult:
        self._orchestrator.take_out(repair.rung, repair.reason)
        ended = self._history.finish(End.OK)
        self.report(End.OK.value, repair.reason, ended)
        return ResponseResult(ResponseOutcome.DONE, f"{repair.reason}; evidence: {repair.evidence}")

    _TAKE: ClassVar = {
        Step.BEGIN: _take_begin,
        Step.HOLD: _take_hold,
        Step.WAIT: _take_wait,
        Step.END_WORK: _take_end_work,
        Step.RESET: _take_reset,
        Step.REBOOT: _take_reboot,
        Step.CHECK: _take_check,
        Step.RELEASE: _take_release,
        Step.TAKE_OUT: _take_take_out,
    }

    def _release(self) -> None:
        self.before_release()
        self._orchestrator.release()

    def _give_up(self, why: str) -> ResponseResult:
        """End a repair that is not needed any more, or whose node an operator has taken over."""
        self.report(End.CANCELLED.value, why, self._history.finish(End.CANCELLED))
        return ResponseResult(ResponseOutcome.NOT_NEEDED, why, self._wait_seconds())

    def _why_out(self, rung: Severity) -> str:
        """Why the node is out of service; empty also if nothing has answered for so long that it may act anyway."""
        try:
            out = self._orchestrator.why_out()
        except Exception as fault:
            self._silence.failed(str(fault))
            if not self._is_silence_over(rung):
                raise
            return ""
        self._silence.answered()
        return out

    def _holds(self, repair: Repair) -> bool:
        try:
            held = self._orchestrator.holds()
        except Exception as fault:
            self._silence.failed(str(fault))
            if not self._is_silence_over(repair.rung):
                raise
            return True
        self._silence.answered()
        return held

    def _room(self, rung: Severity, reason: str) -> str:
        """A slot for a repair.

        Raises:
            _Held: If the fleet has none now, or what counts it does not answer.
        """
        try:
            self._count(rung, reason)
            slot = self._slots.take(_kind(rung), self._limits[rung])
        except Exception as fault:  # noqa: BLE001 - only an answer gives room
            self._raise_unless_silent(fault, rung, reason)
            return SILENT
        self._silence.answered()
        if not slot:
            raise _Held(self._full(rung, "as many were begun", reason))
        return slot

    def _expect_room(self, rung: Severity, reason: str) -> None:
        """Raise _Held if the slots are known to be taken."""
        try:
            room = self._slots.has_room(_kind(rung), self._limits[rung])
        except Exception as fault:  # noqa: BLE001 - only an answer gives room
            self._raise_unless_silent(fault, rung, reason)
            return
        self._silence.answered()
        if not room:
            raise _Held(self._full(rung, "as many were begun", reason))

    def _raise_unless_silent(self, fault: Exception, rung: Severity, reason: str) -> None:
        """Raise _Held: only an answer gives room, or a long silence."""
        if isinstance(fault, _Held):
            raise fault
        self._silence.failed(str(fault))
        if not self._is_silence_over(rung):
            words = f"the repairs of the fleet are not counted: {fault or type(fault).__name__}; because of {reason}"
            raise _Held(words) from fault

    def _count(self, rung: Severity, reason: str) -> None:
        others = self._orchestrator.taken_out(rung)
        if len(others) >= self._limits[rung]:
            gone = ", ".join(sorted(others)[:10]) or "none"
            raise _Held(self._full(rung, f"gone are: {gone}", reason))

    def _full(self, rung: Severity, why: str, reason: str) -> str:
        return f"the fleet may {_VERBS[rung]} {self._limits[rung]} nodes an hour, {why}; because of {reason}"

    def _is_silence_over(self, rung: Severity) -> bool:
        return self._silence.is_over(fleet_size=self._orchestrator.size, limit=self._limits[rung])

    def _wait_seconds(self) -> float:
        """A minute, more or less, so that the nodes of a fleet do not ask at the same moment."""
        return _WAIT_SECONDS * (0.75 + 0.5 * self._chance())

    def _evidence(self, reason: str) -> str:
        """The address of the evidence for a reason.

        Raises:
            Exception: What prevents it, for a few tries.
        """
        kept = self._kept(reason)
        if isinstance(kept, Exception):
            self._tries += 1
            if self._tries < _EVIDENCE_TRIES:
                raise kept
            return f"none, since {kept}"
        return kept

    def _kept(self, reason: str) -> str | Exception:
        def keep() -> str | Exception:
            try:
                return self._keep_evidence(reason) or "the fleet keeps none"
            except Exception as fault:  # noqa: BLE001 - reported by the caller
                return fault

        keeping: Background[str | Exception] = Background()
        keeping.start(keep, time.monotonic())
        kept = keeping.take(_EVIDENCE_SECONDS)
        return f"none, since it was not there within {_EVIDENCE_SECONDS:g} s" if kept is None else kept


def _kind(rung: Severity) -> str:
    """What the fleet counts for a repair."""
    return f"repairs/{rung.name.lower()}"


def _reason(symptoms: Sequence[Symptom]) -> str:
    """The worst symptom, and how many there are besides."""
    if not symptoms:
        return "a repair that goes on"
    worst = max(symptoms, key=lambda symptom: symptom.severity)
    more = len(symptoms) - 1
    return f"{worst.reason} (and {more} more)" if more else worst.reason
