"""What tests of Kubernetes objects need besides Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.programs import install_helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real Helm."""
    return install_helm(tmp_path_factory.mktemp("helm"))
