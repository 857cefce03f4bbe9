"""What the writers of pages share: constants read from the sources, and a file that is written or checked."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE_ROOTS = ("constructs", "emulator", "stacks")


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a module that is made by a call, or a decorator, as it stands in the sources.

    Attributes:
        file: The module, from the root of the repository.
        call: The call.
        constants: Constants of the module before it.
    """

    file: str
    call: ast.Call
    constants: Mapping[str, ast.expr]

    def argument(self, place: int) -> str:
        """Text of a positional argument."""
        return self.text(self.call.args[place])

    def keyword(self, name: str) -> str:
        """Text of a keyword argument."""
        return self.text(self._keywords()[name])

    def texts(self, name: str) -> list[str]:
        """Texts of a keyword argument that is a tuple of them; none if it is absent."""
        value = self._keywords().get(name)
        return [] if value is None else list(ast.literal_eval(value))

    def text(self, node: ast.expr) -> str:
        """The value of a string, an f-string of constants, or a constant's name."""
        match node:
            case ast.Constant(value=value):
                return str(value)
            case ast.Name(id=name) if name in self.constants:
                return self.text(self.constants[name])
            case ast.JoinedStr(values=values):
                return "".join(self.text(value) for value in values)
            case ast.FormattedValue(value=value):
                return self.text(value)
        raise ValueError(f"{self.file}, line {node.lineno}: not a string of constants: {ast.unparse(node)}")

    def _keywords(self) -> dict[str | None, ast.expr]:
        return {keyword.arg: keyword.value for keyword in self.call.keywords}


def constants_made_by(*functions: str) -> Iterator[Constant]:
    """Every constant of the sources that these functions make, read without importing: that would start Node."""
    files = [file for root in SOURCE_ROOTS for file in sorted((ROOT / root).rglob("*.py"))]
    for file in files:
        known: dict[str, ast.expr] = {}
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            for value in _values(statement):
                if isinstance(value, ast.Call) and ast.unparse(value.func) in functions:
                    yield Constant(file.relative_to(ROOT).as_posix(), value, dict(known))
            if isinstance(statement, ast.Assign):
                known |= {ast.unparse(target): statement.value for target in statement.targets}


def _values(statement: ast.stmt) -> Iterator[ast.expr]:
    """The value of an assignment, or a function's decorators, with the functions that these calls call."""
    if isinstance(statement, ast.Assign):
        values = [statement.value]
    else:
        values = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    for value in values:
        yield from (value, value.func) if isinstance(value, ast.Call) else (value,)


def cell(text: str) -> str:
    """A text for a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")  # or <hex> would be taken for a tag


def write_or_check(description: str | None, file: Path, text: str) -> int:
    """Write the file, or with `--check` say whether it is current; the exit status of the program."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is not current")
    if not parser.parse_args().check:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return 0
    print(f"{file} is not current: run python tools/{Path(sys.argv[0]).name}", file=sys.stderr)
    return 1
