"""Fixtures of the deploy tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdk_gpu_clusters.testing import Emulator


@pytest.fixture(scope="session")
def _served() -> Iterator[Emulator]:
    """A process, which takes seconds to load the engine."""
    with Emulator() as made:
        yield made


@pytest.fixture
def new_account(_served: Emulator) -> Emulator:
    """An account that other programs reach, with nothing in it yet."""
    _served.reset()
    return _served


@pytest.fixture(scope="module")
def new_account_of_file(_served: Emulator) -> Emulator:
    """The same, for all tests of a file."""
    _served.reset()
    return _served
