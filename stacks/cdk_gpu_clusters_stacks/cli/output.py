"""What all commands share: reading the cluster file, and printing tables, text, JSON and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from cdk_gpu_clusters._untrusted import printable, shortened
from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters_stacks.terminal import console

if TYPE_CHECKING:
    from cdk_gpu_clusters.errors import Finding
    from cdk_gpu_clusters_stacks.spec import ClusterSpec, Reading
    from cdk_gpu_clusters_stacks.spec._document import Fault

#: `--json`, the same in every sub-command.
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
#: The name of standard input or output in place of a file.
STREAM = "-"
_INTERRUPTED = 130
_MOST_FAULTS = 20


def write(text: str, *, stderr: bool = False) -> None:
    """Print text; control characters, and what the stream's encoding has no character for, become escapes."""
    stream = sys.stderr if stderr else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def write_headed(text: str) -> None:
    """Print a text whose lines without indentation are headings: bold on a terminal, as they are elsewhere."""
    if not sys.stdout.isatty():
        write(text)
        return
    from rich.text import Text

    out = console()
    for line in printable(text).splitlines():
        heading = bool(line) and not line.startswith(" ")
        out.print(Text(line, style="bold cyan" if heading else ""), soft_wrap=True)


def write_json(data: object) -> None:
    """Print JSON, indented, in the order given."""
    write(json.dumps(data, indent=2) + "\n")


def write_document(data: Mapping[str, Any]) -> None:
    """Print the result of a command as JSON, with the version of the command that wrote it as `version`."""
    write_json({"version": __version__, **data})


_COLOURS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def report(findings: Sequence[Finding]) -> int:
    """Print findings on standard error, in colours on a terminal; 1 if one is an error."""
    from cdk_gpu_clusters_stacks.spec import format_findings

    text = printable(format_findings(findings))
    if not text:
        return 0
    if sys.stderr.isatty():
        from rich.text import Text

        out = console(stderr=True)
        for line in text.splitlines():
            shown = Text(line)
            for severity, colour in _COLOURS.items():
                shown.highlight_regex(rf"(?<=: ){severity}(?= GPU-)", colour)
            shown.highlight_regex(r"^    (fix|allowed):", "green")
            out.print(shown, soft_wrap=True)
    else:
        write(f"{text}\n", stderr=True)
    return int(any(one.severity.value == "error" for one in findings))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print rows below their headings.

    Args:
        columns: Headings.
        rows: Cells as text, as many as there are headings.
        right: Headings of columns that are aligned on the right.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold cyan")
    for index, column in enumerate(columns):
        # Names in the first column are copied: they stay whole on a narrow terminal.
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not index)
    for row in rows:
        table.add_row(*(printable(shortened(cell)) for cell in row))
    printer = console()
    if printer.is_terminal:
        printer.print(table)
        return
    with printer.capture() as captured:
        printer.print(table)
    write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def ask(question: str, default: str) -> str:
    """The answer of a person to a question; Ctrl-C ends the command with exit status 130."""
    try:
        return str(typer.prompt(printable(question), default=default, err=True))
    except typer.Abort as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            write("\n", stderr=True)
            leave(_INTERRUPTED)
        raise


def leave(status: int) -> NoReturn:
    """End the command with an exit status."""
    raise typer.Exit(status)


def stop(message: str) -> NoReturn:
    """End the command, since the answer is no: one line on standard error, exit status 1."""
    write(f"{message}\n", stderr=True)
    leave(1)


def refuse(message: str) -> NoReturn:
    """End the command, since its input cannot be used: one line, exit status 2."""
    write(f"gpu-clusters: {message}\n", stderr=True)
    leave(2)


def refuse_all(where: str, faults: Sequence[str]) -> NoReturn:
    """End the command with all faults; of very many, the first ones and how many more there are."""
    shown = list(faults[:_MOST_FAULTS])
    if len(faults) > _MOST_FAULTS:
        shown.append(f"{len(faults) - _MOST_FAULTS:,} more faults")
    refuse("\n".join(f"{where}: {fault}" for fault in shown))


def as_json(value: Any) -> Any:
    """Plain JSON values of dataclasses, enumerations, mappings and sequences in them."""
    from dataclasses import fields, is_dataclass
    from enum import Enum

    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


# The cluster file that a command is given: read, or refused with all its faults.

#: The argument of every command over a cluster file.
ClusterFile = Annotated[
    Path, typer.Argument(metavar="CLUSTER_FILE", help="Cluster file, such as cluster.yaml; - for standard input.")
]


def read(path: Path, *, as_json: bool = False) -> ClusterSpec:
    """Read a cluster file; print its findings on standard error, and leave with 2 if one is an error.

    Args:
        path: The file, or `-` for standard input.
        as_json: Print a JSON object with the findings on standard output, too, if the file cannot be used.
    """
    reading = reading_of(path)
    report(reading.findings)
    if reading.spec is None:
        if as_json:
            write_document({"findings": [as_json_finding(one) for one in reading.findings]})
        leave(2)
    return reading.spec


def reading_of(
    path: Path,
    *,
    deployed: ClusterSpec | None = None,
    also: Callable[[ClusterSpec], Iterable[Fault]] | None = None,
) -> Reading:
    """What reading a cluster file gives; `-` is standard input, and has its scripts in the current folder."""
    from cdk_gpu_clusters_stacks.spec import read_cluster

    if str(path) == STREAM:
        return read_cluster("<stdin>", deployed=deployed, content=standard_input(), also=also)
    return read_cluster(path, deployed=deployed, also=also)


def read_text(file: Path) -> str:
    """The text of a file, or of standard input for `-`. Leaves with 2 if there is none."""
    try:
        return (standard_input() if str(file) == STREAM else file.read_bytes()).decode("utf-8")
    except OSError as fault:
        refuse(f"cannot read {file}: {fault.strerror}")
    except UnicodeDecodeError:
        refuse(f"{file} is no text in UTF-8")


def standard_input() -> bytes:
    """All of standard input."""
    return b"" if sys.stdin is None else sys.stdin.buffer.read()


@contextmanager
def held_files(paths: Sequence[Path]) -> Iterator[tuple[list[Path], str]]:
    """The files, with a file that holds standard input in place of `-`, for what reads files by name.

    Beside them is what the path of that file begins with, to be left out of messages; empty without `-`.
    """
    if STREAM not in map(str, paths):
        yield list(paths), ""
        return
    with TemporaryDirectory() as folder:
        held = Path(folder, "<stdin>")
        held.write_bytes(standard_input())
        yield [held if str(path) == STREAM else path for path in paths], f"{folder}/"


def as_json_finding(finding: Finding) -> dict[str, Any]:
    """A finding as plain values, with file, line and column apart."""
    file, line, column = place_of(finding)
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "file": file,
        "line": line,
        "column": column,
        "message": finding.cause,
        "got": finding.got,
        "allowed": finding.allowed,
        "fix": finding.fix,
    }


def place_of(finding: Finding) -> tuple[str, int, int]:
    """File, line and column of a finding."""
    file, line, column = finding.path.rsplit(":", 2)
    return file, int(line), int(column)
