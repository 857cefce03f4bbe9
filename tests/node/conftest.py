"""What the tests of this tier need besides Python: they run real programs, as root where those must be installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nodebox.ahead import RunAhead
from nodebox.debian import program
from nodebox.lab import Lab


@pytest.fixture(scope="session")
def run_ahead(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests marked `boots` run several at once."""
    plugin = RunAhead(request.session)
    request.config.pluginmanager.register(plugin)
    yield
    plugin.finish()


@pytest.fixture(scope="session")
def haproxy() -> str:
    """The distribution's HAProxy, installed where it is missing."""
    return program("haproxy")


@pytest.fixture(scope="session")
def emulated(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(app_factory, tmp_path_factory.mktemp("lab"))
    made.cloud.start()
    yield made
    made.cloud.stop()


@pytest.fixture(scope="session")
def lab(emulated: Lab, run_ahead: None) -> Lab:
    """Where nodes are booted; its tests have ended before it goes."""
    return emulated
