"""Checks of preflight: verdicts, the areas of checks, and the IAM policy that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeAlias, TypeVar

from cdk_gpu_clusters.errors import Rule, define_rule
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .account import Account, Answer
from .call import CALLER, GROUP_MEMBERS, Absent, Call
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
            AssertionError: If the check does not declare the call: the policy would lack its permission.
        """
        return self.start(call, region=region, **parameters).result()

    def find(self, call: Call, **parameters: Any) -> Answer | None:
        """The answer to a call, as `ask` gives it; None if what it asks for does not exist."""
        try:
            return self.ask(call, **parameters)
        except Absent:
            return None

    def start(self, call: Call, *, region: str | None = None, **parameters: Any) -> Future[Answer]:
        """Ask now what is needed later, so that calls run side by side."""
        if call not in self.calls:
            raise AssertionError(f"a check makes {call.name} and does not declare it")
        return self.account.start(call, region=region, **parameters)


#: Says what it finds of one subject; nothing found is a pass.
Judge: TypeAlias = Callable[[SubjectT, Inquiry], Verdict | Iterator[Verdict] | None]
Subjects: TypeAlias = Callable[[Cluster], Mapping[str, SubjectT]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[SubjectT]):
    """One check.

    Attributes:
        rule: Its id, title and source.
        calls: Every call that it may make.
        subjects: What it looks at, by key of the cluster file; nothing means that it is not applicable.
        judge: Gives its findings on one of them. No finding is a pass.
        unless: Why it is not applicable where there is nothing to look at.
    """

    rule: Rule
    calls: tuple[Call, ...]
    subjects: Subjects[SubjectT]
    judge: Judge[SubjectT]
    unless: str

    @property
    def id(self) -> str:
        """Its stable id."""
        return self.rule.id

    @property
    def title(self) -> str:
        """What it asks for."""
        return self.rule.title


def define_check(
    rule_id: str,
    title: str,
    *,
    source: str,
    calls: tuple[Call, ...],
    subjects: Subjects[SubjectT],
    unless: str = "always applicable",
) -> Callable[[Judge[SubjectT]], Check[SubjectT]]:
    """Make a judge a check. A decorator; the arguments are those of `define_rule` and the attributes of `Check`."""
    rule = define_rule(rule_id, title, source=source)
    return lambda judge: Check(rule=rule, calls=calls, subjects=subjects, judge=judge, unless=unless)


def whole(cluster: Cluster) -> Mapping[str, Cluster]:
    """The cluster as the one subject."""
    return {"": cluster}


# All checks of preflight.

#: The areas of checks: the beginning of their ids, and a title.
AREAS = {
    "GPU-PRE-00": "Account and Region",
    "GPU-PRE-01": "Deployment",
    "GPU-PRE-02": "Instance types",
    "GPU-PRE-03": "Quotas of instances",
    "GPU-PRE-04": "Quotas of networks",
    "GPU-PRE-05": "Reservations and Capacity Blocks",
    "GPU-PRE-06": "Times of reservations",
    "GPU-PRE-07": "Existing subnets",
    "GPU-PRE-08": "Ways out of the network",
    "GPU-PRE-09": "Existing security groups",
    "GPU-PRE-10": "Machine images",
    "GPU-PRE-11": "FSx for Lustre",
    "GPU-PRE-12": "Buckets",
    "GPU-PRE-13": "KMS keys",
    "GPU-PRE-14": "Service-linked roles",
    "GPU-PRE-16": "Amazon EKS",
    "GPU-PRE-18": "AWS PCS and AWS ParallelCluster",
    "GPU-PRE-19": "SageMaker HyperPod",
    "GPU-PRE-15": "Model servers",
    "GPU-PRE-17": "Application status checks",
}


@cache
def every_check() -> tuple[Check[Any], ...]:
    """All checks of the modules in `preflight.checks`, by id."""
    from . import checks

    modules = [import_module(f"{checks.__name__}.{module.name}") for module in iter_modules(checks.__path__)]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Check)]
    return tuple(sorted(found, key=lambda one: one.id))


# The IAM policy that preflight needs.


def policy_for(spec: ClusterSpec) -> dict[str, Any]:
    """The smallest IAM policy with which every check of a cluster file gets its answers.

    All actions only read. The resource is `*`: most of them know no other, and what the others ask for is in the file.
    A key or a bucket of another account has to let the caller in by a policy of its own, too.

    Args:
        spec: The cluster file; what is not applicable to it needs nothing.
    """
    cluster = Cluster.of(spec)
    applicable = [one for one in every_check() if one.subjects(cluster)]
    unneeded = () if cluster.names_reservation_groups else (GROUP_MEMBERS,)
    calls = {CALLER, *(call for one in applicable for call in one.calls)}.difference(unneeded)
    return policy_of(calls, "GpuClustersPreflight")


def policy_of(calls: Iterable[Call], statement_id: str) -> dict[str, Any]:
    """The IAM policy that allows some calls.

    Args:
        calls: The calls.
        statement_id: Id of its statement.
    """
    statement = {
        "Sid": statement_id,
        "Effect": "Allow",
        "Action": sorted({action for call in calls for action in call.actions}),
        "Resource": "*",
    }
    return {"Version": "2012-10-17", "Statement": [statement]}
