"""The watchdog: it probes the node every few seconds, confirms what it observes, and acts once."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from .. import paths
from ..checks.check import Severity
from ..command import Background
from ..events import Events
from ..repair.history import Repair
from ..state import recall, remember
from .cases import Cases
from .kernel import Hardware, KernelLog, XidTable, symptom_of
from .mode import MEMORY
from .probes import Probe, Symptom
from .response import Response, ResponseOutcome, ResponseResult

KERNEL = "kernel"

#: How long a poll waits. Later results are taken by a later poll.
PATIENCE_SECONDS = 2.0
# An endless stream of kernel messages must not starve the probes.
_BREATH_SECONDS = 1.0
# Programs have deadlines of a minute, and some probes run more than one.
_LATE_SECONDS = 180.0

# More steps only wait if writing has stopped.
_MOST_WAITING = 1_000


class Watch:
    """Watches one node."""

    def __init__(
        self,
        *,
        events: Events,
        log: KernelLog,
        xids: XidTable,
        hardware: Hardware,
        rounds: Rounds,
        response: Response | None,
        acts_from: Severity = Severity.RESET,
        after_action: Callable[[], object] = lambda: None,
        memory: str = MEMORY,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Continue where an earlier process of this boot ended.

        Args:
            response: What to do about an unhealthy node; None if it is only reported.
            acts_from: Least severity that triggers the response.
            after_action: Sends the events to AWS before the node goes; may raise.
            clock: Monotonic seconds, unaffected by changes of the time of day.
            patience_seconds: How long a poll waits for an action. A longer action goes on in the background.
        """
        self._writer, self._log, self._rounds = EventWriter(events), log, rounds
        self._xids, self._hardware = xids, hardware
        self._response, self._after_action, self._memory = response, after_action, memory
        self._clock, self._patience = clock, patience_seconds
        self._cases = Cases(acts_from=acts_from, report=self._report_symptom, clock=clock)
        self._acting: Background[ResponseResult] = Background()
        self._acting_on: list[str] = []
        self._is_repaired, self._remembering = False, threading.Lock()
        self._not_before = 0.0
        self._last_report = ""
        self._polls = count()
        if response is not None:
            response.report, response.before_release = self._report_step, self._remember_repaired
        self._restore()

    def run(self, interval_seconds: float) -> None:
        """Poll until the process ends.

        Args:
            interval_seconds: Time from one poll to the next. Kernel messages are handled at once in between.
        """
        notify("READY=1", "STATUS=watching")
        while True:
            until = self._clock() + interval_seconds
            self.poll()
            while self._clock() < until:
                if self._log.wait(until - self._clock()):
                    self.hear()
                    time.sleep(min(_BREATH_SECONDS, max(0.0, until - self._clock())))

    def poll(self) -> None:
        """Run every probe that is due, and act."""
        self._listen()
        # While the GPUs are being reset, a program that opens them makes the reset fail.
        if self._response is None or not self._response.rests:
            for probe, symptoms in self._rounds.poll(next(self._polls)):
                self._cases.note(probe, symptoms)
        self._finish()

    def hear(self) -> None:
        """Read new kernel messages, and act."""
        self._listen()
        self._finish()

    def _finish(self) -> None:
        # Remember before acting: a process that dies in between must not lose the only message of a fault.
        self._remember()
        self._act()
        self._remember()
        notify("WATCHDOG=1")
        self._writer.settle(self._patience)

    def _listen(self) -> None:
        overwritten = self._log.overwritten
        try:
            records = self._log.read()
        except OSError as fault:
            self._cases.note("log", [Symptom("log", Severity.UNKNOWN, f"no kernel log: {fault.strerror}")])
            return
        self._cases.note("log", [])
        found = [symptom_of(record, self._xids, self._hardware) for record in records]
        symptoms = [symptom for symptom in found if symptom]
        if self._log.overwritten > overwritten:
            words = "messages of the kernel were overwritten before they were read"
            symptoms.append(Symptom("log-overwritten", Severity.UNKNOWN, words, lasting=False))
        self._cases.note(KERNEL, symptoms)

    def _act(self) -> None:
        self._take_answer(0.0)
        keys, response = list(self._cases.open), self._response
        if response is None:
            self._cases.act_done(keys)
            return
        if self._acting.busy or self._clock() < self._not_before or not (keys or response.is_repairing):
            return
        symptoms = [self._cases.open[key].symptom for key in keys]
        self._acting_on = keys
        try:
            self._acting.start(lambda: response.respond(symptoms), self._clock())
        except RuntimeError as fault:
            self._report_action("failed", f"no thread: {fault}")
            return
        self._take_answer(self._patience)

    def _take_answer(self, seconds: float) -> None:
        """Check whether the response has finished, and record its result."""
        answer = self._acting.take(seconds)
        if answer is None:
            return
        self._is_repaired = False
        if answer.outcome in (ResponseOutcome.DONE, ResponseOutcome.DRY_RUN):
            self._cases.act_done(self._acting_on)
        elif answer.outcome is ResponseOutcome.REPAIRED:
            self._cases.act_repaired(self._acting_on)
        elif answer.outcome is ResponseOutcome.NOT_NEEDED:
            self._cases.act_not_needed(self._acting_on)
        self._not_before = self._clock() + answer.pause_seconds
        self._report_action(answer.outcome.value, answer.words)
        if answer.outcome in (ResponseOutcome.DONE, ResponseOutcome.REPAIRED):
            self._writer.do(threading.Thread(target=self._carry_events, daemon=True).start)

    def _report_action(self, state: str, words: str) -> None:
        """Report the result of an action, unless the poll before had the same result."""
        if words != self._last_report or state in (ResponseOutcome.DONE.value, ResponseOutcome.DRY_RUN.value):
            self._writer.write("action", state, words)
        self._last_report = words

    def _report_step(self, step: str, words: str, repair: Repair) -> None:
        """Report a step of a repair, so that the log shows the walk."""
        self._writer.write("repair", step, words, rung=repair.rung.name.lower(), evidence=repair.evidence)

    def _carry_events(self) -> None:
        try:
            self._after_action()
        except Exception as fault:  # noqa: BLE001 - the events stay in the spool
            self._writer.complain(f"events not carried: {fault}")

    def _report_symptom(self, state: str, symptom: Symptom) -> None:
        self._writer.write("watch", state, symptom.reason, symptom=symptom.key, severity=symptom.severity.name.lower())

    def _remember_repaired(self) -> None:
        """Remember what the response acts on as repaired, before its answer is taken.

        Called in the thread of the response. The orchestrator may start a job as soon as it has the node back, and the
        prolog of that job must not find the old fault: Slurm would drain the node again, permanently.
        """
        self._is_repaired = True
        self._remember()

    def _remember(self) -> None:
        with self._remembering:
            try:
                # The time shows readers of this state that the watchdog still runs.
                at = round(paths.uptime_seconds())
                repair = "" if self._response is None or self._is_repaired else self._response.progress
                cases = self._cases.dump(self._acting_on if self._is_repaired else ())
                remember(self._memory, {"at": at, "sequence": self._log.sequence, "repair": repair, **cases})
            except OSError as fault:
                self._writer.complain(f"not remembered: {fault}")

    def _restore(self) -> None:
        try:
            self._cases.restore(recall(self._memory))
        except (KeyError, TypeError, AttributeError) as fault:
            self._writer.complain(f"nothing remembered: {fault}")


class Seen(NamedTuple):
    """What one probe observed to be unhealthy."""

    probe: str
    symptoms: list[Symptom]


class Rounds:
    """Runs the probes of each poll. A probe that fails or hangs delays neither the others nor the loop."""

    def __init__(
        self,
        probes: Sequence[Probe],
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._probes = {probe: Background[list[Symptom]]() for probe in probes}
        self._clock, self._patience = clock, patience_seconds

    def poll(self, number: int) -> list[Seen]:
        """Start the probes that are due, and collect finished results."""
        broken = [seen for probe in self._probes for seen in self._begin(probe, number)]
        end = time.monotonic() + self._patience
        found = []
        for probe, work in self._probes.items():
            symptoms = work.take(end - time.monotonic())
            if symptoms is not None:
                found.append(Seen(probe.name, symptoms))
        return [*broken, *found, Seen("late", self._late())]

    def _begin(self, probe: Probe, number: int) -> list[Seen]:
        work = self._probes[probe]
        if work.busy or number % probe.every:
            return []
        try:
            work.start(lambda: _take(probe), self._clock())
        except RuntimeError as fault:
            return [Seen(probe.name, [_broken(probe, fault)])]
        return []

    def _late(self) -> list[Symptom]:
        now = self._clock()
        spent = {probe.name: work.seconds(now) for probe, work in self._probes.items()}
        return [
            Symptom(f"late-{name}", Severity.UNKNOWN, f"the probe {name} has not returned for minutes")
            for name, seconds in spent.items()
            if seconds >= _LATE_SECONDS
        ]


def _take(probe: Probe) -> list[Symptom]:
    try:
        return list(probe.take())
    except Exception as fault:  # noqa: BLE001 - a broken probe proves nothing about the node
        return [_broken(probe, fault)]


def _broken(probe: Probe, fault: Exception) -> Symptom:
    words = f"the probe {probe.name} itself failed: {type(fault).__name__}: {fault}"
    return Symptom(f"broken-{probe.name}", Severity.UNKNOWN, words)


class EventWriter:
    """Writes events in a thread of its own, in their order: a disk or a journal that hangs must not hold the loop."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._steps: queue.Queue[Callable[[], object]] = queue.Queue(_MOST_WAITING)
        threading.Thread(target=self._work, daemon=True).start()

    def write(self, *words: str, **more: Any) -> None:
        """Write an event, like `Events.write`."""
        self.do(partial(self._write, *words, **more))

    def complain(self, words: str) -> None:
        """Write about the watchdog itself, to the journal only."""
        self.do(partial(sys.stderr.write, f"{words}\n"))

    def do(self, step: Callable[[], object]) -> None:
        """Queue a step after all earlier ones. It is dropped if the queue is full."""
        try:
            self._steps.put_nowait(step)
        except queue.Full:
            return

    def settle(self, seconds: float) -> bool:
        """Wait until everything is written, and return whether it is."""
        done = threading.Event()
        self.do(done.set)
        return done.wait(seconds)

    def _write(self, *words: str, **more: Any) -> None:
        self._events.write(*words, **more)
        # This process runs for months. What it wrote is in the journal and in the spool.
        self._events.written.clear()

    def _work(self) -> None:
        while True:
            step = self._steps.get()
            try:
                step()
            except Exception as fault:  # noqa: BLE001 - the next step may succeed
                sys.stderr.write(f"not written: {type(fault).__name__}: {fault}\n")


def watchdog_seconds() -> float | None:
    """The longest time that systemd allows between two `WATCHDOG=1` (WatchdogSec); None if it does not watch."""
    try:
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1_000_000
    except ValueError:
        return None


def notify(*states: str) -> None:
    """Notify systemd (`sd_notify`, systemd documentation, "Service notification protocol").

    Does nothing outside a service of `Type=notify`.

    Args:
        states: Assignments such as `READY=1` or `WATCHDOG=1`.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
        peer.settimeout(1)
        # An abstract address begins with a zero byte, which an environment variable cannot hold.
        peer.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        peer.sendall("\n".join(states).encode())
