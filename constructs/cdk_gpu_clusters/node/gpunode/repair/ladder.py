"""Which repair a fault gets, and which step comes next. Pure functions: everything that they need is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..checks.check import Severity
from .history import Repair, Step

#: A repair that is needed again within this time did not help.
WINDOW_SECONDS = 24 * 3600.0


def rung_for(
    severity: Severity,
    past: Iterable[Repair],
    *,
    now: float,
    window_seconds: float = WINDOW_SECONDS,
    is_durable: bool = True,
) -> Severity:
    """The repair for a fault: the least one that was not tried within the window.

    Args:
        severity: What the fault requires, RESET or more.
        past: Earlier repairs of the instance.
        now: Seconds since 1970.
        is_durable: Whether the disk keeps a record of the repair. A node that would forget a reboot could reboot again
            and again, so it is replaced.

    Returns:
        RESET, REBOOT or REPLACE.
    """
    # A clock that jumped back makes a repair lie ahead. It is recent in both directions.
    tried = {one.rung for one in past if abs(now - one.at) < window_seconds}
    rung = severity
    if rung is Severity.RESET and rung in tried:
        rung = Severity.REBOOT
    if rung is Severity.REBOOT and (rung in tried or not is_durable):
        rung = Severity.REPLACE
    return rung


def resume(repair: Repair, boot_id: str) -> Step | None:
    """The step with which a repair goes on in a new process; None if it is given up.

    Every step can be repeated. A reboot, whoever caused it, does all that a reset and a reboot would have done.

    Args:
        boot_id: The present boot.
    """
    if repair.rung is Severity.REPLACE or repair.boot_id == boot_id or repair.step in (Step.CHECK, Step.RELEASE):
        return repair.step
    if repair.step is Step.BEGIN and not repair.holds:
        return None
    return Step.CHECK


@dataclass(frozen=True)
class Facts:
    """What decides on the end of the wait.

    Attributes:
        wanted: The highest severity of all open faults; OK if none is left.
        work: What runs on the node; empty if it is idle.
        is_leftover: Whether that is a process of no job.
        waited_seconds: How long it has waited.
        grace_seconds: How long jobs may go on before a reboot.
    """

    wanted: Severity = Severity.OK
    work: str = ""
    is_leftover: bool = False
    waited_seconds: float = 0.0
    grace_seconds: float = 0.0


def next_step(repair: Repair, facts: Facts) -> Step:
    """The step that follows the present one, which is done; the same one if it goes on.

    A healthy job is never ended for a reset. Before a reboot it has a grace. A process of no job, such as one in the
    kernel that no signal ends, gets the grace before either: then the node is rebooted.
    """
    if repair.rung is Severity.REPLACE:
        return Step.TAKE_OUT
    action = Step.RESET if repair.rung is Severity.RESET else Step.REBOOT
    if repair.step is not Step.WAIT:
        return {
            Step.BEGIN: Step.HOLD,
            Step.HOLD: Step.WAIT,
            Step.END_WORK: Step.REBOOT,
            Step.RESET: Step.CHECK,
            Step.REBOOT: Step.CHECK,
            Step.CHECK: Step.RELEASE,
        }[repair.step]
    if facts.wanted < Severity.RESET and not repair.follows:
        return Step.RELEASE
    if not facts.work:
        return action
    if (action is Step.REBOOT or facts.is_leftover) and facts.waited_seconds >= facts.grace_seconds:
        return Step.END_WORK
    return Step.WAIT
