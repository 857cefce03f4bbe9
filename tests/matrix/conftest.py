"""Prints, after all tests, how much of the product was checked."""

from __future__ import annotations

import pytest

_LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> list[str]:
    """Lines about what was checked, for the end of the run."""
    return pytestconfig.stash.setdefault(_LINES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(_LINES, [])
    if lines:
        terminalreporter.section("matrix")
        for line in lines:
            terminalreporter.write_line(line)
