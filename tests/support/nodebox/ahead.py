"""Tests that mostly wait, run several at once.

A test that is marked `boots` is called by a pool of threads as soon as the first such test is due, and pytest collects
its outcome in the usual order. All its fixtures are shared by the whole session.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import signature
from typing import Any

import pytest

MARK = "boots"
#: Two cores: a boot is work for one, and some wait for a deadline.
_AT_ONCE = 4


class RunAhead:
    """The plugin.

    Args:
        session: Its tests are known when the first one runs.
    """

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._outcomes: dict[str, Future[None]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        if pyfuncitem.get_closest_marker(MARK) is None:
            return None
        if not self._outcomes:
            self._start(pyfuncitem.funcargs)
        self._outcomes[pyfuncitem.nodeid].result()
        return True

    def finish(self) -> None:
        """Wait for the tests that run, and start no others: to be called before their fixtures go."""
        self._pool.shutdown(cancel_futures=True)

    def _start(self, shared: Mapping[str, Any]) -> None:
        for item in self._session.items:
            if isinstance(item, pytest.Function) and item.get_closest_marker(MARK):
                parameters = item.callspec.params if hasattr(item, "callspec") else {}
                given = {**shared, **parameters}
                arguments = {name: given[name] for name in signature(item.obj).parameters}
                self._outcomes[item.nodeid] = self._pool.submit(item.obj, **arguments)
