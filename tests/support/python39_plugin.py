"""Runs the tests of the node software on Python 3.9: `pytest -p python39_plugin`.

The library itself does not import there, so that its two packages above `gpunode` are given without their code. A test
file belongs to the node software if it imports that package and nothing else of the library. Tests over the samples of
real tools need PyYAML, which has no pure form, and stay on the library's Python. So do simulations, which are long and
use no more of Python than the tests beside them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

_LIBRARY = Path(__file__).resolve().parents[2] / "constructs" / "cdk_gpu_clusters"
_IMPORT = re.compile(r"^(?:from|import) (cdk_gpu_clusters[\w.]*)", re.MULTILINE)
_SAMPLES = re.compile(r"^from tool_output import", re.MULTILINE)
_NODE_SOFTWARE = "cdk_gpu_clusters.node.gpunode"

for _name, _folder in (("cdk_gpu_clusters", _LIBRARY), ("cdk_gpu_clusters.node", _LIBRARY / "node")):
    _package = ModuleType(_name)
    _package.__path__ = [str(_folder)]
    sys.modules[_name] = _package
    # As an import does, for names such as those of `monkeypatch.setattr`.
    if "." in _name:
        setattr(sys.modules[_name.rpartition(".")[0]], _name.rpartition(".")[2], _package)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out tests of the library."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    imported = _IMPORT.findall(text)
    ours = [name for name in imported if f"{name}.".startswith(f"{_NODE_SOFTWARE}.")]
    return None if ours and ours == imported and not _SAMPLES.search(text) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out simulations."""
    left_out = [one for one in items if one.get_closest_marker("simulation")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [one for one in items if one not in left_out]
