"""What an import did, as text and as plain values."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.spec import format_findings

from .draft import Change, Note
from .make import Imported

_TITLES = {
    Change.FILLED: "To fill in: lines marked CHANGE",
    Change.BETTER: "What becomes better",
    Change.REPLACED: "What is replaced",
    Change.LOST: "What is lost",
}
#: More places of one text are only counted.
_MOST_PLACES = 6


def report_text(made: Imported, *, source: str, target: str, width: int) -> str:
    """The report of an import.

    Args:
        made: What it gave.
        source: The file or resource that was imported.
        target: The cluster file.
        width: Columns.
    """
    lines = [f"{source} ({made.tool}) -> {target}", ""]
    for change, title in _TITLES.items():
        notes = [note for note in made.notes if note.change is change]
        if notes:
            lines += [f"{title} ({len(notes)})", *_grouped(notes, width), ""]
    if made.broken:
        lines += ["Rules that it breaks as it is deployed today", *_indented(made.broken), ""]
    if made.findings:
        lines += ["Rules about the same values in the cluster file", *_indented(made.findings), ""]
    # What an account has, has no lines.
    return "".join(f"{line}\n".replace(":1:1: ", ": ") for line in lines)


def _grouped(notes: Sequence[Note], width: int) -> Iterator[str]:
    """Notes with the same text together, each place in one line below it."""
    texts = dict.fromkeys(note.text for note in notes)
    for text in texts:
        yield from textwrap.wrap(text, width, initial_indent="  - ", subsequent_indent="    ")
        places = [_place(note) for note in notes if note.text == text and note.what]
        shown = places[:_MOST_PLACES]
        yield from (f"      {place}" for place in shown)
        if len(places) > len(shown):
            yield f"      and {count(len(places) - len(shown), 'more place')}"


def _place(note: Note) -> str:
    line = note.place.rsplit(":", 2)[1] if note.place.count(":") > 1 else ""
    return note.what if line in ("", "1") else f"line {line}: {note.what}"


def _indented(findings: Iterable[Finding]) -> list[str]:
    return [f"  {line}" for line in format_findings(findings).splitlines()]


def report_values(made: Imported) -> dict[str, Any]:
    """The report as plain values; findings are written by the command."""
    return {
        "tool": made.tool,
        "cluster_file": made.text,
        "notes": [
            {"change": note.change.value, "what": note.what, "text": note.text, "place": note.place}
            for note in made.notes
        ],
    }
