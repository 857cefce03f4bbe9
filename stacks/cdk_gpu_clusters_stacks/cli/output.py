"""What all commands share: reading the cluster file, and printing tables, text, JSON and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from cdk_gpu_clusters._untrusted import printable, shortened

if TYPE_CHECKING:
    from rich.console import Console

    from cdk_gpu_clusters_stacks.spec import ClusterSpec

#: `--json`, the same in every sub-command.
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
#: For commands that ask an account, without boto3.
NEEDS_LIVE = "this asks an AWS account: pip install 'gpu-clusters[live]'"
#: The name of standard input or output in place of a file.
STREAM = "-"
_NEVER_FOLDED = 10_000
_INTERRUPTED = 130
#: Width of running text, in characters: more is hard to read, less breaks names.
_LEAST_WIDTH, _USUAL_WIDTH, _MOST_WIDTH = 80, 110, 120


def console(*, stderr: bool = False) -> Console:
    """Where text goes: in colours on a terminal; plain, and as wide as it is, in a pipe or a file."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, markup=False, width=None if stream.isatty() else _NEVER_FOLDED)


def write(text: str, *, stderr: bool = False) -> None:
    """Print text; control characters, and what the stream's encoding has no character for, become escapes."""
    stream = sys.stderr if stderr else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def text_width() -> int:
    """Width of running text: that of the terminal within limits, and always the same elsewhere."""
    if not sys.stdout.isatty():
        return _USUAL_WIDTH
    return min(max(get_terminal_size((_USUAL_WIDTH, 0)).columns, _LEAST_WIDTH), _MOST_WIDTH)


def write_headed(text: str) -> None:
    """Print a text whose lines without indentation are headings: bold on a terminal, as they are elsewhere."""
    if not sys.stdout.isatty():
        write(text)
        return
    from rich.text import Text

    out = console()
    for line in printable(text).splitlines():
        heading = bool(line) and not line.startswith(" ")
        out.print(Text(line, style="bold" if heading else ""), soft_wrap=True)


def write_json(data: object) -> None:
    """Print JSON, indented, in the order given."""
    write(json.dumps(data, indent=2) + "\n")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print rows below their headings.

    Args:
        columns: Headings.
        rows: Cells as text, as many as there are headings.
        right: Headings of columns that are aligned on the right.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
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


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on standard error how far something is; nothing where that is no terminal.

    Args:
        what: What is being done, in a few words.

    Yields:
        A function that gets how many steps are done, and of how many.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import Progress

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


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
ClusterFile = Annotated[Path, typer.Argument(metavar="CLUSTER_FILE", help="Cluster file, such as cluster.yaml.")]


def read(path: Path) -> ClusterSpec:
    """Read a cluster file; print its findings on standard error, and leave with 2 if one is an error."""
    from cdk_gpu_clusters_stacks.spec import read_cluster, report

    reading = read_cluster(path)
    report(reading.findings)
    if reading.spec is None:
        leave(2)
    return reading.spec
