"""What was seen on AWS: the newest result of each check, in `tests/aws/results.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[1] / "results.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check in one run.

    Attributes:
        check: Name of the check.
        outcome: `passed`, `failed` or `not reached`.
        when: Date, ISO 8601.
        region: The Region.
        version: Version of the library.
        cause: Why it failed, in one line; otherwise empty.
    """

    check: str
    outcome: str
    when: str
    region: str
    version: str
    cause: str = ""


def read_results(file: Path = RESULTS) -> dict[str, Result]:
    """Results by check; none if there is no file."""
    if not file.exists():
        return {}
    return {row["check"]: Result(**row) for row in json.loads(file.read_text(encoding="utf-8"))["results"]}


def add_result(file: Path, result: Result) -> None:
    """Write a result in place of the older one of its check; one that was not reached replaces nothing."""
    known = read_results(file)
    if result.outcome == "not reached" and result.check in known:
        return
    known[result.check] = result
    rows = [asdict(known[name]) for name in sorted(known)]
    file.write_text(json.dumps({"results": rows}, indent=2) + "\n", encoding="utf-8")
