"""What could not be read from an account, for commands that go on without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


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
