"""A real Slurm of Debian: the pinned one, and the newest that there is."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from slurmbox.box import NEWEST, PINNED, Box

#: Which Slurm: `pinned`, or `newest`.
_RELEASES = {"pinned": PINNED, "newest": NEWEST}


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """Namespaces with the Slurm that SLURM_TIER names, `pinned` by default."""
    tier = os.environ.get("SLURM_TIER", "pinned")
    with Box(_RELEASES[tier]) as made:
        yield made
