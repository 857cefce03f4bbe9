"""The terminal: its colours, its width, and how far something is that takes over a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

_NEVER_FOLDED = 10_000
#: Width of running text, in characters: more is hard to read, less breaks names.
_LEAST_WIDTH, _USUAL_WIDTH, _MOST_WIDTH = 80, 110, 120


def console(*, stderr: bool = False) -> Console:
    """Where text goes: in colours on a terminal, unless NO_COLOR is set; otherwise plain and as wide as COLUMNS."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # https://no-color.org: set, and not empty. Bold text would be an escape sequence, too.
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    width = None if stream.isatty() else _given_width() or _NEVER_FOLDED
    return Console(stderr=stderr, highlight=False, markup=False, width=width, color_system=colours)


def _given_width() -> int | None:
    """The width that COLUMNS asks for, also in a pipe."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) else None


def text_width(least: int = _LEAST_WIDTH, most: int = _MOST_WIDTH) -> int:
    """Width of running text: that of COLUMNS or of the terminal, within limits; otherwise always the same."""
    terminal = get_terminal_size((_USUAL_WIDTH, 0)).columns if sys.stdout.isatty() else None
    columns = terminal or _given_width() or _USUAL_WIDTH
    return min(max(columns, least), most)


# Progress. All of it is on standard error, and goes away when the work is done.


def can_be_redrawn(*, stdout: bool = False) -> bool:
    """Whether standard error, or output, is a terminal that moves its cursor, with a person in front of it.

    Continuous integration sets CI (GitHub Actions and GitLab, "Variables"), also where it offers a terminal. A terminal
    whose TERM is `dumb` has no cursor to move (terminfo).
    """
    stream = sys.stdout if stdout else sys.stderr
    if stream is None or stream.closed or not stream.isatty():
        return False
    return not os.environ.get("CI") and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far something is.

    Args:
        what: What is being done, in a few words.

    Yields:
        A function that gets how many steps are done, and of how many.
    """
    if not can_be_redrawn():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, TaskProgressColumn

    with _drawn(BarColumn(), TaskProgressColumn()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def steps(what: str) -> Iterator[Callable[[Iterable[str]], None]]:
    """Show what is being done, and a line for each step that is done; the lines stay.

    Args:
        what: What is being done, in a few words.

    Yields:
        A function that gets the lines of steps that are done. It takes them only if they are shown.
    """
    if not can_be_redrawn():
        yield lambda _lines: None
        return
    from rich.text import Text

    with _drawn() as bar:
        bar.add_task(what, total=None)
        yield lambda lines: bar.console.print(*map(Text, lines), sep="\n")


def _drawn(*columns: ProgressColumn) -> Progress:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *columns,
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
        # What is written meanwhile goes above the bar; into a pipe it goes as ever.
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    )
