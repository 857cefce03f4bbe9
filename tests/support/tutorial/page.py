"""The tutorial as its page states it: sections of files to write and commands to run, with what the commands print.

A block that is run or written stands in the page's source like this; directives are HTML comments, and not shown:

- a `console` block: lines that start with `$ ` are commands, and the others are what they print. A line `...` stands for
  any lines.
- `<!-- file: NAME -->` before a block: the block is that file.
- `<!-- on AWS only -->` before a `console` block: it is not run.
- `<!-- meanwhile, after "TEXT": a node is lost -->` before a `console` block: it is run in a second terminal as soon as
  the commands of the next block have printed the text, and then the node that it names loses its power.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"
#: Lines of any number.
ANY = "..."
_BLOCK = re.compile(
    r"(?:^<!-- (?P<directive>.*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MEANWHILE = re.compile(r'meanwhile, after "(?P<text>.+)": a node is lost')

#: What differs from run to run, and what it is compared as.
VARYING = (
    (r"\b\d{8}-\d{6}-[0-9a-z]{4}\b", "JOB"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"\bmaster 10(\.\d+){3}\b", "master ADDRESS"),
    (r"\bip-\d+-\d+-\d+-\d+\b", "HOST"),
    (r"\bGPU-[0-9a-f-]{8,}\b", "GPU"),
    (r"\b\d{12}\b", "ACCOUNT"),
    (r"accesslogs[0-9a-f]{10,}\b", "ACCESS-LOGS"),
    (r"\bloss \d+\.\d+\b", "loss LOSS"),
    (r"\bafter step [1-9]\d*\b", "after step SOME"),
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the page.

    Attributes:
        text: The command.
        output: What the page says that it prints.
    """

    text: str
    output: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of the page.

    Attributes:
        text: What is in it.
        start: Where that starts in the page.
        file: The file that it is; empty for commands.
        on_aws_only: Whether its commands are not run.
        after: Text of the next block's commands after which its own are run, beside them.
    """

    text: str
    start: int
    file: str = ""
    on_aws_only: bool = False
    after: str = ""

    @property
    def commands(self) -> list[Command]:
        """Its commands, in order."""
        if self.file:
            return []
        parts = re.split(r"^\$ (.*)\n", self.text, flags=re.MULTILINE)
        return [Command(text=text, output=output) for text, output in zip(parts[1::2], parts[2::2], strict=True)]


@dataclass(frozen=True, kw_only=True)
class Section:
    """What stands below a heading of the page.

    Attributes:
        title: The heading.
        blocks: Its blocks, in order.
    """

    title: str
    blocks: list[Block] = field(default_factory=list)


class PageError(Exception):
    """A block that would neither be run nor written."""


def sections(page: str) -> list[Section]:
    """The sections of a page that have blocks.

    Raises:
        PageError: If a block is of no known form.
    """
    headings = [*re.finditer(r"^## (.+)$", page, re.MULTILINE)]
    found = [Section(title=one[1]) for one in headings]
    for match in _BLOCK.finditer(page):
        before = [index for index, one in enumerate(headings) if one.start() < match.start()]
        if not before:
            raise PageError("a block before the first heading")
        found[before[-1]].blocks.append(_block(match))
    return [one for one in found if one.blocks]


def _block(match: re.Match[str]) -> Block:
    directive, language, text = match["directive"] or "", match["language"], match["text"]
    if directive.startswith("file: "):
        return Block(text=text, start=match.start("text"), file=directive.removeprefix("file: "))
    meanwhile = _MEANWHILE.fullmatch(directive)
    if language != "console" or not text.startswith("$ ") or not (directive in ("", "on AWS only") or meanwhile):
        raise PageError(f"neither commands nor a file: {directive or language}: {text.splitlines()[0]}")
    return Block(
        text=text,
        start=match.start("text"),
        on_aws_only=directive == "on AWS only",
        after=meanwhile["text"] if meanwhile else "",
    )


def agrees(stated: str, printed: str) -> bool:
    """Whether a command printed what the page states."""
    return _matches(_lines(stated), _lines(printed))


def _lines(text: str) -> list[str]:
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def _matches(stated: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the parts between `...` follow each other, the first and the last of them at the ends."""
    first, *rest = _parts(stated)
    if not rest:
        return list(printed) == first
    *middle, last = rest
    if list(printed[: len(first)]) != first:
        return False
    place = len(first)
    for part in middle:
        found = _find(part, printed, place)
        if found is None:
            return False
        place = found + len(part)
    return len(printed) - len(last) >= place and list(printed[len(printed) - len(last) :]) == last


def _parts(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == ANY:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _find(part: list[str], lines: Sequence[str], start: int) -> int | None:
    places = range(start, len(lines) - len(part) + 1)
    return next((place for place in places if list(lines[place : place + len(part)]) == part), None)


def with_outputs(page: str, printed: dict[int, list[str]]) -> str:
    """The page with other outputs.

    Args:
        page: The page.
        printed: What the commands of a block printed, by where the block starts.
    """

    def renewed(blocks: Sequence[Block]) -> Iterator[tuple[Block, str]]:
        for block in blocks:
            if block.start in printed:
                outputs = printed[block.start]
                lines = [
                    f"$ {one.text}\n" + (one.output if agrees(one.output, output) else _ended(output))
                    for one, output in zip(block.commands, outputs, strict=False)
                ]
                lines += [f"$ {one.text}\n{one.output}" for one in block.commands[len(outputs) :]]
                yield block, "".join(lines)

    blocks = [block for section in sections(page) for block in section.blocks]
    for block, text in sorted(renewed(blocks), key=lambda pair: -pair[0].start):
        page = page[: block.start] + text + page[block.start + len(block.text) :]
    return page


def _ended(text: str) -> str:
    stripped = text.strip("\n")
    return f"{stripped}\n" if stripped else ""
