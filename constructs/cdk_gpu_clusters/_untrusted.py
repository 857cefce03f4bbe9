"""What others wrote: files, read within limits, and text, printed without what a terminal obeys."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# Windows has no FIFOs among its files, and no such flag.
_DO_NOT_WAIT = getattr(os, "O_NONBLOCK", 0)


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Read a file that anybody may have written.

    Raises:
        OSError: If it cannot be read, is a device or a FIFO, or is too large.
        ValueError: If the path holds a null character.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _DO_NOT_WAIT)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", str(path))
    return content


def is_below(folder: Path, path: Path) -> bool:
    """Whether a path, after its links, stays in a folder.

    Raises:
        OSError: If that cannot be found out.
        ValueError: If the path holds a null character.
    """
    return Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder))


def printable(text: str) -> str:
    r"""Text for a terminal: lines without control characters, and without what changes the direction of text.

    Those become escapes that JSON reads as the same characters.

    Example:
        >>> printable("a\x1b[2Jb\n")
        'a\\u001b[2Jb\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else _escaped(one) for one in text)


def printable_line(text: str) -> str:
    r"""The same for one line: a line break becomes an escape, too.

    Example:
        >>> printable_line("a\nno faults")
        'a\\u000ano faults'
    """
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


#: A line of findings is shorter, unless it quotes what a stranger wrote.
_MOST_QUOTED = 200


def shortened(text: str, most: int = _MOST_QUOTED) -> str:
    """A text that may quote a long value, without its end.

    Example:
        >>> shortened("a" * 2_000)[199:]
        'a… (2,000 characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _escaped(one: str) -> str:
    code = ord(one)
    # Spaces of other widths are no danger.
    if one.isspace() and code >= 0xA0 and one not in "\u2028\u2029":
        return one
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
