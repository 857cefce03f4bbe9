"""A check of preflight, and its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from cdk_gpu_clusters.errors import Rule

from .account import Account, Answer
from .call import Call
from .cluster import Cluster

SubjectT = TypeVar("SubjectT")


class Outcome(StrEnum):
    """The outcome of a check."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"
    CANNOT_TELL = "cannot tell"
    NOT_APPLICABLE = "not applicable"


#: From the worst to the best: the worst of what a check says is its own outcome.
WORST_FIRST = (Outcome.FAIL, Outcome.CANNOT_TELL, Outcome.WARN, Outcome.PASS, Outcome.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of a check on one thing.

    Attributes:
        outcome: The outcome.
        cause: Why, in a sentence.
        fix: The change to make; empty where all is well.
        about: Key of the cluster file that it is about; empty for all of it.
        permission: IAM action whose lack is the cause of "cannot tell".
    """

    outcome: Outcome
    cause: str
    fix: str = ""
    about: str = ""
    permission: str = ""


def passed(cause: str) -> Verdict:
    """All is well."""
    return Verdict(outcome=Outcome.PASS, cause=cause)


def warned(cause: str, *, fix: str) -> Verdict:
    """It works, but costs money, speed or safety."""
    return Verdict(outcome=Outcome.WARN, cause=cause, fix=fix)


def failed(cause: str, *, fix: str) -> Verdict:
    """A deployment would fail, or its nodes would not start."""
    return Verdict(outcome=Outcome.FAIL, cause=cause, fix=fix)


def cannot_tell(cause: str, *, fix: str = "", permission: str = "") -> Verdict:
    """The account does not say."""
    return Verdict(outcome=Outcome.CANNOT_TELL, cause=cause, fix=fix, permission=permission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a check may look at.

    Attributes:
        cluster: The cluster file.
        account: The account.
        now: When preflight runs.
        calls: The calls that the check declares; it can make no others.
    """

    cluster: Cluster
    account: Account
    now: datetime
    calls: frozenset[Call] = field(default_factory=frozenset)

    def ask(self, call: Call, *, region: str | None = None, **parameters: Any) -> Answer:
        """The answer to a call.

        Raises:
            NoAnswer: If AWS gives none.
            LookupError: If the check does not declare the call: the policy would lack its permission.
        """
        self._must_declare(call)
        return self.account.ask(call, region=region, **parameters)

    def start(self, call: Call, **parameters: Any) -> None:
        """Ask now what is needed later, so that calls run side by side."""
        self._must_declare(call)
        self.account.start(call, **parameters)

    def _must_declare(self, call: Call) -> None:
        if call not in self.calls:
            raise LookupError(f"a check makes {call.name} and does not declare it")


#: Says what it finds of one subject; nothing found is a pass.
Judge: TypeAlias = Callable[[SubjectT, Inquiry], Iterator[Verdict]]


def _nothing(_: Cluster) -> Collection[Call]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[SubjectT]):
    """One check.

    Attributes:
        rule: Its id, title and source.
        calls: Every call that it may make.
        subjects: What it looks at, by key of the cluster file; nothing means that it is not applicable.
        judge: Yields its findings on one of them. No finding is a pass.
        unless: Why it is not applicable where there is nothing to look at.
        unneeded: Those of the calls that it does not make for a cluster, so that the policy can leave them out.
    """

    rule: Rule
    calls: tuple[Call, ...]
    subjects: Callable[[Cluster], Mapping[str, SubjectT]]
    judge: Judge[SubjectT]
    unless: str = "always applicable"
    unneeded: Callable[[Cluster], Collection[Call]] = _nothing

    @property
    def id(self) -> str:
        """Its stable id."""
        return self.rule.id

    @property
    def title(self) -> str:
        """What it asks for."""
        return self.rule.title


def whole(cluster: Cluster) -> Mapping[str, Cluster]:
    """The cluster as the one subject."""
    return {"": cluster}
