"""Symptoms that are believed, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..checks.check import Severity
from .probes import Symptom

# What comes and goes is told once in so long.
_QUIET_SECONDS = 600


@dataclass(frozen=True)
class Case:
    """A symptom that calls for an action.

    Attributes:
        look: The look that sees it.
        symptom: What it sees.
    """

    look: str
    symptom: Symptom


class Cases:
    """Believes symptoms once enough looks agree, and keeps those that call for an action until there was one.

    Attributes:
        open: What is still to be acted on, by key.
    """

    def __init__(
        self,
        *,
        acts_from: Severity,
        tell: Callable[[str, Symptom], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without any.

        Args:
            acts_from: Least severity that calls for an action.
            tell: Told about `seen` and `gone` symptoms, not more often than people can read.
            clock: Seconds that never go back.
        """
        self.open: dict[str, Case] = {}
        self._handled: dict[str, Case] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._told: dict[str, float] = {}
        self._loud: dict[str, Symptom] = {}
        self._acts_from, self._tell, self._clock = acts_from, tell, clock

    def note(self, look: str, symptoms: Sequence[Symptom]) -> None:
        """Take in what one look saw.

        Args:
            look: Its name.
            symptoms: What it saw; what it saw before and now does not is over.
        """
        lasting = {symptom.key: symptom for symptom in symptoms if symptom.lasting}
        counts = self._counts.setdefault(look, {})
        # A look that could not see cannot say that something is over; it confirms nothing either.
        blind = any(symptom.severity is Severity.UNKNOWN for symptom in symptoms)
        for key in [key for key in counts if key not in lasting]:
            counts[key] = 0
            if not blind:
                del counts[key]
                self._end(key)
        for key, symptom in lasting.items():
            counts[key] = counts.get(key, 0) + 1
            if counts[key] == symptom.looks:
                self._say_seen(symptom)
            if counts[key] >= symptom.looks:
                self._open(Case(look, symptom))
        for symptom in symptoms:
            if not symptom.lasting:
                self._say_seen(symptom)
                self._open(Case(look, symptom))

    def act_done(self, keys: Iterable[str]) -> None:
        """Close cases after an action: what lasts calls for none again, until it is over or becomes something else."""
        for key in keys:
            case = self.open.pop(key, None)
            if case is not None and case.symptom.lasting:
                self._handled[key] = case

    def act_needless(self, keys: Iterable[str]) -> None:
        """Close cases of a node that is out of service already; what lasts is looked at again when it is back."""
        for key in list(keys):
            if key in self.open and not self.open[key].symptom.lasting:
                del self.open[key]

    def dump(self) -> dict[str, Any]:
        """What a later process of this boot has to know."""
        return {
            "open": [_plain(case) for case in self.open.values()],
            "handled": [_plain(case) for case in self._handled.values()],
            "severity": int(self._worst()),
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Take over what an earlier process of this boot knew.

        Args:
            known: What `dump` gave.
        """
        self.open = {case.symptom.key: case for case in map(_case, known.get("open", []))}
        self._handled = {case.symptom.key: case for case in map(_case, known.get("handled", []))}
        for case in (*self.open.values(), *self._handled.values()):
            if case.symptom.lasting:
                self._counts.setdefault(case.look, {})[case.symptom.key] = case.symptom.looks

    def _worst(self) -> Severity:
        """What the worst of the symptoms that last, or are to be acted on, asks for."""
        cases = (*self.open.values(), *self._handled.values())
        symptoms = (*self._loud.values(), *(case.symptom for case in cases))
        return max((symptom.severity for symptom in symptoms), default=Severity.OK)

    def _open(self, case: Case) -> None:
        key = case.symptom.key
        handled = self._handled.get(key)
        if case.symptom.severity < self._acts_from:
            return
        if handled is None or handled.symptom.reason != case.symptom.reason:
            self.open[key] = case

    def _end(self, key: str) -> None:
        self.open.pop(key, None)
        self._handled.pop(key, None)
        symptom = self._loud.pop(key, None)
        if symptom is not None:
            self._tell("gone", symptom)

    def _say_seen(self, symptom: Symptom) -> None:
        now = self._clock()
        self._told = {key: at for key, at in self._told.items() if now - at < _QUIET_SECONDS}
        if symptom.key in self._told:
            return
        self._told[symptom.key] = now
        if symptom.lasting:
            self._loud[symptom.key] = symptom
        self._tell("seen", symptom)


def _plain(case: Case) -> dict[str, Any]:
    plain = asdict(case)
    plain["symptom"]["severity"] = case.symptom.severity.name
    return plain


def _case(plain: Mapping[str, Any]) -> Case:
    symptom = dict(plain["symptom"])
    symptom["severity"] = Severity[symptom["severity"]]
    return Case(str(plain["look"]), Symptom(**symptom))
