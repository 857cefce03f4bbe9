"""What could not be read from an account, for commands that go on without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from .account import Answer
from .call import Absent, Call, NoAnswer

#: What an answer in an unknown form raises while it is read.
ODD_ANSWER = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A call without an answer.

    Attributes:
        call: The call, such as `cloudtrail:LookupEvents`.
        about: What it was about: a key of the cluster file, or a stack.
        cause: Why there is no answer.
        fix: What to do.
        permission: IAM action that is missing, empty for other causes.
    """

    call: str
    about: str
    cause: str
    fix: str = ""
    permission: str = ""


@dataclass(slots=True, kw_only=True)
class Missed:
    """What has no answer, while other answers are used.

    Attributes:
        unread: Calls without an answer, each once.
        absent: Stacks that are not deployed.
    """

    unread: list[Unread] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def take(self, call: Call, about: str, future: Future[Answer], *, absent: str = "") -> Answer | None:
        """An answer; None without one, which is noted, unless what it is about does not exist.

        Args:
            call: The call.
            about: What it is about.
            future: The answer to come.
            absent: Stack that is not deployed if it does not exist.
        """
        try:
            return future.result()
        except Absent:
            if absent and absent not in self.absent:
                self.absent.append(absent)
        except NoAnswer as none:
            self.add(Unread(call=call.name, about=about, cause=none.cause, fix=none.fix, permission=none.permission))
        return None

    @contextmanager
    def reading(self, call: Call, about: str) -> Iterator[None]:
        """Note an answer that lacks a member, or has another in its place, and go on behind it.

        Args:
            call: The call.
            about: What it is about.
        """
        try:
            yield
        except ODD_ANSWER as fault:
            cause = f"AWS answered in a form that is unknown here ({type(fault).__name__}: {fault})"
            self.add(Unread(call=call.name, about=about, cause=cause))

    def add(self, missed: Unread) -> None:
        """Note it, once."""
        if missed not in self.unread:
            self.unread.append(missed)


def format_unread(unread: Iterable[Unread], absent: Iterable[str]) -> Iterator[str]:
    """Write the calls without an answer, and the stacks that are not deployed, each below an empty line.

    Args:
        unread: The calls.
        absent: Names of the stacks.
    """
    for index, one in enumerate(unread):
        if index == 0:
            yield from ("", "cannot tell")
        yield f"  {' '.join(filter(None, (one.call, one.about)))}: {one.cause}"
        if one.fix:
            yield f"    fix: {one.fix}"
    if names := ", ".join(absent):
        yield from ("", f"not deployed: {names}")
