"""Run the checks of a cluster file against an account, and report them as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .account import Account
from .call import CALLER, NoAnswer
from .check import WORST_FIRST, Check, Inquiry, Outcome, Verdict, cannot_tell, every_check, passed
from .cluster import Cluster

# Checks mostly wait for answers; their number bounds how many of a large cluster's wait at a time.
_CHECKS_AT_ONCE = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check.

    Attributes:
        id: Its stable id.
        title: What it asks for.
        outcome: The worst of its verdicts.
        verdicts: What it found, the worst first; none where it is not applicable.
        reason: Why it is not applicable, otherwise empty.
    """

    id: str
    title: str
    outcome: Outcome
    verdicts: tuple[Verdict, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What all checks say.

    Attributes:
        cluster: Name of the cluster.
        region: Its Region.
        account: The account that was asked.
        caller: ARN of who asked.
        results: One for each check, by id.
    """

    cluster: str
    region: str
    account: str
    caller: str
    results: tuple[CheckResult, ...]

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return any(result.outcome is Outcome.FAIL for result in self.results)

    def count(self, outcome: Outcome) -> int:
        """How many checks have an outcome."""
        return sum(result.outcome is outcome for result in self.results)


def run_preflight(
    spec: ClusterSpec,
    account: Account,
    *,
    now: datetime,
    checks: Sequence[Check[Any]] | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> Preflight:
    """Ask an account everything that a cluster file needs of it; nothing is changed there.

    Args:
        spec: The cluster file.
        account: The account.
        now: The time, to compare ends of reservations and certificates with.
        checks: The checks; all of them by default.
        on_done: Called after each step with how many are done, and of how many.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    caller = _caller(account)
    cluster = Cluster.of(spec)
    chosen = every_check() if checks is None else tuple(checks)
    work = [(check, where, subject) for check in chosen for where, subject in check.subjects(cluster).items()]
    found: dict[str, list[Verdict]] = {check.id: [] for check in chosen}
    with ThreadPoolExecutor(_CHECKS_AT_ONCE, thread_name_prefix="check") as pool:
        inquiries = {
            check.id: Inquiry(cluster=cluster, account=account, now=now, calls=frozenset(check.calls))
            for check in chosen
        }
        waiting = {
            pool.submit(_judge, check, where, subject, inquiries[check.id]): check.id for check, where, subject in work
        }
        try:
            for done, future in enumerate(as_completed(waiting), start=1):
                found[waiting[future]] += future.result()
                if on_done is not None:
                    on_done(done, len(work))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Preflight(
        cluster=spec.name,
        region=spec.region,
        account=caller[0],
        caller=caller[1],
        results=tuple(_result(check, found[check.id]) for check in chosen),
    )


def _caller(account: Account) -> tuple[str, str]:
    """Who asks; empty if only this is unknown, because other services may answer all the same."""
    try:
        answer = account.ask(CALLER)
    except NoAnswer:
        return "", ""
    return str(answer["Account"]), str(answer["Arn"])


def _judge(check: Check[Any], where: str, subject: Any, inquiry: Inquiry) -> list[Verdict]:
    verdicts: list[Verdict] = []
    try:
        verdicts.extend(check.judge(subject, inquiry))
    except NoAnswer as none:
        verdicts.append(cannot_tell(none.cause, fix=none.fix, permission=none.permission))
    return [replace(verdict, about=verdict.about or where) for verdict in verdicts or [passed("as it must be")]]


def _result(check: Check[Any], verdicts: Iterable[Verdict]) -> CheckResult:
    ordered = sorted(dict.fromkeys(verdicts), key=lambda one: (WORST_FIRST.index(one.outcome), one.about, one.cause))
    if not ordered:
        return CheckResult(id=check.id, title=check.title, outcome=Outcome.NOT_APPLICABLE, reason=check.unless)
    return CheckResult(id=check.id, title=check.title, outcome=ordered[0].outcome, verdicts=tuple(ordered))


# What preflight found, as lines for a person.

# As wide as "cannot tell".
_WIDTH = max(len(outcome) for outcome in Outcome if outcome is not Outcome.NOT_APPLICABLE)


class Line(NamedTuple):
    """One line; the outcome that it begins with, if any, is to be seen at a glance."""

    outcome: Outcome | None
    text: str


def format_preflight(preflight: Preflight) -> Iterator[Line]:
    """Write one line for each check that applies, what it found below it, and a line that counts them."""
    account = f"account {preflight.account}" if preflight.account else "an unknown account"
    yield Line(None, f"{preflight.cluster} in {preflight.region}, {account}")
    for result in preflight.results:
        if result.outcome is not Outcome.NOT_APPLICABLE:
            yield from _lines(result)
    counts = [(preflight.count(outcome), outcome) for outcome in WORST_FIRST]
    yield Line(None, ", ".join(f"{number} {outcome}" for number, outcome in counts if number))


def _lines(result: CheckResult) -> Iterator[Line]:
    yield Line(result.outcome, f"{result.id} {result.title}")
    for verdict in result.verdicts:
        if verdict.outcome is not Outcome.PASS:
            where = f"{verdict.about}: " if verdict.about else ""
            yield Line(None, f"{' ' * _WIDTH}  {where}{verdict.cause}")
            if verdict.fix:
                yield Line(None, f"{' ' * _WIDTH}    fix: {verdict.fix}")


def padded(outcome: Outcome) -> str:
    """An outcome, as wide as the longest of those that are written."""
    return f"{outcome.value:<{_WIDTH}}"
