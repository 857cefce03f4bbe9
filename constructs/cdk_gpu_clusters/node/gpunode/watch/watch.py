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
from ..state import recall, remember
from .cases import Cases
from .kernel import KernelLog, XidTable, symptom_of
from .mode import MEMORY
from .probes import Look, Symptom
from .response import Answer, Outcome, Response

KERNEL = "kernel"

#: How long a poll waits; answers that come later are taken by a later poll.
PATIENCE_SECONDS = 2.0
# What lies between two tries to take out a node whose fleet has no room for it, or that is out already.
_LATER_SECONDS = 60.0
# A kernel that talks without end must not keep the watchdog from everything else.
_BREATH_SECONDS = 1.0
# Programs have deadlines of a minute, and some looks run more than one.
_LATE_SECONDS = 180.0

# More wait only where nothing is taken any more.
_MOST_WAITING = 1_000


class Watch:
    """Watches one node."""

    def __init__(
        self,
        *,
        events: Events,
        log: KernelLog,
        xids: XidTable,
        rounds: Rounds,
        response: Response | None,
        acts_from: Severity = Severity.REBOOT,
        after_action: Callable[[], object] = lambda: None,
        memory: str = MEMORY,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Begin where an earlier process of this boot ended.

        Args:
            events: Where it is told.
            log: The kernel's log.
            xids: What Xids ask for.
            rounds: The looks.
            response: What is done about a node that is not well; None: it is only told.
            acts_from: Least severity that calls for the response.
            after_action: Carries the events to AWS before the node goes; may raise.
            memory: Name of what is remembered.
            clock: Seconds that never go back, whatever is done to the time of day.
            patience_seconds: How long a poll waits for an action; one that takes longer goes on beside the loop.
        """
        self._scribe, self._log, self._xids, self._rounds = Scribe(events), log, xids, rounds
        self._response, self._after_action, self._memory = response, after_action, memory
        self._clock, self._patience = clock, patience_seconds
        self._cases = Cases(acts_from=acts_from, tell=self._tell, clock=clock)
        self._acting: Background[Answer] = Background()
        self._acting_on: list[str] = []
        self._not_before = 0.0
        self._last_words = ""
        self._polls = count()
        self._restore()

    def run(self, interval_seconds: float) -> None:
        """Poll for ever.

        Args:
            interval_seconds: Time from one poll to the next. The kernel is heard at once in between.
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
        """Look at everything that is due, and act."""
        self._listen()
        for look, symptoms in self._rounds.poll(next(self._polls)):
            self._cases.note(look, symptoms)
        self._finish()

    def hear(self) -> None:
        """Take in what the kernel says, and act."""
        self._listen()
        self._finish()

    def _finish(self) -> None:
        # First remembered, then acted on: a process that dies in between must not forget the one message of a fault.
        self._remember()
        self._act()
        self._remember()
        notify("WATCHDOG=1")
        self._scribe.settle(self._patience)

    def _listen(self) -> None:
        overwritten = self._log.overwritten
        try:
            records = self._log.read()
        except OSError as fault:
            self._cases.note("log", [Symptom("log", Severity.UNKNOWN, f"no kernel log: {fault.strerror}")])
            return
        self._cases.note("log", [])
        found = [symptom_of(record, self._xids) for record in records]
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
        if not keys or self._acting.busy or self._clock() < self._not_before:
            return
        symptoms = [self._cases.open[key].symptom for key in keys]
        try:
            self._acting.start(lambda: response.respond(symptoms), self._clock())
        except RuntimeError as fault:
            self._say("failed", f"no thread: {fault}")
            return
        self._acting_on = keys
        self._take_answer(self._patience)

    def _take_answer(self, seconds: float) -> None:
        """See whether the response is done, and what became of it."""
        answer = self._acting.take(seconds)
        if answer is None:
            return
        if answer.outcome in (Outcome.DONE, Outcome.DRY_RUN):
            self._cases.act_done(self._acting_on)
        elif answer.outcome is Outcome.NEEDLESS:
            self._cases.act_needless(self._acting_on)
        if answer.outcome in (Outcome.NEEDLESS, Outcome.HELD):
            self._not_before = self._clock() + _LATER_SECONDS
        self._say(answer.outcome.value, answer.words)
        if answer.outcome is Outcome.DONE:
            self._scribe.do(threading.Thread(target=self._carry_events, daemon=True).start)

    def _say(self, state: str, words: str) -> None:
        """Tell what became of an action; the same answer of the next poll is not told again."""
        if words != self._last_words or state in (Outcome.DONE.value, Outcome.DRY_RUN.value):
            self._scribe.write("action", state, words)
        self._last_words = words

    def _carry_events(self) -> None:
        try:
            self._after_action()
        except Exception as fault:  # noqa: BLE001 - the events stay in the spool
            self._scribe.complain(f"events not carried: {fault}")

    def _tell(self, state: str, symptom: Symptom) -> None:
        self._scribe.write(
            "watch", state, symptom.reason, symptom=symptom.key, severity=symptom.severity.name.lower()
        )

    def _remember(self) -> None:
        try:
            # The moment says that the watchdog still lives, to those who read what it found.
            at = round(paths.uptime_seconds())
            remember(self._memory, {"at": at, "sequence": self._log.sequence, **self._cases.dump()})
        except OSError as fault:
            self._scribe.complain(f"not remembered: {fault}")

    def _restore(self) -> None:
        try:
            self._cases.restore(recall(self._memory))
        except (KeyError, TypeError, AttributeError) as fault:
            self._scribe.complain(f"nothing remembered: {fault}")


class Seen(NamedTuple):
    """What one look saw.

    Attributes:
        look: Name of the look.
        symptoms: What is not well.
    """

    look: str
    symptoms: list[Symptom]


class Rounds:
    """Takes looks again and again; one that breaks or hangs holds back neither the others nor the loop."""

    def __init__(
        self,
        looks: Sequence[Look],
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._looks = {look: Background[list[Symptom]]() for look in looks}
        self._clock, self._patience = clock, patience_seconds

    def poll(self, number: int) -> list[Seen]:
        """Begin the looks that are due, and take what is there.

        Args:
            number: Number of the poll.
        """
        broken = [seen for look in self._looks for seen in self._begin(look, number)]
        end = time.monotonic() + self._patience
        found = []
        for look, work in self._looks.items():
            symptoms = work.take(end - time.monotonic())
            if symptoms is not None:
                found.append(Seen(look.name, symptoms))
        return [*broken, *found, Seen("late", self._late())]

    def _begin(self, look: Look, number: int) -> list[Seen]:
        work = self._looks[look]
        if work.busy or number % look.every:
            return []
        try:
            work.start(lambda: _take(look), self._clock())
        except RuntimeError as fault:
            return [Seen(look.name, [_broken(look, fault)])]
        return []

    def _late(self) -> list[Symptom]:
        now = self._clock()
        spent = {look.name: work.seconds(now) for look, work in self._looks.items()}
        return [
            Symptom(f"late-{name}", Severity.UNKNOWN, f"the look at {name} has not come back for minutes")
            for name, seconds in spent.items()
            if seconds >= _LATE_SECONDS
        ]


def _take(look: Look) -> list[Symptom]:
    try:
        return list(look.take())
    except Exception as fault:  # noqa: BLE001 - a broken look says nothing about the node
        return [_broken(look, fault)]


def _broken(look: Look, fault: Exception) -> Symptom:
    words = f"the look at {look.name} itself failed: {type(fault).__name__}: {fault}"
    return Symptom(f"broken-{look.name}", Severity.UNKNOWN, words)


class Scribe:
    """Takes steps that write, and does them in their order in a thread of its own."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._steps: queue.Queue[Callable[[], object]] = queue.Queue(_MOST_WAITING)
        threading.Thread(target=self._work, daemon=True).start()

    def write(self, *words: str, **more: Any) -> None:
        """Write an event, as `Events.write` does."""
        self.do(partial(self._write, *words, **more))

    def complain(self, words: str) -> None:
        """Write to the journal alone, about the watchdog itself."""
        self.do(partial(sys.stderr.write, f"{words}\n"))

    def do(self, step: Callable[[], object]) -> None:
        """Do something after all that was asked before; what finds no room is dropped.

        Args:
            step: What to do; may raise.
        """
        try:
            self._steps.put_nowait(step)
        except queue.Full:
            return

    def settle(self, seconds: float) -> bool:
        """Wait until all is written; says whether it is.

        Args:
            seconds: How long to wait at most.
        """
        done = threading.Event()
        self.do(done.set)
        return done.wait(seconds)

    def _write(self, *words: str, **more: Any) -> None:
        self._events.write(*words, **more)
        # This process runs for months; what it wrote stands in the journal and in the spool.
        self._events.written.clear()

    def _work(self) -> None:
        while True:
            step = self._steps.get()
            try:
                step()
            except Exception as fault:  # noqa: BLE001 - the next step may do better
                sys.stderr.write(f"not written: {type(fault).__name__}: {fault}\n")


def watchdog_seconds() -> float | None:
    """How often systemd wants to hear `WATCHDOG=1` at the latest (WatchdogSec); None where it does not listen."""
    try:
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1_000_000
    except ValueError:
        return None


def notify(*states: str) -> None:
    """Tell systemd; outside a service of `Type=notify`, nobody listens.

    Args:
        states: Assignments such as `READY=1` or `WATCHDOG=1`.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer:
        peer.settimeout(1)
        # An address in the abstract name space begins with a zero byte, which an environment cannot hold.
        peer.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        peer.sendall("\n".join(states).encode())
