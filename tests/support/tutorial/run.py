"""Runs the tutorial's page, section by section, and compares what it prints."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from tutorial.page import Block, Section, agrees, with_outputs
from tutorial.reader import Terminal
from tutorial.region import Region


@dataclass
class Tutorial:
    """A page that is run.

    Attributes:
        page: Its text.
        terminal: The reader's terminal.
        second: Their second one.
        region: Where their instances are.
        times: Seconds of each section.
        differences: What was printed and is not on the page.
    """

    page: str
    terminal: Terminal
    second: Terminal
    region: Region | None = None
    times: dict[str, float] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    _printed: dict[int, list[str]] = field(default_factory=dict)
    _broken: str = ""

    def run(self, section: Section) -> None:
        """Do what a section states.

        Raises:
            AssertionError: If a command of it, or of an earlier one, failed.
        """
        assert not self._broken, f"an earlier section failed: {self._broken}"
        self._broken = section.title
        started = time.monotonic()
        beside: Block | None = None
        for block in section.blocks:
            if block.file:
                self.terminal.write(block.file, block.text)
            elif block.after:
                beside = block
            elif not block.on_aws_only:
                self._run(block, beside)
                beside = None
        self.times[section.title] = time.monotonic() - started
        self._broken = ""

    def updated(self) -> str:
        """The page with what its commands printed."""
        return with_outputs(self.page, self._printed)

    def _run(self, block: Block, beside: Block | None) -> None:
        printed = self._printed.setdefault(block.start, [])
        for command in block.commands:
            waiting = beside

            def on_line(line: str) -> None:
                nonlocal waiting
                _show(line)
                if waiting and waiting.after in line:
                    self._lose_a_node(waiting)
                    waiting = None

            _show(f"\n$ {command.text}\n")
            started = time.monotonic()
            status, output = self.terminal.run(command.text, on_line)
            _show(f"({time.monotonic() - started:.1f} s)\n")
            printed.append(output)
            assert self.region
            self.region.check()
            assert status == 0, f"$ {command.text}\n{output}\nexit status {status}\n{self.region.last_words()}"
            assert waiting is None, f"nothing printed {waiting.after}:\n{output}"
            beside = None
            self._compare(command.text, command.output, output)

    def _lose_a_node(self, block: Block) -> None:
        printed = self._printed.setdefault(block.start, [])
        for command in block.commands:
            status, output = self.second.run(command.text)
            printed.append(output)
            assert status == 0, f"$ {command.text}\n{output}"
            self._compare(command.text, command.output, output)
        assert self.region
        self.region.lose_terminating()

    def _compare(self, command: str, stated: str, printed: str) -> None:
        if not agrees(stated, printed):
            self.differences.append(f"$ {command}\nprinted:\n{printed}\non the page:\n{stated}")


def _show(text: str) -> None:
    """For people who watch (`ARGS=-s`)."""
    sys.stdout.write(text)
    sys.stdout.flush()
