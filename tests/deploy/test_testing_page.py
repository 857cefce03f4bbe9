"""What docs/testing.md shows runs, and an assertion on a deployed fleet says what it found."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.testing import InProcessEmulator, assert_fleet_size
from pages import REPOSITORY, run_by

PAGE = REPOSITORY / "docs" / "testing.md"
SHOWN = ("test_the_template_keeps_its_promises", "test_the_fleet_fills_and_drains_with_its_block")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    (code,) = run_by(__file__)
    names: dict[str, Any] = {"__name__": "shown"}
    exec(code.text, names)  # noqa: S102
    assert {name for name in names if name.startswith("test_")} == set(SHOWN)
    return names


@pytest.mark.parametrize("name", SHOWN)
def test_it_runs(name: str, shown: dict[str, Any]) -> None:
    shown[name]()


def test_every_assertion_is_on_the_page() -> None:
    from cdk_gpu_clusters import testing

    page = PAGE.read_text("utf-8")
    named = [name for name in testing.__all__ if name.startswith("assert_")]
    assert named
    assert [name for name in named if f"| `{name}(" not in page] == []


def test_another_size_and_no_fleet_are_told(shown: dict[str, Any]) -> None:
    seed = {"now": "2026-11-21T08:00Z", "reservations": [shown["BOUGHT"]]}
    with InProcessEmulator(seed=seed) as account:
        with pytest.raises(AssertionError, match=r"one fleet was expected at 2026-11-21.*: none"):
            assert_fleet_size(account, 16)
        account.deploy(shown["training"]().to_json())
        with pytest.raises(AssertionError, match=r"has 0 nodes at 2026-11-21.*, not 16; it wants 0"):
            assert_fleet_size(account, 16)
        with pytest.raises(AssertionError, match="one fleet was expected"):
            assert_fleet_size(account, 0, fleet="another")
