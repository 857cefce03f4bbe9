"""One browser for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from chromium import chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Chromium with an empty profile."""
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
