"""What is decided of a template in one case: values of parameters, and conditions that nothing decides.

A check runs as if every condition were known. Where it meets one that is not, it stops with a `Fork`, and runs again
once for each answer. So both branches of `Fn::If` are looked at, and no two branches that exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from cdk_gpu_clusters.template_rules.template import Template

T = TypeVar("T")


class Undecidable(Exception):
    """The template does not hold what a check needs to know.

    Attributes:
        reason: Why.
        path: Where; empty if that is not known yet.
        template: The template of the path.
    """

    def __init__(self, reason: str, path: tuple[str | int, ...] = (), template: Template | None = None) -> None:
        self.reason = reason
        self.path = path
        self.template = template
        super().__init__(reason)

    def placed(self, path: tuple[str | int, ...], template: Template) -> Undecidable:
        """The same, at a place, if it has none yet."""
        return self if self.path else Undecidable(self.reason, path, template)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is decided of one parameter, or of one condition that is not about a parameter.

    Attributes:
        value: Its value, or None if only some values are ruled out; `true` and `false` for a condition.
        excluded: Values that are ruled out.
    """

    value: str | None = None
    excluded: frozenset[str] = field(default_factory=frozenset)


class Choices(dict[str, Choice]):
    """Choices by the name of the parameter, or the text of the condition."""

    def having(self, name: str, choice: Choice) -> Choices:
        """These, and one more."""
        return Choices({**self, name: choice})

    def __str__(self) -> str:
        return ", ".join(_shown(name, choice) for name, choice in self.items())


def _shown(name: str, choice: Choice) -> str:
    if choice.value is not None:
        return f"{name} = {choice.value!r}"
    return f"{name} is none of {', '.join(repr(value) for value in sorted(choice.excluded))}"


class Fork(Exception):
    """A check met something that is not decided yet.

    Attributes:
        options: The choices to go on with, in turn.
        must_agree: Whether the answer counts only if it is the same for all of them: so with the allowed values of a
            parameter, of which a user picks one; not so with branches, of which each is meant by the author.
        unclear: The verdict if they do not agree.
    """

    def __init__(self, options: tuple[Choices, ...], *, must_agree: bool, unclear: Undecidable | None = None) -> None:
        self.options = options
        self.must_agree = must_agree
        self.unclear = unclear
        super().__init__("fork")


def any_surely(values: Iterable[T], holds: Callable[[T], bool]) -> bool:
    """Whether something holds for one of the values.

    Raises:
        Undecidable: If it surely holds for none, and may hold for one.
    """
    unclear: Undecidable | None = None
    for value in values:
        try:
            if holds(value):
                return True
        except Undecidable as found:
            unclear = found
    if unclear:
        raise unclear
    return False


def assume_either(choices: Choices, question: str, unclear: Undecidable) -> bool:
    """Go on with yes and with no, where the template leaves a question open that may not matter.

    Args:
        choices: Those of the case.
        question: The question.
        unclear: The verdict if the answers differ.

    Raises:
        Fork: If the case does not decide it.
    """
    choice = choices.get(question)
    if choice is not None:
        return choice.value == "true"
    options = tuple(choices.having(question, Choice(answer)) for answer in ("true", "false"))
    raise Fork(options, must_agree=True, unclear=unclear)
