"""What is wrong with a text that is no YAML, in words that say where it began and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ruamel.yaml.error import MarkedYAMLError, StreamMark

#: Begins of files of other kinds, with what they are.
_OTHER_KINDS = (
    (re.compile(r"\s*<(?:!doctype|html|\?xml)", re.IGNORECASE), "a web page or XML"),
    (re.compile(r"-----BEGIN "), "a key or a certificate"),
    (re.compile(r"#!.*python|(?:from \w[\w.]* )?import \w", re.IGNORECASE), "a program in Python"),
    (re.compile(r"#!"), "a script"),
    (re.compile(r"\[[\w.-]+\]\s*\n\s*[\w.-]+ *="), "a TOML or INI file"),
    (re.compile(r"(?:resource|provider|terraform|module|variable) [^:\n]*\{"), "a Terraform file"),
)


def other_kind(text: str) -> str:
    """What a text is that is no YAML at all; empty if it may be YAML.

    Example:
        >>> other_kind("<html>")
        'a web page or XML'
    """
    return next((kind for start, kind in _OTHER_KINDS if start.match(text)), "")


class Trap(NamedTuple):
    """A character or a line that reads otherwise than it looks: its place, what is wrong, and the fix."""

    line: int
    column: int
    cause: str
    got: str
    fix: str


_SPACE = "it looks like a space, but is part of the word for YAML"
_QUOTES = "these quotes are part of the text for YAML"
_INVISIBLE = "it cannot be seen, but is part of the word for YAML"
#: Pattern of a line outside of quotes and comments, whose group is at fault -> cause and fix.
_TRAPS = (
    (r"[^#\"']*?([\u00a0\u2000-\u200a\u202f\u205f\u3000])", _SPACE, "write an ordinary space"),
    (r"[^#\"']*?([\u200b-\u200f\u2060\ufeff\u00ad])", _INVISIBLE, "remove it"),
    (r"\s*[\w-]+(\uff1a)", "this is no colon for YAML", "write an ordinary colon and a space"),
    (
        r"[^#\"']*[:\[{,-]\s*([\u201c\u201d\u201e\u2018\u2019\u00ab])",
        "these quotes are part of the text for YAML",
        "write ordinary quotes, or none",
    ),
    (
        r"((?:<<<<<<<|>>>>>>>) .+|=======)$",
        "version control left a conflict here",
        "keep one side, and remove the marks",
    ),
    (r"\s*(//)", "a comment of YAML begins with #", "write # for //"),
    (r"\s*[A-Za-z_]\w*(:)(?=[^\s:/]\S*$)", "a space is missing after the colon", "put a space after the colon"),
    (r"\s*[A-Za-z_]\w*\s*(=)\s", "a key is followed by a colon", "write : for ="),
)
_COMPILED = tuple((re.compile(pattern), cause, fix) for pattern, cause, fix in _TRAPS)
#: The last ones are faults only in a text that is no YAML: `a:b` may be a word of a text of several lines.
_HARMLESS_IN_YAML = 3


def traps(text: str, *, is_yaml: bool) -> Iterator[Trap]:
    """Find what reads otherwise than it looks, the first of each line.

    Args:
        text: The file.
        is_yaml: Whether it could be read as YAML; some of these are harmless then.
    """
    chosen = _COMPILED[:-_HARMLESS_IN_YAML] if is_yaml else _COMPILED
    if is_yaml and text.isascii():
        return
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, cause, fix in chosen:
            found = pattern.match(line)
            if found is not None:
                got = found[1] if found[1].isascii() else f"U+{ord(found[1][0]):04X}"
                yield Trap(number, found.start(1) + 1, cause, got, fix)
                break


#: Sign in the reader's words -> ours, the fix, and whether the fault is where the construct began.
_PROBLEMS = (
    ("'\\t'", "a tab is where YAML takes spaces only", "indent with spaces, not tabs", False),
    (
        "mapping values are not allowed",
        "a colon is where no key can be",
        "check the indentation; put quotes around a value that holds a colon",
        False,
    ),
    ("could not find expected ':'", "this line is no key with a value", "put a colon and a space after the key", True),
    (
        "expected <block end>",
        "this line is indented otherwise than the lines before it",
        "give keys of one mapping the same indentation",
        False,
    ),
    ("expected ',' or", "", "close the bracket, or put a comma between the items", True),
    (
        "undefined alias",
        "",
        "define the anchor (&name) before its alias (*name), or quote a value that starts with *",
        False,
    ),
    ("unexpected end of stream", "a quote or bracket is not closed", "close the quote or bracket that is open", True),
    ("another document", "a second document begins here", "keep one document: remove the line ---", False),
    ("cannot start any token", "", "put the value in quotes", False),
    ("but found ','", "a value is missing before this comma", "remove the comma, or write the value", False),
)


def explained(fault: MarkedYAMLError) -> tuple[StreamMark | None, str, str]:
    """Where a fault of the reader is, its cause in our words, and the fix."""
    problem = str(fault.problem or fault.context or "the text cannot be read")
    mark = fault.problem_mark or fault.context_mark
    for sign, cause, fix, began in _PROBLEMS:
        if sign in problem:
            start = fault.context_mark
            if began and start is not None and mark is not None and start.line != mark.line:
                return start, cause or "a bracket is not closed", fix
            return mark, cause or problem, fix
    return mark, problem, "correct the syntax at or before this place"
