"""Checks of preflight: verdicts, the areas of checks, and the IAM policy that they need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeAlias, TypeVar

from cdk_gpu_clusters.errors import Rule
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .account import Account, Answer
from .call import CALLER, Call
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


# All checks of preflight.

#: The areas of checks, with their titles.
AREAS = {
    "account": "Account and Region",
    "deployment": "Deployment",
    "instance_types": "Instance types",
    "compute_quotas": "Quotas of instances",
    "network_quotas": "Quotas of networks",
    "reservations": "Reservations and Capacity Blocks",
    "reservation_times": "Times of reservations",
    "subnets": "Existing subnets",
    "routes": "Ways out of the network",
    "security_groups": "Existing security groups",
    "images": "Machine images",
    "file_systems": "FSx for Lustre",
    "buckets": "Buckets",
    "keys": "KMS keys",
    "roles": "Service-linked roles",
    "kubernetes": "Amazon EKS",
    "serving": "Model servers",
}
#: Module of `preflight.checks` for each area that has no module of its own; it lists the checks in `<AREA>_CHECKS`.
_MODULES = {
    "deployment": "account",
    "instance_types": "machines",
    "compute_quotas": "quotas",
    "network_quotas": "quotas",
    "reservation_times": "reservations",
    "subnets": "network",
    "routes": "network",
    "security_groups": "network",
    "images": "machines",
    "file_systems": "storage",
    "buckets": "storage",
    "keys": "roles",
}


@cache
def checks_of(area: str) -> tuple[Check[Any], ...]:
    """The checks of an area, by id."""
    module = import_module(f"{__package__}.checks.{_MODULES.get(area, area)}")
    checks = getattr(module, f"{area.upper()}_CHECKS")
    return tuple(sorted(checks, key=lambda check: str(check.id)))


@cache
def every_check() -> tuple[Check[Any], ...]:
    """All checks, by id."""
    return tuple(sorted((check for area in AREAS for check in checks_of(area)), key=lambda check: check.id))


# The IAM policy that preflight needs.

Json = dict[str, Any]


def actions_for(spec: ClusterSpec, checks: Iterable[Check[Any]] | None = None) -> tuple[str, ...]:
    """The IAM actions that the checks of a cluster file need, sorted.

    Args:
        spec: The cluster file; what is not applicable to it needs nothing.
        checks: The checks; all of them by default.
    """
    cluster = Cluster.of(spec)
    calls = {
        call
        for check in (every_check() if checks is None else checks)
        if check.subjects(cluster)
        for call in check.calls
        if call not in check.unneeded(cluster)
    }
    return tuple(sorted({action for call in {CALLER, *calls} for action in call.actions}))


def policy_for(spec: ClusterSpec, checks: Iterable[Check[Any]] | None = None) -> Json:
    """The smallest IAM policy with which every check of a cluster file gets its answers.

    All actions only read. The resource is `*`: most of them know no other, and what the others ask for is in the file.
    A key or a bucket of another account has to let the caller in by a policy of its own, too.
    """
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "GpuClustersPreflight",
                "Effect": "Allow",
                "Action": list(actions_for(spec, checks)),
                "Resource": "*",
            }
        ],
    }
