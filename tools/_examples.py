"""The examples, each with what it makes and what it costs, read from the example itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from _pages import ROOT
from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster
from cdk_gpu_clusters_stacks.plan.model import UsdRange
from cdk_gpu_clusters_stacks.spec import load_cluster

FOLDER = ROOT / "examples"
_SECTION = re.compile(r"[A-Z][a-z]+: ")
_SENTENCE = re.compile(r".+?[.](?= |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A cluster file among the examples.

    Attributes:
        name: Name of the file without its suffix.
        makes: What it makes, in a sentence from its head.
    """

    name: str
    makes: str
    plan: ClusterPlan

    @property
    def per_hour(self) -> str:
        """List price of an hour, in US dollars."""
        cost = self.plan.cost.usd_per_hour
        if cost and any(fleet.cost.is_ceiling for fleet in self.plan.fleets):
            return f"at most {dollars(UsdRange(cost.high, cost.high))}"
        return dollars(cost)

    @property
    def per_run(self) -> str:
        """List price until the end, for a cluster whose capacity has one; else empty."""
        return dollars(self.plan.cost.usd_per_run) if self.plan.cost.usd_per_run else ""

    @property
    def unpriced(self) -> str:
        """What the file makes itself and has no price."""
        own = ("fleet ", "store ", "system nodes", "head node", "controller", "login nodes", "AWS PCS")
        return ", ".join(name for name in self.plan.cost.missing if name.startswith(own))


@cache
def cluster_files() -> tuple[Example, ...]:
    """The cluster files, the cheapest hour first."""
    found = [
        Example(name=file.stem, makes=_makes(file), plan=plan_cluster(load_cluster(file)))
        for file in FOLDER.glob("*.yaml")
    ]
    return tuple(sorted(found, key=lambda one: (_highest(one.plan.cost.usd_per_hour), one.name)))


def apps() -> Iterator[tuple[str, str]]:
    """The apps: path below the folder, and what each makes."""
    for file in sorted(FOLDER.glob("*/app.py")):
        words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        yield file.relative_to(FOLDER).as_posix(), words.partition("\n")[0]


def dollars(amount: UsdRange | None) -> str:
    """An amount, or a range of amounts."""
    if amount is None:
        return ""
    low, high = (f"{value:,.2f}" if value < 1000 else f"{value:,.0f}" for value in (amount.low, amount.high))
    return low if low == high else f"{low} to {high}"


def _makes(file: Path) -> str:
    """The first sentence of a file's head."""
    lines = [line[1:].strip() for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")][2:]
    end = next((place for place, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    found = _SENTENCE.match(" ".join(lines[:end]))
    if found is None:
        raise ValueError(f"{file}: the head does not begin with a sentence")
    return found[0]


def _highest(amount: UsdRange | None) -> float:
    return amount.high if amount else 0
