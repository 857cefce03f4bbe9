"""Text from outside, such as a line of the kernel, the output of a tool or the name of a pod, as one safe line."""

from __future__ import annotations

import re

#: Longest reason of an event, in characters.
LONGEST_REASON = 1_000
# Escape sequences of terminals (ECMA-48, 5.4 and 5.6): control sequences, command strings, and the short ones.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX\]^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[ -/]*[0-~])")
# White space and escape sequences may take up this many times the length of what is left of them.
_EXCESS = 20


def one_line(text: str, longest: int = LONGEST_REASON) -> str:
    r"""One line of printable text: without control characters, escape sequences, newlines and lone surrogates.

    Args:
        text: Any text.
        longest: Most characters; a longer text ends in three dots.

    Example:
        >>> one_line("\x1b[31mGPU 0\r\n is\x00lost")
        'GPU 0 is lost'
    """
    begin = _ESCAPES.sub("", text[: longest * _EXCESS])
    # isprintable() also excludes what changes the direction of text, and surrogates.
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in begin).split())
    is_longer = len(line) > longest or len(text) > longest * _EXCESS
    return f"{line[: longest - 3]}..." if is_longer else line
