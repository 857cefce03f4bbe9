"""Confirmed symptoms, and whether an action has handled them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..checks.check import Severity
from .probes import Symptom

# A symptom that comes and goes is reported once in this time.
_QUIET_SECONDS = 600


@dataclass(frozen=True)
class Case:
    """A symptom that requires an action.

    Attributes:
        probe: Name of the probe that observes it.
        symptom: The symptom.
    """

    probe: str
    symptom: Symptom


class Cases:
    """Confirms symptoms that enough probes agree on, and keeps those that require an action until it is done.

    Attributes:
        open: Cases that still require an action, by key.
    """

    def __init__(
        self,
        *,
        acts_from: Severity,
        report: Callable[[str, Symptom], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without cases.

        Args:
            acts_from: Least severity that requires an action.
            report: Receives `seen` and `gone` symptoms, at a rate that people can read.
        """
        self.open: dict[str, Case] = {}
        self._handled: dict[str, Case] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._reported_at: dict[str, float] = {}
        self._reported_symptoms: dict[str, Symptom] = {}
        self._acts_from, self._report, self._clock = acts_from, report, clock

    def note(self, probe: str, symptoms: Sequence[Symptom]) -> None:
        """Record the result of one probe.

        Args:
            symptoms: What it observed. Earlier symptoms that are missing have ended.
        """
        lasting = {symptom.key: symptom for symptom in symptoms if symptom.lasting}
        counts = self._counts.setdefault(probe, {})
        # A probe that could not observe anything neither ends nor confirms a symptom.
        blind = any(symptom.severity is Severity.UNKNOWN for symptom in symptoms)
        for key in [key for key in counts if key not in lasting]:
            counts[key] = 0
            if not blind:
                del counts[key]
                self._end(key)
        for key, symptom in lasting.items():
            counts[key] = counts.get(key, 0) + 1
            if counts[key] == symptom.confirmations:
                self._report_seen(symptom)
            if counts[key] >= symptom.confirmations:
                self._open(Case(probe, symptom))
        for symptom in symptoms:
            if not symptom.lasting:
                self._report_seen(symptom)
                self._open(Case(probe, symptom))

    def act_done(self, keys: Iterable[str]) -> None:
        """Close cases after an action. A lasting symptom requires another only after it ended or changed."""
        for key in keys:
            case = self.open.pop(key, None)
            if case is not None and case.symptom.lasting:
                self._handled[key] = case

    def act_repaired(self, keys: Iterable[str]) -> None:
        """Close cases after a repair. Lasting symptoms that are still there must be confirmed again, and then count."""
        for key in list(keys):
            if key in self.open:
                self._counts.get(self.open[key].probe, {}).pop(key, None)
                self._end(key)
                self._reported_at.pop(key, None)

    def act_not_needed(self, keys: Iterable[str]) -> None:
        """Close cases of a node that is out of service already. Lasting symptoms count again once it is back."""
        for key in list(keys):
            if key in self.open and not self.open[key].symptom.lasting:
                del self.open[key]

    def dump(self, repaired: Iterable[str] = ()) -> dict[str, Any]:
        """The state for a later process of this boot. Other threads may call it.

        Args:
            repaired: Keys of cases that count as closed already.
        """
        cases, handled, reported = dict(self.open), dict(self._handled), dict(self._reported_symptoms)
        for key in repaired:
            for known in (cases, handled, reported):
                known.pop(key, None)
        # The highest severity of all lasting symptoms and open cases.
        symptoms = (*reported.values(), *(case.symptom for case in (*cases.values(), *handled.values())))
        return {
            "open": [_plain(case) for case in cases.values()],
            "handled": [_plain(case) for case in handled.values()],
            "severity": int(max((symptom.severity for symptom in symptoms), default=Severity.OK)),
            # For people: symptoms that require no action are in no case.
            "seen": [symptom.reason for symptom in reported.values()],
        }

    def restore(self, known: Mapping[str, Any]) -> None:
        """Take over the state of an earlier process of this boot."""
        self.open = {case.symptom.key: case for case in map(_case, known.get("open", []))}
        self._handled = {case.symptom.key: case for case in map(_case, known.get("handled", []))}
        for case in (*self.open.values(), *self._handled.values()):
            if case.symptom.lasting:
                self._counts.setdefault(case.probe, {})[case.symptom.key] = case.symptom.confirmations

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
        symptom = self._reported_symptoms.pop(key, None)
        if symptom is not None:
            self._report("gone", symptom)

    def _report_seen(self, symptom: Symptom) -> None:
        now = self._clock()
        self._reported_at = {key: at for key, at in self._reported_at.items() if now - at < _QUIET_SECONDS}
        if symptom.key in self._reported_at:
            return
        self._reported_at[symptom.key] = now
        if symptom.lasting:
            self._reported_symptoms[symptom.key] = symptom
        self._report("seen", symptom)


def _plain(case: Case) -> dict[str, Any]:
    plain = asdict(case)
    plain["symptom"]["severity"] = case.symptom.severity.name
    return plain


def _case(plain: Mapping[str, Any]) -> Case:
    symptom = dict(plain["symptom"])
    symptom["severity"] = Severity[symptom["severity"]]
    return Case(str(plain["probe"]), Symptom(**symptom))
