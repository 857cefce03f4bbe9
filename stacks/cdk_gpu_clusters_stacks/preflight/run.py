"""Run the checks of a cluster file against an account, and report them as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .account import Account
from .call import CALLER, REGIONS, NoAnswer, Unreachable, Unusable
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
    account_id, arn = caller_of(account)
    cluster = Cluster.of(spec)
    chosen = every_check() if checks is None else tuple(checks)
    work = [
        (check, where, subject, Inquiry(cluster=cluster, account=account, now=now, calls=frozenset(check.calls)))
        for check in chosen
        for where, subject in check.subjects(cluster).items()
    ]
    found: dict[str, list[Verdict]] = {check.id: [] for check in chosen}
    with ThreadPoolExecutor(_CHECKS_AT_ONCE, thread_name_prefix="check") as pool:
        waiting = {pool.submit(_judge, *step): step[0].id for step in work}
        try:
            for done, future in enumerate(as_completed(waiting), start=1):
                found[waiting[future]] += future.result()
                if on_done is not None:
                    on_done(done, len(work))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    results = tuple(_result(check, found[check.id]) for check in chosen)
    return Preflight(cluster=spec.name, region=spec.region, account=account_id, caller=arn, results=results)


def caller_of(account: Account) -> tuple[str, str]:
    """Account and ARN of who asks; empty if only this is unknown: other services may still answer.

    Raises:
        Unusable: If nothing answers, which all checks would repeat.
    """
    try:
        answer = account.ask(CALLER)
    except Unreachable as silent:
        try:
            account.ask(REGIONS, AllRegions=True)
        except Unreachable:
            raise Unusable(
                f"no service of AWS answers in {account.region}: {silent.cause}; check the network of this machine, "
                "its proxy (HTTPS_PROXY) and AWS_ENDPOINT_URL"
            ) from silent
        except NoAnswer:
            pass
        return "", ""
    except NoAnswer:
        return "", ""
    return str(answer.get("Account", "")), str(answer.get("Arn", ""))


# What a check raises if an answer lacks a member, or has another in its place.
_ODD_ANSWER = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _judge(check: Check[Any], where: str, subject: Any, inquiry: Inquiry) -> list[Verdict]:
    verdicts: list[Verdict] = []
    try:
        found = check.judge(subject, inquiry) or ()
        verdicts.extend([found] if isinstance(found, Verdict) else found)
    except NoAnswer as none:
        verdicts.append(cannot_tell(none.cause, fix=none.fix, permission=none.permission))
    except _ODD_ANSWER as fault:
        verdicts.append(cannot_tell(f"AWS answered in a form that is unknown here ({type(fault).__name__}: {fault})"))
    return [replace(verdict, about=verdict.about or where) for verdict in verdicts or [passed("as it must be")]]


def _result(check: Check[Any], verdicts: Iterable[Verdict]) -> CheckResult:
    ordered = sorted(dict.fromkeys(verdicts), key=lambda one: (WORST_FIRST.index(one.outcome), one.about, one.cause))
    if not ordered:
        return CheckResult(id=check.id, title=check.title, outcome=Outcome.NOT_APPLICABLE, reason=check.unless)
    return CheckResult(id=check.id, title=check.title, outcome=ordered[0].outcome, verdicts=tuple(ordered))


# What preflight found, as lines for a person.

# As wide as "cannot tell".
_WIDTH = max(len(outcome) for outcome in Outcome if outcome is not Outcome.NOT_APPLICABLE)


def format_preflight(preflight: Preflight) -> Iterator[tuple[str, str]]:
    """Write one line for each check that applies, what it found below it, and a line that counts them.

    Yields:
        The outcome that a line begins with, as wide as the longest, and the rest of the line.
    """
    account = f"account {preflight.account}" if preflight.account else "an unknown account"
    yield "", f"{preflight.cluster} in {preflight.region}, {account}"
    for result in preflight.results:
        if result.outcome is not Outcome.NOT_APPLICABLE:
            yield f"{result.outcome.value:<{_WIDTH}}", f"  {result.id} {result.title}"
            yield from (("", line) for line in _faults(result))
    counts = [(preflight.count(outcome), outcome) for outcome in WORST_FIRST]
    yield "", ", ".join(f"{number} {outcome}" for number, outcome in counts if number)


def _faults(result: CheckResult) -> Iterator[str]:
    places: dict[tuple[str, str], list[str]] = {}
    for verdict in result.verdicts:
        if verdict.outcome is not Outcome.PASS:
            places.setdefault((verdict.cause, verdict.fix), []).append(verdict.about)
    for (cause, fix), about in places.items():
        named = [one for one in about if one]
        where = f"{', '.join(named)}: " if named else ""
        yield f"{' ' * _WIDTH}  {where}{cause}"
        if fix:
            yield f"{' ' * _WIDTH}    fix: {fix}"
