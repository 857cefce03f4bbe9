"""Write docs/rules.md, the list of every rule of this repository, or check that it is current.

    python tools/write_rules_page.py            write it
    python tools/write_rules_page.py --check    exit 1 if it is not current

The rules are read from the sources, not by importing them: modules with constructs would start Node.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rules.md"
SOURCE_ROOTS = ("constructs", "stacks")

AREAS = {
    "AMI": "Machine images",
    "CAP": "Capacity",
    "CKP": "Checkpoint stores",
    "DRA": "Data repositories of FSx for Lustre",
    "EFA": "Network interfaces and EFA security groups",
    "FAB": "Fabrics",
    "FLT": "Fleets",
    "INF": "Model servers",
    "INST": "Instance types",
    "IP": "IP addresses",
    "LUS": "FSx for Lustre",
    "LT": "Launch templates",
    "MIG": "GPUs split with MIG",
    "MNT": "Mounts on the nodes",
    "NET": "Networks, zones and endpoints",
    "PLC": "Placement groups",
    "RGN": "Regions",
    "SPEC": "Cluster file",
    "UD": "User data",
}

INTRODUCTION = """\
# Rules

Every finding carries the id of its rule. An id keeps its meaning for ever; a rule that is dropped takes its id along.
A finding names its cause, the value got, the values allowed and the change to make. Errors stop; warnings and infos
do not.

This page is written by `tools/write_rules_page.py`; do not edit it.
"""


@dataclass(frozen=True, order=True)
class Row:
    """One rule as it stands in the sources."""

    id: str
    title: str
    source: str
    file: str

    @property
    def area(self) -> str:
        """The middle part of the id."""
        return self.id.split("-")[1]


def rules_in(file: Path) -> Iterator[Row]:
    """The rules that a module defines at its top level."""
    constants: dict[str, ast.expr] = {}
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(statement, ast.Assign):
            continue
        value = statement.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "define_rule":
            rule_id, title = (_text(argument, constants) for argument in value.args)
            (source,) = (_text(keyword.value, constants) for keyword in value.keywords)
            yield Row(rule_id, title, source, file.relative_to(ROOT).as_posix())
        constants |= {ast.unparse(target): value for target in statement.targets}


def every_rule() -> list[Row]:
    """The rules of all source roots, by id.

    Raises:
        ValueError: If two rules have the same id, or an area has no title here.
    """
    files = [file for root in SOURCE_ROOTS for file in sorted((ROOT / root).rglob("*.py"))]
    rows = sorted(row for file in files for row in rules_in(file))
    ids = [row.id for row in rows]
    if twice := sorted({rule_id for rule_id in ids if ids.count(rule_id) > 1}):
        raise ValueError(f"defined twice: {', '.join(twice)}")
    if untitled := sorted({row.area for row in rows} - AREAS.keys()):
        raise ValueError(f"areas without a title in {Path(__file__).name}: {', '.join(untitled)}")
    return rows


def page() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    for area, rows in groupby(every_rule(), key=lambda row: row.area):
        parts += [
            f"\n## {AREAS[area]} (`GPU-{area}`)\n",
            "| Id | Rule | Source | Defined in |",
            "| --- | --- | --- | --- |",
        ]
        parts += [f"| `{row.id}` | {_cell(row.title)} | {_cell(row.source)} | `{row.file}` |" for row in rows]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the page is not current"
    )
    text = page()
    if not parser.parse_args().check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not current: run python tools/write_rules_page.py", file=sys.stderr)
    return 1


def _text(node: ast.expr, constants: Mapping[str, ast.expr]) -> str:
    """The value of a string, an f-string of constants, or a constant's name."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.Name(id=name) if name in constants:
            return _text(constants[name], constants)
        case ast.JoinedStr(values=values):
            return "".join(_text(value, constants) for value in values)
        case ast.FormattedValue(value=value):
            return _text(value, constants)
    raise ValueError(f"line {node.lineno}: not a string of constants: {ast.unparse(node)}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
