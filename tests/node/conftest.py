"""What the tests of this tier need besides Python: they run real programs, as root where those must be installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodebox.debian import program
from nodebox.lab import Lab
from services.account import Account
from services.programs import install_aws_cli, install_kubectl
from services.watched import WatchedNodes


@pytest.fixture(scope="session")
def haproxy() -> str:
    """The distribution's HAProxy, installed where it is missing."""
    return program("haproxy")


@pytest.fixture(scope="session")
def lab(app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Where nodes are booted."""
    with Lab(app_factory, tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(scope="session")
def aws_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real AWS CLI."""
    return install_aws_cli(tmp_path_factory.mktemp("aws-cli"))


@pytest.fixture(scope="session")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real kubectl."""
    return install_kubectl(tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="session")
def account() -> Iterator[Account]:
    """The AWS account of the nodes that are only watched, not booted."""
    with Account() as account:
        yield account


@pytest.fixture
def watched_nodes(account: Account, aws_cli: Path, tmp_path: Path) -> Iterator[WatchedNodes]:
    """Makes nodes under the watchdog."""
    nodes = WatchedNodes(account, aws_cli, tmp_path)
    yield nodes
    nodes.close()
