"""Changes at random: of texts, and of values as JSON has them."""

from __future__ import annotations

from random import Random
from typing import Any

#: Pieces that mean something to a parser, a terminal, a shell or a file system.
PIECES = (
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        ",",
        "- ",
        "\n",
        "\n  ",
        "\t",
        "\r\n",
        "#",
        '"',
        "'",
        "|",
        ">",
        "? ",
        "%",
        "---\n",
    ),
    *("&a ", "*a", "<<: *a", "<<: [*a, *a, *a]", "!!binary ", "!Ref ", "!Sub ", "${A}", "{{resolve:x}}", "Fn::If"),
    *("\0", "\x07", "\x1b[2J", "\x1b]0;x\x07", "\x7f", "\x9b2J", "\u2028", "\u202e", "\u200f", "\ufeff", "\ud800"),
    *("null", "~", "true", "-1", "0", "1e999", "NaN", "Infinity", "0x1F", "9" * 30, "9" * 5_000, "é", "😀", "%s%n"),
    *("../secret", "/etc/shadow", "/dev/zero", "/proc/self/environ", "fifo", "link", ".", "..", "a" * 300),
    *("N/A", "[N/A]", "[Unknown Error]", "ERR!", "No devices were found", "Unable to determine the device handle"),
)
_LONGEST = 60_000
_SCALARS: tuple[Any, ...] = (None, True, False, 0, -1, 2**63, 1.5, "", [], {}, [[]], {"": ""}, *PIECES)


def changed_text(text: str, others: list[str], random: Random) -> str:
    """A text with parts cut out, doubled, replaced, repeated, or taken from another."""
    for _ in range(random.randint(1, 4)):
        start = random.randint(0, len(text))
        end = min(len(text), start + random.choice((0, 1, 4, 20, 100)))
        text = text[:start] + _piece(text[start:end], others, random) + text[end:]
    return text[:_LONGEST]


def _piece(old: str, others: list[str], random: Random) -> str:
    kind = random.randint(0, 9)
    if kind < 5:
        return random.choice(PIECES)
    if kind == 5:
        return old * random.choice((2, 10, 1_000))
    if kind == 6:
        return random.choice(PIECES) * random.choice((2, 50, 5_000))
    if kind == 7:
        other = random.choice(others)
        start = random.randint(0, len(other))
        return other[start : start + random.randint(0, 200)]
    return "".join(chr(random.randint(0, 0x2FF)) for _ in range(random.randint(0, 4))) if kind == 8 else ""


def changed_value(value: Any, random: Random) -> Any:
    """A value in which one part, or itself, is another."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value, key=str))
        kept = {name: one for name, one in value.items() if name != key}
        if random.random() < 0.15:
            return kept
        return {**kept, key: changed_value(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        index = random.randrange(len(value))
        if random.random() < 0.15:
            return value[:index] + value[index + 1 :]
        return [*value[:index], changed_value(value[index], random), *value[index + 1 :]]
    if isinstance(value, str) and random.random() < 0.5:
        return changed_text(value, [value], random)
    return random.choice(_SCALARS)
