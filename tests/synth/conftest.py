"""Fixtures of the synth tests."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest

from cfn_linter import Linter
from stack_fixtures import Site, SiteFactory


@pytest.fixture
def make_site(app_factory: Any) -> SiteFactory:
    """Make sites, each in an app of its own; options go to `app_factory`."""

    def make(*, env: cdk.Environment | None = None, **options: Any) -> Site:
        return Site(app_factory(**options), env)

    return make


@pytest.fixture
def site(make_site: SiteFactory) -> Site:
    """An env-agnostic site with the recommended feature flags."""
    return make_site()


@pytest.fixture(scope="session")
def linter() -> Linter:
    """One linter for all tests of a process: it looks at equal templates once."""
    return Linter()
