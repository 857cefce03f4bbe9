"""Write the list of accepted findings into docs/security.md, or check that it is current.

    python tools/write_security_page.py            write it
    python tools/write_security_page.py --check    exit 1 if it is not current

The list is read from the sources; `tests/policy` proves that each entry suppresses something, and that no other does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from _pages import ROOT, cell, constants_made_by, write_or_check

PAGE = ROOT / "docs" / "security.md"
START = "<!-- Written by tools/write_security_page.py from here; do not edit. -->\n"
END = "<!-- Written by tools/write_security_page.py to here. -->\n"

#: Arguments of `AcceptedFinding`, and the packs whose rules they name.
PACKS = {
    "aws_solutions": ("AwsSolutions",),
    "nist_hipaa_pci": ("NIST 800-53 r5", "HIPAA", "PCI DSS"),
    "nist_hipaa": ("NIST 800-53 r5", "HIPAA"),
    "nist_pci": ("NIST 800-53 r5", "PCI DSS"),
    "serverless": ("Serverless",),
    "cloudformation": ("CloudFormation Validate",),
}


@dataclass(frozen=True, order=True, slots=True)
class Row:
    """One accepted finding as it stands in the sources."""

    cause: str
    rules: str
    reason: str
    file: str


def accepted_findings() -> Iterator[Row]:
    """Every accepted finding of the sources."""
    for finding in constants_made_by("AcceptedFinding"):
        rules = "; ".join(
            f"{', '.join(packs)}: {', '.join(f'`{rule}`' for rule in found)}"
            for argument, packs in PACKS.items()
            if (found := finding.texts(argument))
        )
        yield Row(finding.keyword("cause"), rules, finding.keyword("reason"), finding.file)


def table() -> str:
    """The list, as a table."""
    lines = ["| At | Rules | Why it is right there | Defined in |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {cell(row.cause)} | {row.rules} | {cell(row.reason)} | `{row.file}` |"
        for row in sorted(accepted_findings())
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the list as it is now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, PAGE, page()))
