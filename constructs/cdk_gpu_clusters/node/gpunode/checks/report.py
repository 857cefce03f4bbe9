"""What the checks found, for people and for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from .check import Result, Severity


def as_table(results: Sequence[Result]) -> str:
    """Plain text in columns: severity, check and finding; below a finding, what should be there and what to do."""
    check_width = max((len(result.check) for result in results), default=0)
    word_width = max(len(severity.name) for severity in Severity)
    lines = []
    for result in results:
        head = f"{result.severity.name.lower():<{word_width}}  {result.check:<{check_width}}  "
        lines.append(head + result.found)
        if result.severity is not Severity.OK:
            blank = " " * len(head)
            lines += [f"{blank}expected: {result.expected}"] if result.expected else []
            lines += [f"{blank}to do: {result.fix}"] if result.fix else []
    return "\n".join(lines)


def as_json(results: Sequence[Result], severity: Severity, instance_id: str) -> str:
    """One JSON object, with times in UTC.

    Args:
        results: What was found.
        severity: The worst of them.
        instance_id: The node.
    """
    return json.dumps(
        {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "instance_id": instance_id,
            "severity": severity.name.lower(),
            "results": [
                {
                    "check": result.check,
                    "severity": result.severity.name.lower(),
                    "found": result.found,
                    "expected": result.expected,
                    "fix": result.fix,
                }
                for result in results
            ],
        }
    )
